"""What the layers of the other rows of the LRA table promise besides their equations, which ``layer_suite`` checks."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import TypeCheckError
from torch import Tensor

import baseline_twins
from layer_suite import DEVICE, differing, values_and_gradients
from nn_twin import parameters_of
from wellposed.errors import ArgumentError, ShapeError, UnknownNameError
from wellposed.kernels import layout
from wellposed.nn import FlexConv, HierarchicalAttention, LunaAttention, SelfAttention, _few_queries
from wellposed.nn._continuous_kernels import MAGNet
from wellposed.nn._dot_product import dot_product_attention
from wellposed.nn._hierarchy import Hierarchy, attend


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


# --- hierarchical attention


@given(length=st.integers(1, 140), half=st.integers(1, 4), causal=st.booleans())
@settings(max_examples=15)
def test_every_pair_is_seen_exactly_once(length: int, half: int, causal: bool):
    """With scores of zero each step that is seen has the same weight, and values of one for each step show it."""
    zero = torch.zeros(1, 1, length, 1, dtype=torch.float64)
    v = torch.eye(length, dtype=torch.float64)[None, None]
    seen = attend(zero, zero, v, Hierarchy(2 * half, causal, 0.0))[0, 0]
    right = torch.ones(length, length, dtype=torch.float64)
    right = right.tril() if causal else right
    torch.testing.assert_close(seen, right / right.sum(1, keepdim=True), rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("causal", [False, True])
def test_scores_are_those_of_the_level_of_a_pair(causal: bool):
    """The twin's own short cut against its definition, pair by pair."""
    q, k = random(23, 3), random(23, 3, seed=1)
    slow = baseline_twins.level_scores(q, k, 2, causal)
    torch.testing.assert_close(baseline_twins.fast_level_scores(q, k, 2, causal), slow, rtol=1e-12, atol=1e-12)


def test_where_scores_vary_slowly_it_is_full_attention():
    """Error of first order, for queries are averaged too: about a quarter with blocks four times as long."""
    t = torch.linspace(0, 1, 512, dtype=torch.float64)
    q = k = torch.stack([torch.sin(6 * t), torch.cos(6 * t)], -1)[None, None] * 1.5
    v = torch.sin(20 * t)[None, None, :, None]
    full = torch.softmax(q @ k.mT / 2**0.5, -1) @ v
    worst = [(attend(q, k, v, Hierarchy(block, False, 0.0)) - full).abs().max().item() for block in (4, 16, 64, 256)]
    assert worst[:3] == pytest.approx([0.050, 0.011, 0.0026], rel=0.01)  # as docs/baselines.md says
    assert worst[3] < 1e-12  # nothing is far


def test_scores_of_any_size():
    """Each query has its own scale: what one sees does not vanish because another sees larger scores."""
    q, k, v = 60 * random(1, 2, 100, 4), random(1, 2, 100, 4, seed=1), random(1, 2, 100, 4, seed=2)
    q[:, :, 50] *= 1000
    found = attend(q.float(), k.float(), v.float(), Hierarchy(4, False, 0.0))
    right = torch.softmax(baseline_twins.fast_level_scores(q, k, 4, False), -1) @ v
    torch.testing.assert_close(found.double(), right, rtol=0, atol=2e-4)


def test_causal_outputs_do_not_know_the_future():
    layer = HierarchicalAttention(4, 2, block=2, causal=True, relative_bias=True, seed=0, dtype=torch.float64)
    u = random(1, 50, 4).requires_grad_()
    for t in (0, 7, 31, 49):
        (gradient,) = torch.autograd.grad(layer(u)[0, t].sum(), u)
        assert (gradient[0, t + 1 :] == 0).all()
        assert (gradient[0, : t + 1] != 0).any(1).all()


def test_dropout_is_of_the_weights():
    layer = HierarchicalAttention(4, 1, block=4, dropout=0.5, seed=0, dtype=torch.float64)
    u = random(1, 40, 4)
    assert not torch.equal(layer(u), layer(u))
    torch.manual_seed(0)
    mean = layer(u.expand(3000, -1, -1)).mean(0, keepdim=True)
    torch.testing.assert_close(mean, layer.eval()(u), rtol=0, atol=0.03)


# --- Luna


