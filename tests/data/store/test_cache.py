"""A prepared task is whole or not there; what is stale or damaged is noticed and built anew."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from subprocesses import SOURCE, python, run_python
from wellposed.data import Builder, Info, Task, Vocabulary, load, prepare, verify
from wellposed.data.store import Build, _manifest, builds, make_parts, read
from wellposed.data.store._consistency import as_pairs, as_tokens
from wellposed.data.store._fingerprint import digest
from wellposed.data.tasks import _task
from wellposed.errors import ArgumentError, DataError


@dataclass(frozen=True)
class Numbers(Task):
    """A column of numbers from a file."""

    name: ClassVar[str] = "numbers"
    times: int = 1

    def sources(self, root: Path) -> list[Path]:
        if not (root / "numbers.txt").exists():
            raise DataError(f"there is no {root / 'numbers.txt'}: write one number a line")
        return [root / "numbers.txt"]

    def build(self, out: Builder) -> Info:
        values = np.loadtxt(out.root / "numbers.txt", dtype=np.float32, ndmin=1) * self.times
        for split in ("train", "test"):
            out.write(split, values.reshape(1, -1, 1), np.array([[values.sum()]]))
        return Info("numbers", "published", len(values), channels=1, targets=("sum",))


def numbers(root: Path, split: str = "train", times: int = 1) -> list[float]:
    return load(Numbers(times), root, split)[0][0].flatten().tolist()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "numbers.txt").write_text("1\n2\n3\n")
    assert numbers(tmp_path) == [1, 2, 3]
    return tmp_path


def folder(root: Path) -> Path:
    return next(root.glob("prepared/numbers-*"))


def settled(root: Path) -> None:
    """Nothing but prepared tasks is left."""
    assert [path.name for path in (root / "prepared").iterdir() if path.name.startswith(".")] == []


def test_a_second_start_reads_what_is_there(root: Path):
    before = {path: path.stat().st_mtime_ns for path in folder(root).rglob("*")}
    assert numbers(root) == [1, 2, 3]
    assert {path: path.stat().st_mtime_ns for path in folder(root).rglob("*")} == before
    settled(root)


def test_parameters_have_places_of_their_own(root: Path):
    assert numbers(root, times=2) == [2, 4, 6]
    assert numbers(root) == [1, 2, 3]
    assert len(list(root.glob("prepared/numbers-*"))) == 2


def test_the_manifest_says_what_it_was_made_from(root: Path):
    manifest = json.loads((folder(root) / "manifest.json").read_text())
    assert manifest["parameters"] == {"times": 1}
    assert manifest["sources"]["numbers.txt"]["checksum"].startswith("sha256:")
    assert set(manifest["arrays"]) == {f"{split}/{array}.npy" for split in ("train", "test") for array in "xy"}


def test_a_changed_source_is_noticed(root: Path, caplog: pytest.LogCaptureFixture):
    (root / "numbers.txt").write_text("4\n5\n6\n")
    assert numbers(root) == [4, 5, 6]
    assert "numbers.txt is not what it was then" in caplog.text


def test_a_source_that_was_only_touched_or_copied_is_no_reason(root: Path):
    array = folder(root) / "train" / "x.npy"
    before = array.stat().st_mtime_ns
    os.utime(root / "numbers.txt", ns=(1, 1))
    assert numbers(root) == [1, 2, 3]
    assert array.stat().st_mtime_ns == before
    assert "3-1" not in (manifest := (folder(root) / "manifest.json").read_text())
    assert '"glance": "6-1"' in manifest, "the new time is noted, so that a glance is enough next time"


def test_without_its_sources_a_prepared_task_is_used_as_it_is(root: Path, tmp_path_factory: pytest.TempPathFactory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    shutil.copytree(root / "prepared", elsewhere / "prepared")
    assert numbers(elsewhere) == [1, 2, 3]


def by_version(build: Build) -> int:
    return build.version


def test_a_new_version_builds_anew_and_leaves_the_old_build(root: Path, monkeypatch: pytest.MonkeyPatch):
    before = {path: path.stat().st_mtime_ns for path in folder(root).rglob("*")}
    monkeypatch.setattr(Numbers, "version", 2)
    assert numbers(root) == [1, 2, 3]
    assert {path: path.stat().st_mtime_ns for path in before} == before, "another version may still use it"
    assert [(build.version, build.folder.name == Numbers().key) for build in sorted(builds(root), key=by_version)] == [
        (1, False),
        (2, True),
    ]


def test_two_versions_share_a_folder_and_build_once_each(root: Path, monkeypatch: pytest.MonkeyPatch):
    """Of the task, or of the library's format: neither takes the build of the other for a stale one of its own."""
    times = set()
    for _ in range(3):
        for version, form in ((1, 2), (2, 2), (2, 3)):
            monkeypatch.setattr(Numbers, "version", version)
            for module in (_manifest, _task):
                monkeypatch.setattr(module, "FORMAT", form)
            assert numbers(root) == [1, 2, 3]
            times.add((Numbers().folder(root) / "train" / "x.npy").stat().st_mtime_ns)
    assert len(times) == 3
    assert len(builds(root, "numbers")) == 3
    assert builds(root, "others") == []


