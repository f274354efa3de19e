"""What the layers are beyond what the suite asks of all: their systems, their starts, long sequences, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import nn_twin
from layer_suite import DEVICE, LayerSuite, differing, off, signal, values_and_gradients
from subprocesses import run_python
from wellposed import hippo, ptd
from wellposed.errors import (
    ArgumentError,
    NotFiniteError,
    ShapeError,
    TimeDomainError,
    UnknownNameError,
    UnstableError,
)
from wellposed.nn import S4, S4D, S4PTD, S5, S5PTD, LiquidS4, SelfAttention
from wellposed.systems import DenseSystem, DiagonalSystem, linf_distance, s4, s4d

KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "s4d": (S4D, {}),
    "s4d-lin": (S4D, {"init": "lin", "disc": "bilinear"}),
    "s4d-inv": (S4D, {"init": "inv"}),
    "s4ptd": (S4PTD, {}),
    "s4ptd-bilinear": (S4PTD, {"disc": "bilinear", "cond": 8.0}),
    "s4ptd-fout": (S4PTD, {"hippo": "fout"}),
    "s4": (S4, {}),
    "s4-zoh": (S4, {"disc": "zoh"}),
    "s4-legt": (S4, {"hippo": "legt"}),
    "s5": (S5, {}),
    "s5-bilinear": (S5, {"disc": "bilinear", "C_init": "complex_normal"}),
    "s5ptd": (S5PTD, {"C_init": "truncated_normal"}),
    "liquid-kb": (LiquidS4, {"kernel": "kb", "degree": 3}),
    "liquid-polyb": (LiquidS4, {"kernel": "polyb", "degree": 2, "disc": "zoh"}),
}


def build(kind: str, d_model: int = 3, d_state: int = 6, **options: Any) -> Any:
    cls, fixed = KINDS[kind]
    arguments: dict[str, Any] = {"seed": 0, "dtype": torch.float64, "device": DEVICE} | fixed | options
    return cls(d_model, d_state, **arguments)


LONG = [
    "s4ptd",
    *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("s4d", "s4", "s5", "s5ptd", "liquid-kb", "liquid-polyb")),
]


@pytest.mark.slow
@pytest.mark.parametrize("kind", LONG)
def test_float32_at_length_16384(kind: str):
    """Rounding in every mode stays below 1e-4 of the largest entry, values and gradients, both directions."""
    u, w = signal(1, 16384, 1, seed=1, dtype=torch.float32), signal(1, 16384, 1, seed=2, dtype=torch.float32)
    made = [build(kind, 1, 16, bidirectional=True, mode=m, dtype=torch.float32) for m in ("scan", "conv")]
    right = LayerSuite().twin_values_and_gradients(made[0], u, w)
    for layer in made:
        assert differing(values_and_gradients(layer, u, w), right, 1e-4) == {}


@pytest.mark.slow
@pytest.mark.parametrize("kind", LONG)
@torch.no_grad()
def test_float32_steps_at_length_16384(kind: str):
    layer = build(kind, 2, 64, dtype=torch.float32)
    u = signal(1, 16384, 2, seed=1, dtype=torch.float32)
    right, last = nn_twin.simulate(layer, nn_twin.parameters_of(layer), u.double())
    step, state, outputs = layer.stepper(), layer.initial_state(1), []
    for t in range(u.shape[1]):
        y, state = step(u[:, t], state)
        outputs.append(y)
    assert off(torch.stack(outputs, 1), right) < 1e-4
    assert off(state, last) < 1e-4
    y, state = layer(u, return_state=True)
    assert off(y, right) < 1e-4
    assert off(state, last) < 1e-4


@pytest.mark.parametrize("kind", ["s4d", "s5"])
@torch.no_grad()
def test_modes_that_hardly_decay_keep_their_phase(kind: str):
    """131072 steps in float32 beside the float64 convolution; powers by squaring in float32 would be off by 3e-3."""
    layer = build(kind, 2, 8, dtype=torch.float32)
    layer.A_log_real.fill_(-12.0)
    layer.log_dt.fill_(-3.0)
    u = signal(1, 131072, 2, dtype=torch.float32)
    exact = build(kind, 2, 8, mode="conv")
    exact.load_state_dict(layer.state_dict())
    assert off(layer(u), exact(u.double())) < 1e-5


@pytest.mark.parametrize("kind", [k for k in KINDS if k.startswith("s4") and not k.endswith(("-lin", "-inv"))])
def test_the_frequency_response_is_that_of_the_system_it_came_from(kind: str):
    """``system()`` against the matrices the layer was made of, at 200 frequencies, to 1e-9 of the largest value."""
    n = 33 if kind == "s4ptd-fout" else 32
    c = signal(n, seed=3).cpu()
    omega = torch.logspace(-2, 4, 200, dtype=torch.float64)
    layer = build(kind, 2, n, C_init=c)
    D = layer.D.detach()
    if kind.startswith("s4ptd"):
        A, B = hippo.MEASURES[KINDS[kind][1].get("hippo", "legs")](n)
        d = ptd(A, stable=True, cond=8.0) if "bilinear" in kind else ptd(A, stable=True, rel=0.1)
        right = DenseSystem(A + d.E, B, c)
    elif kind == "s4-legt":
        A, B = hippo.legt(n)
        right = DenseSystem(A, B, c)
    else:
        right = s4d(n, C=c) if kind == "s4d" else s4(n, C=c)
    expected = right.frequency_response(omega).reshape(-1)
    for channel in range(2):
        found = (layer.system()[channel].frequency_response(omega).reshape(-1) - D[channel]).cpu()
        assert off_complex(found, expected) < 1e-9


def off_complex(found: torch.Tensor, right: torch.Tensor) -> float:
    return ((found - right).abs().max() / right.abs().max()).item()


@pytest.mark.parametrize("kind", ["s5", "s5ptd", "s4d-lin", "s4d-inv"])
def test_the_frequency_response_of_the_others(kind: str):
    """S5 and the formulas draw a C of their own; the response is read off the parameters instead, mode by mode."""
    layer = build(kind, 2, 12)
    p = {name: t.detach() for name, t in layer.named_parameters()}
    omega = torch.logspace(-3, 1, 50, dtype=torch.float64)
    system = layer.system()
    lam, B = torch.complex(-p["A_log_real"].exp(), p["A_imag"]), torch.view_as_complex(p["B"])
    C = torch.view_as_complex(p["C"])[0] * layer.count / 2
    for w in omega.to(DEVICE):
        found = system(torch.complex(torch.zeros_like(w), w)).detach().reshape(-1)
        if kind.startswith("s5"):
            dt = p["log_dt"].exp()
            upper = (C / (1j * w - lam * dt)) @ (B * dt[:, None])
            lower = (C.conj() / (1j * w - lam.conj() * dt)) @ (B.conj() * dt[:, None])
            right = upper + lower + torch.diag(p["D"])
        else:
            right = (C * B / (1j * w - lam) + C.conj() * B.conj() / (1j * w - lam.conj())).sum(-1) + p["D"]
        assert off_complex(found, right.reshape(-1)) < 1e-9


def test_the_formulas_of_s4d():
    """Gu et al., 2022: S4D-Lin has ``pi k``, S4D-Inv ``(n / pi) (n / (2k + 1) - 1)``, both real part -1/2 and B = 1."""
    n, k = 16, np.arange(8)
    for init, imag in (("lin", np.pi * k), ("inv", n / np.pi * (n / (2 * k + 1) - 1))):
        layer: Any = build(f"s4d-{init}", 1, n, device="cpu")
        np.testing.assert_allclose(layer.A_imag[0].detach().numpy(), imag, rtol=1e-14)
        np.testing.assert_allclose(layer.A_log_real[0].exp().detach().numpy(), 0.5, rtol=1e-14)
        np.testing.assert_array_equal(layer.B[0].detach().numpy(), np.tile([1.0, 0.0], (8, 1)))


def test_the_spectrum_of_s5_blocks():
    """Every block has the eigenvalues of the normal part of a LegS matrix of its own size."""
    layer = S5(3, 12, blocks=3, dtype=torch.float64, device="cpu")
    N = hippo.split("legs", 4).N.numpy()
    right = np.sort([z.imag for z in np.linalg.eigvals(N) if z.imag > 0])
    found = layer.A_imag.detach().numpy().reshape(3, -1)
    for block in found:
        np.testing.assert_allclose(np.sort(block), right, rtol=1e-10)


def test_s4ptd_is_near_s4_and_s4d_is_not():
    """``||B|| = ||C|| = 1, C = e_1`` at n = 32; the distance is the certified maximum over all frequencies."""
    n = 32
    e1 = torch.eye(n, dtype=torch.float64)[0]
    size = hippo.legs(n)[1].norm()

    def distance(layer: Any) -> float:
        exact = build("s4", 1, n, C_init=e1).system()[0]
        other = layer.system()[0]
        exact, other = (system.replace(D=torch.zeros_like(system.D)) for system in (exact, other))
        return linf_distance(exact, other).value / size.item()

    assert distance(build("s4ptd", 1, n, C_init=e1)) < 1e-3
    assert distance(build("s4d", 1, n, C_init=e1)) > 1e-2


@pytest.mark.parametrize("kind", [S4PTD, S4D])
def test_layers_start_from_systems(kind: Any):
    """One system for all channels, a batch of systems, and a layer's own: the responses are those given."""
    exact = s4(12, form="dense").replace(D=torch.full((1, 1), 0.3, dtype=torch.float64))
    one = exact.diagonalized(ptd(exact.A, stable=True))
    batch = S4PTD(3, 7, seed=1, dtype=torch.float64).system()
    omega = torch.logspace(-1, 3, 60, dtype=torch.float64)
    for system, channels in ((one, 4), (one.to_full(), 2), (batch, None)):
        layer = kind.from_system(system, channels, dtype=torch.float64, device=DEVICE, seed=0, bidirectional=True)
        assert type(layer) is kind
        u = signal(2, 40, layer.d_model)
        right, _ = nn_twin.simulate(layer, nn_twin.parameters_of(layer), u)
        assert off(layer(u), right.detach()) < 1e-10
        for channel in range(layer.d_model):
            expected = (system[channel] if system.batch_shape else system).frequency_response(omega).detach()
            found = layer.system()[channel].frequency_response(omega).detach().cpu()
            assert off_complex(found.reshape(-1), expected.reshape(-1)) < 1e-9
    again = kind.from_system(one, 4, seed=0, device=DEVICE)
    for a, b in zip(again.parameters(), kind.from_system(one, 4, seed=0, device=DEVICE).parameters(), strict=True):
        assert torch.equal(a, b)


