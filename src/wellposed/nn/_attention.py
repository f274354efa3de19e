"""Self-attention behind the interface of the sequence layers: the Transformer to compare with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from wellposed._checks import positive_int
from wellposed.errors import ArgumentError, ShapeError
from wellposed.kernels import as_float64
from wellposed.nn._config import built_from
from wellposed.nn._dot_product import Heads, dot_product_attention, join_heads
from wellposed.nn._layer import SequenceLayer
from wellposed.nn._lengths import Lengths, as_lengths
from wellposed.nn._multi_head import MultiHeadConfig, projections
from wellposed.nn._seeded import seeded
from wellposed.nn._tracing import readable

_BASE = 10000.0  # slowest rotation of a pair of channels, in steps a radian (Su et al., 2021, RoFormer)


@dataclass(frozen=True, kw_only=True)
class AttentionConfig(MultiHeadConfig):
    """What attention takes besides."""

    rotary: bool = True
    """Whether queries and keys turn with their steps, each head then of an even number of channels; without it
    attention knows no order."""

    def __post_init__(self) -> None:
        if self.rotary:  # first: it asks for more than heads alone do
            pairs = 2 * positive_int(self.n_heads, "n_heads")
            self._check_width(pairs, "2 n_heads", ": rotary positions turn the channels of each head in pairs")
        super().__post_init__()


class SelfAttention(SequenceLayer):
    """Softmax attention with rotary positions: only distances between steps matter, and no length is too long.

    ``rotary=False`` leaves positions to the model, as the first Transformers did.

    ``causal=False`` reads the whole sequence and so has no state. With ``causal=True`` the state is the keys and values
    of all steps so far, ``(batch, 2, steps, d_attention)``: it grows, unlike that of a state-space layer. Under
    autocast attention computes in the lower precision.

    >>> layer = SelfAttention(8, n_heads=2, causal=True)
    >>> y, state = layer(torch.randn(2, 100, 8), return_state=True)
    >>> y, state = layer.step(torch.randn(2, 8), state)
    >>> state.shape
    torch.Size([2, 2, 101, 8])
    """

    @built_from(AttentionConfig)
    def __init__(self, config: AttentionConfig) -> None:
        super().__init__(config.d_model, bidirectional=not config.causal)
        self.n_heads = config.n_heads
        self.causal = config.causal
        self.dropout = float(config.dropout)
        self.width, self.rotary = config.width, config.rotary
        with seeded(config.seed):
            self.qkv, self.out = projections(config)
        self.to(torch.get_default_device() if config.device is None else config.device)

    @property
    def compute_dtype(self) -> torch.dtype:
        """That of the parameters."""
        return self.qkv.weight.dtype

    @property
    def state_shape(self) -> tuple[int, ...]:
        """Keys and values of no steps, as before the first one."""
        return 2, 0, self.width

    def forward(
        self,
        u: Float[Tensor, "batch length channel"],
        *,
        lengths: Tensor | Lengths | None = None,
        state: Tensor | None = None,
        return_state: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Whole sequences at once, in the precision of autocast where that is on."""
        self._check_input(u, 3, "(batch, length, d_model)")
        if u.shape[1] == 0:
            raise ShapeError("the sequences have length 0: there is nothing to compute, and no state to return")
        lengths = as_lengths(lengths, u.shape[0], u.shape[1], u.device)
        if state is not None or return_state:
            self._check_forward("a state")
        if state is not None:
            self._check_state(state, u)
        if return_state and lengths is not None:
            _check_same_length(lengths)
        x = u.to(self.compute_dtype)
        y, last = self._sequence(x if lengths is None else lengths.zero(x), lengths, state, return_state)
        y = (y if lengths is None else lengths.zero(y)).to(u.dtype)
        if not return_state:
            return y
        assert last is not None
        return y, last

    def _sequence(
        self, u: Tensor, lengths: Lengths | None, state: Tensor | None, want_state: bool
    ) -> tuple[Tensor, Tensor | None]:
        past = 0 if state is None else state.shape[2]
        q, k, v = self.qkv(u).unflatten(-1, (3, self.n_heads, -1)).permute(2, 0, 3, 1, 4)
        q, k = (rotate(q, past), rotate(k, past)) if self.rotary else (q, k)
        if state is not None:
            old_k, old_v = state.unflatten(-1, (self.n_heads, -1)).permute(1, 0, 3, 2, 4)
            k, v = torch.cat([old_k, k], 2), torch.cat([old_v, v], 2)
        last = torch.stack([join_heads(k), join_heads(v)], 1).to(self.compute_dtype) if want_state else None
        y = self._attend(q, k.to(q.dtype), v.to(q.dtype), lengths)
        return self.out(join_heads(y)), last

    def _attend(self, q: Heads, k: Tensor, v: Tensor, lengths: Lengths | None) -> Heads:
        whole = self.causal and q.shape[2] == k.shape[2]
        mask = None if whole else self._mask(q.shape[2], k.shape[2], lengths, q.device)
        p = self.dropout if self.training else 0.0
        return dot_product_attention(q, k, v, mask, dropout=p, causal=whole)

    def _mask(
        self, steps: int, seen: int, lengths: Lengths | None, device: torch.device
    ) -> Bool[Tensor, "*batch query key"] | None:
        """True where a step may look. Padding follows the true steps, so that causal attention never sees it."""
        if self.causal:
            return None if steps == 1 else torch.ones(steps, seen, dtype=torch.bool, device=device).tril(seen - steps)
        return None if lengths is None else lengths.mask[:, None, None]

    def _one_step(self, u: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        y, last = self._sequence(u[:, None], None, state, True)
        assert last is not None
        return y[:, 0], last

    def _check_forward(self, what: str) -> None:
        if not self.causal:
            raise ArgumentError(f"{what} of attention that reads the future: pass causal=True")

    def _check_state(self, state: Any, u: Tensor) -> None:
        batch, expected = u.shape[0], f"({u.shape[0]}, 2, steps so far, {self.width})"
        if state.ndim != 4 or (*state.shape[:2], state.shape[3]) != (batch, 2, self.width):
            raise ShapeError(f"state has shape {tuple(state.shape)}; this layer and batch need {expected}")
        if state.dtype != self.compute_dtype:
            raise ArgumentError(f"state is {state.dtype}, this layer computes in {self.compute_dtype}")

    def extra_repr(self) -> str:
        """Sizes, as the constructor takes them."""
        return f"d_model={self.d_model}, n_heads={self.n_heads}, causal={self.causal}"


def rotate(x: Heads, start: int) -> Heads:
    """Channels ``2i`` and ``2i + 1`` at step t, counted from ``start``, turned by ``t / 10000^(2i / dim)``."""
    half = x.shape[-1] // 2
    # Angles in float64: in float32 step 65536 would be off by a hundredth of a radian.
    t = as_float64(torch.arange(start, start + x.shape[2], device=x.device).float())
    angle = t[:, None] * _BASE ** (-as_float64(torch.arange(half, device=x.device).float()) / half)
    keep = torch.promote_types(x.dtype, torch.float32)
    cos, sin = (angle + torch.pi / 2).sin().to(keep), angle.sin().to(keep)
    a, b = x.unflatten(-1, (half, 2)).unbind(-1)
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2).to(x.dtype)


def _check_same_length(lengths: Lengths) -> None:
    """Keys and values of a batch are one rectangle."""
    if not readable(lengths.values) or bool((lengths.values != lengths.size).any()):
        raise ArgumentError(
            "attention keeps the keys and values of every step, and sequences of different lengths have different "
            f"numbers of them: with return_state=True every length must be {lengths.size}, or lengths left out"
        )
