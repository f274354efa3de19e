"""The Triton backend against the loop in float64: on a GPU, or under the interpreter on a CPU."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from covering import covering
from kernel_suite import DEVICE, KernelSuite, leaves, loop, moved, off, random, work
from subprocesses import run_python
from wellposed import kernels
from wellposed.kernels import DenseRecurrence, DiagonalParameters, Work
from wellposed.kernels.device import triton_takes

pytestmark = pytest.mark.skipif(
    not triton_takes(torch.zeros(1, device=DEVICE)), reason="neither a GPU nor Triton's interpreter"
)


def some(length: int, batch: int, modes: int, directions: int = 1, *, dense: bool = False) -> Work:
    """Slow and fast modes, as many as wanted."""
    C, D = random(directions, 2, modes, 2, seed=4), random(2, seed=7)
    u = random(batch, length, 2, seed=6)
    if dense:
        A = 0.9 * torch.linalg.qr(random(2, 2 * modes, 2 * modes, seed=1)).Q
        return Work(DenseRecurrence(A, random(2, 2 * modes, seed=2), C.flatten(2)), u, D)
    real, imag = (
        torch.linspace(-3, 1, modes).double().repeat(2, 1),
        torch.linspace(-20, 30, modes).double().repeat(2, 1),
    )
    weight = torch.where(torch.arange(modes) % 3 == 0, 1.0, 2.0).double()
    system = DiagonalParameters(real, imag, random(2, modes, 2, seed=3), C, random(2, seed=5) - 3, weight, "zoh")
    return Work(system, u, D)


def compare(w: Work, tolerance: float = 1e-5) -> None:
    """Outputs, and all gradients of a weighted sum of them."""
    rounded = moved(w, DEVICE, torch.float32)
    found, right = [], []
    for results, of, compute in (
        (found, rounded, lambda w: kernels.run(w, "triton")),
        (right, moved(rounded, "cpu", torch.float64), loop),
    ):
        own, named = leaves(of)
        y = compute(own)[0]
        loss = (y.cpu().double() * random(*y.shape, seed=9)).sum()
        gradients = torch.autograd.grad(loss, list(named.values()), allow_unused=True, materialize_grads=True)
        results += [y.detach(), *gradients]
    for a, b in zip(found, right, strict=True):
        assert off(a, b) < tolerance


@pytest.fixture
def _nan_filled(monkeypatch: pytest.MonkeyPatch):
    """Whatever a kernel leaves unwritten shows."""
    for name in ("empty", "empty_like", "empty_strided"):
        original = getattr(torch, name)

        def filled(*args, original=original, **kwargs):
            out = original(*args, **kwargs)
            return out.fill_(float("nan")) if out.is_floating_point() else out

        monkeypatch.setattr(torch, name, filled)


@pytest.mark.usefixtures("_nan_filled")
@pytest.mark.parametrize(("length", "batch", "modes"), covering([1, 2, 63, 500], [1, 3], [1, 2, 33], every=3))
def test_odd_shapes(length: int, batch: int, modes: int):
    """One direction or both, in turn; segments where the batch is small and the sequence long."""
    compare(some(length, batch, modes, directions=1 + (length + batch) % 2))


@pytest.mark.usefixtures("_nan_filled")
@pytest.mark.parametrize(("length", "modes"), [(63, 32), (500, 2)])
def test_odd_shapes_of_dense_systems(length: int, modes: int):
    compare(some(length, 3, modes, dense=True))


class InTriton(KernelSuite):
    """The comparisons of the suite, which is run as a whole beside those of the other backends."""

    backend, dtype, tolerance = "triton", torch.float32, 1e-5


@pytest.mark.parametrize("kind", ["diagonal-bilinear", "diagonal-shared-systems", "low-rank", "shared"])
def test_states_behind_padding(kind: str):
    """From a state into a state, of each sequence at its own end; what the whole suite tries at every length."""
    suite, lengths = InTriton(), torch.tensor([1, 100, 37])
    suite.compare(work(kind, 100, batch=3, lengths=lengths, with_state=True, want_state=True))


@pytest.mark.parametrize("kind", ["diagonal", "shared"])
def test_channels_first_stays(kind: str):
    """Sequences that lie channels first come out so, and gradients go back so; no copy in between."""
    w = moved(work(kind, 130), DEVICE, torch.float32)
    first = w.u.permute(2, 0, 1).contiguous().permute(1, 2, 0).requires_grad_()
    y = kernels.run(dataclasses.replace(w, u=first), "triton")[0]
    assert y.stride() == first.stride()
    (gradient,) = torch.autograd.grad(y.sin().sum(), first)
    assert gradient.stride() == first.stride()
    y.add_(1)  # and may be changed in place
    last = w.u.detach().clone().requires_grad_()
    other = kernels.run(dataclasses.replace(w, u=last), "triton")[0]
    assert other.is_contiguous()
    torch.testing.assert_close(other + 1, y, rtol=1e-5, atol=1e-6)
    assert torch.allclose(torch.autograd.grad(other.sin().sum(), last)[0], gradient, atol=1e-5)


def test_bfloat16():
    """Sequences in bfloat16, sums in float32: as exact as what is read and written, 8 bits."""
    w = moved(some(200, 2, 5, directions=2), DEVICE, torch.float32)
    w = dataclasses.replace(w, u=w.u.bfloat16())
    own, named = leaves(w)
    y = kernels.run(own, "triton")[0]
    assert y.dtype == torch.bfloat16
    g = random(*y.shape, seed=9).to(y)
    found = torch.autograd.grad(y, list(named.values()), g)
    twin, others = leaves(moved(w, "cpu", torch.float64))
    right = torch.autograd.grad(z := loop(twin)[0], list(others.values()), g.cpu().double())
    for a, b in zip((y.detach(), *found), (z.detach(), *right), strict=True):
        assert ((a.cpu().double() - b).norm() / b.norm()).item() < 2e-2


@pytest.mark.parametrize("kind", ["diagonal", "shared"])
def test_what_is_kept_may_come_back_in_another_layout(kind: str):
    """Tensors that are kept on the host, for one, are handed back contiguous."""
    w = moved(work(kind, 150), DEVICE, torch.float32)
    results = []
    for unpack in (lambda x: x, lambda x: x.contiguous()):
        own, named = leaves(w)
        with torch.autograd.graph.saved_tensors_hooks(lambda x: x, unpack):
            y = kernels.run(own, "triton")[0]
        results.append(torch.autograd.grad(y.sin().sum(), list(named.values())))
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("kind", ["diagonal", "shared"])
def test_what_is_left_to_others(kind: str):
    """Weights that learn, and tensors of a class of their own."""
    w = moved(work(kind, 20), DEVICE, torch.float32)
    supports = kernels.BACKENDS["triton"].supports
    assert supports(w)
    assert not supports(dataclasses.replace(w, system=dataclasses.replace(w.system, weight=_learning(w))))
    assert not supports(dataclasses.replace(w, u=w.u.as_subclass(Own)))


class Own(torch.Tensor):
    """Of somebody else."""


def _learning(w: Work) -> torch.Tensor:
    assert not isinstance(w.system, DenseRecurrence)
    return w.system.weight.clone().requires_grad_()  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("dense", [False, True])
def test_derivatives_of_derivatives(dense: bool):
    """Of a sum of squares of all gradients, against the loop's."""
    w = some(70, 2, 2, directions=2, dense=dense)
    results = []
    for of, compute in (
        (moved(w, DEVICE, torch.float32), lambda w: kernels.run(w, "triton")),
        (moved(moved(w, DEVICE, torch.float32), "cpu", torch.float64), loop),
    ):
        own, named = leaves(of)
        values = list(named.values())
        y = compute(own)[0]
        first = torch.autograd.grad(y.sin().sum(), values, create_graph=True)
        second = torch.autograd.grad(torch.stack([g.square().sum() for g in first]).sum(), values)
        results.append(second)
    for a, b in zip(*results, strict=True):
        assert off(a, b) < 1e-4  # a derivative more, a digit less


