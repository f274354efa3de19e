"""Checkpoints: written whole, damage noticed, nothing executed."""

from __future__ import annotations

import json
import os
import pickle
import resource
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from wellposed.errors import RecordError
from wellposed.train._checkpoint import (
    LAST,
    PREVIOUS,
    Checkpoint,
    newest,
    read_checkpoint,
    read_state,
    sweep,
    to_bytes,
    write_checkpoint,
)


def checkpoint(step: int = 1, size: int = 100) -> Checkpoint:
    generator = torch.Generator().manual_seed(step)
    tensors = {
        "model.w": torch.randn(size, generator=generator),
        "model.view": torch.arange(12.0).view(3, 4).T,
        "optimizer.w.step": torch.tensor(float(step)),
        "random.cpu.0": torch.random.get_rng_state(),
        "none": torch.zeros(0, 3, dtype=torch.float64),
        "flags": torch.tensor([True, False]),
        "half": torch.ones(3, dtype=torch.bfloat16),
    }
    return Checkpoint(tensors, {"course": {"step": step}, "text": "ä"})


def test_what_is_written_is_read(tmp_path: Path):
    before = checkpoint()
    size = write_checkpoint(tmp_path, before)
    after = read_checkpoint(tmp_path / LAST)
    assert size == (tmp_path / LAST).stat().st_size
    assert after.state == before.state == read_state(tmp_path / LAST)
    assert after.tensors.keys() == before.tensors.keys()
    for name, tensor in before.tensors.items():
        assert torch.equal(tensor, after.tensors[name])
    assert after.part("model").keys() == {"w", "view"}


def test_the_one_before_is_kept(tmp_path: Path):
    for step in (1, 2, 3):
        write_checkpoint(tmp_path, checkpoint(step))
    steps = [read_state(tmp_path / name)["course"]["step"] for name in (LAST, PREVIOUS)]
    assert steps == [3, 2]
    assert sorted(path.name for path in tmp_path.iterdir()) == [LAST, PREVIOUS]


CONTENT = to_bytes(checkpoint())


@given(data=st.data())
def test_no_damage_goes_unnoticed(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject):
    path = tmp_path_factory.getbasetemp() / "damaged.safetensors"
    place = data.draw(st.integers(0, len(CONTENT) - 1))
    if data.draw(st.booleans()):
        path.write_bytes(CONTENT[:place])
    else:
        bit = 1 << data.draw(st.integers(0, 7))
        path.write_bytes(CONTENT[:place] + bytes([CONTENT[place] ^ bit]) + CONTENT[place + 1 :])
    with pytest.raises(RecordError, match=r"damaged\.safetensors"):
        read_checkpoint(path)


def test_a_damaged_one_is_set_aside_for_the_one_before(tmp_path: Path):
    for step in (1, 2):
        write_checkpoint(tmp_path, checkpoint(step))
    content = (tmp_path / LAST).read_bytes()
    (tmp_path / LAST).write_bytes(content[:-1] + b"?")
    with pytest.warns(UserWarning, match=f"{LAST} is damaged: .* SHA-256; going on from .*{PREVIOUS}"):
        found = newest(tmp_path)
    assert found is not None
    assert found.state["course"]["step"] == 1
    write_checkpoint(tmp_path, checkpoint(3))  # which must not put the damaged one in the place of the good one
    assert [read_state(tmp_path / name)["course"]["step"] for name in (LAST, PREVIOUS)] == [3, 1]


def test_between_two_renames_the_one_before_is_found(tmp_path: Path):
    write_checkpoint(tmp_path, checkpoint(1))
    os.replace(tmp_path / LAST, tmp_path / PREVIOUS)
    found = newest(tmp_path)
    assert found is not None
    assert found.state["course"]["step"] == 1


def test_two_damaged_ones_are_refused_by_name(tmp_path: Path):
    for step in (1, 2):
        write_checkpoint(tmp_path, checkpoint(step))
    for name in (LAST, PREVIOUS):
        (tmp_path / name).write_bytes(b"nothing of use")
    with pytest.raises(RecordError, match=f"{LAST}.*{PREVIOUS}.*resume=False"):
        newest(tmp_path)


def test_there_may_be_none(tmp_path: Path):
    assert newest(tmp_path) is None
    with pytest.raises(RecordError, match="there is no checkpoint"):
        read_checkpoint(tmp_path / LAST)


def test_leftovers_of_a_killed_run_go(tmp_path: Path):
    write_checkpoint(tmp_path, checkpoint())
    (tmp_path / ".writing-123").write_bytes(b"half")
    sweep(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [LAST]


def test_a_full_disk_is_told_and_the_last_one_kept(tmp_path: Path):
    write_checkpoint(tmp_path, checkpoint(1))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))  # of a file: the write fails in the middle
    try:
        with pytest.raises(RecordError, match=r"cannot write .*last\.safetensors: .*; it takes 0\.4 MB, .* is kept"):
            write_checkpoint(tmp_path, checkpoint(2, size=100_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [path.name for path in tmp_path.iterdir()] == [LAST]
    assert read_state(tmp_path / LAST)["course"]["step"] == 1


class Bomb:
    def __reduce__(self):
        return (os.mkdir, ("exploded",))


@pytest.mark.parametrize("make", [pickle.dumps, lambda bomb: _torch_bytes(bomb)], ids=["pickle", "torch.save"])
def test_nothing_is_unpickled(make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / LAST).write_bytes(make(Bomb()))
    with pytest.raises(RecordError, match=LAST):
        newest(tmp_path)
    with pytest.raises(RecordError, match=LAST):
        read_state(tmp_path / LAST)
    assert not (tmp_path / "exploded").exists()


def _torch_bytes(bomb: Bomb) -> bytes:
    import io

    out = io.BytesIO()
    torch.save(bomb, out)
    return out.getvalue()


def test_other_safetensors_are_refused(tmp_path: Path):
    save_file({"w": torch.ones(3)}, tmp_path / LAST, {"format": "pt"})
    with pytest.raises(RecordError, match="is no checkpoint of this library: its format is 'pt'"):
        read_checkpoint(tmp_path / LAST)
    with pytest.raises(RecordError, match="its format is 'pt'"):
        read_state(tmp_path / LAST)
    save_file({"w": torch.ones(3)}, tmp_path / LAST, {"format": "wellposed-checkpoint-1", "state": json.dumps({})})
    with pytest.raises(RecordError, match="SHA-256"):
        read_checkpoint(tmp_path / LAST)
