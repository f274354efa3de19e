"""The command line as a user meets it: its output, and in real processes its exit code."""

import gzip
import subprocess
from pathlib import Path

import numpy as np
import pytest
from scipy.io import mmwrite, savemat
from scipy.sparse import csr_array, save_npz

from subprocesses import python
from wellposed import Diagonalization, __version__
from wellposed._files import read_matrix
from wellposed.cli import main
from wellposed.errors import RecordError
from wellposed.experiments import NAMES
from wellposed.hippo import legs
from wellposed.linalg import gallery
from wellposed.records import load_record

RESULTS = Path(__file__).parents[1] / "results"


def wellposed(*arguments: str, cwd: Path | None = None, fresh: bool = False) -> subprocess.CompletedProcess[str]:
    return python("from wellposed.cli import main; main()", *arguments, cwd=cwd, fresh=fresh)


def test_help_names_every_verb():
    done = wellposed("--help", fresh=True)
    assert done.returncode == 0
    for verb in ("reproduce", "report", "list", "analyze", "diagonalize", "data", "train", "eval", "runs"):
        assert verb in done.stdout
    assert "wellposed --version" in " ".join(done.stdout.replace("│", " ").split())
    assert wellposed("--version").stdout == f"wellposed {__version__}\n"


@pytest.mark.parametrize("package", ["tyro", "rich"])
def test_without_its_packages_the_command_says_what_to_install(package: str):
    code = f"import sys; sys.modules[{package!r}] = None; from wellposed.cli import main"
    done = python(code)
    assert done.returncode == 1
    assert done.stderr == f"wellposed: this needs {package}: pip install 'wellposed[cli]'\n"


