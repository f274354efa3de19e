"""Pathfinder as a task: generated in parts, or read from the published folders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from wellposed.data import Pathfinder, PathX, load
from wellposed.data.readers import _pathfinder_release
from wellposed.data.tasks._pathfinder import PATHFINDER32, generate
from wellposed.data.tasks._task import held_out
from wellposed.errors import ArgumentError, DataError


def pictures(root: Path, split: str, task: Pathfinder) -> np.ndarray:
    return load(task, root, split).rows.values.numpy()[..., 0]


@pytest.mark.slow
def test_generated_pictures_are_those_of_the_generator(tmp_path: Path):
    task = Pathfinder(count=1500, seed=3)
    expected = generate(1500, PATHFINDER32, 3)
    for split, rows in zip(("train", "val", "test"), held_out(1500, 0.1, 0.1), strict=True):
        assert np.array_equal(pictures(tmp_path, split, task), expected.images[rows].reshape(-1, 1024))
        assert np.array_equal(load(task, tmp_path, split).y, expected.labels[rows])
    x, _ = load(task, tmp_path)[0]
    assert (float(x.min()), float(x.max())) == (0.0, 1.0)


def test_levels_and_distractors():
    assert [Pathfinder(level=level).parameters().contour_length for level in ("easy", "medium", "hard")] == [6, 9, 14]
    assert [Pathfinder(level=level).parameters().distractors for level in ("easy", "medium", "hard")] == [10, 6, 5]
    assert PathX().parameters().distractors == 17
    assert PathX(distractors=8).parameters().distractors == 8
    assert (PathX().parameters().size, PathX().parameters().distractor_length) == (128, 4)


@pytest.mark.slow
def test_path_x(tmp_path: Path):
    data = load("pathx", tmp_path, "train", count=10)
    assert data.rows.lengths.tolist() == [16_384] * 8
    assert data.info.picture == (128, 128)


def publish(folder: Path, size: int = 32) -> np.ndarray:
    """As the release has it: numbered lists of plain text that are called .npy, and PNG files."""
    rng = np.random.default_rng(0)
    images = rng.integers(256, size=(24, size, size), dtype=np.uint8)
    (folder / "metadata").mkdir(parents=True)
    for batch in (0, 2, 10):
        (folder / "imgs" / str(batch)).mkdir(parents=True)
        lines = []
        for k in range(8):
            image = images[8 * (0, 2, 10).index(batch) + k]
            Image.fromarray(image).save(folder / "imgs" / str(batch) / f"sample_{k}.png")
            lines.append(f"imgs/{batch} sample_{k}.png {k} {k % 2} 1.0 14 4 2 0.5 1 1")
        (folder / "metadata" / f"{batch}.npy").write_text("\n".join(lines) + "\n")
    return images


@pytest.mark.parametrize("prefix", ["", "lra_release/lra_release"])
def test_published_pictures_in_numeric_order(tmp_path: Path, prefix: str, caplog: pytest.LogCaptureFixture):
    images = publish(tmp_path / prefix / "pathfinder32" / "curv_contour_length_14")
    data = load("pathfinder", tmp_path, "train")
    assert data.info.source == "published"
    assert "holds 24 items, published are 200000: is it whole?" in caplog.text
    rows = held_out(24, 0.1, 0.1)[0]
    assert np.array_equal(pictures(tmp_path, "train", Pathfinder()), images[rows].reshape(-1, 1024))
    assert data.y.tolist() == [row % 2 for row in rows]


def test_the_one_picture_published_empty_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "pathfinder32" / "curv_baseline"
    publish(folder)
    (folder / "imgs" / "0" / "sample_3.png").write_bytes(b"")
    with pytest.raises(DataError, match=r"sample_3\.png cannot be read"):
        load("pathfinder", tmp_path, level="easy")
    monkeypatch.setattr(_pathfinder_release, "_EMPTY", "pathfinder32/curv_baseline/imgs/0/sample_3.png")
    assert sum(len(load("pathfinder", tmp_path, split, level="easy")) for split in ("train", "val", "test")) == 23


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("png", r"sample_5\.png cannot be read"),
        ("missing", r"sample_5\.png cannot be read"),
        ("size", r"sample_5\.png has 16 x 16 pixels, not 32 x 32"),
        ("label", r"2\.npy, line 1: expected folder, file, number and a label 0 or 1"),
        ("traversal", r"2\.npy, line 1: expected folder"),
        ("absolute", r"2\.npy, line 1: expected folder"),
        ("deep", r"sample_5\.png has pixels of mode I;16, not of 8 bits"),
        ("name", "should be named by a number"),
        ("none", r"holds no lists of pictures"),
        ("empty", r"name no pictures"),
        ("twice", r"2\.npy, line 2: .*imgs/2/sample_0\.png is listed already \(.*2\.npy, line 1\): unpack"),
        ("elsewhere", r"2\.npy, line 1: .*imgs/0/sample_0\.png is listed already \(.*0\.npy, line 1\): unpack"),
    ],
)
def test_damaged_releases(tmp_path: Path, damage: str, message: str):
    folder = tmp_path / "pathfinder32" / "curv_contour_length_14"
    publish(folder)
    picture, lists = folder / "imgs" / "2" / "sample_5.png", folder / "metadata" / "2.npy"
    if damage == "png":
        picture.write_bytes(picture.read_bytes()[:40])
    elif damage == "missing":
        picture.unlink()
    elif damage == "size":
        Image.fromarray(np.zeros((16, 16), np.uint8)).save(picture)
    elif damage == "label":
        lists.write_text("imgs/2 sample_0.png 0 2 1.0\n")
    elif damage == "twice":
        lists.write_text("imgs/2 sample_0.png 0 0 1.0\n" * 2)
    elif damage == "elsewhere":
        lists.write_text("imgs/0 sample_0.png 0 0 1.0\n")
    elif damage == "traversal":
        lists.write_text("../../.. secret.png 0 1 1.0\n")
    elif damage == "absolute":
        lists.write_text("/etc passwd 0 1 1.0\n")
    elif damage == "deep":
        Image.fromarray(np.zeros((32, 32), np.uint16)).save(picture)
    elif damage == "name":
        lists.rename(lists.with_name("list.npy"))
    else:
        for path in (folder / "metadata").iterdir():
            path.unlink() if damage == "none" else path.write_text("")
    with pytest.raises(DataError, match=message):
        load("pathfinder", tmp_path)


def test_mistakes(tmp_path: Path):
    with pytest.raises(DataError, match="use source='generated'"):
        load("pathfinder", tmp_path, source="published")
    with pytest.raises(ArgumentError, match="need count >= 10"):
        Pathfinder(count=3)
    with pytest.raises(ArgumentError, match="distractors = -1"):
        Pathfinder(distractors=-1)
