"""Luna: attention in two steps, through a short sequence that every layer packs anew."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from wellposed._checks import positive_int
from wellposed.errors import ArgumentError, ShapeError
from wellposed.nn._config import built_from
from wellposed.nn._dot_product import dot_product_attention, join_heads, split_heads
from wellposed.nn._initial import check_dtype, check_name
from wellposed.nn._lengths import Lengths, as_lengths
from wellposed.nn._seeded import seeded
from wellposed.nn._tied_dropout import checked_probability
from wellposed.nn._weights import normal_, xavier_
from wellposed.nn._whole_sequence import WholeSequenceLayer

Sequences = Float[Tensor, "batch length channel"]
Packed = Float[Tensor, "batch row channel"]

LunaInit = Literal["xavier", "normal"]
INITS = ("xavier", "normal")
NORMAL_STD = 0.02
"""Of ``init="normal"``, BERT's."""


@dataclass(frozen=True)
class LunaConfig:
    """What Luna's attention takes."""

    d_model: int
    """Channels."""
    n_heads: int = 4
    """Heads, each of ``d_model / n_heads`` channels."""
    _: KW_ONLY
    packed: int | None = 256
    """Rows of the short sequence, learned; ``None``: there is none here, ``attend`` is given one at each call."""
    dropout: float | int = 0.0
    """Of the weights of both attentions."""
    init: LunaInit = "xavier"
    """``"xavier"`` (uniform, of gain ``1/sqrt(2)`` but for the last map) or ``"normal"`` (deviation 0.02)."""
    seed: int | None = None
    """The same weights whatever else draws random numbers."""
    device: Any = None
    dtype: torch.dtype | None = None

    def __post_init__(self) -> None:
        if positive_int(self.d_model, "d_model") % positive_int(self.n_heads, "n_heads"):
            raise ArgumentError(f"d_model = {self.d_model} must be a multiple of n_heads = {self.n_heads}")
        if self.packed is not None:
            positive_int(self.packed, "packed")
        checked_probability(self.dropout)
        check_name("init", self.init, INITS)
        check_dtype(self.dtype)


