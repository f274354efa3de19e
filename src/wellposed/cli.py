"""The command line: a verb for every job, and nothing but words around the library."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from wellposed import __version__
from wellposed.errors import ConvergenceError, MissingExtraError, RecordError, ShapeError, UnstableError, WellposedError

if TYPE_CHECKING:
    from wellposed.experiments import Record

try:
    import tyro
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Table
except ImportError as error:  # pragma: no cover
    raise SystemExit(f"wellposed: {MissingExtraError(error.name or 'tyro', 'cli')}") from None


Folder = Annotated[Path | None, tyro.conf.arg(metavar="DIR")]
_LARGEST = 4000


def reproduce(
    names: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[NAME ...]")] = (),
    out: Path = Path("report"),
    records: Folder = None,
) -> None:
    """Run the paper's experiments, compare with the paper, and write the report.

    Args:
        names: Experiments to run; all of them if none is named. 'wellposed list' shows their names.
        out: Folder for index.html and, in records/, one JSON file an experiment.
        records: Another folder for the records.
    """
    from wellposed.experiments import NAMES, get, run, save_record
    from wellposed.report import read_records

    for name in names:
        get(name)  # an unknown name is found before anything runs
    folder = records or out / "records"
    for name in names or NAMES:
        save_record(run(name, track=_track(name)), folder)
    found = read_records(folder)
    print(f"report: {_show(found, out)}")


def report(out: Path = Path("report"), records: Folder = None, figures: Folder = None) -> None:
    """Draw the report again from records on disk, without computing anything.

    Args:
        out: Folder for index.html.
        records: Folder of the records; out/records if not given.
        figures: Also write every figure as an SVG file into this folder.
    """
    from wellposed.report import read_records, save_figures

    found = read_records(records or out / "records")
    for path in save_figures(found, figures) if figures else ():
        print(f"figure: {path}")
    print(f"report: {_show(found, out)}")


def list_experiments() -> None:
    """List the experiments that 'reproduce' knows."""
    from wellposed.experiments import NAMES, get

    for name in NAMES:
        print(f"{name:20} {get(name).title} ({get(name).source})")


def analyze(
    measure: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MEASURE")],
    n: int = 32,
    l: int = 1,
    last: int = 5,
    bode: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
) -> None:
    """Show what dropping the low-rank part does to a HiPPO system: poles, spikes, distance.

    Args:
        measure: legs, legt, lagt or fout.
        n: Number of states.
        l: Which state is read out, C = e_l.
        last: How many of the spikes of highest frequency to show (legs only).
        bode: Also save a Bode plot to this file (.png, .svg or .pdf).
    """
    import torch

    from wellposed import hippo
    from wellposed._checks import index_in, positive_int
    from wellposed.systems import linf_distance, spikes

    if positive_int(n, "n") > _LARGEST:
        raise ShapeError(
            f"analyze builds n x n matrices: n = {n} is over {_LARGEST}; systems.spikes takes n up to 10^6"
        )
    full, normal = _systems(measure, n, index_in(l, "l", n))
    A, _ = hippo.MEASURES[measure](n)
    rows = {
        "norm of A": f"{torch.linalg.matrix_norm(A, ord=2).item():.6g}",
        "poles of A": _poles(torch.linalg.eigvals(A)),
        "as computed from DPLR form": _poles(full.poles()),
        "poles of the normal part": _poles(normal.poles()),
    }
    try:
        distance = linf_distance(full, normal)
        rows["distance S4 to S4D"] = f"{distance.value:.6f} at {distance.frequency:.7g} (below {distance.upper:.9f})"
    except UnstableError:
        rows["distance S4 to S4D"] = "infinite: without its low-rank part the system is not stable"
    print(f"HiPPO-{measure[:-1].capitalize()}{measure[-1].upper()}, n = {n}, C = e_{l}")
    for name, value in rows.items():
        print(f"  {name:28} {value}")
    if measure == "legs":
        print(f"  last spikes of |S4D - S4|    {'frequency':>12} {'height':>10} {'width':>8}")
        for spike in spikes(n, l, last):
            print(f"  {'':28} {spike.frequency:>12.6g} {spike.height:>10.6f} {spike.width:>8.4g}")
    if bode:
        print(f"  {'Bode plot':28} {_save_bode(bode, measure, n, l)}")


def _systems(measure: str, n: int, l: int) -> tuple[Any, Any]:
    """The system of a measure as diagonal plus low rank, and what is left when the low-rank part is dropped."""
    import torch

    from wellposed import hippo
    from wellposed.systems import DiagonalSystem, DPLRSystem

    Lambda, V, P, B = hippo.dplr(measure, n)
    C = torch.zeros(n, dtype=torch.complex128)
    C[l - 1] = 1
    return DPLRSystem(Lambda, P, B=B, C=C @ V), DiagonalSystem(Lambda, B / 2, C @ V)


def _poles(poles: Any) -> str:
    """The poles of largest magnitude, a conjugate pair written once."""
    order = poles.abs().argsort(descending=True, stable=True)
    upper = [p for p in poles[order].tolist() if p.imag >= -1e-9 * abs(p)]
    shown = [f"{p.real:.5g} ± {p.imag:.6g}i" if p.imag > 1e-9 * abs(p) else f"{p.real:.5g}" for p in upper[:4]]
    return ", ".join(shown) + (f", ... {len(upper) - 4} more" if len(upper) > 4 else "")


def _save_bode(path: Path, measure: str, n: int, l: int) -> Path:
    import torch

    from wellposed.report import save_bode
    from wellposed.systems import spikes

    full, normal = _systems(measure, n, l)
    top = 10 * max(n**2, 10)
    omega = torch.logspace(-1, torch.tensor(float(top)).log10().item(), 1500, dtype=torch.float64)
    if measure == "legs":
        peaks = spikes(n, l, min(n, 200)).frequency
        omega = torch.cat([omega, *(peaks + d for d in (-1.5, -0.5, 0.0, 0.5, 1.5))]).sort().values
    omega = omega[omega > 0]
    responses = {f"S4 ({measure}, n = {n})": full, "low-rank part dropped": normal}
    return save_bode(path, omega.tolist(), {k: s.frequency_response(omega).tolist() for k, s in responses.items()})


def diagonalize(
    matrix: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MATRIX")],
    method: str = "auto",
    rel: Annotated[float | None, tyro.conf.arg(metavar="FLOAT")] = None,
    eps: Annotated[float | None, tyro.conf.arg(metavar="FLOAT")] = None,
    cond: Annotated[float | None, tyro.conf.arg(metavar="FLOAT")] = None,
    gamma: Annotated[float | None, tyro.conf.arg(metavar="FLOAT")] = None,
    stable: bool = False,
    margin: Annotated[float | None, tyro.conf.arg(metavar="FLOAT")] = None,
    seed: int = 0,
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    plot: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
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
    from wellposed._files import read_matrix
    from wellposed.linalg import gallery, ptd

    named = matrix.partition(":")[0] in gallery.MATRICES or not (Path(matrix).suffix or Path(matrix).exists())
    A = gallery.matrix(matrix) if named else read_matrix(Path(matrix))
    if out and out.suffix != ".safetensors":
        raise RecordError(f"the result is a safetensors file: name it {out.with_suffix('.safetensors')}, not {out}")
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


def _track(name: str) -> Callable[[Iterable], Iterable]:
    """A progress bar on a terminal; elsewhere one plain line an experiment."""
    if not sys.stderr.isatty():
        print(f"running {name}", file=sys.stderr, flush=True)
        return lambda steps: steps

    def bar(steps: Iterable) -> Iterable:
        steps = list(steps)
        columns = (TextColumn(f"{name:20}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=Console(stderr=True)) as progress:
            yield from progress.track(steps)

    return bar


def _show(records: list[Record], out: Path) -> Path:
    """Print the verdicts and write the page; a claim that differs makes the command fail."""
    from wellposed.report import verdicts, write_page

    _print_verdicts(records)
    page = write_page(records, out / "index.html")
    differs = [record.experiment for record in records if any(v.word == "differs" for v in verdicts(record))]
    if differs:
        raise ConvergenceError(f"some numbers differ from what is expected, in {', '.join(differs)}: see {page}")
    return page


def _print_verdicts(records: list[Record]) -> None:
    from wellposed.report import verdicts

    console = Console()
    if not console.is_terminal:
        for record in records:
            for v in verdicts(record):
                numbers = f"{v.measured} (expected {v.expected}, paper: {v.paper})"
                print(f"{v.word:10}  {record.experiment:18}  {v.text}: {numbers}")
        return
    table = Table("experiment", "quantity", "paper", "measured", "off by", "verdict", box=None, pad_edge=False)
    colors = {"reproduced": "green", "corrected": "yellow", "differs": "bold red"}
    for record in records:
        for k, v in enumerate(verdicts(record)):
            name = record.experiment if k == 0 else ""
            table.add_row(name, v.text, v.paper, v.measured, v.difference, f"[{colors[v.word]}]{v.word}[/]")
    console.print(table)


def data() -> None:
    """Data sets: list, fetch, prepare, verify or show them. 'wellposed data --help' tells more."""


VERBS: dict[str, Callable[..., None]] = {
    "reproduce": reproduce,
    "report": report,
    "list": list_experiments,
    "analyze": analyze,
    "diagonalize": diagonalize,
    "data": data,
}

_DESCRIPTION = "Perturb a matrix by a hair, diagonalise the neighbour, and say how far you went."


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the command ``wellposed``."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if arguments[:1] in (["--version"], ["-V"]):
        print(f"wellposed {__version__}")
        return
    try:
        if arguments[:1] == ["data"]:
            from wellposed._cli_data import DATA_VERBS

            description = "Data sets: found, fetched, built, verified and shown."
            _dispatch(DATA_VERBS, "wellposed data", description, arguments[1:] or ["--help"])
        else:
            _dispatch(VERBS, "wellposed", _DESCRIPTION, arguments)
    except WellposedError as error:
        raise SystemExit(f"wellposed: {error}") from None
    except BrokenPipeError:
        raise SystemExit(1) from None
    except OSError as error:
        raise SystemExit(f"wellposed: {error}") from None
    except KeyboardInterrupt:
        raise SystemExit("wellposed: stopped") from None


def _dispatch(verbs: dict[str, Callable[..., None]], prog: str, description: str, arguments: list[str]) -> None:
    if arguments and not arguments[0].startswith("-") and arguments[0] not in verbs:
        near = difflib.get_close_matches(arguments[0], verbs, n=2, cutoff=0.5)
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"verbs: {', '.join(verbs)}"
        raise SystemExit(f"wellposed: unknown command {arguments[0]!r}; {hint}")
    tyro.extras.subcommand_cli_from_dict(verbs, prog=prog, description=description, args=arguments)