def test_what_is_no_build_is_not_listed(root: Path):
    (root / "prepared" / "notes").mkdir()
    (root / "prepared" / "notes" / "manifest.json").write_text("[]")
    (root / "prepared" / "file").write_text("")
    (build,) = builds(root)
    assert (build.task, build.version, build.parameters, build.folder) == ("numbers", 1, {"times": 1}, folder(root))
    assert build.nbytes == sum(path.stat().st_size for path in folder(root).rglob("*.npy"))


@pytest.mark.parametrize("name", ["train/x.npy", "train/y.npy", "test/x.npy"])
@pytest.mark.parametrize("damage", ["flip", "cut", "remove", "header"])
def test_a_damaged_array_is_noticed_and_built_anew(
    root: Path, name: str, damage: str, caplog: pytest.LogCaptureFixture
):
    path = folder(root) / name
    content = bytearray(path.read_bytes())
    if damage == "remove":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(content[:-1])
    else:
        content[-1 if damage == "flip" else 1] ^= 1
        path.write_bytes(content)
    assert numbers(root) == [1, 2, 3]
    assert f"{name} is damaged" in caplog.text
    settled(root)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": 1}', "\udcff", '{"format": "one"}', "[" * 100_000])
def test_a_manifest_that_cannot_be_read_is_built_anew(root: Path, content: str, caplog: pytest.LogCaptureFixture):
    (folder(root) / "manifest.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    assert numbers(root) == [1, 2, 3]
    assert "manifest.json cannot be read" in caplog.text


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m["info"].update(length=4),
        lambda m: m["info"].update(targets=["other"]),
        lambda m: m.update(arrays={}),
        lambda m: m["arrays"].update({"train/x.npy": 3}),
        lambda m: m["arrays"].pop("train/y.npy"),
        lambda m: m["arrays"].update({"train/../../../y.npy": m["arrays"]["train/y.npy"]}),
        lambda m: m.pop("info"),
        lambda m: m.pop("checksum"),
    ],
)
def test_a_manifest_that_somebody_changed_is_not_believed(root: Path, change: Any, caplog: pytest.LogCaptureFixture):
    path = folder(root) / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))
    with pytest.raises(DataError, match=r"manifest\.json cannot be read"):
        verify(Numbers(), root)
    assert numbers(root) == [1, 2, 3]
    assert "manifest.json cannot be read" in caplog.text


def test_names_that_lead_out_are_refused_even_with_a_checksum(root: Path):
    path = folder(root) / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["arrays"]["train/../../../x.npy"] = manifest["arrays"]["train/x.npy"]
    path.write_text(_manifest.text(manifest))
    with pytest.raises(DataError, match="others than its own"):
        verify(Numbers(), root)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m["arrays"]["train/x.npy"].pop("glance"),
        lambda m: m["sources"]["numbers.txt"].update(glance=3),
        lambda m: m.pop("version"),
        lambda m: m["info"].update(added="later"),
        lambda m: m.update(info=None),
        lambda m: m["arrays"].pop("train/x.npy"),
        lambda m: m["sources"].update({"x" * 5000: {"checksum": "", "glance": ""}}),
    ],
)
def test_a_manifest_of_another_making_is_built_anew_even_with_a_checksum(root: Path, change: Any):
    path = folder(root) / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(_manifest.text(manifest))
    assert numbers(root) == [1, 2, 3]
    assert verify(Numbers(), root) == folder(root)