def test_real_eigenvalues_may_stand_anywhere_in_a_batch_of_systems():
    poles = torch.tensor([[-1 + 0j, -2 + 1j], [-3 + 1j, -4 + 0j]], dtype=torch.complex128)
    system = DiagonalSystem(poles, torch.ones(2, 2), torch.ones(2, 2), pairs=True)
    layer = S4D.from_system(system, dtype=torch.float64)
    omega = torch.linspace(0, 5, 20, dtype=torch.float64)
    for channel in range(2):
        found = layer.system()[channel].frequency_response(omega).detach().reshape(-1)
        assert off_complex(found, system[channel].frequency_response(omega).reshape(-1)) < 1e-12
    with pytest.raises(ShapeError, match="differ in number"):
        S4D.from_system(DiagonalSystem([[-1 + 0j, -2 + 1j], [-3 + 1j, -4 + 1j]], *torch.ones(2, 2, 2), pairs=True))


def test_from_system_knows_its_limits():
    class Own(S4D):
        def __init__(self, d_model: int) -> None:
            super().__init__(d_model, 4)

    with pytest.raises(ArgumentError, match="Own has a constructor of its own"):
        Own.from_system(s4d(4), 2)
    with pytest.raises(UnknownNameError, match="did you mean 'dt_min'"):
        S4D.from_system(s4d(4), 2, dtmin=0.1)


