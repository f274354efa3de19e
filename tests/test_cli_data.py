"""``wellposed data`` as a user meets it: real processes, a real server, their output and exit codes."""

from __future__ import annotations

import hashlib
import io
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console

from file_server import FileServer
from subprocesses import python
from test_cli import wellposed
from wellposed.cli import main
from wellposed.data import Builder, Info, SequenceDataset, Task, Vocabulary, load, prepare
from wellposed.data._rows import RaggedRows
from wellposed.data.download import _sources
from wellposed.data.store._checksum import checksum_of
from wellposed.report import print_samples, save_samples


@dataclass(frozen=True)
class Own(Task):
    """What a user may have prepared beside the tasks of the library."""

    name = "own"

    def build(self, out: Builder) -> Info:
        out.write("train", np.zeros((2, 3, 1), dtype=np.float32), np.zeros(2, dtype=np.int64))
        return Info("own", "generated", 3, channels=1, classes=("a", "b"))


SMALL = ("--options", "count=8", "steps=200", "grid=[2,2]")


def test_help_names_every_verb():
    done = wellposed("data")
    assert done.returncode == 0
    for verb in ("list", "fetch", "prepare", "verify", "show"):
        assert verb in done.stdout
    assert "data" in wellposed("--help").stdout


@pytest.mark.slow
def test_prepare_verify_list_show(tmp_path: Path):
    root = ("--root", str(tmp_path))
    done = wellposed("data", "prepare", "sinusoids", *root, *SMALL)
    assert done.returncode == 0, done.stderr
    assert "train: 8 sequences of up to 200 steps" in done.stdout
    assert "unseen: 2 sequences" in done.stdout
    assert "sound:" in wellposed("data", "verify", "sinusoids", *root, *SMALL).stdout
    listed = wellposed("data", "list", *root).stdout
    assert "generated when asked for" in listed
    assert "to be fetched" in listed
    shown = wellposed("data", "show", "sinusoids", *root, "--count", "2", *SMALL)
    assert shown.stdout.count("A = ") == 2
    assert "█" in shown.stdout
    picture = tmp_path / "waves.png"
    assert wellposed("data", "show", "sinusoids", *root, "--out", str(picture), *SMALL).returncode == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


def listed(root: Path, capsys: pytest.CaptureFixture[str]) -> str:
    main(["data", "list", "--root", str(root)])
    return capsys.readouterr().out