def test_contents_that_change_places_are_noticed(tmp_path: Path):
    """The names of files belong to the checksum of a folder."""
    for name in "ab":
        (tmp_path / name).write_text(name)
    before = digest(tmp_path)
    (tmp_path / "a").write_text("b")
    (tmp_path / "b").write_text("a")
    assert digest(tmp_path) != before


@dataclass(frozen=True)
class Several(Numbers):
    """As many items as numbers, each its own target."""

    name: ClassVar[str] = "several"

    def build(self, out: Builder) -> Info:
        values = np.loadtxt(out.root / "numbers.txt", dtype=np.float32, ndmin=1)
        out.write("train", values.reshape(-1, 1, 1), values)
        return Info("several", "published", 1, channels=1, targets=("itself",))


REBUILDING = """
import os, sys
from pathlib import Path
sys.path[:0] = sys.argv[1:3]
from test_cache import Several
from wellposed.data import prepare
root = Path(sys.argv[3])
for k in range(10_000):
    (root / "new.txt").write_text(" ".join(str(k % 7 + i) for i in range(3 + k % 2)).replace(" ", chr(10)))
    os.replace(root / "new.txt", root / "numbers.txt")
    prepare(Several(), root)
"""


def test_a_reader_gets_one_build_while_another_process_builds(root: Path):
    """x and y belong together, however many there are."""
    prepare(Several(), root)
    here = Path(__file__).parent
    command = [sys.executable, "-c", REBUILDING, str(here), str(here.parents[1]), str(root)]
    with subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(SOURCE)}) as writer:
        end, seen = time.monotonic() + 60, set()
        while time.monotonic() < end and len(seen) < 8:
            data = read(Several().folder(root), "train")
            assert data.rows.values.flatten().tolist() == data.y.flatten().tolist()
            seen.add(tuple(data.y.flatten().tolist()))
        writer.kill()
    assert len(seen) == 8


def test_a_folder_in_place_of_an_array_is_built_anew(root: Path):
    path = folder(root) / "train" / "x.npy"
    path.unlink()
    path.mkdir()
    assert numbers(root) == [1, 2, 3]


def test_damage_that_hides_from_a_glance_is_found_by_verify(root: Path):
    path = folder(root) / "train" / "x.npy"
    before = path.stat()
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(DataError, match=r"x\.npy is damaged; prepare\(\.\.\., closely=True\) builds it"):
        verify(Numbers(), root)
    prepare(Numbers(), root, closely=True)
    assert numbers(root) == [1, 2, 3]
    assert verify(Numbers(), root) == folder(root)


def test_verify_says_what_is_not_prepared(tmp_path: Path):
    with pytest.raises(DataError, match="not prepared yet"):
        verify("sinusoids", tmp_path)


def test_a_missing_source_is_named_and_nothing_is_left(tmp_path: Path):
    with pytest.raises(DataError, match=r"there is no .*numbers\.txt: write one number a line"):
        prepare(Numbers(), tmp_path)
    settled(tmp_path)
    assert list((tmp_path / "prepared").iterdir()) == []


def test_a_build_that_fails_leaves_the_old_one(root: Path):
    (root / "numbers.txt").write_text("four\n")
    with pytest.raises(ValueError, match="four"):
        prepare(Numbers(), root)
    settled(root)
    (root / "numbers.txt").write_text("1\n2\n3\n")
    assert numbers(root) == [1, 2, 3]


def test_a_root_that_cannot_be_written(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"file is not a folder: give one as root"):
        load("sinusoids", tmp_path / "file", count=4, steps=10)


def test_a_prepared_task_can_be_read_where_nothing_can_be_written(root: Path, small_disk: Path):
    shutil.copytree(root, small_disk, dirs_exist_ok=True, copy_function=shutil.copy)
    assert numbers(small_disk) == [1, 2, 3]
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    assert numbers(small_disk) == [1, 2, 3]


def test_a_disk_that_fills_up_is_told_where_none_can_be_mounted(tmp_path: Path):
    """By a limit on the size of files, which is another error of the system than a full disk."""
    run_python(f"""
import resource, signal
from wellposed.data import load
from wellposed.errors import ArgumentError, DataError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    load("sinusoids", {str(tmp_path)!r}, count=100, steps=10_000)
except DataError as error:
    assert "cannot prepare below" in str(error), error
else:
    raise AssertionError
""")
    assert [path.name for path in (tmp_path / "prepared").iterdir()] == []