def test_seeds_are_checked_in_one_way():
    """Without the checks of annotations that come before in these tests."""
    printed = run_python("""
import torch
from wellposed.errors import ArgumentError
from wellposed.nn import *
import numpy as np
makers = [lambda s: S4D(4, 4, seed=s), lambda s: S5(4, 4, seed=s), lambda s: SelfAttention(4, 2, seed=s),
          lambda s: ResidualBlock(S4D(4, 4), seed=s), lambda s: SequenceClassifier(2, 2, d_model=4, seed=s),
          lambda s: fourier_noise(seed=s)]
for make in makers:
    make(np.int64(3))
    for seed in (-1, 2**63, 1.5):
        try:
            make(seed)
        except ArgumentError as error:
            print(str(error).startswith("seed must be a whole number from 0 to 2^63 - 1"))
""")
    assert printed.split() == 6 * 3 * ["True"]


def test_the_scale_of_published_code():
    """LegS: B larger by sqrt(2), and all of it in S4D, which the paper halves; LegT and FouT: half the rates."""
    for kind, factor in ((S4, 2**0.5), (S4PTD, 2**0.5), (S4D, 2 * 2**0.5), (LiquidS4, 2**0.5)):
        paper, published = (kind(1, 8, scale=s, seed=0, dtype=torch.float64) for s in ("paper", "s4"))
        torch.testing.assert_close(published.B, factor * paper.B)
        torch.testing.assert_close(published.A_imag, paper.A_imag)
    for measure, n in (("legt", 8), ("fout", 9)):
        for kind in (S4PTD, S5PTD):
            paper, published = (
                kind(1, n, hippo=measure, scale=s, seed=0, dtype=torch.float64) for s in ("paper", "s4")
            )
            torch.testing.assert_close(published.A_log_real.exp(), paper.A_log_real.exp() / 2, rtol=1e-6, atol=1e-9)
            torch.testing.assert_close(published.A_imag, paper.A_imag / 2, rtol=1e-6, atol=1e-9)