def test_list_shows_what_is_prepared_with_other_parameters(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    small = prepare("sinusoids", tmp_path, count=8, steps=200, grid=(2, 2))
    more = prepare("sinusoids", tmp_path, count=9, steps=200, grid=(2, 2), problem="extrap")
    own = prepare(Own(), tmp_path)
    lines = listed(tmp_path, capsys).splitlines()
    at = next(k for k, line in enumerate(lines) if line.startswith("  sinusoids "))
    sizes = [sum(file.stat().st_size for file in folder.rglob("*.npy")) / 1e6 for folder in (small, more)]
    below = dict(zip(lines[at + 1 : at + 5 : 2], lines[at + 2 : at + 5 : 2], strict=True))
    assert below == {
        f"    prepared/{small.name}: ready, {sizes[0]:.2g} MB": "      steps=200 count=8 grid=[2,2]",
        f"    prepared/{more.name}: ready, {sizes[1]:.2g} MB": "      problem=extrap steps=200 count=9 grid=[2,2]",
    }
    assert lines[-1].startswith("  own                  a task of your own, ")
    assert lines[-1].endswith(f"prepared/{own.name}")


def test_list_names_what_is_stale_damaged_or_of_another_version(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    first, second, third = (prepare("sinusoids", tmp_path, count=k, steps=200, grid=(2, 2)) for k in (8, 9, 10))
    array = first / "train" / "x.npy"
    array.write_bytes(array.read_bytes()[:-1] + b"?")
    (second / "manifest.json").write_text("{")
    third.rename(third.with_name("sinusoids-of-old"))
    lines = listed(tmp_path, capsys)
    assert f"prepared/{first.name}: stale ({array} is damaged)" in lines
    assert f"prepared/{second.name}: damaged, " in lines
    assert "prepared/sinusoids-of-old: of another version, " in lines


@pytest.mark.slow
def test_prepare_repairs_what_verify_finds(tmp_path: Path):
    root = ("--root", str(tmp_path))
    wellposed("data", "prepare", "sinusoids", *root, *SMALL)
    array = next(tmp_path.glob("prepared/*/train/x.npy"))
    content = bytearray(array.read_bytes())
    content[-1] ^= 1
    array.write_bytes(content)
    found = wellposed("data", "verify", "sinusoids", *root, *SMALL)
    assert found.returncode == 1
    assert "train/x.npy is damaged; 'wellposed data prepare' builds it" in found.stderr
    assert wellposed("data", "prepare", "sinusoids", *root, *SMALL).returncode == 0
    assert wellposed("data", "verify", "sinusoids", *root, *SMALL).returncode == 0


def test_the_data_folder_comes_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "here").mkdir()
    monkeypatch.setenv("WELLPOSED_DATA", str(tmp_path / "here"))
    assert wellposed("data", "prepare", "sinusoids", *SMALL).returncode == 0
    assert list((tmp_path / "here" / "prepared").iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lst"], "unknown command 'lst'; did you mean 'list'"),
        (["prepare", "listop"], "unknown task 'listop'; did you mean 'listops'"),
        (["prepare", "listops", "--options", "sede=1"], "unknown option of listops 'sede'; did you mean 'seed'"),
        (["prepare", "listops", "--options", "name=x"], "unknown option of listops 'name'"),
        (["prepare", "listops", "--options", "seed"], "an option is written KEY=VALUE, such as seed=1, got 'seed'"),
        (["prepare", "text"], "run 'wellposed data fetch text --root"),
        (["prepare", "retrieval"], "retrieval-peerread, a stand-in"),
        (["fetch", "sinusoids"], "nothing to fetch for sinusoids, which is generated"),
        (["verify", "image"], "not prepared yet"),
        (["show", "sinusoids", "--split", "dev", *SMALL], "unknown split 'dev'"),
        (["show", "sinusoids", "--count", "0", *SMALL], "batch_size must be at least 1, got 0"),
        (["show", "sinusoids", "--out", "x.docx", *SMALL], "name it .png, .svg or .pdf"),
        (["show", "sinusoids", "--out", "nowhere/x.png", *SMALL], "no folder nowhere to put x.png in"),
    ],
)
def test_mistakes_get_a_clear_line(arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WELLPOSED_DATA", str(tmp_path))
    with pytest.raises(SystemExit) as stopped:
        main(["data", *arguments])
    assert message in str(stopped.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("listops source=generate", "unknown source 'generate'; did you mean 'generated'"),
        ("listops train=many", "train must be a whole number, got 'many'"),
        ("sinusoids grid=[2,2.5]", "grid must be a tuple of a whole number, a whole number, got (2, 2.5)"),
        ("text validation=null", "validation must be a finite number, got None"),
        ("scifar colour=gray", "unknown colour 'gray'; did you mean 'grey'"),
    ],
)
def test_options_of_another_kind_get_one_too(option: str, message: str, tmp_path: Path):
    name, value = option.split()
    done = wellposed("data", "prepare", name, "--root", str(tmp_path), "--options", value)
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr


FETCH = """
import sys
from wellposed.data import SMNIST, Text
from wellposed.data.download import _fetch
from wellposed.cli import main

def local(download):
    return _fetch.Download(sys.argv[1] + "/" + download.file, download.file, sys.argv[2], None)

if sys.argv[3] == "smnist":
    SMNIST.downloads = (local(SMNIST.downloads[0]),)
else:
    Text.downloads = (local(Text.downloads[0]),)
_fetch.PAUSE, Text.reviews_per_folder, Text.digest = 0.001, 1, sys.argv[5]
main(["data", "fetch", sys.argv[3], "--root", sys.argv[4]])
"""


def fetch(url: str, checksum: str, name: str, root: Path, digest: str = "") -> subprocess.CompletedProcess[str]:
    return python(FETCH, url, checksum, name, str(root), digest)


