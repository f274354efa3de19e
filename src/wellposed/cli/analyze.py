"""``wellposed analyze``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import tyro

from wellposed._files import check_file
from wellposed.cli._arguments import File
from wellposed.errors import ShapeError, UnstableError

_LARGEST = 4000


def analyze(
    measure: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MEASURE")],
    n: int = 32,
    l: int = 1,
    last: int = 5,
    bode: File = None,
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
    from wellposed.report import check_figure_path
    from wellposed.systems import linf_distance, spikes

    if positive_int(n, "n") > _LARGEST:
        raise ShapeError(
            f"analyze builds n x n matrices: n = {n} is over {_LARGEST}; systems.spikes takes n up to 10^6"
        )
    if bode:
        check_figure_path(bode)
        check_file(bode)
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