@pytest.mark.slow
def test_compiled():
    """One graph for all sizes of batches, with the same numbers as without a compiler."""
    printed = run_python(f"""
import warnings
import torch
from torch._dynamo.backends.debugging import aot_eager
from wellposed.nn import S4PTD
warnings.filterwarnings("ignore", "<class 'torch.autograd.function.Function'>", DeprecationWarning)
layer = S4PTD(4, 8, mode="triton", seed=0).to({DEVICE!r})
count = 0
def counting(graph, inputs):
    global count
    # By the kernels, as one operator: what they would do in plain operations takes a compiler minutes.
    count += any("wellposed.chunks" in m.code for m in graph.modules() if isinstance(m, torch.fx.GraphModule))
    return aot_eager(graph, inputs)
compiled = torch.compile(layer, backend=counting, fullgraph=True)
for batch in (2, 3, 5):
    u = torch.randn(batch, 70, 4, device={DEVICE!r})
    leaves = [u.clone().requires_grad_() for _ in range(2)]
    torch._dynamo.mark_dynamic(leaves[0], 0)
    out = [f(x) for f, x in zip((compiled, layer), leaves)]
    for y in out:
        y.sin().sum().backward()
    print(torch.allclose(*out, atol=1e-6), torch.allclose(*(x.grad for x in leaves), atol=1e-6), count)
""")
    assert printed.splitlines() == ["True True 1"] * 3


@pytest.mark.slow
def test_a_compiler_sees_transforms():
    """Those it runs through, those around it, and none where there is none: kernels are for that case alone."""
    printed = run_python("""
import torch
from torch.autograd import forward_ad
from wellposed.kernels.device import dot_precision, transformed
f = lambda x: x * (2.0 if transformed() else 1.0)
def all_ways(x):
    return f(x), torch.func.vmap(f)(x), torch.func.grad(lambda z: f(z).sum())(x), f(x)
x = torch.ones(2)
print(*(int(y[0]) for y in torch.compile(all_ways, backend="eager", fullgraph=True)(x)))
compiled = torch.compile(f, backend="eager", fullgraph=True)
seen = [compiled(x), torch.func.vmap(compiled)(x)]
with forward_ad.dual_level():
    seen.append(compiled(x))
print(*(int(y[0]) for y in (*seen, compiled(x))))
rounds = torch.compile(lambda x: x + len(dot_precision(x.dtype)), backend="eager", fullgraph=True)
for precision in ("highest", "high", "highest"):
    torch.set_float32_matmul_precision(precision)
    print(int(rounds(x)[0]) - 1)
""")
    assert printed.splitlines() == ["1 2 2 1", "1 2 2 1", "6", "4", "6"]