def test_sizes():
    """As many parameters as S4D or S5 of the same size."""

    def count(kind: str, n: int) -> int:
        return sum(p.numel() for p in build(kind, 4, n).parameters())

    for n in (1, 3, 4, 7, 16, 33):  # LegS of size 2 has two real eigenvalues, and needs no perturbation
        assert count("s4ptd", n) == count("s4d", n)
        assert count("s5ptd", n) == count("s5", n)


@pytest.mark.parametrize("kind", ["s4d", "s4ptd", "s4"])
def test_shared_systems(kind: str):
    """``n_ssm`` systems shared by the channels in turn; steps and read-outs stay their own."""
    layer = build(kind, 4, 6, n_ssm=2)
    u = signal(2, 50, 4)
    right, _ = nn_twin.simulate(layer, nn_twin.parameters_of(layer), u)
    assert layer.A_imag.shape[0] == 2
    assert off(layer(u), right.detach()) < 1e-12


def test_real_eigenvalues_in_the_spectrum():
    """A matrix whose perturbation leaves real eigenvalues gives a layer like any other."""
    A = torch.diag(-torch.arange(1.0, 6.0, dtype=torch.float64)) + torch.diag(torch.ones(4, dtype=torch.float64), 1)
    layer = S4PTD(2, hippo=(A, torch.ones(5, dtype=torch.float64)), dtype=torch.float64, seed=0, device=DEVICE)
    assert (layer.count == 1).any()
    u = signal(2, 40, 2)
    right, _ = nn_twin.simulate(layer, nn_twin.parameters_of(layer), u)
    assert off(layer(u), right.detach()) < 1e-12