def test_luna_hands_its_packed_sequence_on():
    layer = LunaAttention(6, 3, packed=None, seed=0, dtype=torch.float64)
    x, packed = random(2, 30, 6), random(2, 7, 6, seed=1)
    right = baseline_twins.luna_attention(parameters_of(layer), x, packed, 3)
    for found, expected in zip(layer.attend(x, packed), right, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    with pytest.raises(ArgumentError, match="no packed sequence of its own"):
        layer(x)
    padded = x.clone()
    padded[1, 12:] = torch.nan
    found, _ = layer.attend(padded, packed, torch.tensor([30, 12]))
    torch.testing.assert_close(found[1, :12], layer.attend(x[1:, :12], packed[1:])[0][0], rtol=1e-12, atol=1e-12)
    assert (found[1, 12:] == 0).all()
    padded[1, 3:] = torch.nan  # fewer steps than rows: the rows beyond them are no part of it, padded or alone
    found, _ = layer.attend(padded, packed, torch.tensor([30, 3]))
    alone, whole = layer.attend(x[1:, :3], packed[1:])
    torch.testing.assert_close(found[1, :3], alone[0], rtol=1e-12, atol=1e-12)
    right, _ = baseline_twins.luna_attention(parameters_of(layer), x[1:, :3], packed[1:, :3], 3)
    torch.testing.assert_close(alone, right, rtol=1e-10, atol=1e-10)
    assert whole.shape == (1, 7, 6)
    for wrong in (packed[..., :5], packed[0], packed[:1], packed[:, :0]):
        with pytest.raises((ShapeError, TypeCheckError), match="packed"):
            layer.attend(x, wrong)


@pytest.fixture
def in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention of few queries as on a GPU, a few keys at a time."""
    sizes = {"DEVICES": ("cpu", "cuda"), "MANY": 20, "TIMES": 2, "MOST_SCORES": 1, "FEWEST_KEYS": 7}
    for name, value in sizes.items():
        monkeypatch.setattr(_few_queries, name, value)


@pytest.mark.usefixtures("in_chunks")
def test_few_queries_see_many_keys_a_chunk_at_a_time():
    """Values and gradients of softmax attention, of padded sequences too, one of them shorter than a chunk."""
    q, k, v = (random(3, 2, n, 4, seed=n).requires_grad_() for n in (5, 30, 31))
    v = v[:, :, :30]
    assert _few_queries.takes(q, k, v)
    lengths = torch.tensor([30, 3, 21])
    for mask in (None, (torch.arange(30) < lengths[:, None])[:, None, None]):
        found = dot_product_attention(q, k, v, mask)
        scores = q @ k.mT / 2 if mask is None else (q @ k.mT / 2).masked_fill(~mask, -torch.inf)
        right = scores.softmax(-1) @ v
        torch.testing.assert_close(found, right, rtol=1e-12, atol=1e-12)
        dy, inputs = torch.randn_like(right), [q, k, v]
        for a, b in zip(*(torch.autograd.grad(y, inputs, dy) for y in (found, right)), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
    with torch.no_grad():  # the way forward is PyTorch's
        assert not _few_queries.takes(q, k, v)


@pytest.mark.usefixtures("in_chunks")
def test_dropout_in_chunks():
    """The gradients are those of what was kept; on average it is attention without dropout."""

    def seeded(*inputs: Tensor) -> Tensor:
        torch.manual_seed(0)
        return dot_product_attention(*inputs, dropout=0.4)

    inputs = [random(1, 2, n, 3, seed=n).requires_grad_() for n in (2, 20)]
    assert torch.autograd.gradcheck(seeded, [*inputs, random(1, 2, 20, 3, seed=9).requires_grad_()], fast_mode=True)
    q, k = (x.expand(4000, -1, -1, -1) for x in inputs)
    right = dot_product_attention(inputs[0], inputs[1], inputs[1])
    torch.testing.assert_close(seeded(q, k, k).mean(0, keepdim=True), right, rtol=0, atol=0.03)


def test_luna_starts_as_published():
    plain, bert = (LunaAttention(64, 4, init=init, seed=0) for init in ("xavier", "normal"))
    bound = (6 / 128) ** 0.5
    assert plain.pack_kv.weight.abs().max().item() == pytest.approx(bound / 2**0.5, rel=1e-2)
    assert plain.out.weight.abs().max().item() == pytest.approx(bound, rel=1e-2)
    assert bert.q.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert all(not linear.bias.any() for linear in (plain.q, plain.kv, bert.out))


# --- FlexConv


@pytest.mark.parametrize("options", [{}, {"generator": "siren", "omega_0": 3}])
def test_the_kernel_is_its_formula(options: dict[str, Any]):
    layer = FlexConv(3, length=50, **{"hidden": 8, "omega_0": 2.5, "mask_width": 0.4, "seed": 0} | options).double()
    right = baseline_twins.flexconv_kernel(parameters_of(layer), 50)
    torch.testing.assert_close(layer.kernel().T, right, rtol=1e-12, atol=1e-14)
    assert (layer.kernel()[:, :22] != 0).all()  # cropped where t < 1 - 0.4 sqrt(-2 ln 0.1) = 0.142: 21.03 steps ago
    assert (layer.kernel()[:, 22:] == 0).all()
    with torch.no_grad():
        layer.mask_width.fill_(2.0)
    assert (layer.kernel() != 0).all()


def test_the_kernel_starts_as_published():
    layer = FlexConv(2, length=1000, hidden=2000, omega_0=50, mask_width=0.1, seed=0)
    magnet = layer.generator
    assert isinstance(magnet, MAGNet)
    assert [g.mean().item() for g in magnet.gamma] == pytest.approx([6, 3, 2, 1.5], rel=0.1)
    assert [g.var().item() for g in magnet.gamma] == pytest.approx([6, 3, 2, 1.5], rel=0.2)
    assert 1 - 0.1667 <= magnet.mu.min() < 1 - 0.16
    assert magnet.mu.max() <= 1
    turns = (magnet.W / (2 * torch.pi * 50 * magnet.gamma)).abs()
    assert turns.max().item() == pytest.approx(1, rel=1e-2)
    samples = 1 + 0.1 * 2.1460 / 2 * 999
    assert magnet.out.weight.abs().max().item() == pytest.approx((3 / 2000 / samples) ** 0.5, rel=1e-2)


def test_sines_start_as_published():
    siren = FlexConv(2, length=1000, hidden=2000, generator="siren", omega_0=50, mask_width=2.0, seed=0).generator
    first, second = (linear.weight.abs().max().item() for linear in siren.inner if isinstance(linear, torch.nn.Linear))
    assert (first, second) == pytest.approx((1, (6 / 2000) ** 0.5 / 50), rel=1e-2)
    assert siren.out.weight.abs().max().item() == pytest.approx((3 / 2000 / 1000) ** 0.5, rel=1e-2)
    assert not any(p.any() for name, p in siren.named_parameters() if name.endswith("bias"))


@pytest.mark.parametrize("rate", [2, 0.5])
def test_another_sampling_of_the_same_signal(rate: float):
    """Sampled half as often, or twice, the same signal gives the same output, but for what the sum misses."""
    trained = FlexConv(2, length=1001, hidden=8, omega_0=0.4, mask_width=0.3, seed=0, dtype=torch.float64)
    other = FlexConv(2, length=1001, hidden=8, omega_0=0.4, mask_width=0.3, rate=rate, seed=0, dtype=torch.float64)
    t = torch.arange(0, 1500, min(rate, 1), dtype=torch.float64)
    signal = torch.stack([torch.sin(t / 80), torch.cos(t / 50)], -1)[None] * torch.sin(t / 500)[:, None]
    fine, coarse = (trained, other) if rate > 1 else (other, trained)
    step = round(max(rate, 1 / rate))
    dense, sparse = fine(signal), coarse(signal[:, ::step])
    assert (dense[:, ::step] - sparse).abs().max() < 0.02 * dense.abs().max()
    trained.rate = rate
    assert torch.equal(trained(signal), other(signal))
    assert trained.kernel_size == other.kernel_size == {2: 501, 0.5: 2001}[rate]


@pytest.mark.parametrize(("length", "parts"), [(2, 93), (2, 99), (7, 105), (100, 1089)])
def test_a_rate_that_divides_the_time_keeps_the_last_sample(length: int, parts: int):
    """Also where the quotient in floating point lies below the whole number, as 1 / (1 / 93) does."""
    layer = FlexConv(2, length=length, hidden=4, rate=(length - 1) / parts, seed=0)
    assert layer.kernel_size == parts + 1


@pytest.mark.parametrize("generator", ["magnet", "siren"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_weights_kept_in_less_are_computed_with_in_float32(generator: Any, dtype: torch.dtype):
    layer = FlexConv(4, length=30, generator=generator, omega_0=2, mask_width=0.4, seed=0).to(dtype)
    same, u = copy.deepcopy(layer).float(), random(2, 40, 4).to(dtype)
    y, state = layer(u, return_state=True)
    assert (y.dtype, state.dtype) == (dtype, torch.float32)
    torch.testing.assert_close(y, same(u.float()).to(dtype), rtol=1e-2, atol=1e-3)
    for step in (layer.step, layer.stepper()):
        assert torch.equal(step(u[:, 0], state)[0], same.step(u[:, 0].float(), state)[0].to(dtype))
    y.float().square().sum().backward()
    assert all(p.grad is not None and p.grad.dtype == dtype for p in layer.parameters())


def test_what_is_far_enough_away_is_forgotten():
    layer = FlexConv(1, length=20, mask_width=9.0, seed=0, dtype=torch.float64)
    u = random(1, 100, 1)
    other = u.clone()
    other[:, :30] = 0
    assert torch.equal(layer(u)[:, 49:].round(decimals=12), layer(other)[:, 49:].round(decimals=12))


# --- all of them


@pytest.mark.parametrize(
    ("layer", "length", "twin"),
    [
        (LunaAttention(8, 2, packed=16, seed=0), 4100, lambda p, u: baseline_twins.luna(p, u, 2)),
        (HierarchicalAttention(8, 2, seed=0), 300, lambda p, u: baseline_twins.hierarchical(p, u, 2, 16, False)),
        (FlexConv(4, length=40, hidden=3, omega_0=0.3, seed=0), 67, lambda p, u: baseline_twins.flexconv(p, u, 40)[0]),
    ],
)
def test_float32_as_it_is_trained(layer: Any, length: int, twin: Any, monkeypatch: pytest.MonkeyPatch):
    """By the kernels that a GPU takes for it, long sequences too; values and gradients beside float64."""
    monkeypatch.setattr(layout, "FASTEST_ON", ("cuda", "cpu"))
    monkeypatch.setattr(_few_queries, "DEVICES", ("cuda", "cpu"))
    u, w = (random(2, length, layer.d_model, seed=seed) for seed in (1, 2))
    found = values_and_gradients(layer.to(DEVICE), u.float().to(DEVICE), w.float().to(DEVICE))
    p, u = parameters_of(layer), u.requires_grad_()
    y, names = twin(p, u), [name for name, _ in layer.named_parameters()]
    gradients = torch.autograd.grad((y * w).sum(), [u, *(p[name] for name in names)])
    assert differing(found, dict(zip(("y", "u", *names), (y, *gradients), strict=True)), 1e-4) == {}


@pytest.mark.parametrize("make", [LunaAttention, HierarchicalAttention])
def test_lower_precision_under_autocast(make: type):
    layer = make(16, 2, seed=0)
    u, lengths = torch.randn(2, 600, 16), torch.tensor([600, 333])
    with torch.autocast("cpu", torch.bfloat16):
        y = layer(u, lengths=lengths)
    assert y.dtype == u.dtype
    torch.testing.assert_close(y, layer(u, lengths=lengths), rtol=0, atol=0.03)
    assert layer.bfloat16()(u.bfloat16()).dtype == torch.bfloat16


def test_attention_without_rotary_positions_and_of_another_width():
    layer = SelfAttention(6, 2, d_attention=10, rotary=False, causal=True, xavier=True, bias=False, seed=0).double()
    u = random(2, 9, 6)
    q, k, v = (t.unflatten(-1, (2, 5)) for t in (u @ layer.qkv.weight.T).chunk(3, -1))
    scores = torch.einsum("bihd,bjhd->bhij", q, k) / 5**0.5
    scores = scores.masked_fill(torch.ones(9, 9, dtype=torch.bool).triu(1), -torch.inf)
    right = torch.einsum("bhij,bjhd->bihd", scores.softmax(-1), v).flatten(2) @ layer.out.weight.T
    y, state = layer(u, return_state=True)
    torch.testing.assert_close(y, right, rtol=1e-10, atol=1e-10)
    assert state.shape == (2, 2, 9, 10)
    more, _ = layer.step(random(2, 6, seed=3), state)
    whole = layer(torch.cat([u, random(2, 6, seed=3)[:, None]], 1))
    torch.testing.assert_close(more, whole[:, -1], rtol=1e-10, atol=1e-10)
    assert layer.qkv.weight[:10].abs().max().item() == pytest.approx((6 / 16) ** 0.5, rel=0.05)


def test_errors():
    with pytest.raises(ArgumentError, match="block = 5 must be even"):
        HierarchicalAttention(8, block=5)
    with pytest.raises(ArgumentError, match="d_attention = 6 must be a multiple of n_heads = 4"):
        HierarchicalAttention(8, d_attention=6)
    with pytest.raises(ArgumentError, match="d_model = 6 must be a multiple of n_heads = 4"):
        LunaAttention(6)
    with pytest.raises(ArgumentError, match="d_attention = 6 must be a multiple of n_heads = 4"):
        SelfAttention(8, d_attention=6, rotary=False)
    with pytest.raises((UnknownNameError, TypeCheckError)):
        FlexConv(4, generator="magnett")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ArgumentError, match="mask_width must be above 0 and finite, got -1"):
        FlexConv(4, mask_width=-1)
    with pytest.raises(ShapeError, match="samples must be at least 1, got -1"):
        FlexConv(4).kernel(-1)
    with pytest.raises(ArgumentError, match="rate = 99 must be above 0 and leave two samples of 50: at most 49"):
        FlexConv(4, length=50, rate=99)
    with pytest.raises(ArgumentError, match="length = 1"):
        FlexConv(4, length=1)
    for make in (SelfAttention, HierarchicalAttention, LunaAttention, FlexConv):
        with pytest.raises(ArgumentError, match=r"dtype = torch\.int32 will not do"):
            make(8, dtype=torch.int32)
