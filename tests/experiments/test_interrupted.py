"""What kills, copies, damage and second commands do to a campaign: nothing is lost, and nothing counts twice."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from wellposed.errors import ArgumentError, RecordError
from wellposed.experiments import _training, lra, run_full, save_record
from wellposed.experiments._campaign import Campaign, Job
from wellposed.experiments._registry import going_on
from wellposed.experiments._run_facts import described, one_of_each
from wellposed.experiments._training import CARD, card_minutes
from wellposed.presets import preset, tiny
from wellposed.presets._fingerprint import changes, preset_fingerprint
from wellposed.presets._measured import measured as accuracies
from wellposed.train import load_run, run
from wellposed.train._folder import only_one


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    (tmp_path / "data").mkdir()
    return Campaign(tmp_path / "runs", tmp_path / "data", device="cpu", tiny=True)


def jobs_of(campaign: Campaign, *seeds: int) -> list[Job]:
    return [campaign.job(preset("sinusoids-extrap-s4d"), seed, keep=(1,)) for seed in seeds]


def begun(campaign: Campaign, job: Job, **options: Any) -> Path:
    """A run that is not finished, with two checkpoints."""
    campaign.runs.mkdir(exist_ok=True)
    folder = campaign.runs / job.name
    config = job.config.replace(checkpoint_minutes=0)
    run(config, folder, data=campaign.data, device="cpu", progress=False, summary=False, minutes=1e-6, **options)
    shutil.copy(folder / "checkpoints" / "last.safetensors", folder / "checkpoints" / "previous.safetensors")
    return folder


def damage(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def work(campaign: Campaign, *jobs: Job) -> None:
    campaign.work([list(jobs)], lambda done, measured: measured("epoch", lambda: done.epoch))


def test_two_that_measure_one_run_keep_what_both_find(campaign: Campaign):
    (job,) = jobs_of(campaign, 0)
    (campaign.runs / job.name).mkdir(parents=True)
    first, second = campaign.measured(job), campaign.measured(job)
    first.put("a", 1.0)
    second.put("b", 2.0)
    first.put("c", 3.0)
    assert [campaign.measured(job).get(name) for name in "abc"] == [1.0, 2.0, 3.0]
    path = campaign.runs / job.name / "measured.json"
    path.write_text("")
    said: list[str] = []
    assert replace(campaign, say=said.append).measured(job).get("a") is None
    assert "damaged-measured.json now, and measured again" in said[0]
    assert (campaign.runs / job.name / "damaged-measured.json").exists()


def test_what_was_measured_goes_with_the_run_it_was_measured_on(campaign: Campaign):
    (job,) = jobs_of(campaign, 0)
    work(campaign, job)
    folder = campaign.runs / job.name
    assert campaign.measured(job).get("epoch") == job.config.epochs
    options: dict[str, Any] = {"data": campaign.data, "device": "cpu", "progress": False, "summary": False}
    run(job.config, folder, resume=False, minutes=1e-6, **options)
    assert campaign.measured(job).get("epoch") is None
    run(job.config, folder, **options)
    with pytest.raises(ArgumentError, match=r"another config.*Remove it, or name another folder for the runs"):
        work(campaign, Job(job.name, job.config.replace(label_smoothing=0.1)))


def test_a_run_that_travels_light_keeps_the_checkpoint_that_can_be_read(campaign: Campaign):
    good, bad, busy = jobs_of(campaign, 0, 1, 2)
    folders = [begun(campaign, job) for job in (good, bad, busy)]
    damage(folders[1] / "checkpoints" / "last.safetensors")
    slim = replace(campaign, slim=True, deadline=0.0)
    with only_one(folders[2]):  # another process is at work there
        work(slim, good, bad, busy)
    left = [sorted(path.name for path in (folder / "checkpoints").iterdir()) for folder in folders]
    assert left == [["last.safetensors"], *[["last.safetensors", "previous.safetensors"]] * 2]
    with pytest.warns(UserWarning, match="damaged"):
        work(replace(slim, deadline=float("inf")), good, bad, busy)
    assert all(map(campaign.finished, (good, bad, busy)))


def test_minutes_of_a_killed_slice_count(campaign: Campaign, monkeypatch: pytest.MonkeyPatch):
    (job,) = jobs_of(campaign, 0)
    (campaign.runs / job.name).mkdir(parents=True)
    assert card_minutes(campaign, job, 60.0) == 1.0  # nobody could note anything
    campaign.measured(job).put(CARD, {"minutes": 0.25, "seconds": 30.0})  # it was one of two
    assert card_minutes(campaign, job, 30.0) == 0.25
    assert card_minutes(campaign, job, 90.0) == 1.25
    assert card_minutes(campaign, job, 12.0) == 0.25  # back at an older checkpoint

    def stopped(config: Any, folder: Path, **options: Any) -> None:
        now: dict[str, Any] = {**options, "minutes": 1e-6}
        run(config, folder, **now)
        raise KeyboardInterrupt

    monkeypatch.setattr(_training, "run", stopped)
    (other,) = jobs_of(campaign, 1)
    with pytest.raises(KeyboardInterrupt):
        work(campaign, other)
    (told,) = described(campaign, [other])
    assert not told["finished"]
    assert campaign.measured(other).get(CARD)["minutes"] > 0


@pytest.mark.parametrize("at_once", [1, 2])
@pytest.mark.parametrize(
    "what", ["checkpoints", "config.json", "measured.json", "failed.json", "record.json", "folder"]
)
def test_one_run_that_is_damaged_does_not_stop_the_others(campaign: Campaign, what: str, at_once: int):
    said: list[str] = []
    campaign = replace(campaign, say=said.append, at_once=at_once)
    bad, good, other = jobs_of(campaign, 0, 1, 2)
    folder = begun(campaign, bad)
    if what == "checkpoints":
        for name in ("last", "previous"):
            damage(folder / what / f"{name}.safetensors")
    elif what == "folder":
        shutil.rmtree(folder)
        folder.write_text("")
    else:
        (folder / what).write_text("{")
    (campaign.runs / good.name).mkdir()
    (campaign.runs / good.name / "failed.json").write_text('{"why": "its process was killed", "again": true}')
    work(campaign, bad, good, other)
    heals = what in ("measured.json", "failed.json")
    assert [campaign.finished(job) for job in (bad, good, other)] == [heals, True, True]
    assert what == "failed.json" or any(bad.name in line for line in said)
    told = described(campaign, [bad, good, other])
    assert "failed" not in told[1]
    work(replace(campaign, only=("sinusoids-extrap-s4d",)), bad)  # alone, and no less wanted


def test_a_finished_run_without_weights_says_so(campaign: Campaign):
    (job,) = jobs_of(campaign, 0)
    work(campaign, job)
    shutil.rmtree(campaign.runs / job.name / "final")
    shutil.rmtree(campaign.runs / job.name / "best")
    with pytest.raises(RecordError, match="is finished, but its weights, in final, are gone"):
        load_run(campaign.runs / job.name).model()


def test_seeds_and_copies_count_once(tmp_path: Path):
    (tmp_path / "data").mkdir()
    places: dict[str, Any] = {"runs": tmp_path / "runs", "data": tmp_path / "data", "device": "cpu", "tiny": True}
    twice = run_full("failure-modes", seeds=[0, 0], minutes=1e-9, **places)
    assert len({line["name"] for line in twice.data["runs"]}) == len(twice.data["runs"]) == 6
    line = {"name": "a", "config": "1", "seed": 0, "finished": True, "epochs": 3}
    line |= {"commit": "c", "date": "today", "run_minutes": 3.1}
    copy, seed = line | {"name": "a.bak", "epochs": 2}, line | {"name": "b", "seed": 1}
    elsewhere = line | {"name": "ablation-a", "date": "tomorrow"}  # of the same config, by another experiment
    begun = {"name": "c", "config": "1", "seed": 0, "finished": False, "epochs": 0}
    lines = [line, seed, elsewhere, begun, begun | {"name": "d"}]
    assert one_of_each([copy, *lines]) == lines
    run(tiny(preset("scifar-s4d")), tmp_path / "runs" / "scifar-s4d", data=tmp_path / "data", device="cpu",
        progress=False, summary=False)  # fmt: skip
    shutil.copytree(tmp_path / "runs" / "scifar-s4d", tmp_path / "runs" / "scifar-s4d.bak")
    certified = run_full("certificates", **places)
    assert [model["name"] for model in certified.data["models"]] == ["scifar-s4d"]
    assert run_full("certificates", **{**places, "tiny": False}).data["models"] == []  # at full size there is none


def test_a_preset_that_has_changed_is_marked_wherever_its_accuracy_stands(tmp_path: Path):
    line = {"preset": "lra-image-s4ptd", "changed": "precision = bf16", "preset_config": "of another day"}
    assert changes(line) == "precision = bf16, as the preset was before"
    assert changes(line | {"preset_config": preset_fingerprint("lra-image-s4ptd")}) == "precision = bf16"
    run_line = line | {"name": "x", "date": "today", "test": {"accuracy": 0.6}, "finished": True}
    record = {"experiment": "lra-full", "data": {"form": "full", "runs": [run_line]}}
    (tmp_path / "lra-full.json").write_text(json.dumps(record))
    assert accuracies(tmp_path) == {"lra-image-s4ptd": "60.00 (precision = bf16, as the preset was before)"}
    (tmp_path / "other.json").write_text("{")
    with pytest.raises(RecordError, match=r"other.json is damaged"):
        accuracies(tmp_path)


def test_a_run_whose_noise_is_not_measured_is_told_of(tmp_path: Path):
    now = preset_fingerprint("lra-text-s5ptd")
    line = {"name": "lra-text-s5ptd-seed0", "preset": "lra-text-s5ptd", "changed": "", "seed": 0, "finished": True}
    line |= {"config": now, "preset_config": now, "epochs": 40, "of_epochs": 40, "best_epoch": 38, "parameters": 1000}
    line |= {"test": {"accuracy": 0.9}, "device_minutes": 3.0, "hardware": "H200"}
    campaign = Campaign(tmp_path / "runs", device="cpu", seeds=(0,), deadline=0.0, only=("lra-image-s5ptd",))
    told = lra.full(replace(campaign, before={"runs": [line], "missing": []}))
    assert f"What noise does is not measured for {line['name']}." in told.finding
    assert "lra-text-s5ptd" not in told.data["missing"]
    noisy = line | {"noise": {"amplitude": 0.1, "clean": 0.9, "layer": 0.9}}
    assert "not measured for" not in lra.full(replace(campaign, before={"runs": [noisy], "missing": []})).finding


def test_one_record_is_for_one_command_at_a_time(tmp_path: Path):
    def hold(name: str, records: Path = tmp_path / "records") -> None:
        with going_on(records, name):
            pass

    with going_on(tmp_path / "records", "lra"):
        hold("robustness")
        with pytest.raises(RecordError, match="another command is at work on the record of lra"):
            hold("lra")
        with pytest.raises(RecordError, match="another command is at work on the record of lra"):
            run_full("lra", runs=tmp_path / "runs", records=tmp_path / "records", minutes=1e-9)
    hold("lra")
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="is a file: name a folder"):
        hold("lra", tmp_path / "file")


def test_what_cannot_be_gone_on_with_is_refused(tmp_path: Path):
    places: dict[str, Any] = {"runs": tmp_path / "runs", "device": "cpu", "tiny": True, "minutes": 1e-9}
    with pytest.raises(ArgumentError, match=r"minutes = 0 leaves no time"):
        run_full("lra", **{**places, "minutes": 0})
    with pytest.raises(ArgumentError, match="only = lra-listops-s4ptd is none of the presets here: tiny-scifar-s4d"):
        run_full("robustness", only=["lra-listops-s4ptd"], **places)
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="is a file: name a folder"):
        run_full("lra", **{**places, "runs": tmp_path / "file"})
    record = run_full("ablation", **places)
    path = save_record(record, tmp_path)
    path.rename(tmp_path / "lra-full.json")
    with pytest.raises(ArgumentError, match="is a record of ablation-full"):
        run_full("lra", records=tmp_path, **places)
    for data in ([], {"runs": [None], "missing": []}, {"runs": record.data["runs"]}, {"runs": [{}], "missing": []}):
        whole = json.loads((tmp_path / "lra-full.json").read_text()) | {"experiment": "ablation-full", "data": data}
        path.write_text(json.dumps(whole))
        with pytest.raises(RecordError, match="damaged"):
            run_full("ablation", records=tmp_path, **places)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_slice_leaves_its_record(number: signal.Signals, tmp_path: Path):
    (tmp_path / "data").mkdir()
    command = [sys.executable, "-m", "wellposed.experiments", "failure-modes", "--full", "--tiny", "--device", "cpu"]
    command += [word for name in ("runs", "data", "records") for word in (f"--{name}", str(tmp_path / name))]
    slice_ = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert slice_.stdout is not None
    trained = 0
    for line in slice_.stdout:
        trained += line.startswith("training")
        if trained == 3:  # two are finished and measured
            slice_.send_signal(number)
            break
    told = slice_.communicate(timeout=120)[1]
    assert slice_.returncode != 0, told
    record = json.loads((tmp_path / "records" / "failure-modes-full.json").read_text(encoding="utf-8"))
    assert sum(run["finished"] for run in record["data"]["runs"]) >= 2
    assert len(record["data"]["missing"]) >= 15
    if number == signal.SIGINT:
        assert f"its record is {tmp_path / 'records' / 'failure-modes-full.json'}" in told
