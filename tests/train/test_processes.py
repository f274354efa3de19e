"""Runs in processes of their own: killed, shared by two, sharded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from subprocesses import environment
from training_toys import course, splits, weights, words
from wellposed.train import evaluate, load_run
from wellposed.train._checkpoint import LAST, read_checkpoint

TESTS = Path(__file__).parents[1]


def call(script: str, *arguments: object) -> str:
    """Run a script with the toys at hand; what it says on standard output."""
    hidden = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "NODE_RANK")
    own = {name: value for name, value in environment().items() if name not in hidden}
    own["PYTHONPATH"] += f"{os.pathsep}{TESTS}"
    command = [sys.executable, script, *map(str, arguments)]
    done = subprocess.run(command, env=own, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


KILLED = """
import os, random, signal, sys, time, warnings
from pathlib import Path

from training_toys import config, splits
from wellposed.train import run
from wellposed.train._checkpoint import newest

warnings.simplefilter("error")
folder, kills = Path(sys.argv[1]), int(sys.argv[2])
chance = random.Random(int(sys.argv[3]))


def attempt():
    child = os.fork()  # a process of its own, without the seconds that importing takes
    if child == 0:
        code = 1
        try:
            often = config(epochs=60, checkpoint_minutes=0 if kills else 5)
            code = 0 if run(often, folder, datasets=splits(), device="cpu", progress=False).finished else 2
        finally:
            os._exit(code)
    return child


done = 0
while done < kills:
    child = attempt()
    time.sleep(chance.uniform(0.02, 0.5))
    if os.waitpid(child, os.WNOHANG) != (0, 0):
        raise SystemExit(f"finished or failed by itself after {done} kills")
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    done += 1
    newest(folder / "checkpoints")  # which is never unreadable
_, status = os.waitpid(attempt(), 0)
raise SystemExit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.slow
def test_a_run_killed_twenty_times_ends_as_an_undisturbed_one(tmp_path: Path):
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    call(str(script), tmp_path / "right", 0, 0)
    call(str(script), tmp_path / "killed", 20, 1)
    right, killed = load_run(tmp_path / "right"), load_run(tmp_path / "killed")
    assert killed.finished
    assert killed.test_metrics["loss"] == pytest.approx(right.test_metrics["loss"], abs=1e-6)
    assert course(killed.folder) == course(right.folder)
    assert weights(killed.folder) == weights(right.folder)
    assert not list((tmp_path / "killed/checkpoints").glob(".*"))


SHARED = """
import sys, warnings

warnings.simplefilter("error")
from training_toys import MODEL, config, splits, waves, words
from wellposed.train import DataConfig, OptimizerConfig, run
from wellposed.train import _loop as loop

folder, processes, strategy, kind, stop = sys.argv[1:]
if int(stop):
    loop.LOG_EVERY = 1
    left = iter([False] * (int(stop) - 1) + [True] * 1000)
    loop._passed = lambda deadline: next(left)
# Layer norm, as batch norm takes its statistics over the share of a process.
settings = config(
    model=MODEL | {"dropout": 0.0, "norm": "layer"},
    data=DataConfig(task="toys", batch_size=10, drop_last=False),
    # A clip hides a gradient that is too long by a factor, as Adam does: words go without.
    optimizer=OptimizerConfig(clip=0.1 if kind == "waves" else None),
)
# 25, so that of the last batch of an epoch the processes have three sequences and two.
datasets = splits(waves if kind == "waves" else words, count=25)
result = run(
    settings, folder, datasets=datasets, device="cpu", devices=int(processes),
    strategy=strategy, minutes=1 if int(stop) else None, progress=False,
)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("strategy", "kind"), [("ddp", "waves"), ("ddp", "words"), ("fsdp", "waves")])
def test_two_processes_do_what_one_does_with_the_whole_batch(strategy, kind, tmp_path: Path):
    script = tmp_path / "shared.py"
    script.write_text(SHARED)
    call(str(script), tmp_path / "one", 1, "auto", kind, 0)
    call(str(script), tmp_path / "two", 2, strategy, kind, 4)  # stopped in the middle of the second epoch
    assert not load_run(tmp_path / "two").finished
    call(str(script), tmp_path / "two", 2, strategy, kind, 0)
    one, two = (read_checkpoint(tmp_path / name / "checkpoints" / LAST) for name in ("one", "two"))
    for part in ("model", "optimizer", "average", "best"):
        assert one.part(part).keys() == two.part(part).keys() != set()
        for name, right in one.part(part).items():
            torch.testing.assert_close(two.part(part)[name], right, rtol=1e-6, atol=1e-6, msg=f"{part} {name}")
    rows = [[row for row in course(tmp_path / name) if row.pop("kind") == "epoch"] for name in ("one", "two")]
    for right, found in zip(*rows, strict=True):
        assert found == pytest.approx(right, rel=1e-5)
    tests = [load_run(tmp_path / name).test_metrics for name in ("one", "two")]
    assert tests[1] == pytest.approx(tests[0], rel=1e-5)


@pytest.mark.slow
def test_a_run_of_two_processes_goes_on_with_one(tmp_path: Path):
    script = tmp_path / "shared.py"
    script.write_text(SHARED)
    call(str(script), tmp_path / "run", 2, "ddp", "waves", 4)
    call(str(script), tmp_path / "run", 1, "auto", "waves", 0)
    call(str(script), tmp_path / "one", 1, "auto", "waves", 0)
    run, one = (load_run(tmp_path / name) for name in ("run", "one"))
    assert run.test_metrics == pytest.approx(one.test_metrics, rel=1e-5)


SETTLED = """
import sys, warnings

warnings.simplefilter("error")
from training_toys import MODEL, config, splits, words
from wellposed.train import DataConfig, EvaluationConfig, run

run(
    config(
        model=MODEL | {"norm": "batch"},
        data=DataConfig(task="toys", batch_size=10, drop_last=False),
        evaluation=EvaluationConfig(settle=2),
    ),
    sys.argv[1], datasets=splits(words, count=25), device="cpu", devices=2, strategy=sys.argv[2], progress=False,
)
"""


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_settled_statistics_are_those_of_all_processes(strategy: str, tmp_path: Path):
    """What was measured is what the model that is left comes to."""
    script = tmp_path / "settled.py"
    script.write_text(SETTLED)
    call(str(script), tmp_path / "two", strategy)
    done = load_run(tmp_path / "two")
    found = evaluate(done.model("cpu"), splits(words, count=25)["test"])
    assert done.test_metrics == pytest.approx(found, rel=1e-5)
