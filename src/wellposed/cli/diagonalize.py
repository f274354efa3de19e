"""``wellposed diagonalize``."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import tyro

from wellposed._files import check_file, check_folder, read_matrix
from wellposed.cli._arguments import File, Flag, Number
from wellposed.cli._words import in_options, keeping
from wellposed.errors import ArgumentError, RecordError

if TYPE_CHECKING:
    from wellposed.linalg import Diagonalization


def diagonalize(
    matrix: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="MATRIX")] = None,
    method: str = "auto",
    rel: Number = None,
    eps: Number = None,
    cond: Number = None,
    gamma: Number = None,
    stable: Flag = False,
    no_stable: Flag = False,
    margin: Number = None,
    seed: int = 0,
    balance: bool = False,
    time_limit: Number = None,
    out: File = None,
    plot: File = None,
    list: bool = False,
) -> None:
    """Perturb a matrix by a hair, diagonalise the neighbour, and say how far you went.

    Args:
        matrix: A file (.npy, .npz, .mat, .csv, .mtx) or a name with a size: legs:64, jordan:50, grcar:32, ...
        method: auto, rank-one, optimized or gaussian.
        rel: Size of the perturbation relative to the matrix; 0.1 if no knob is given.
        eps: Size of the perturbation.
        cond: Condition number to reach instead.
        gamma: Minimise the condition number plus gamma times the size (Frobenius) instead.
        stable: Insist on eigenvalues with negative real part; those of a stable matrix keep it in any case.
        no_stable: Let a stable matrix become unstable.
        margin: Insist on real parts of at most -margin.
        seed: Seed of a random perturbation.
        balance: Work in balanced coordinates, for matrices whose entries differ by many powers of ten.
        time_limit: Seconds after which the best so far is taken.
        out: Save the result to this file (.safetensors).
        plot: Save the pseudospectra with old and new eigenvalues to this file (.png, .svg or .pdf).
        list: Only show the matrices that have names.
    """
    from wellposed.linalg import ptd

    if list:
        print("\n".join(_named_matrices()))
        return
    if stable and no_stable:
        raise ArgumentError("--stable and --no-stable exclude each other: give one")
    _check_places(out, plot)
    A = _matrix(matrix)
    if plot and A.ndim > 2:
        raise ArgumentError(f"--plot draws one matrix, and {matrix} holds a batch {tuple(A.shape[:-2])}: leave it out")
    knobs: dict[str, Any] = {"rel": rel, "eps": eps, "cond": cond, "gamma": gamma}
    with keeping(lambda: "nothing was saved"):
        d = ptd(
            A,
            method=cast(Any, method),
            **knobs,
            stable=True if stable else False if no_stable else "keep",
            margin=margin,
            seed=seed,
            balance=balance,
            time_limit=time_limit,
            progress=lambda line: print(line, file=sys.stderr),
        )
        print(in_options(str(d), diagonalize))
        if out:
            print(f"  saved           {d.save(out)}")
    if plot:
        with keeping(lambda: f"{out} is saved" if out else "nothing was saved"):
            _draw(A, d, plot)


def _draw(A: Any, d: Diagonalization, plot: Path) -> None:
    from wellposed.plot._matrices import portrait
    from wellposed.report import save_pseudospectra

    size = cast(float, d.norm_E)
    print(f"  plot            {save_pseudospectra(plot, portrait(A, size), d.Lambda, size)}")


def _matrix(name: str | None) -> Any:
    """The matrix of a name or in a file."""
    from wellposed.linalg import gallery

    if name is None:
        raise ArgumentError("name a matrix, such as legs:64, or a file that holds one; --list shows the names")
    named = name.partition(":")[0] in gallery.MATRICES or not (Path(name).suffix or Path(name).exists())
    return gallery.matrix(name) if named else read_matrix(Path(name))


def _named_matrices() -> Iterator[str]:
    """A line for every matrix of the gallery."""
    from wellposed.hippo import MEASURES
    from wellposed.linalg import gallery

    yield "give a size with the name, as in legs:64"
    for name, make in gallery.MATRICES.items():
        about = inspect.getdoc(MEASURES.get(name, make)) or ""
        yield f"  {name:18} {about.splitlines()[0].replace('`', '')}"


def _check_places(out: Path | None, plot: Path | None) -> None:
    """What cannot be written is said before anything is computed."""
    if out:
        check_file(out)
        if out.suffix != ".safetensors":
            raise RecordError(f"the result is a safetensors file: name it {out.with_suffix('.safetensors')}, not {out}")
        check_folder(out.parent)
    if plot:
        from wellposed.report import check_figure_path

        check_figure_path(plot)
        check_file(plot)