def test_perturbations_as_they_may_be_given():
    A, B = hippo.legs(16)
    d = ptd(A, rel=0.05, stable=True)
    made = [
        S4PTD(2, 16, rel=0.05, seed=0),
        S4PTD(2, perturbation=d, seed=0),
        S4PTD(2, perturbation=d.half(), seed=0),
        S4PTD(2, hippo=(A, B), perturbation=d, seed=0),
        S4PTD(2, hippo=(A.numpy(), B.numpy()), rel=0.05, seed=0),
    ]
    u = signal(1, 20, 2, dtype=torch.float32).cpu()
    for layer in made[1:]:
        torch.testing.assert_close(layer(u), made[0](u))


@pytest.mark.parametrize("kind", ["s4d", "s4ptd", "s4", "s5", "s5ptd", "liquid-kb"])
def test_stays_stable_whatever_training_does(kind: str):
    """Parameters far from where they started still give a stable system."""
    layer = build(kind, 2, 8)
    torch.manual_seed(0)
    with torch.no_grad():
        for name, p in layer.named_parameters():
            if name != "log_dt":
                p.add_(3 * torch.randn_like(p))
    poles = np.linalg.eigvals(layer.system().to_dense().A.detach().cpu().numpy())
    assert poles.real.max() < 0
    y, state = layer(signal(1, 5000, 2), return_state=True)
    assert torch.isfinite(y).all()
    assert torch.isfinite(state).all()


@pytest.mark.slow
def test_drift_of_a_million_steps():
    """float32, one step at a time, beside the float64 convolution of the same numbers."""
    steps, burst = 1_000_000, 10_000
    layer = S4PTD(2, 8, seed=0, device=DEVICE)
    u = signal(1, steps, 2, dtype=torch.float32)
    with torch.inference_mode():
        step, state, outputs = layer.stepper(), layer.initial_state(1), []
        for t, now in enumerate(u.unbind(1)):
            y, state = step(now, state)
            if t >= steps - burst:
                outputs.append(y)
        exact = layer.double()
        exact.mode = "conv"
        right = exact(u.double())[:, -burst:]
    assert off(torch.stack(outputs, 1), right) < 1e-3
    assert state.abs().max() < 1e3


@pytest.mark.parametrize("mode", ["scan", "conv"])
def test_a_mode_that_forgets_within_one_step(mode: Any):
    """``lambda dt = -2`` makes ``lambda_bar = 0`` under the bilinear rule; it has no logarithm."""
    A = torch.tensor([[-1.0]], dtype=torch.float64)
    layer = S4PTD(
        1, hippo=(A, torch.ones(1)), disc="bilinear", dt_min=2.0, dt_max=2.0, dtype=torch.float64, mode=mode, seed=0
    )
    u = signal(1, 20, 1).cpu()
    y = layer(u)
    expected = layer.C[0, 0, 0, 0] * layer.B[0, 0, 0] * u + layer.D * u  # B_bar = dt / (1 - dt lambda / 2) B = B
    torch.testing.assert_close(y, expected, rtol=1e-7, atol=1e-7)
    gradients = torch.autograd.grad(y.sum(), list(layer.parameters()))
    assert all(torch.isfinite(g).all() for g in gradients)


