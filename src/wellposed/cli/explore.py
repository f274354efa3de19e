"""``wellposed explore``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import tyro

from wellposed._files import check_file, check_folder, read_matrix
from wellposed.cli._arguments import File, Folder
from wellposed.cli._progress import track_steps
from wellposed.errors import RecordError

_RECORDS = Path("results")


def explore(
    matrix: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MATRIX")] = "legs",
    n: int = 64,
    out: Path = Path("explorer.html"),
    b: File = None,
    records: Folder = None,
) -> None:
    """Write one page to explore a matrix with: responses, pseudospectrum, waves in time, trade-off.

    Args:
        matrix: legs, or a matrix of up to 128 rows: a file (.npy, .npz, .mat, .csv, .mtx) or a name (grcar:32).
        n: The most states of legs that the page offers; it offers smaller ones too.
        out: The page, one file that needs nothing else.
        b: How inputs reach your own matrix, a vector in a file; every state alike if not given.
        records: Folder of records whose trained models are shown; results/ if it is there.
    """
    from wellposed.explorer import write_explorer

    if out.suffix.lower() not in (".html", ".htm"):
        raise RecordError(f"the page is an HTML file: name it {out.with_suffix('.html')}, not {out}")
    check_folder(check_file(out).parent)
    if records is not None and not records.is_dir():
        raise RecordError(f"there is no folder {records}: run 'wellposed reproduce' first, or correct the name")
    found = records or (_RECORDS if _RECORDS.is_dir() else None)
    print(f"explorer: {write_explorer(_subject(matrix, n, b), out, records=found)}")


def _subject(matrix: str, n: int, b: Path | None) -> Any:
    from wellposed.explorer import legs_subject, own_subject
    from wellposed.linalg import gallery

    if matrix == "legs":
        if b is not None:
            raise RecordError(f"legs has an input of its own: drop --b {b}, or name your own matrix")
        return legs_subject(n, track=track_steps("explore"))
    named = matrix.partition(":")[0] in gallery.MATRICES or not (Path(matrix).suffix or Path(matrix).exists())
    A = gallery.matrix(matrix) if named else read_matrix(Path(matrix))
    B = read_matrix(b) if b else None
    return own_subject(A, B, title=matrix if named else Path(matrix).name, track=track_steps("explore"))