def test_a_full_disk_is_told_and_leaves_nothing(small_disk: Path):
    with pytest.raises(DataError, match=r"no room left below .* MB free\): make some, or give another root"):
        load("sinusoids", small_disk, count=100, steps=10_000)
    assert [path.name for path in (small_disk / "prepared").iterdir()] == []
    assert len(load("sinusoids", small_disk, count=4, steps=100, grid=(2, 2))) == 4


SLOW = """
import sys, time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
import numpy as np
from wellposed.data import Builder, Info, Task, load
from wellposed.data.store import make_parts

@dataclass(frozen=True)
class Slow(Task):
    name: ClassVar[str] = "slow"
    def build(self, out: Builder) -> Info:
        def make(part):
            with open(out.root / "made.txt", "a") as file:
                print(part, file=file)
            time.sleep({pause})
            return {{"x": np.full((1, 4, 1), part, dtype=np.float32)}}
        parts = make_parts(out, "parts", 6, make)
        x = np.concatenate([part()["x"] for part in parts])
        out.write("train", x, x[:, 0])
        print("written", flush=True)
        time.sleep({pause})
        return Info("slow", "generated", 4, channels=1, targets=("part",))

print("begun", flush=True)
print(load(Slow(), sys.argv[1]).y.flatten().tolist())
"""


def slow(root: Path, pause: float) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", SLOW.format(pause=pause), str(root)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def assert_it_goes_on(root: Path) -> None:
    done = python(SLOW.format(pause=0), str(root))
    assert done.stdout.splitlines()[-1] == "[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]", done.stderr


def made(root: Path) -> list[str]:
    return (root / "made.txt").read_text().split() if (root / "made.txt").exists() else []


def wait_until(condition: object, process: subprocess.Popen[str]) -> None:
    assert callable(condition)
    end = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("parts", [3, 6])