@pytest.mark.parametrize("kind", ["s4", "s4ptd", "s5", "liquid-kb"])
@torch.no_grad()
def test_the_stepper_under_autocast(kind: str):
    layer = build(kind, 4, 8, dtype=torch.float32)
    u, state = signal(2, 4, dtype=torch.float32), signal(2, *layer.state_shape, dtype=torch.float32)
    with torch.autocast(DEVICE, torch.bfloat16):
        found = layer.stepper()(u, state)
    for a, b in zip(found, layer.step(u, state), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def test_the_scales_of_s5():
    """Variances of the published initialisation (Smith et al., 2023), measured on a large draw; V is unitary here."""
    n, h = 64, 256
    for C_init, expected in (("lecun_normal", 2 / (n * h)), ("truncated_normal", 2 / n), ("complex_normal", 1.0)):
        layer: Any = build("s5", h, n, C_init=C_init, device="cpu")
        assert layer.C.square().sum(-1).mean().item() == pytest.approx(expected, rel=0.03)
    assert layer.B.square().sum(-1).mean().item() == pytest.approx(1 / n, rel=0.03)


def test_randomness_is_the_seed_and_nothing_else():
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    a, b, c = S4PTD(2, 8, seed=3), S4PTD(2, 8, seed=3), S4PTD(2, 8, seed=4)
    assert torch.equal(before, torch.random.get_rng_state())
    assert all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))
    assert not torch.equal(a.C, c.C)
    torch.manual_seed(1)
    d = S4PTD(2, 8)
    torch.manual_seed(1)
    assert torch.equal(d.C, S4PTD(2, 8).C)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda m: m(torch.zeros(2, 5, 4)), ShapeError, r"d_model = 3, got \(2, 5, 4\)"),
        (lambda m: m(torch.zeros(5, 3)), ShapeError, r"\(batch, length, d_model\)"),
        (lambda m: m(torch.zeros(2, 0, 3)), ShapeError, "length 0"),
        (
            lambda m: m(torch.zeros(2, 5, 3, dtype=torch.int64)),
            ArgumentError,
            r"floating-point sequences, got torch.int64",
        ),
        (lambda m: m(torch.zeros(2, 5, 3, dtype=torch.complex64)), ArgumentError, "got torch.complex64"),
        (lambda m: m(torch.zeros(2, 5, 3).double()), ArgumentError, r"use layer.double\(\)"),
        (lambda m: m(torch.zeros(2, 5, 3), lengths=torch.tensor([5, -1])), ArgumentError, "holds -1; .* from 1 to 5"),
        (lambda m: m(torch.zeros(2, 5, 3), lengths=torch.tensor([5, 0])), ArgumentError, "holds 0"),
        (lambda m: m(torch.zeros(2, 5, 3), lengths=torch.tensor([6, 1])), ArgumentError, "holds 6"),
        (lambda m: m(torch.zeros(2, 5, 3), lengths=torch.tensor([5])), ShapeError, r"shape \(1,\); a batch of 2"),
        (lambda m: m(torch.zeros(2, 5, 3), lengths=torch.tensor([5.0, 1.0])), ArgumentError, "whole numbers"),
        (lambda m: m(torch.zeros(2, 5, 3), state=m.initial_state(3)), ShapeError, r"state has shape \(3, 3, 6\)"),
        (lambda m: m.step(torch.zeros(2, 3), m.initial_state(1)), ShapeError, "state has shape"),
        (lambda m: m.step(torch.zeros(2, 3), m.initial_state(2).double()), ArgumentError, "state is torch.float64"),
        (lambda m: m.step(torch.zeros(2, 1, 3), m.initial_state(2)), ShapeError, r"\(batch, d_model\)"),
        (lambda m: m.initial_state(0), ShapeError, "batch must be at least 1"),
        (lambda m: m(torch.zeros(0, 5, 3)), ShapeError, "the batch is empty"),
        (lambda m: m([[1.0]]), ArgumentError, "takes a tensor, got list"),
        (lambda m: m(torch.zeros(2, 5, 3), state=[1.0]), ArgumentError, "state must be a tensor"),
        (lambda m: m(torch.zeros(2, 5, 3), state=m.initial_state(2).to("meta")), ArgumentError, "state is on meta"),
        (lambda m: m(torch.zeros(2, 5, 3), lengths=torch.tensor([True, True])), ArgumentError, "whole numbers"),
    ],
)
def test_wrong_calls(call: Any, error: type[Exception], match: str):
    with pytest.raises(error, match=match):
        call(unchecked(S4D(3, 6)))


