"""One system for all channels in Triton, against the loop in float64: on a GPU, or under the interpreter on a CPU."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from covering import covering
from kernel_suite import DEVICE, leaves, loop, moved, off, random
from subprocesses import run_python
from wellposed import kernels
from wellposed.kernels import BACKENDS, SharedParameters, Work
from wellposed.kernels.device import triton_takes

pytestmark = pytest.mark.skipif(
    not triton_takes(torch.zeros(1, device=DEVICE)), reason="neither a GPU nor Triton's interpreter"
)


def some(
    length: int, batch: int = 2, *, modes: int = 2, channels: int = 3, directions: int = 1, **options: Any
) -> Work:
    """Slow and fast modes, as many as wanted, in the precision of the kernels."""
    real, imag = torch.linspace(-3, 1, modes).double(), torch.linspace(-20, 30, modes).double()
    B, C = random(modes, channels, 2, seed=3), random(directions, channels, modes, 2, seed=4)
    weight = torch.where(torch.arange(modes) % 3 == 0, 1.0, 2.0).double()
    disc = options.pop("disc", "zoh")
    system = SharedParameters(real, imag, B, C, random(modes, seed=5) - 3, weight, disc)
    made = Work(system, random(batch, length, channels, seed=6), random(channels, seed=7), **options)
    return moved(made, DEVICE, torch.float32)


def compare(w: Work, tolerance: float = 1e-5) -> None:
    """Outputs, and all gradients of a weighted sum of them."""
    found, right = [], []
    exact = moved(w, "cpu", torch.float64)
    for results, of, compute in ((found, w, lambda w: kernels.run(w, "triton")), (right, exact, loop)):
        own, named = leaves(of)
        if of is w:  # as it lies in memory, which a clone may not keep
            own = dataclasses.replace(own, u=w.u.detach().requires_grad_())
            named["u"] = own.u
        y = compute(own)[0]
        (y.cpu().double() * random(*y.shape, seed=9)).sum().backward()
        results += [y.detach(), *(named[name].grad for name in sorted(named))]
    for a, b in zip(found, right, strict=True):
        assert a.isfinite().all()
        assert off(a, b) < tolerance


@pytest.fixture
def _nan_in_fresh_memory(monkeypatch: pytest.MonkeyPatch):
    """What a kernel does not write is seen."""
    empty = torch.empty

    def filled(*shape: Any, **options: Any) -> torch.Tensor:
        return empty(*shape, **options).fill_(float("nan"))

    monkeypatch.setattr(torch, "empty", filled)


@pytest.mark.usefixtures("_nan_in_fresh_memory")
@pytest.mark.parametrize(
    ("length", "batch", "modes", "directions"),
    [
        *[(1, 1, 33, 2), (2, 3, 1, 2), (2, 1, 33, 1), (63, 1, 2, 1), (500, 1, 2, 2)],
        *(pytest.param(*case, marks=pytest.mark.slow) for case in [(63, 3, 33, 2), (500, 3, 1, 1)]),
    ],
)
def test_odd_shapes(length: int, batch: int, modes: int, directions: int):
    compare(some(length, batch, modes=modes, directions=directions, channels=5))


@pytest.mark.usefixtures("_nan_in_fresh_memory")
@pytest.mark.parametrize("directions", [1, 2])
def test_states_between_many_tiles(directions: int, monkeypatch: pytest.MonkeyPatch):
    """More tiles than the scan of their sums takes at once."""
    monkeypatch.setattr("wellposed.kernels.gpu.mode_scan._CARRY_STEPS", 4)
    state = random(2, 4, seed=8).float().to(DEVICE)
    compare(some(150, directions=directions, state=state))


@pytest.mark.parametrize("directions", [1, 2])
def test_channels_first(directions: int):
    """Sequences come back, and gradients go back, as the input lies in memory."""
    w = some(40, channels=4, directions=directions)
    u = w.u.permute(2, 0, 1).contiguous().permute(1, 2, 0)
    assert u.stride() == (40, 1, 80)
    own = u.detach().requires_grad_()
    y, _ = kernels.run(dataclasses.replace(w, u=own), "triton")
    assert y.stride() == u.stride()
    y.backward(torch.ones_like(y))
    assert own.grad is not None
    assert own.grad.stride() == u.stride()
    compare(dataclasses.replace(w, u=u))


@pytest.mark.usefixtures("_nan_in_fresh_memory")
@pytest.mark.parametrize(("directions", "first", "skip"), covering([1, 2], [False, True], [False, True], every=2))
def test_products_of_our_own(directions: int, first: bool, skip: bool, monkeypatch: pytest.MonkeyPatch):
    """Which are for large ones: in both layouts, written and added to the skip."""
    monkeypatch.setattr("wellposed.kernels.layout.FASTEST_ON", ("cuda", "cpu"))
    monkeypatch.setattr("wellposed.kernels.products.LEAST_SIDE", 1)
    monkeypatch.setattr("wellposed.kernels.products.LEAST_WORK", 1)
    w = some(40, channels=5, modes=3, directions=directions)
    w = dataclasses.replace(w, D=w.D if skip else None)
    compare(dataclasses.replace(w, u=w.u.permute(2, 0, 1).contiguous().permute(1, 2, 0)) if first else w)


@pytest.mark.parametrize("directions", [1, 2])
def test_bfloat16(directions: int):
    """Sequences in bfloat16, parameters and the last state in float32."""
    w = some(100, channels=8, modes=4, directions=directions, want_state=True)
    w = dataclasses.replace(w, u=w.u.bfloat16())
    compare(w, 2e-2)
    y, state = kernels.run(w, "triton")
    assert y.dtype == torch.bfloat16
    assert state is not None
    assert state.dtype == torch.float32
    assert off(state, loop(moved(w, "cpu", torch.float64))[1]) < 1e-2


@pytest.mark.parametrize("disc", ["zoh", "bilinear"])
def test_gradients_of_the_discretisation(disc: Any):
    """Of modes so slow that formulas cancel, and of fast ones, against PyTorch in float64."""
    from wellposed.kernels.gpu import discretize

    w = some(2, modes=8, directions=2, disc=disc)
    slow = torch.linspace(-14, 2, 8, device=DEVICE)
    s = dataclasses.replace(w.system, A_log_real=slow, A_imag=slow.exp() * torch.linspace(-9, 9, 8, device=DEVICE))
    assert isinstance(s, SharedParameters)
    given = discretize.Parameters(s.A_log_real, s.A_imag, s.log_dt, s.B, s.C, s.weight)
    exact = [t.double().requires_grad_() for t in given[:-1]]
    A_log_real, A_imag, log_dt, B, C = exact
    right = SharedParameters(A_log_real, A_imag, B, C, log_dt, s.weight.double(), s.disc).discretize(torch.float64)
    made = discretize.tables(given, disc, torch.float32)

    def halves(pairs: torch.Tensor) -> torch.Tensor:
        return pairs.unflatten(-1, (-1, 2)).mT.flatten(-2)

    lam = halves(right.modes.transition)[0].unflatten(0, (2, -1))
    C = halves(right.C).transpose(0, 1).flatten(1)
    for found, expected in ((made.modes.one, lam), (made.B, halves(right.B).mT), (made.C, C)):
        assert off(found, expected.cpu()) < 1e-7
    tile = torch.view_as_complex(lam.mT.contiguous()) ** 16
    assert off(made.modes.tile, torch.stack([tile.real, tile.imag]).cpu()) < 1e-14
    weights = [random(*t.shape, seed=k).to(DEVICE) for k, t in enumerate((lam, made.B, made.C))]
    expected = torch.autograd.grad([lam, halves(right.B).mT, C], exact, weights)
    found = discretize.gradients(given, disc, weights[0], weights[1], weights[2])
    for a, b in zip(found, expected, strict=True):
        assert off(a, b.cpu()) < 1e-6


def test_derivatives_of_derivatives():
    """By plain operations: a gradient's gradient against that of the loop."""
    w = some(20, directions=2, state=random(2, 4, seed=8).float().to(DEVICE), want_state=True)
    results = []
    for of, compute in ((w, lambda w: kernels.run(w, "triton")), (moved(w, "cpu", torch.float64), loop)):
        own, named = leaves(of)
        y, last = compute(own)
        inputs = [named[name] for name in sorted(named)]
        assert last is not None
        first = torch.autograd.grad((y**2).sum() + (last**2).sum(), inputs, create_graph=True)
        results.append(torch.autograd.grad(torch.cat([g.flatten() for g in first]).pow(2).sum(), inputs))
    for a, b in zip(*results, strict=True):
        assert off(a, b) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("directions", [1, 2])
