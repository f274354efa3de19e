"""``wellposed diagonalize``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast

import tyro

from wellposed._files import check_folder, read_matrix
from wellposed.cli._arguments import File, Number
from wellposed.errors import RecordError


def diagonalize(
    matrix: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MATRIX")],
    method: str = "auto",
    rel: Number = None,
    eps: Number = None,
    cond: Number = None,
    gamma: Number = None,
    stable: bool = False,
    margin: Number = None,
    seed: int = 0,
    out: File = None,
    plot: File = None,
) -> None:
    """Perturb a matrix by a hair, diagonalise the neighbour, and say how far you went.

    Args:
        matrix: A file (.npy, .npz, .mat, .csv) or a name with a size: legs:64, jordan:50, grcar:32, ...
        method: auto, rank-one, optimized or gaussian.
        rel: Size of the perturbation relative to the matrix; 0.1 if no knob is given.
        eps: Size of the perturbation.
        cond: Condition number to reach instead.
        gamma: Minimise the condition number plus gamma times the size (Frobenius) instead.
        stable: Insist on eigenvalues with negative real part.
        margin: Insist on real parts of at most -margin.
        seed: Seed of a random perturbation.
        out: Save the result to this file (.safetensors).
        plot: Save the pseudospectra with old and new eigenvalues to this file (.png, .svg or .pdf).
    """
    from wellposed.linalg import gallery, ptd

    named = matrix.partition(":")[0] in gallery.MATRICES or not (Path(matrix).suffix or Path(matrix).exists())
    A = gallery.matrix(matrix) if named else read_matrix(Path(matrix))
    if out and out.suffix != ".safetensors":
        raise RecordError(f"the result is a safetensors file: name it {out.with_suffix('.safetensors')}, not {out}")
    _check_places(out, plot)
    knobs: dict[str, Any] = {"rel": rel, "eps": eps, "cond": cond, "gamma": gamma}
    d = ptd(A, method=cast(Any, method), **knobs, stable=stable, margin=margin, seed=seed)
    print(d)
    if out:
        print(f"  saved           {d.save(out)}")
    if plot:
        from wellposed.linalg import pseudospectra
        from wellposed.report import save_pseudospectra

        grid, size = pseudospectra(A, points=60), cast(float, d.norm_E)
        print(f"  plot            {save_pseudospectra(plot, grid.refined(size), d.Lambda, size)}")


def _check_places(out: Path | None, plot: Path | None) -> None:
    """What cannot be written is said before anything is computed."""
    if out:
        check_folder(out.parent)
    if plot:
        from wellposed.report import check_figure_path

        check_figure_path(plot)