def test_killed_in_the_middle_it_goes_on_where_it_stopped(tmp_path: Path, parts: int):
    process = slow(tmp_path, 0.5)
    wait_until(lambda: len(list(tmp_path.glob("prepared/.slow-*/parts-*.npz"))) >= parts, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not list(tmp_path.glob("prepared/slow-*")), "nothing that looks finished"
    kept = len(list(tmp_path.glob("prepared/.slow-*/parts-*.npz")))
    (tmp_path / "made.txt").unlink()
    assert_it_goes_on(tmp_path)
    assert len(made(tmp_path)) == 6 - kept
    settled(tmp_path)


@pytest.mark.slow
def test_a_part_damaged_after_a_kill_is_made_again(tmp_path: Path):
    process = slow(tmp_path, 0.5)
    wait_until(lambda: len(list(tmp_path.glob("prepared/.slow-*/parts-*.npz"))) >= 4, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    first, second = sorted(tmp_path.glob("prepared/.slow-*/parts-*.npz"))[:2]
    first.write_bytes(first.read_bytes()[:-30])
    content = bytearray(second.read_bytes())
    content[len(content) // 3] ^= 0xFF
    second.write_bytes(content)
    assert_it_goes_on(tmp_path)


@pytest.mark.slow
def test_two_processes_at_once_build_it_once(tmp_path: Path):
    processes = [slow(tmp_path, 0.05) for _ in range(2)]
    outputs = [process.communicate(timeout=120) for process in processes]
    for output, errors in outputs:
        assert output.splitlines()[-1] == "[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]", errors
    assert sorted(made(tmp_path)) == list("012345")
    settled(tmp_path)


def test_a_failing_part_is_raised_and_the_others_are_kept(tmp_path: Path):
    out = Builder(tmp_path, tmp_path, tmp_path)

    def make(part: int) -> dict[str, np.ndarray]:
        if part == 2:
            raise DataError("part 2 will not do")
        return {"x": np.arange(part)}

    with pytest.raises(DataError, match="part 2 will not do"):
        make_parts(out, "parts", 3, make)
    assert len(list(tmp_path.glob("parts-*.npz"))) == 2


@pytest.mark.slow
def test_prepared_tasks_need_neither_numba_nor_pillow(tmp_path: Path):
    load("listops", tmp_path, train=5, val=5, test=5)
    run_python(f"""
import sys
for name in ("numba", "PIL"):
    sys.modules[name] = None
from wellposed.data import load
from wellposed.errors import MissingExtraError
assert len(load("listops", {str(tmp_path)!r}, train=5, val=5, test=5)) == 5
try:
    load("listops", {str(tmp_path)!r}, train=6, val=5, test=5)
except MissingExtraError as error:
    assert "pip install 'wellposed[data]'" in str(error)
else:
    raise AssertionError
""")


@dataclass(frozen=True)
class Anything(Task):
    """Whatever a test wants to write."""

    name: ClassVar[str] = "anything"
    made: ClassVar[dict[str, Any]] = {}

    def build(self, out: Builder) -> Info:
        out.write("train", self.made["x"], self.made["y"])
        return self.made["info"]


WORDS = Vocabulary(("<pad>", "<unk>", "<eos>", "a"))
TOKENS = Info("anything", "generated", 9, vocabulary=WORDS, classes=("no", "yes"))
REAL = Info("anything", "generated", 9, channels=1, targets=("t",))
PIXELS = Info("anything", "generated", 9, channels=1, classes=("no",), mean=(0.0,), std=(1.0,))


@pytest.mark.parametrize(
    ("x", "y", "info", "message"),
    [
        ([np.array([3, 4])], [0], TOKENS, r"tokens are whole numbers from 0 to 3, .* got int64 \(2,\) from 3 to 4"),
        ([np.array([0.5])], [0], TOKENS, "a list of one-dimensional arrays of whole numbers"),
        ([np.array([3])], ["0"], TOKENS, "targets are whole or real numbers"),
        ([np.array([3])], [1j], TOKENS, "targets are whole or real numbers"),
        ([np.array([3])] * 2, [[0], [0, 1]], TOKENS, "targets are one array, and this is none"),
        ([np.array([], int)], [0], TOKENS, "lengths go from 0 to 0"),
        ([np.array([3])], [0], replace(TOKENS, length=0), "length and channels count from 1"),
        ([np.array([3])], [2], TOKENS, "classes are whole numbers from 0 to 1, got int64"),
        ([np.array([3])], [0.5], TOKENS, "classes are whole numbers"),
        ([], [], TOKENS, "split train has 0 sequences and 0 targets"),
        ([np.array([3])], [0, 1], TOKENS, "split train has 1 sequences and 2 targets"),
        (np.zeros((2, 9, 1)), [0.0, 1.0], REAL, r"uint8 or float32 \(item, length, 1 channels\), got float64"),
        (np.zeros((2, 9), np.float32), [0.0, 1.0], REAL, r"\(item, length, 1 channels\), got float32 \(2, 9\)"),
        (np.zeros((2, 9, 2), np.float32), [0.0, 1.0], REAL, r"got float32 \(2, 9, 2\)"),
        (np.zeros((2, 9, 1), np.float32), [0, 1], REAL, r"targets \('t',\) are finite floats \(item, 1\), got int64"),
        (np.zeros((2, 9, 1), np.float32), np.zeros((2, 3)), REAL, r"targets \('t',\) are finite floats \(item, 1\)"),
        (np.zeros((2, 9, 1), np.float32), [0, 0], PIXELS, "pixels .* come with a mean and std"),
        (np.full((2, 9, 1), np.nan, np.float32), [0.0, 1.0], REAL, "NaN or infinite"),
        (np.zeros((2, 9, 1), np.float32), [0.0, np.nan], REAL, "are finite floats"),
        (np.zeros((2, 10, 1), np.float32), [0.0, 1.0], REAL, "lengths go from 10 to 10, not from 1 to 9"),
        ([np.array([3]), np.array([], int)], [0, 1], TOKENS, "lengths go from 0 to 1"),
        ([np.array([3])], [0], replace(TOKENS, pairs=True), "pairs were not written, Info says True"),
        ([np.array([3])], [0], replace(TOKENS, task="other"), "the task is called anything, its Info says other"),
        ([np.array([3])], [0], replace(TOKENS, classes=()), "classes or targets"),
        (np.zeros((2, 9, 1), np.uint8), [0, 0], replace(PIXELS, picture=(2, 4)), "does not have length = 9 pixels"),
        (np.zeros((2, 9, 1), np.uint8), [0, 0], replace(PIXELS, std=None), "mean and std go together, 1 numbers each"),
        (np.zeros((2, 9, 1), np.uint8), [0, 0], replace(PIXELS, std=(0.0,)), "std positive"),
    ],
)
def test_a_task_that_writes_something_else_than_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, x: Any, y: Any, info: Info, message: str
):
    monkeypatch.setattr(Anything, "made", {"x": x, "y": y, "info": info})
    with pytest.raises(DataError, match=message):
        prepare(Anything(), tmp_path)
    assert list((tmp_path / "prepared").iterdir()) == []


def test_one_number_to_predict_is_a_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    made = {"x": np.zeros((2, 9, 1), np.float32), "y": [0.5, 1.5], "info": REAL}
    monkeypatch.setattr(Anything, "made", made)
    assert load(Anything(), tmp_path).y.tolist() == [[0.5], [1.5]]


def test_sources_elsewhere_and_parameters_of_other_kinds(tmp_path: Path):
    @dataclass(frozen=True)
    class Elsewhere(Anything):
        where: Path = Path("/")

    with pytest.raises(ArgumentError, match="parameters are finite numbers, texts and tuples of them"):
        prepare(Elsewhere(), tmp_path)

    @dataclass(frozen=True)
    class Outside(Anything):
        def sources(self, root: Path) -> list[Path]:
            return [Path(__file__)]

    with pytest.raises(DataError, match=r"test_cache\.py is not below"):
        prepare(Outside(), tmp_path)


@pytest.mark.parametrize("split", ["../out", "/out", "", "a/b", "."])
def test_a_split_cannot_lead_out_of_its_folder(tmp_path: Path, split: str):
    with pytest.raises(DataError, match="a split is named in letters, digits and hyphens"):
        Builder(tmp_path, tmp_path / "a", tmp_path).write(split, [np.array([3])], [0])


@pytest.mark.parametrize("pairs", [np.array([0, 0]), np.zeros((2, 3), int), np.array([[0.7, 0.0], [0.0, 0.0]])])
def test_pairs_are_two_whole_numbers_an_item(pairs: Any):
    with pytest.raises(DataError, match=r"pairs are whole numbers \(item, 2\)"):
        as_pairs("train", pairs)


@pytest.mark.parametrize("x", [[np.array([[3]])], torch.zeros(2, 9), [[3, 4]], "ab", None, [np.array(["a"])]])
def test_tokens_are_a_list_of_arrays(x: Any):
    with pytest.raises(DataError, match="a list of one-dimensional arrays of whole numbers"):
        as_tokens("train", x)


def test_a_split_is_written_once_and_a_task_writes_some(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def twice(self: Anything, out: Builder) -> Info:
        for _ in range(2):
            out.write("train", [np.array([3])], [0])
        return TOKENS

    monkeypatch.setattr(Anything, "build", twice)
    with pytest.raises(DataError, match="split train is written twice"):
        prepare(Anything(), tmp_path)
    monkeypatch.setattr(Anything, "build", lambda self, out: TOKENS)
    with pytest.raises(DataError, match="build wrote no split"):
        prepare(Anything(), tmp_path)
    monkeypatch.setattr(Anything, "name", "a/b")
    with pytest.raises(ArgumentError, match=r"Anything\.name is of letters, digits and hyphens, not 'a/b'"):
        prepare(Anything(), tmp_path)


def test_pairs_must_name_sequences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def build(self: Anything, out: Builder) -> Info:
        out.write("train", [np.array([3])], [0, 1], pairs=np.array([[0, 0], [0, 1]]))
        return replace(TOKENS, pairs=True)

    monkeypatch.setattr(Anything, "build", build)
    with pytest.raises(DataError, match="pairs name sequences 0 to 0, got int64"):
        prepare(Anything(), tmp_path)


def test_tokens_a_gpu_cannot_index_are_kept_in_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    many = Vocabulary.of_characters(map(chr, range(0x4E00, 0x4E00 + 400)))
    made = {"x": [np.array([3, 400], np.uint16)], "y": [0], "info": replace(TOKENS, vocabulary=many)}
    monkeypatch.setattr(Anything, "made", made)
    data = load(Anything(), tmp_path)
    assert data[0][0].tolist() == [3, 400]
    assert not str(data.rows[0].dtype).startswith("torch.uint")