def test_operators_keep_the_contract_of_pytorch(directions: int):
    """No input changed or returned, shapes and layouts predicted: what compilers rely on."""
    from wellposed.kernels.gpu import shared

    w = some(20, directions=directions)
    assert isinstance(w.system, SharedParameters)
    parameters = list(shared.parameters_of(w.system))
    for u in (w.u, w.u.permute(2, 0, 1).contiguous().permute(1, 2, 0)):
        inputs = (u, w.D, random(2, 4, seed=8).float().to(DEVICE), None, parameters)
        _, _, *saved = shared._plain_forward(*inputs, "zoh", True)
        for name, arguments in (
            ("shared_system", (*inputs, "zoh", True)),
            ("shared_system_backward", (torch.ones_like(u), None, *inputs, saved, "zoh")),
        ):
            operator = getattr(torch.ops.wellposed, name).default
            torch.library.opcheck(operator, arguments, test_utils=("test_schema", "test_faketensor"))


@pytest.mark.slow
def test_compiled():
    """Values and gradients by operators that a compiler does not look into, and no other code for another batch."""
    printed = run_python(f"""
import os, warnings
import torch
if {DEVICE!r} == "cpu":
    os.environ["TRITON_INTERPRET"] = "1"
from torch._dynamo.backends.debugging import aot_eager
from wellposed.kernels import SharedParameters, Work
from wellposed.kernels.gpu import shared
# Raised by the compiler itself at every torch.autograd.Function.
warnings.filterwarnings("ignore", "<class 'torch.autograd.function.Function'>", DeprecationWarning)
count = 0
def counting(graph, inputs):
    global count
    count += 1
    return aot_eager(graph, inputs)
torch.manual_seed(0)
shapes = [(4,), (4,), (4, 3, 2), (2, 3, 4, 2), (4,), (3,)]
leaves = [torch.randn(shape, device={DEVICE!r}, requires_grad=True) for shape in shapes]
def run(u):
    *system, D = leaves
    return shared.run(Work(SharedParameters(*system, torch.ones(4, device={DEVICE!r}), "zoh"), u, D))[0]
compiled = torch.compile(run, backend=counting, fullgraph=True)
for batch in (2, 3, 5):
    u = torch.randn(batch, 40, 3, device={DEVICE!r}, requires_grad=True)
    found, right = (torch.autograd.grad(f(u).sin().sum(), [u, *leaves]) for f in (compiled, run))
    print(all(map(torch.equal, found, right)), count)
""")
    first, *others = printed.splitlines()
    assert first == "True 1"
    assert len(set(others)) == 1
    assert others[0] in ("True 1", "True 2")  # sizes are left open at the second


def test_what_is_left_to_others():
    supports = BACKENDS["triton"].supports
    assert supports(some(5))
    assert not supports(moved(some(5), DEVICE, torch.float64))
    assert not supports(some(0))
    weight = some(5).system.weight.requires_grad_()  # pyright: ignore[reportAttributeAccessIssue]
    assert not supports(dataclasses.replace(some(5), system=dataclasses.replace(some(5).system, weight=weight)))
