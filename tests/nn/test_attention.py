"""Attention against its formula, written with complex numbers and loops, and against itself in pieces."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import TypeCheckError
from torch import Tensor

from wellposed.errors import ArgumentError, ShapeError
from wellposed.nn import SelfAttention


def plain(layer: SelfAttention, u: Tensor) -> Tensor:
    """One sequence ``(length, d_model)``, a query at a time; channels in pairs are complex numbers that turn."""
    length, heads = len(u), layer.n_heads
    half = layer.d_model // heads // 2
    q, k, v = (layer.qkv.weight @ u.T + layer.qkv.bias[:, None]).T.reshape(length, 3, heads, 2 * half).unbind(1)
    speed = torch.tensor([10000.0 ** (-i / half) for i in range(half)], dtype=torch.float64)
    turn = torch.exp(1j * torch.arange(length)[:, None, None] * speed)
    q, k = (torch.view_as_complex(t.reshape(length, heads, half, 2).contiguous()) * turn for t in (q, k))
    rows = []
    for t in range(length):
        seen = t + 1 if layer.causal else length
        scores = (q[t] * k[:seen].conj()).real.sum(-1) / (2 * half) ** 0.5  # (seen, heads)
        rows.append((scores.softmax(0)[..., None] * v[:seen]).sum(0).flatten())
    return torch.stack(rows) @ layer.out.weight.T + layer.out.bias


@given(
    length=st.integers(1, 9),
    heads=st.integers(1, 3),
    half=st.integers(1, 3),
    causal=st.booleans(),
    seed=st.integers(0, 99),
)
def test_is_softmax_attention_with_turning_channels(length: int, heads: int, half: int, causal: bool, seed: int):
    layer = SelfAttention(2 * heads * half, heads, causal=causal, seed=seed, dtype=torch.float64)
    u = torch.randn(2, length, layer.d_model, dtype=torch.float64)
    torch.testing.assert_close(layer(u), torch.stack([plain(layer, row) for row in u]), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
def test_padding_changes_nothing(causal: bool, dtype: torch.dtype, tolerance: float):
    layer = SelfAttention(8, 2, causal=causal, seed=0, dtype=dtype)
    u, lengths = torch.randn(3, 7, 8, dtype=dtype), torch.tensor([7, 3, 1])
    u[1, 3:] = torch.nan
    y = layer(u, lengths=lengths)
    for i, n in enumerate(lengths.tolist()):
        torch.testing.assert_close(y[i, :n], layer(u[i : i + 1, :n])[0], rtol=0, atol=tolerance)
        assert not y[i, n:].any()
    y.square().sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in layer.parameters() if p.grad is not None)


@given(cuts=st.lists(st.integers(1, 6), min_size=1, max_size=5), seed=st.integers(0, 99))
def test_pieces_make_the_whole(cuts: list[int], seed: int):
    layer = SelfAttention(8, 2, causal=True, seed=seed, dtype=torch.float64)
    u = torch.randn(2, sum(cuts), 8, dtype=torch.float64)
    state, parts = layer.initial_state(2), []
    assert state.shape == (2, 2, 0, 8)
    for piece in u.split(cuts, 1):
        if piece.shape[1] == 1:
            y, state = layer.step(piece[:, 0], state)
            y = y[:, None]
        else:
            y, state = layer(piece, state=state, return_state=True)
        parts.append(y)
    whole, last = layer(u, return_state=True)
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(state, last, rtol=1e-10, atol=1e-10)


def test_a_state_and_padding_together():
    layer = SelfAttention(8, 2, causal=True, seed=0, dtype=torch.float64)
    u, lengths = torch.randn(2, 9, 8, dtype=torch.float64), torch.tensor([5, 2])
    _, state = layer(u[:, :4], return_state=True)
    y = layer(u[:, 4:], lengths=lengths, state=state)
    for i, n in enumerate(lengths.tolist()):
        torch.testing.assert_close(y[i, :n], plain(layer, u[i, : 4 + n])[4:], rtol=1e-10, atol=1e-10)


def test_lower_precision_under_autocast():
    layer = SelfAttention(16, 2, causal=True, seed=0)
    u = torch.randn(2, 20, 16)
    with torch.autocast("cpu", torch.bfloat16):
        y, state = layer(u, return_state=True)
        more, _ = layer(u, state=state, return_state=True)
        layer.step(u[:, 0], state)
    assert y.dtype == u.dtype
    assert more.isfinite().all()
    torch.testing.assert_close(y, layer(u), rtol=0, atol=0.03)
    assert layer.bfloat16()(u.bfloat16()).dtype == torch.bfloat16


def test_maps_and_differentiates_without_a_warning():
    layer = SelfAttention(4, 1, seed=0, dtype=torch.float64)
    u = torch.randn(3, 5, 4, dtype=torch.float64)
    parameters: dict[str, Tensor] = dict(layer.named_parameters())

    def loss(parameters: dict[str, Tensor], u: Tensor) -> Tensor:
        return torch.func.functional_call(layer, parameters, (u[None],)).square().sum()

    each = torch.func.vmap(torch.func.grad(loss), (None, 0))(parameters, u)
    layer(u).square().sum().backward()
    for name, p in layer.named_parameters():
        assert p.grad is not None
        torch.testing.assert_close(each[name].sum(0), p.grad, rtol=1e-10, atol=1e-10)


def test_seed_and_dropout():
    before = torch.get_rng_state()
    a, b = SelfAttention(8, seed=3), SelfAttention(8, seed=3)
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))
    assert not torch.equal(a.qkv.weight, SelfAttention(8, seed=4).qkv.weight)
    u = torch.randn(2, 5, 8)
    dropping = SelfAttention(8, dropout=0.5, seed=3)
    assert not torch.equal(dropping(u), a(u))
    assert torch.equal(dropping.eval()(u), a(u))
    assert torch.equal(copy.deepcopy(a)(u), a(u))


def test_errors():
    with pytest.raises(ArgumentError, match="d_model = 6 must be a multiple of 2 n_heads = 8"):
        SelfAttention(6)
    with pytest.raises(ArgumentError, match="dropout must be"):
        SelfAttention(8, dropout=1)
    both, causal, u = SelfAttention(8, seed=0), SelfAttention(8, causal=True, seed=0), torch.randn(2, 5, 8)
    for call in (
        lambda: both(u, return_state=True),
        lambda: both.initial_state(2),
        lambda: both.step(u[:, 0], causal.initial_state(2)),
    ):
        with pytest.raises(ArgumentError, match="pass causal=True"):
            call()
    with pytest.raises(ShapeError, match=r"state has shape \(3, 2, 0, 8\); .* need \(2, 2, steps so far, 8\)"):
        causal(u, state=causal.initial_state(3))
    with pytest.raises(ArgumentError, match=r"state is torch\.float64"):
        causal(u, state=causal.initial_state(2).double())
    with pytest.raises(ArgumentError, match="every length must be 5"):
        causal(u, lengths=torch.tensor([5, 2]), return_state=True)
    assert causal(u, lengths=torch.tensor([5, 5]), return_state=True)[1].shape == (2, 2, 5, 8)
    with pytest.raises(ShapeError, match="length 0"):
        causal(u[:, :0])
    with pytest.raises(ArgumentError, match=r"the sequence is torch\.float64"):
        causal(u.double())
    with pytest.raises((ShapeError, TypeCheckError)):
        causal(u[0])
