"""What stands around a layer, by kernels in Triton: each against PyTorch's own functions in float64.

Arrays that kernels write are full of NaN before they do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

pytest.importorskip("triton")

from covering import covering
from wellposed.kernels import layout, products
from wellposed.kernels.gate import Gate, activate_and_gate
from wellposed.kernels.gpu import transpose
from wellposed.kernels.layout import is_channels_first, to_channels_first, to_channels_last
from wellposed.kernels.norm import batch_norm, layer_norm

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SHAPES = [(1, 1, 3), (3, 2, 1), (1, 63, 33), (3, 500, 3), (2, 7, 128)]
FLOAT32, BF16 = 5e-6, 2e-2
"""Relative errors, by norm. bf16 keeps 8 bits of what comes out and lies between; the interpreter cuts off the rest."""


@pytest.fixture(autouse=True)
def _nan_where_nothing_was_written(monkeypatch: pytest.MonkeyPatch):
    empty_like, new_empty, empty_strided = torch.empty_like, Tensor.new_empty, torch.empty_strided

    def filled(made: Tensor) -> Tensor:
        return made.fill_(torch.nan) if made.is_floating_point() else made

    monkeypatch.setattr(torch, "empty_like", lambda *a, **k: filled(empty_like(*a, **k)))
    monkeypatch.setattr(torch, "empty_strided", lambda *a, **k: filled(empty_strided(*a, **k)))
    monkeypatch.setattr(Tensor, "new_empty", lambda *a, **k: filled(new_empty(*a, **k)))


def random(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def first(x: Tensor) -> Tensor:
    return x.permute(2, 0, 1).contiguous().permute(1, 2, 0)


def lengths_of(shape: tuple[int, ...], padded: bool) -> Tensor | None:
    """The last sequence is whole, the others have half."""
    if not padded:
        return None
    values = torch.full(shape[:1], (shape[1] + 1) // 2)
    values[-1] = shape[1]
    return values.to(DEVICE)


def mask_of(shape: tuple[int, ...], lengths: Tensor | None) -> Tensor:
    ends = torch.full(shape[:1], shape[1], device=DEVICE) if lengths is None else lengths
    return (torch.arange(shape[1], device=DEVICE) < ends[:, None])[..., None]


def compare(
    function: Callable[..., Tensor], twin: Callable[..., Tensor], inputs: list[Tensor], tolerance: float, *,
    dtypes: list[torch.dtype], grad: Tensor | None = None,
) -> None:  # fmt: skip
    """Values and all gradients. The twin meets the numbers as they were rounded."""
    mine = [(first(x) if x.ndim == 3 else x).to(d).requires_grad_() for x, d in zip(inputs, dtypes, strict=True)]
    right = [x.detach().double().requires_grad_() for x in mine]
    y, expected = function(*mine), twin(*right)
    g = random(*y.shape, seed=9) if grad is None else grad
    found = torch.autograd.grad(y, mine, first(g).to(y.dtype))
    wanted = torch.autograd.grad(expected, right, g.to(y.dtype).double())
    for a, b in zip((y, *found), (expected, *wanted), strict=True):
        assert a.shape == b.shape
        error = (a.detach().double() - b.detach()).norm()
        assert error <= tolerance * max(b.detach().norm().item(), 1e-2)


# --- layout


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_transposition_and_back(shape: tuple[int, ...], dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(layout, "FASTEST_ON", ("cuda", "cpu"))
    x = random(*shape, seed=0).to(dtype).requires_grad_()
    y = transpose.to_channels_first(x)
    assert is_channels_first(y)
    assert torch.equal(y, x)
    z = transpose.to_channels_last(y)
    assert z.is_contiguous()
    assert torch.equal(z, x)
    g = random(*shape, seed=1).to(dtype)
    (found,) = torch.autograd.grad(z, x, first(g))
    assert torch.equal(found, g)
    assert found.is_contiguous()
    assert transpose.to_channels_first(y) is y
    assert torch.equal(to_channels_first(x[:, :, :1]), x[:, :, :1])


def test_other_layouts_and_precisions_are_copied():
    x = random(3, 5, 8, seed=0)
    assert torch.equal(to_channels_first(x), x)
    assert is_channels_first(to_channels_first(x))
    odd = x.float().transpose(0, 1)
    assert torch.equal(to_channels_first(odd), odd)
    assert to_channels_last(odd).is_contiguous()
    assert torch.equal(to_channels_last(odd), odd)


# --- norms


def around(u: Tensor, mask: Tensor) -> Tensor:
    """A way around the norm that has a slope of its own."""
    return torch.where(mask, torch.sin(u), 0.0)


def norm_inputs(shape: tuple[int, ...]) -> list[Tensor]:
    """Channels and steps that differ: where they do not, a norm shows nothing but rounding errors."""
    channels = torch.linspace(-3, 3, shape[2], device=DEVICE)
    steps = torch.linspace(-1, 1, shape[0] * shape[1], device=DEVICE).reshape(*shape[:2], 1)
    return [2 + channels + steps + 0.3 * random(*shape, seed=1), random(shape[2], seed=2), random(shape[2], seed=3)]


@pytest.mark.parametrize(
    ("shape", "padded", "dtype"),
    covering(
        [shape if shape[2] > 1 else (*shape[:2], 2) for shape in SHAPES],
        [False, True],
        [torch.float32, torch.bfloat16],
        every=2,
    ),
)
def test_layer_norm(shape: tuple[int, ...], padded: bool, dtype: torch.dtype):
    lengths = lengths_of(shape, padded)
    mask = mask_of(shape, lengths)

    def fused(u: Tensor, w: Tensor, b: Tensor) -> Tensor:
        x, u = layer_norm(u, w, b, 1e-5, lengths=lengths, dtype=dtype)
        assert x.dtype == dtype
        assert is_channels_first(x)
        return x.float() + around(u, mask)

    def plain(u: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return torch.where(mask, F.layer_norm(u, u.shape[-1:], w, b, 1e-5), 0.0) + around(u, mask)

    compare(fused, plain, norm_inputs(shape), FLOAT32 if dtype == torch.float32 else BF16, dtypes=[torch.float32] * 3)


@pytest.mark.parametrize(
    ("shape", "padded", "how"),
    covering(
        [(3, 2, 1), (1, 63, 33), (3, 500, 3), (2, 5000, 2)],
        [False, True],
        [(True, 0.1, False), (True, None, False), (False, 0.1, False), (True, 0.1, True)],
        every=2,
    ),
)
def test_batch_norm(shape: tuple[int, ...], padded: bool, how: tuple[bool, float | None, bool]):
    training, momentum, count_padding = how
    lengths = lengths_of(shape, padded)
    mask = mask_of(shape, lengths)
    theirs = torch.nn.BatchNorm1d(shape[2], momentum=momentum, dtype=torch.float64, device=DEVICE).train(training)
    theirs(random(50, shape[2], seed=4))  # away from 0 and 1, and one batch is counted
    running = [b.clone().float() if b.is_floating_point() else b.clone() for b in theirs.buffers()]

    def fused(u: Tensor, w: Tensor, b: Tensor) -> Tensor:
        more: Any = {"running": tuple(running), "momentum": momentum, "training": training, "lengths": lengths}
        more["count_padding"] = count_padding
        x, u = batch_norm(u, w, b, 1e-5, dtype=torch.float32, **more)
        return x + around(u, mask)

    def plain(u: Tensor, w: Tensor, b: Tensor) -> Tensor:
        out, true = torch.zeros_like(u), mask[..., 0]
        seen = torch.ones_like(true) if count_padding else true
        zeroed = torch.where(mask, u, 0.0)
        out[seen] = torch.func.functional_call(theirs, {"weight": w, "bias": b}, zeroed[seen])
        return torch.where(mask, out, 0.0) + around(u, mask)

    compare(fused, plain, norm_inputs(shape), FLOAT32, dtypes=[torch.float32] * 3)
    for mine, right in zip(running, theirs.buffers(), strict=True):
        torch.testing.assert_close(mine.double(), right.double(), rtol=1e-6, atol=1e-6)


def test_padding_of_norms_may_hold_anything():
    lengths = torch.tensor([4, 9], device=DEVICE)
    u, w, b = (x.float() for x in norm_inputs((2, 9, 5)))
    u[0, 4:] = torch.nan
    running = (torch.zeros(5, device=DEVICE), torch.ones(5, device=DEVICE), torch.zeros((), device=DEVICE).long())
    how: Any = {"lengths": lengths, "dtype": torch.float32}
    for norm in (
        lambda u: layer_norm(u, w, b, 1e-5, **how),
        lambda u: batch_norm(u, w, b, 1e-5, running=running, momentum=0.1, training=True, **how),
    ):
        laid = first(u).requires_grad_()
        x, _ = norm(laid)
        assert not x[0, 4:].any()
        assert x.isfinite().all()
        x.square().sum().backward()
        assert laid.grad is not None
        assert laid.grad.isfinite().all()
        assert not laid.grad[0, 4:].any()


def test_gradients_of_norms_come_in_any_layout():
    """Expanded ones too: a mean over time hands back one row for all steps."""
    u, w, b = (x.float() for x in norm_inputs((2, 9, 5)))
    laid = first(u).requires_grad_()
    x, _ = layer_norm(laid, w, b, 1e-5, lengths=None, dtype=torch.float32)
    for g in (random(2, 1, 5, seed=3).float().expand(2, 9, 5), random(2, 9, 5, seed=3).float()):
        (found,) = torch.autograd.grad(x, laid, g, retain_graph=True)
        (right,) = torch.autograd.grad(x, laid, first(g), retain_graph=True)
        torch.testing.assert_close(found, right, rtol=1e-5, atol=1e-6)  # code of its own, which may round otherwise


# --- activation, linear map and gate


def plain_gate(gate: Gate, mask: Tensor, residual: bool) -> Callable[..., Tensor]:
    gelus = {"gelu": F.gelu, "gelu_tanh": lambda t: F.gelu(t, approximate="tanh"), "none": lambda t: t}

    def whole(y: Tensor, u: Tensor, w: Tensor, b: Tensor) -> Tensor:
        x = gelus[gate.activation](y)
        z = x @ w.T + b
        out = {
            "full": lambda: F.glu(z, -1),
            "half": lambda: x * z.sigmoid(),
            "half2": lambda: y * z.sigmoid(),
            "none": lambda: x + 0 * z.sum(),
        }[gate.glu]()
        return torch.where(mask, out + (u if residual else 0 * u), 0.0)

    return whole


def gate_inputs(shape: tuple[int, ...], glu: str) -> list[Tensor]:
    out = shape[2] * (2 if glu == "full" else 1)
    weight = random(out, shape[2], seed=3) / shape[2] ** 0.5
    return [2 * random(*shape, seed=1), random(*shape, seed=2), weight, random(out, seed=4)]


@pytest.mark.parametrize(
    ("shape", "glu", "activation", "residual"),
    covering(SHAPES, ["full", "half", "half2", "none"], ["gelu", "gelu_tanh", "none"], [True, False], every=3),
)
def test_gate(shape: tuple[int, ...], glu: str, activation: str, residual: bool):
    gate, lengths = Gate(activation, glu), lengths_of(shape, residual)

    def fused(y: Tensor, u: Tensor, w: Tensor, b: Tensor) -> Tensor:
        linear = (None, None) if glu == "none" else (w, b)
        how: Any = {"lengths": lengths, "inner": torch.float32, "dtype": torch.float32}
        out = activate_and_gate(y, u if residual else None, *linear, gate, **how)
        return out + 0 * (u.sum() + w.sum() + b.sum())

    # Gradients in the padding may hold anything: whoever made u zeroes them.
    mask = mask_of(shape, lengths)
    twin, g = plain_gate(gate, mask, residual), torch.where(mask, random(*shape, seed=9), 0.0)
    compare(fused, twin, gate_inputs(shape, glu), FLOAT32, dtypes=[torch.float32] * 4, grad=g)


@pytest.mark.parametrize("glu", ["full", "half", "half2"])
def test_gate_by_products_of_our_own(glu: str, monkeypatch: pytest.MonkeyPatch):
    """Which are for large ones."""
    monkeypatch.setattr(layout, "FASTEST_ON", ("cuda", "cpu"))
    monkeypatch.setattr(products, "LEAST_SIDE", 1)
    monkeypatch.setattr(products, "LEAST_WORK", 1)
    test_gate((1, 63, 33), glu, "gelu", True)
    test_gate((3, 50, 3), glu, "none", False)


@pytest.mark.parametrize("glu", ["full", "half", "half2", "none"])
@pytest.mark.parametrize("inner", [torch.float32, torch.bfloat16])
def test_gate_under_autocast(glu: str, inner: torch.dtype):
    """The sum of the blocks and the parameters stay float32; the layer may give either."""
    gate, shape = Gate("gelu", glu), (2, 63, 33)

    def fused(y: Tensor, u: Tensor, w: Tensor, b: Tensor) -> Tensor:
        linear = (None, None) if glu == "none" else (w, b)
        out = activate_and_gate(y, u, *linear, gate, lengths=None, inner=torch.bfloat16, dtype=torch.float32)
        assert out.dtype == torch.float32
        return out + 0 * (w.sum() + b.sum())

    dtypes = [inner, torch.float32, torch.float32, torch.float32]
    compare(fused, plain_gate(gate, mask_of(shape, None), True), gate_inputs(shape, glu), BF16, dtypes=dtypes)


def test_padding_of_gates_may_hold_anything():
    lengths = torch.tensor([4, 9], device=DEVICE)
    y, u, w, b = (x.float() for x in gate_inputs((2, 9, 5), "full"))
    y[0, 4:], u[0, 4:] = 0, torch.nan
    laid = first(y).requires_grad_()
    how: Any = {"lengths": lengths, "inner": torch.float32, "dtype": torch.float32}
    out = activate_and_gate(laid, first(u), w, b, Gate("gelu", "full"), **how)
    assert not out[0, 4:].any()
    g = random(2, 9, 5, seed=5).float()
    g[0, 4:] = torch.nan
    (found,) = torch.autograd.grad(out, laid, g)
    assert not found[0, 4:].any()
    assert found.isfinite().all()


# --- dropout


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("p", [0.1, pytest.param(0.5, marks=pytest.mark.slow)])
@pytest.mark.parametrize("shape", [(6, 63, 130), (2, 2100, 8)])
def test_dropout(tied: bool, p: float, shape: tuple[int, ...]):
    """Without gate and activation, what comes out is the mask times what went in; and so back."""
    torch.manual_seed(0)
    y = first(1 + random(*shape, seed=1).abs().float()).requires_grad_()
    how: Any = {"lengths": None, "inner": torch.float32, "dtype": torch.float32}
    out = activate_and_gate(y, None, None, None, Gate("none", "none", p, tied), **how)
    kept = out != 0
    torch.testing.assert_close(out, torch.where(kept, y / (1 - p), 0.0))
    draws = kept[:, 0] if tied else kept
    assert torch.equal(kept.all(1), kept.any(1)) == tied
    assert abs(draws.double().mean().item() - (1 - p)) < 5 * (p * (1 - p) / draws.numel()) ** 0.5
    g = first(random(*shape, seed=2).float())
    (found,) = torch.autograd.grad(out, y, g)
    torch.testing.assert_close(found, torch.where(kept, g / (1 - p), 0.0))
    if not tied:  # neighbours are independent, in time, between sequences and between channels
        for axis in range(3):
            a, b = (kept.narrow(axis, i, shape[axis] - 1).double() - (1 - p) for i in (0, 1))
            assert abs((a * b).mean().item()) < 5 * p * (1 - p) / a.numel() ** 0.5


def test_seeds_of_dropout_are_pytorchs():
    y = first(torch.ones(4, 50, 6, device=DEVICE))
    how: Any = {"lengths": None, "inner": torch.float32, "dtype": torch.float32}

    def draw() -> Tensor:
        return activate_and_gate(y, None, None, None, Gate("none", "none", 0.5, False), **how)

    torch.manual_seed(3)
    a, b = draw(), draw()
    torch.manual_seed(3)
    assert torch.equal(a, draw())
    assert not torch.equal(a, b)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("glu", ["full", "half", "half2"])
def test_both_masks_of_a_gate(glu: str, tied: bool):
    """Read off the outputs and gradients of the kernels themselves, then put into the formula in float64."""
    shape, p = (3, 11, 6), 0.4
    gate = Gate("gelu", glu, p, tied)
    how: Any = {"lengths": None, "inner": torch.float32, "dtype": torch.float32}

    def fused(y: Tensor, w: Tensor, b: Tensor) -> Tensor:
        torch.manual_seed(1)
        return activate_and_gate(y, None, w, b, gate, **how)

    inputs = gate_inputs(shape, glu)
    inputs.pop(1)
    y, w, b = (x.float() for x in inputs)
    torch.manual_seed(1)
    alone = activate_and_gate(first(y), None, None, None, Gate("none", "none", p, tied), **how)
    one = (alone != 0).double() / (1 - p)
    two = (fused(first(y), w, b) != 0).double() / (1 - p)
    # Of the gate "half" zeros come from either mask, which makes no difference to the formula.

    def plain(y: Tensor, w: Tensor, b: Tensor) -> Tensor:
        x = F.gelu(y) * one
        z = x @ w.T + b
        return two * (F.glu(z, -1) if glu == "full" else (x if glu == "half" else y) * z.sigmoid())

    compare(fused, plain, inputs, FLOAT32, dtypes=[torch.float32] * 3)
    assert not torch.equal(one, two)
    assert (two != 0).any()


# --- derivatives of derivatives, and the same bits


@pytest.mark.parametrize("what", ["layer_norm", "batch_norm", "full", "half", "half2", "none"])
def test_second_derivatives(what: str):
    lengths = torch.tensor([4, 9], device=DEVICE)
    how: Any = {"lengths": lengths, "dtype": torch.float32}
    running = (torch.zeros(5, device=DEVICE), torch.ones(5, device=DEVICE), torch.zeros((), device=DEVICE).long())
    inputs = [
        x.float().requires_grad_()
        for x in (norm_inputs if "norm" in what else lambda s: gate_inputs(s, what))((2, 9, 5))
    ]

    def function(u: Tensor, *others: Tensor) -> Tensor:
        if what == "layer_norm":
            x, u = layer_norm(first(u), others[0], others[1], 1e-5, **how)
            return x.sin() * u
        if what == "batch_norm":
            x, u = batch_norm(first(u), others[0], others[1], 1e-5, running=running, momentum=0.1, training=True, **how)
            return x.sin() * u
        added, w, b = others
        linear = (None, None) if what == "none" else (w, b)
        torch.manual_seed(0)
        gate = Gate("gelu", what, 0.3, True)
        return activate_and_gate(first(u), first(added), *linear, gate, inner=torch.float32, **how).sin()

    def slope(*x: Tensor) -> Tensor:
        (found,) = torch.autograd.grad(function(*x).sum(), x[0], create_graph=True)
        return found

    # Along a direction, by finite differences of first derivatives that were checked above.
    step, way = 3e-3, random(2, 9, 5, seed=7).float()
    found = torch.autograd.grad((slope(*inputs) * way).sum(), inputs[0])[0]
    weights = random(2, 9, 5, seed=8).float()
    moved = [
        (torch.autograd.grad(function(inputs[0] + s * step * weights, *inputs[1:]).sum(), inputs[0])[0])
        for s in (1, -1)
    ]
    expected = (((moved[0] - moved[1]) / (2 * step)) * way).sum()
    torch.testing.assert_close((found * weights).sum(), expected, rtol=2e-2, atol=2e-2)


def test_same_input_same_bits():
    u, w, b = (x.float() for x in norm_inputs((3, 500, 9)))
    y, added, weight, bias = (x.float() for x in gate_inputs((3, 500, 9), "full"))
    how: Any = {"lengths": None, "dtype": torch.float32}

    def once() -> list[Tensor]:
        leaves = [x.clone().requires_grad_() for x in (first(u), w, b, first(y), first(added), weight, bias)]
        one, two, three, four, five, six, seven = leaves
        x, carried = layer_norm(one, two, three, 1e-5, **how)
        z = activate_and_gate(four, five, six, seven, Gate("gelu", "full"), inner=torch.float32, **how)
        return [z, *torch.autograd.grad((x * z * carried).sum(), leaves)]

    for a, c in zip(once(), once(), strict=True):
        assert torch.equal(a, c)
