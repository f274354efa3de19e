"""What a page can be about, and what it refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from wellposed.cli import main
from wellposed.errors import ArgumentError, ShapeError
from wellposed.explorer import legs_subject, own_subject, write_explorer


def test_what_is_too_large_or_no_matrix_is_refused():
    with pytest.raises(ShapeError, match="n = 129 is over 128"):
        legs_subject(129)
    for A in (torch.zeros(129, 129), torch.zeros(2, 3), torch.zeros(1, 1)):
        with pytest.raises(ShapeError, match="2 to 128 rows"):
            own_subject(A)
    with pytest.raises(ArgumentError, match="NaN"):
        own_subject(torch.full((2, 2), torch.nan))
    with pytest.raises(ShapeError, match="3 entries"):
        own_subject(torch.eye(2), [1.0, 2.0, 3.0])
    for A, B, message in (
        (torch.zeros(2, 2), None, "zero"),
        (torch.eye(2), [1j, 0], "complex"),
        (torch.eye(2), [1, torch.inf], "B holds"),
        (np.array([["a", "b"], ["c", "d"]]), None, "must hold numbers"),
        (1e200 * torch.eye(2, dtype=torch.float64), None, "1e\\+200 is beyond"),
    ):
        with pytest.raises(ArgumentError, match=message):
            own_subject(A, B)


def test_a_page_cannot_be_broken_by_its_title(tmp_path: Path):
    subject = own_subject(torch.diag(torch.tensor([-1.0, -2.0])), title="</script><b>&", rels=(0.1,))
    text = write_explorer(subject, tmp_path / "page.html").read_text("utf-8")
    assert "</script><b>" not in text
    found = re.search(r'id="data">(.*?)</script>', text, re.DOTALL)
    assert found
    assert json.loads(found[1])["title"] == "</script><b>&"


def test_the_command_writes_a_page_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    np.save(tmp_path / "mine.npy", np.array([[-1.0, 5.0], [0.0, -1.1]]))
    main(["explore", str(tmp_path / "mine.npy"), "--out", str(tmp_path / "mine.html")])
    assert "mine.html" in capsys.readouterr().out
    assert "mine.npy, perturbed and diagonalised" in (tmp_path / "mine.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "page.txt"], "page.html"),
        (["--out", "folder.html"], "folder.html is a folder"),
        (["--records", "nowhere"], "no folder nowhere"),
        (["--b", "b.npy"], "drop --b"),
        (["nowhere.npy"], "no file nowhere.npy"),
    ],
)
def test_the_command_says_what_is_wrong(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(SystemExit, match=message):
        main(["explore", *arguments])