def test_analyze_prints_poles_spikes_and_distance(tmp_path: Path):
    done = wellposed("analyze", "legs", "--n", "32", "--bode", "bode.png", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "-0.5 ± 325.426i" in done.stdout
    assert "0.450517 at 325.4263" in done.stdout
    assert "325.426   0.450517" in done.stdout
    assert (tmp_path / "bode.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("measure", ["legt", "lagt", "fout"])
def test_analyze_says_so_where_the_normal_part_is_not_stable(measure: str, capsys: pytest.CaptureFixture[str]):
    main(["analyze", measure, "--n", "7"])
    assert "infinite: without its low-rank part the system is not stable" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["analyse"], "did you mean 'analyze'"),
        (["frobnicate"], "verbs: reproduce, report, list, analyze, diagonalize"),
        (["analyze", "legz"], "did you mean 'legt' or 'legs'"),
        (["analyze", "legs", "--n", "0"], "n must be at least 1, got 0"),
        (["analyze", "legs", "--n", "8", "--l", "9"], "l counts from 1 to n = 8, got 9"),
        (["analyze", "legs", "--n", "100000"], "n = 100000 is over 4000"),
        (["analyze", "legs", "--n", "4", "--bode", "x.docx"], "name it .png, .svg or .pdf"),
        (["reproduce", "--full"], "0 experiments are named: name the experiment, one"),
        (["reproduce", "pareto", "--full", "--runs", "runs"], "pareto needs no training"),
        (["reproduce", "robustness", "--full"], "name a folder with --runs DIR"),
        (["reproduce", "cosine"], "did you mean 'cosine-response'"),
        (["diagonalize", "legz:8"], "unknown matrix 'legz'; did you mean 'legt' or 'legs'"),
        (["diagonalize", "legs"], "write legs:32"),
        (["diagonalize", "legs:-1"], "the size in 'legs:-1' must be a whole number of at least 1"),
        (["diagonalize", "legs:2.5"], "the size in 'legs:2.5' must be a whole number"),
        (["diagonalize", "jordan:3000000"], "'jordan:3000000' is too large"),
        (["diagonalize", "legs:8", "--gamma", "3", "--rel", "0.1"], "got rel = 0.1, gamma = 3"),
        (["diagonalize", "legs:8", "--margin", "1000"], "moves by at most ||E|| = "),
        (["diagonalize", "nothing.npy"], "there is no file nothing.npy"),
        (["diagonalize", "matrix.docx"], "a matrix comes as .npy, .npz, .mat, .csv"),
        (["diagonalize", "legs:8", "--rel", "0.1", "--eps", "1"], "got rel = 0.1, eps = 1"),
        (["diagonalize", "legs:8", "--out", "d.pt"], "name it d.safetensors"),
        (["diagonalize"], "name a matrix, such as legs:64"),
        (["diagonalize", "legs:8", "--stable", "--no-stable"], "exclude each other: give one"),
        (["diagonalize", "legs:8", "--time-limit", "0"], "time_limit must be a positive number of seconds"),
        (["diagonalize", "legs:8", "--margin", "-1"], "for max Re < 0 pass --stable"),
        (["diagonalize", "legs:16", "--stable", "--method", "gaussian"], "or --method optimized"),
        (["diagonalize", "legs:20000", "--out", "d.pt"], "name it d.safetensors"),  # not made before it is looked at
        (["diagonalize", "legs:20000", "--out", "."], ". is a folder: name a file in it"),
        (["report", "--records", "nowhere"], "there is no folder nowhere"),
        # a mistyped place is not made, and named before anything is computed
        (["reproduce", "--out", "nowhere/report"], "no folder nowhere: create it first, or correct the name"),
        (["reproduce", "--records", "nowhere/records"], "no folder nowhere: create it first"),
        (["report", "--records", str(RESULTS), "--out", "nowhere/page"], "no folder nowhere: create it first"),
        (["report", "--records", str(RESULTS), "--figures", "nowhere/svg"], "no folder nowhere: create it first"),
        (["diagonalize", "legs:8", "--out", "nowhere/new/d.safetensors"], "no folder nowhere: create it first"),
        (["diagonalize", "legs:8", "--plot", "nowhere/p.png"], "no folder nowhere to put p.png in: create it first"),
        (["analyze", "legs", "--n", "4", "--bode", "nowhere/p.png"], "no folder nowhere to put p.png in"),
    ],
)
def test_mistakes_get_a_clear_line(arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert message in str(stopped.value)
    assert list(tmp_path.iterdir()) == []


def test_a_mistake_ends_the_process_with_one_line_and_no_traceback(tmp_path: Path):
    done = wellposed("diagonalize", "legs:8", "--method", "rankone", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == "wellposed: unknown method 'rankone'; did you mean 'rank-one'?\n"
    done = wellposed("reproduce", "impulse-divergence", "--out", "nowhere/report", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == "wellposed: there is no folder nowhere: create it first, or correct the name\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_reproduce_one_experiment_alone(tmp_path: Path):
    done = wellposed("reproduce", "impulse-divergence", "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("reproduced") == 7
    assert done.stdout.splitlines()[-1] == f"report: {Path('out') / 'index.html'}"
    assert {p.name for p in (tmp_path / "out" / "records").iterdir()} == {"impulse-divergence.json"}
    assert "\x1b" not in done.stdout + done.stderr  # plain where there is no terminal


@pytest.mark.slow
def test_report_draws_without_computing(tmp_path: Path):
    done = wellposed("report", "--records", str(RESULTS), "--out", "page", "--figures", "svg", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    # what training has brought is published whatever it is
    assert [line for line in done.stdout.splitlines() if line.startswith("differs") and "-full " not in line] == []
    assert (tmp_path / "page" / "index.html").exists()
    assert {path.stem for path in (tmp_path / "svg").iterdir()} >= {*NAMES, "headline"}


@pytest.mark.slow
def test_diagonalize_reads_matrices_and_saves_the_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    A = legs(12)[0].numpy()
    np.save(tmp_path / "a.npy", A)
    np.savez(tmp_path / "a.npz", A=A, other=np.eye(2))
    np.savetxt(tmp_path / "a.csv", A, delimiter=",")
    savemat(tmp_path / "a.mat", {"A": A})
    outputs = set()
    main(["diagonalize", "transient:6", "--no-stable"])
    assert "A is stable and A + E is not: pass --stable" in capsys.readouterr().out
    main(["diagonalize", "wilkinson:20", "--rel", "0.001", "--time-limit", "0.001"])
    assert "pass --balance to work there" in capsys.readouterr().out
    for name in ("a.npy", "a.npz", "a.csv", "a.mat"):
        main(["diagonalize", str(tmp_path / name), "--rel", "0.05", "--stable"])
        outputs.add(capsys.readouterr().out)
    main(["diagonalize", "legs:12", "--rel", "0.05", "--stable"])
    outputs.add(capsys.readouterr().out)
    assert len(outputs) == 1
    done = wellposed("diagonalize", "a.npy", "--rel", "0.05", "--out", "d.safetensors", "--plot", "p.png", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    d = Diagonalization.load(tmp_path / "d.safetensors")
    assert np.linalg.norm((d.V * d.Lambda @ d.V_inv).numpy() - A, 2) <= 0.0501 * np.linalg.norm(A, 2)
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_diagonalize_knows_every_knob(capsys: pytest.CaptureFixture[str]):
    main(["diagonalize", "legs:8", "--gamma", "10"])
    assert "by optimized" in capsys.readouterr().out
    main(["diagonalize", "legs:8", "--eps", "1", "--margin", "0.5"])
    assert "eigenvalues" in capsys.readouterr().out


def matrix_files(folder: Path) -> dict[str, str]:
    """Files that hold no matrix, and what is said about them."""
    A = legs(4)[0].numpy()
    savemat(folder / "whole.mat", {"A": A})
    (folder / "cut.mat").write_bytes((folder / "whole.mat").read_bytes()[:150])
    (folder / "whole.mat").unlink()
    (folder / "empty.mat").write_bytes(b"")
    (folder / "empty.csv").write_text("")
    (folder / "words.csv").write_text("1,two\n3,4\n")
    (folder / "noise.npy").write_bytes(b"noise")
    np.save(folder / "objects.npy", np.array([{}, None]), allow_pickle=True)
    np.savez(folder / "objects.npz", A=np.array([{}, None]))
    (folder / "noise.npz").write_bytes(b"PK\x03\x04noise")
    plain = "does not hold plain numbers, and nothing else is loaded"
    unreadable = "does not hold a matrix that can be read"
    return {
        "cut.mat": unreadable,
        "empty.mat": unreadable,
        "empty.csv": "empty.csv is empty",
        "words.csv": "complex ones as 1.5-2j",
        "noise.npy": plain,
        "objects.npy": plain,
        "objects.npz": plain,
        "noise.npz": unreadable,
    }


def test_files_without_a_matrix(tmp_path: Path):
    for name, message in matrix_files(tmp_path).items():
        with pytest.raises(RecordError, match=message) as caught:
            read_matrix(tmp_path / name)
        assert name in str(caught.value)
        assert "allow_pickle" not in str(caught.value)
    done = wellposed("diagonalize", "empty.csv", cwd=tmp_path)
    assert done.returncode != 0
    assert done.stderr == "wellposed: empty.csv is empty\n"  # and no warning before it


def test_complex_numbers_in_a_csv_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "a.csv").write_text("1j, 2\n0, 1-0.5j\n")
    main(["diagonalize", str(tmp_path / "a.csv")])
    assert ", complex" in capsys.readouterr().out


def test_places_that_cannot_be_written_are_named_before_anything_is_computed(tmp_path: Path):
    (tmp_path / "d.safetensors").mkdir()
    with pytest.raises(SystemExit, match=r"d\.safetensors is a folder: name a file in it"):
        main(["diagonalize", "legs:20000", "--out", str(tmp_path / "d.safetensors")])
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit, match=r"cannot write .*: .*file is a file, not a folder"):
        main(["diagonalize", "legs:20000", "--out", str(tmp_path / "file" / "d.safetensors")])
    np.save(tmp_path / "batch.npy", np.zeros((2, 3, 3)))
    with pytest.raises(SystemExit, match=r"--plot draws one matrix, and .*batch\.npy holds a batch \(2,\)"):
        main(["diagonalize", str(tmp_path / "batch.npy"), "--plot", str(tmp_path / "q.png")])
    (tmp_path / "p.png").mkdir()
    with pytest.raises(SystemExit, match=r"p\.png is a folder"):
        main(["analyze", "legs", "--n", "4000", "--bode", str(tmp_path / "p.png")])


def test_the_gallery_is_listed(capsys: pytest.CaptureFixture[str]):
    main(["diagonalize", "--list"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == list(gallery.MATRICES)
    assert all(len(line.split()) > 2 for line in lines)


def test_sparse_files_are_told_how_to_become_dense(tmp_path: Path):
    save_npz(tmp_path / "a.npz", csr_array(np.eye(3)))
    savemat(tmp_path / "a.mat", {"A": csr_array(np.eye(3))})
    mmwrite(tmp_path / "a.mtx", csr_array(np.eye(3)))
    (tmp_path / "a.mtx.gz").write_bytes(gzip.compress((tmp_path / "a.mtx").read_bytes()))
    advices = {"a.npz": "load_npz", "a.mat": "full", "a.mtx": "mmread", "a.mtx.gz": "mmread", "a.rua": "hb_read"}
    for name, advice in advices.items():
        with pytest.raises(SystemExit, match=f"{name} holds a sparse matrix: save a dense one, .*{advice}"):
            main(["diagonalize", str(tmp_path / name)])


def test_a_dense_matrix_of_the_matrix_market_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    mmwrite(tmp_path / "a.mtx", np.diag([-1.0, -2.0]))
    main(["diagonalize", str(tmp_path / "a.mtx")])
    assert "-1" in capsys.readouterr().out
    (tmp_path / "b.mtx").write_text("no header")
    with pytest.raises(SystemExit, match=r"b\.mtx does not hold a matrix that can be read: "):
        main(["diagonalize", str(tmp_path / "b.mtx")])


def test_ctrl_c_says_what_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)

    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("wellposed.experiments.run", stopped)
    monkeypatch.setattr("wellposed.linalg.ptd", stopped)
    for arguments, kept in {
        ("diagonalize", "legs:4", "--out", "d.safetensors"): "nothing was saved",
        ("reproduce", "pareto"): "no record was written",
    }.items():
        with pytest.raises(SystemExit) as ended:
            main([*arguments])
        assert ended.value.code == 130
        assert capsys.readouterr().err.endswith(f"wellposed: stopped; {kept}\n")


def test_a_slice_of_an_experiment_on_trained_models(tmp_path: Path):
    """It ends well where runs are still to come, and says which."""
    (tmp_path / "data").mkdir()
    options = ("--full", "--tiny", "--runs", "runs", "--data", "data", "--minutes", "0.0001", "--device", "cpu")
    done = wellposed("reproduce", "failure-modes", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    record = load_record(tmp_path / "report" / "records" / "failure-modes-full.json")
    assert len(record.data["missing"]) == 18
    assert "unfinished" in (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