class LunaAttention(WholeSequenceLayer):
    """Linear unified nested attention (Ma et al., 2021): the steps are packed into a few rows, and read from there.

    With ``P`` the short sequence and ``A(Q, K, V)`` softmax attention of several heads,

    - packed: ``Y_P = A(P W_pq, X W_pk, X W_pv)``, with no map after it,
    - unpacked: ``Y_X = A(X W_q, Y_P W_k, Y_P W_v) W_o``,

    every map with a bias. Time and memory grow with the length, not its square. A sequence shorter than ``P`` uses as
    many rows as it has steps. As a layer it owns its ``P``; in the published model ``attend`` hands ``Y_P`` on.

    >>> layer = LunaAttention(8, n_heads=2, packed=4)
    >>> layer(torch.randn(2, 100, 8), lengths=torch.tensor([100, 60])).shape
    torch.Size([2, 100, 8])
    >>> x, packed = layer.attend(torch.randn(2, 100, 8), torch.randn(2, 16, 8), torch.tensor([100, 60]))
    >>> packed.shape
    torch.Size([2, 16, 8])
    """

    why_whole: ClassVar[str] = "its packed sequence sums up all steps, later ones too"

    @built_from(LunaConfig)
    def __init__(self, config: LunaConfig) -> None:
        super().__init__(config.d_model, bidirectional=True)
        self.n_heads = config.n_heads
        self.dropout = float(config.dropout)
        size, dtype = config.d_model, config.dtype
        place = torch.get_default_device() if config.device is None else config.device
        with seeded(config.seed):
            self.pack_q = nn.Linear(size, size, dtype=dtype)
            self.pack_kv = nn.Linear(size, 2 * size, dtype=dtype)
            self.q = nn.Linear(size, size, dtype=dtype)
            self.kv = nn.Linear(size, 2 * size, dtype=dtype)
            self.out = nn.Linear(size, size, dtype=dtype)
            self._start(config.init)
            rows = None if config.packed is None else torch.randn(config.packed, size, dtype=dtype)
            self.packed = None if rows is None else nn.Parameter(rows)
        self.to(place)

    def _start(self, init: LunaInit) -> None:
        if init == "normal":
            normal_(self, NORMAL_STD)
            return
        for linear, parts in ((self.pack_q, 1), (self.pack_kv, 2), (self.q, 1), (self.kv, 2)):
            xavier_(linear, gain=2**-0.5, parts=parts)
        xavier_(self.out)

    def undecayed_parameters(self) -> tuple[str, ...]:
        """The short sequence is an input, not a map."""
        return () if self.packed is None else ("packed",)

    def attend(self, x: Sequences, packed: Packed, lengths: Tensor | None = None) -> tuple[Sequences, Packed]:
        """``Y_X``, zero in the padding, and ``Y_P``. Rows of ``packed`` beyond a sequence's length do not enter it."""
        self._check_input(x, 3, "(batch, length, d_model)")
        self._check_packed(packed, len(x))
        true = as_lengths(lengths, x.shape[0], x.shape[1], x.device)
        if true is None:
            return self.attended(x, packed, None)
        y_x, y_p = self.attended(true.zero(x), packed, true)
        return true.zero(y_x), y_p

    def _check_packed(self, packed: Any, batch: int) -> None:
        shape = tuple(packed.shape) if isinstance(packed, Tensor) else type(packed).__name__
        if not isinstance(packed, Tensor) or packed.ndim != 3 or (shape[0], shape[2]) != (batch, self.d_model):
            raise ShapeError(f"packed must be ({batch}, rows, {self.d_model}), a copy for each sequence; got {shape}")
        positive_int(packed.shape[1], "the number of packed rows")

    def attended(self, x: Sequences, packed: Packed, lengths: Lengths | None) -> tuple[Sequences, Packed]:
        """``attend`` for those who have checked everything, of sequences that are zero in the padding."""
        p = self.dropout if self.training else 0.0
        heads = self.n_heads
        k, v = (split_heads(t, heads) for t in self.pack_kv(x).chunk(2, -1))
        steps = None if lengths is None else lengths.mask[:, None, None]
        y_p = join_heads(dot_product_attention(split_heads(self.pack_q(packed), heads), k, v, steps, dropout=p))
        k, v = (split_heads(t, heads) for t in self.kv(y_p).chunk(2, -1))
        rows = self._row_mask(packed.shape[1], x, lengths)
        y_x = dot_product_attention(split_heads(self.q(x), heads), k, v, rows, dropout=p)
        return self.out(join_heads(y_x)), y_p

    @staticmethod
    def _row_mask(rows: int, x: Sequences, lengths: Lengths | None) -> Bool[Tensor, "#batch 1 1 row"] | None:
        """True for as many rows as a sequence has steps: what it would use alone."""
        if lengths is None and rows <= x.shape[1]:
            return None
        steps = x.shape[1] if lengths is None else lengths.values[:, None]
        return (torch.arange(rows, device=x.device) < steps).reshape(-1, 1, 1, rows)

    def _attended(self, u: Tensor, lengths: Lengths | None) -> Tensor:
        if self.packed is None:
            raise ArgumentError("this LunaAttention has no packed sequence of its own: use attend(x, packed, lengths)")
        return self.attended(u, self.rows_for(u, self.packed), lengths)[0]

    @staticmethod
    def rows_for(x: Sequences, packed: Float[Tensor, "all channel"]) -> Packed:
        """The rows that sequences of this length use, one copy for each."""
        if packed.shape[-1] != x.shape[-1]:
            raise ShapeError(f"packed rows have {packed.shape[-1]} channels, the sequence {x.shape[-1]}")
        return packed[: x.shape[1]].expand(x.shape[0], -1, -1)

    def extra_repr(self) -> str:
        """Sizes, as the constructor takes them."""
        rows = None if self.packed is None else len(self.packed)
        return f"d_model={self.d_model}, n_heads={self.n_heads}, packed={rows}"
