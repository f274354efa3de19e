"""Plots draw on the axes they are given, and what they draw is what the library computes."""

from __future__ import annotations

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

from wellposed import hippo, plot, ptd
from wellposed.errors import ArgumentError, NotFiniteError, ShapeError, TimeDomainError
from wellposed.linalg import pseudospectra
from wellposed.nn import S4D
from wellposed.plot._matrices import portrait
from wellposed.plot._style import LINES, MARKS
from wellposed.systems import DenseSystem, closed_forms, s4, s4d
from wellposed.systems import spikes as find_spikes


@pytest.fixture
def ax():
    figure, axes = plt.subplots()
    yield axes
    plt.close(figure)


def labels(ax: Axes) -> list[str]:
    legend = ax.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


def test_bode_draws_responses_and_finds_every_peak(ax: Axes):
    assert plot.bode({"S4": s4(8), "S4D": s4d(8)}, ax=ax) is ax
    omega, gain = (torch.as_tensor(part) for part in ax.lines[1].get_data())
    assert torch.allclose(gain, closed_forms.G_Diag(1j * omega, 8).abs(), rtol=1e-9)
    last = find_spikes(8)[-1].frequency
    assert gain[(omega - last).abs() < 1].max() > 0.99 * abs(closed_forms.G_Diag(1j * last, 8).item())
    assert labels(ax) == ["S4", "S4D"]
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")


def test_bode_draws_phases_and_responses_computed_elsewhere(ax: Axes):
    plot.bode({"mine": [1j, -1.0]}, [1.0, 2.0], part="phase", ax=ax)
    assert ax.lines[0].get_ydata() == pytest.approx([90, 180])
    with pytest.raises(ArgumentError, match="omega"):
        plot.bode([1j], ax=ax)
    several = DenseSystem(-torch.eye(2), torch.ones(2, 1), torch.ones(3, 2))
    for draw in (lambda: plot.bode({"mine": several}, ax=ax), lambda: plot.kernel({"mine": several}, 9, dt=0.1, ax=ax)):
        with pytest.raises(ShapeError, match=r"'mine' have shape .*, 3, 1\); take one row of C"):
            draw()
    with pytest.raises(ArgumentError, match="str is none"):
        plot.kernel("s4", ax=ax)


def test_spikes_and_kernel(ax: Axes):
    assert plot.spikes(8, 2, ax=ax) is ax
    assert ax.lines[1].get_xdata() == pytest.approx(find_spikes(8, 2).frequency.numpy())
    ax.clear()
    assert plot.kernel(s4d(8), 50, dt=0.01, ax=ax) is ax
    expected = s4d(8).discretize(0.01, "bilinear").impulse_response(50).real / 0.01
    assert ax.lines[0].get_ydata() == pytest.approx(expected.numpy())
    with pytest.raises(TimeDomainError, match="dt"):
        plot.kernel(s4d(8), ax=ax)


def test_the_level_of_the_perturbation_is_always_in_the_legend(ax: Axes):
    A, _ = hippo.legs(8)
    d = ptd(A, rel=0.1)
    assert plot.pseudospectrum(A, d, ax=ax) is ax
    assert f"level ‖E‖ = {d.norm_E:.3g}" in labels(ax)
    edge, bare = portrait(A, float(d.norm_E)).sigma, pseudospectra(A, points=60).sigma
    assert min(side.min() for side in (edge[0], edge[-1], edge[:, 0], edge[:, -1])) > d.norm_E  # all of it is seen
    assert bare[:, -1].min() < d.norm_E  # which was not so by itself
    ax.clear()
    plot.pseudospectrum(pseudospectra(A, points=8, box=(100.0, 101.0, 100.0, 101.0)), d, ax=ax)
    assert f"level ‖E‖ = {d.norm_E:.3g}" in labels(ax)


def test_eigenvalues_of_whatever_has_them(ax: Axes):
    A, _ = hippo.legs(6)
    d = ptd(A, rel=0.1)
    assert plot.eigenvalues({"A": A, "A + E": d, "S4D": s4d(6), "known": [1.0, 2j]}, ax=ax) is ax
    drawn = torch.as_tensor(ax.lines[0].get_xdata()).sort().values
    assert drawn.tolist() == pytest.approx([-6, -5, -4, -3, -2, -1])
    assert ax.lines[1].get_ydata() == pytest.approx(d.Lambda.imag.numpy())
    with pytest.raises(ShapeError):
        plot.eigenvalues(torch.zeros(2, 2, 2), ax=ax)
    with pytest.raises(NotFiniteError):  # not the end of the process, which LAPACK would bring
        plot.eigenvalues(torch.full((2, 2), torch.nan), ax=ax)


def test_tradeoff_and_spectrum_of_a_model(ax: Axes):
    A, _ = hippo.legs(6)
    made = [ptd(A, rel=rel) for rel in (0.1, 0.01)]
    assert plot.tradeoff(made, ax=ax) is ax
    assert ax.lines[0].get_ydata() == pytest.approx([made[1].condition, made[0].condition])
    ax.clear()
    torch.manual_seed(0)
    assert plot.spectrum_of(torch.nn.Sequential(S4D(d_model=2, d_state=4), S4D(d_model=2, d_state=4)), ax=ax) is ax
    assert labels(ax) == ["layer 1", "layer 2"]
    with pytest.raises(ArgumentError, match="no state-space layer"):
        plot.spectrum_of(torch.nn.Linear(2, 2), ax=ax)


def test_too_many_at_once_are_refused_and_axes_are_made_where_none_are_given():
    with pytest.raises(ArgumentError, match="1 to 5"):
        plot.bode({str(k): s4(2) for k in range(6)})
    made = plot.eigenvalues([1j])
    assert isinstance(made, Axes)
    plt.close(made.figure)  # type: ignore[arg-type]


# Linear RGB to what an eye without one kind of cone sees (Vienot, Brettel and Mollon, 1999).
BLIND = {
    "protan": [[0.11238, 0.88762, 0.0], [0.11238, 0.88762, 0.0], [0.00401, -0.00401, 1.0]],
    "deutan": [[0.29275, 0.70725, 0.0], [0.29275, 0.70725, 0.0], [-0.02234, 0.02234, 1.0]],
}


@pytest.mark.parametrize("kind", BLIND)
def test_colours_of_the_three_models_differ_for_colour_blind_readers(kind: str):
    matrix = torch.tensor(BLIND[kind])

    def seen(colour: str) -> torch.Tensor:
        linear = torch.tensor(to_rgb(colour)) ** 2.2
        return (matrix @ linear).clamp(0, 1) ** (1 / 2.2)

    three = [seen(style["color"]) for style in LINES[:3]]
    gaps = [(a - b).norm().item() for k, a in enumerate(three) for b in three[:k]]
    assert min(gaps) > 0.1
    looks = [(str(style.get("ls")), style["lw"]) for style in LINES[:3]]
    assert len(set(looks)) == 3  # and without any colour
    assert len({style["marker"] for style in MARKS}) == len(MARKS)