def tarball(files: dict[str, bytes], tmp_path: Path) -> tuple[bytes, str]:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    (tmp_path / "tar").write_bytes(buffer.getvalue())
    return buffer.getvalue(), checksum_of(tmp_path / "tar", algorithm="md5")


def test_fetch_unpacks_what_it_gets(tmp_path: Path):
    files = {f"aclImdb/{part}/{side}.txt": b"good" for part in ("train", "test") for side in ("pos/0_9", "neg/0_2")}
    (tmp_path / "root").mkdir()
    content, md5 = tarball(files, tmp_path)
    lines = "".join(f"{hashlib.sha256(files[name]).hexdigest()}  {name[8:]}\n" for name in sorted(files))
    digest = f"sha256:{hashlib.sha256(lines.encode()).hexdigest()}"
    with FileServer(content) as server:
        done = fetch(server.url, md5, "text", tmp_path / "root", digest)
        assert done.returncode == 0, done.stderr
        assert f"there: {tmp_path / 'root' / 'aclImdb'}" in done.stdout
        assert (tmp_path / "root" / "aclImdb" / "train" / "pos" / "0_9.txt").read_text() == "good"
        before = len(server.requests)
        for damage in (b"", b"goof"):
            (tmp_path / "root" / "aclImdb" / "train" / "pos" / "0_9.txt").write_bytes(damage)
            assert fetch(server.url, md5, "text", tmp_path / "root", digest).returncode == 0
            assert len(server.requests) == before, "the archive is there and not fetched again"
            assert (tmp_path / "root" / "aclImdb" / "train" / "pos" / "0_9.txt").read_text() == "good"


def test_fetch_refuses_another_file_and_a_path_that_leads_out(tmp_path: Path):
    (tmp_path / "root").mkdir()
    content, md5 = tarball({"../outside.txt": b"evil"}, tmp_path)
    with FileServer(content) as server:
        done = fetch(server.url, "md5:" + "0" * 32, "text", tmp_path / "root")
        assert done.returncode == 1
        assert "checksum" in done.stderr
        assert not list((tmp_path / "root").rglob("*.gz"))
        done = fetch(server.url, md5, "text", tmp_path / "root")
        assert done.returncode == 1
        assert "outside.txt" in done.stderr
    assert not (tmp_path / "outside.txt").exists()
    assert not (tmp_path / "root" / "outside.txt").exists()


def test_samples_steer_no_terminal(tmp_path: Path):
    words = Vocabulary(("<pad>", "<unk>", "<eos>", "\x1b", "[", "a"))
    info = Info("evil", "generated", 9, vocabulary=words, classes=("[/bold]", "no"))
    rows = RaggedRows(torch.tensor([3, 4, 5], dtype=torch.uint8), torch.tensor([0, 3]))
    console = Console(file=io.StringIO(), width=80)
    print_samples(console, SequenceDataset(info, "train", rows, torch.tensor([0])), [0])
    output = console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]
    assert "\x1b" not in output
    assert "[/bold]" in output
    assert "\ufffd[a" in output


def test_every_download_has_a_name_a_size_and_a_checksum():
    known = [_sources.CIFAR10, _sources.IMDB, *_sources.MNIST]
    assert all(d.url.startswith("https://") and d.checksum and d.size for d in known)


def test_samples_of_every_kind_are_shown(tmp_path: Path):
    datasets = [
        load("listops", tmp_path, train=20, val=5, test=5),
        load("pathfinder", tmp_path, count=20),
        load("pathx", tmp_path, count=10),
        load("sinusoids", tmp_path, count=8, steps=200, grid=(2, 2)),
    ]
    for dataset in datasets:
        path = save_samples(tmp_path / f"{dataset.info.task}.png", dataset, [0, 3, 5])
        with Image.open(path) as picture:
            assert np.asarray(picture.convert("L")).std() > 5, "something is drawn"
        for colour in (None, "truecolor"):
            console = Console(file=io.StringIO(), width=80, color_system=colour, force_terminal=colour is not None)
            print_samples(console, dataset, [0, 3])
            output = console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]
            assert len(output.splitlines()) > 4
            if dataset.vocabulary:
                assert dataset.vocabulary.decode(dataset[0][0].tolist())[:40] in output