@pytest.mark.parametrize(
    "knobs", [{"gamma": 10.0}, {"rel": 1e-3, "method": "gaussian"}, {"hippo": "legt", "gamma": 1000}]
)
def test_a_perturbation_by_its_options_is_the_one_that_ptd_makes(knobs: dict[str, Any]):
    """Also where a layer of the same options has learnt in the meantime."""
    options = {name: value for name, value in knobs.items() if name != "hippo"}
    A, B = (hippo.legt if "hippo" in knobs else hippo.legs)(8)
    columns = "unit" if "gamma" in knobs else "optimal"
    made = S4PTD(3, hippo=(A, B), perturbation=ptd(A, stable=True, columns=columns, **options), dtype=torch.float64)
    first = S4PTD(3, 8, dtype=torch.float64, **knobs)
    with torch.no_grad():
        for parameter in first.parameters():
            parameter.fill_(1.0)
    again = S4PTD(3, 8, dtype=torch.float64, **knobs)
    for name in ("A_log_real", "A_imag", "B"):
        torch.testing.assert_close(getattr(again, name), getattr(made, name))


@pytest.mark.parametrize("layer", [S4PTD, S5PTD])
def test_lengths_of_eigenvectors_leave_the_system_as_it_is(layer: Any):
    """They say how ``B`` and ``C`` share their size, and so how fast each learns."""
    options = {"rel": 1e-4, "seed": 0, "dtype": torch.float64}
    unit, optimal = (layer(3, 32, columns=columns, **options) for columns in ("unit", "optimal"))
    u = torch.randn(2, 50, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(unit(u), optimal(u), rtol=1e-10, atol=1e-12)
    assert unit.B.square().mean() > 4 * optimal.B.square().mean()
    assert unit.C.square().mean() < 0.5 * optimal.C.square().mean()


def unchecked(layer: Any) -> Any:
    """The layer as a user meets it, without the checks of annotations that tests add."""
    forward, step = (getattr(m, "__wrapped__", m) for m in (type(layer).forward, type(layer).step))
    layer.forward, layer.step = forward.__get__(layer), step.__get__(layer)
    return layer


def call_with(layer: Any, **options: Any) -> Any:
    return layer(4, **options)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: S4D(3, 6, bidirectional=True).step(torch.zeros(2, 3), torch.zeros(2, 3, 6)), ArgumentError, "future"),
        (lambda: S4D(3, 6, bidirectional=True)(torch.zeros(2, 4, 3), return_state=True), ArgumentError, "no state"),
        (lambda: S4D(3, 6, bidirectional=True).initial_state(2), ArgumentError, "bidirectional"),
        (lambda: S4D(3, 6, dt_min=0.1, dt_max=0.01), ArgumentError, "dt_min = 0.1, dt_max = 0.01"),
        (lambda: S4D(3, 6, n_ssm=2), ArgumentError, "n_ssm = 2 must divide d_model = 3"),
        (lambda: S5(3, 6, blocks=4), ArgumentError, "blocks = 4 must divide d_state = 6"),
        (lambda: S4PTD(3, 6, rel=0.1, cond=4.0), ArgumentError, "one knob"),
        (lambda: S4PTD(3, perturbation=ptd(hippo.legs(6)[0], stable=True), rel=0.1), ArgumentError, "not both"),
        (lambda: S4PTD(3, 6, rel=0.1, gamma=4.0), ArgumentError, "one knob"),
        (lambda: S4PTD(3, perturbation=ptd(hippo.legs(6)[0], stable=True), gamma=2), ArgumentError, "not both"),
        (lambda: S4PTD(3, perturbation=ptd(hippo.legs(6)[0], stable=True), columns="unit"), ArgumentError, "not both"),
        (lambda: S4PTD(3, 32, rel=0.1, method="gaussian"), UnstableError, "gaussian"),
        (lambda: S4PTD(3, 8, perturbation=ptd(hippo.legs(6)[0], stable=True)), ShapeError, "8 x 8"),
        (lambda: S4PTD(3, perturbation=ptd(hippo.legt(6)[0], stable=True)), ArgumentError, "another matrix"),
        (
            lambda: S4PTD(3, perturbation=ptd(hippo.legs(16)[0], rel=0.3, stable=False)),
            UnstableError,
            r"max Re\(Lambda\) = 0\.\d",
        ),
        (lambda: S4PTD(3, hippo=(-torch.eye(3), torch.ones(2))), ShapeError, r"\(3, 3\) and \(2,\)"),
        (lambda: S4PTD(3, 6, hippo="leg"), UnknownNameError, "did you mean"),
        (lambda: S4PTD(3, hippo=(torch.eye(3), torch.ones(3))), UnstableError, "max Re"),
        (lambda: LiquidS4(3, 6, degree=1), ArgumentError, "degree must be at least 2"),
        (lambda: S4D(3, 0), ShapeError, "d_state must be at least 1"),
        (lambda: S4D(3, 0, init="lin"), ShapeError, "d_state must be at least 1"),
        (lambda: S4D(3, 6, seed=-1), ArgumentError, "seed must be a whole number from 0"),
        (lambda: S4D(3, 6, dtype=torch.int64), ArgumentError, "dtype = torch.int64"),
        (lambda: S4D(3, 6, C_init="uniform"), ArgumentError, "C_init is 'normal' or a tensor"),
        (lambda: S4D(3, 6, C_init=torch.full((6,), torch.nan)), NotFiniteError, "C_init has 6 entries"),
        (lambda: S4PTD(3, hippo=(-torch.eye(3), torch.tensor([1.0, torch.inf, 1.0]))), NotFiniteError, r"B\[1\] = inf"),
        (lambda: S4PTD(3, hippo=(1j * torch.eye(3), torch.ones(3))), ArgumentError, "must be real"),
        (lambda: S4PTD(3, perturbation=ptd(hippo.legs(6)[0], field="complex")), ArgumentError, "is complex"),
        (
            lambda: S4PTD(3, hippo=(2 * hippo.legs(6)[0], torch.ones(6)), perturbation=ptd(hippo.legs(6)[0]).half()),
            ArgumentError,
            "another matrix",
        ),
        (lambda: S5PTD(3, hippo=hippo.legs(6), blocks=0), ShapeError, "blocks must be at least 1"),
        (lambda: S4PTD(3, 0), ShapeError, "d_state must be at least 1"),
        (lambda: S4(3, 0), ShapeError, "d_state must be at least 1"),
        (lambda: S4D(3, 6, C_init=torch.ones(5)), ShapeError, r"got \(5,\)"),
        (lambda: S4D(0, 6), ShapeError, "d_model must be at least 1"),
        (lambda: call_with(S4D, dt_mni=0.1), UnknownNameError, "unknown option of S4D 'dt_mni'; did you mean 'dt_min'"),
        (lambda: call_with(S5PTD, kernel="kb"), UnknownNameError, "unknown option of S5PTD 'kernel'"),
        (lambda: call_with(SelfAttention, heads=2), UnknownNameError, "did you mean 'n_heads'"),
        (lambda: S4PTD.from_system(s4d(6)), ArgumentError, "give d_model"),
        (lambda: S4PTD.from_system(s4d(6).discretize(0.1), 2), TimeDomainError, "continuous system"),
        (lambda: S4PTD.from_system(s4d(6, C=torch.eye(6)), 2), ShapeError, "one input and one output"),
        (lambda: S4PTD.from_system(DiagonalSystem([0.1 + 2j], [1.0], [1.0], pairs=True), 2), UnstableError, "part 0.1"),
        (lambda: S4PTD.from_system(s4d(6), 2, C_init="normal"), ArgumentError, "the system says that"),
        (lambda: S4PTD.from_system(S4D(3, 6).system(), 2), ShapeError, "d_model = 2, but the batch holds 3 systems"),
    ],
)
def test_wrong_constructions(call: Any, error: type[Exception], match: str):
    with pytest.raises(error, match=match):
        call()
