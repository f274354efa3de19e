"""Models for whole sequences: a class or a number for each, or for each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from wellposed._checks import positive_int
from wellposed.errors import ArgumentError, ShapeError, UnknownNameError
from wellposed.nn._backbone import Backbone, States, layer_name
from wellposed.nn._blocks import GLU, Activation
from wellposed.nn._layer import SequenceLayer
from wellposed.nn._lengths import Lengths
from wellposed.nn._norms import Norm
from wellposed.nn._pooling import POOLINGS, Pooling, pool
from wellposed.nn._pretrained import Pretrained
from wellposed.nn._seeded import seeded


class SequenceModel(Pretrained, nn.Module):
    """What the models share, their arguments above all.

    - ``d_input`` numbers a step, or ``vocabulary`` tokens (then ``d_input=None``); with ``padding_idx`` that token's
      vector is zero and stays so.
    - ``layer``: ``"s4ptd"``, ``"s4d"``, ``"s4"``, ``"s5"``, ``"s5ptd"``, ``"liquid-s4"``, ``"attention"``, or a
      function of ``d_model`` that returns a layer; ``layer_options`` are its further arguments.
    - ``norm``, ``prenorm``, ``activation``, ``glu``, ``dropout``, ``tied_dropout``, ``residual``: see
      ``ResidualBlock``. With ``prenorm`` one more norm follows the last block.
    - ``pooling`` over the true steps: ``"mean"``, ``"last"``, ``"max"``, or ``"none"`` for an output at each step.
    - ``seed``: the same weights whatever else draws random numbers. Without one they come from PyTorch's generator.
    """

    def __init__(
        self,
        d_input: int | None,
        d_output: int,
        *,
        vocabulary: int | None = None,
        padding_idx: int | None = None,
        layer: str | Callable[..., SequenceLayer] = "s4ptd",
        d_model: int = 128,
        n_layers: int = 4,
        norm: Norm = "layer",
        prenorm: bool = True,
        activation: Activation = "gelu",
        glu: GLU = "full",
        dropout: float | int = 0.0,
        tied_dropout: bool = True,
        residual: bool = True,
        pooling: Pooling = "mean",
        layer_options: Mapping[str, Any] | None = None,
        seed: int | None = None,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        arguments = {name: value for name, value in locals().items() if name not in ("self", "__class__", "device")}
        super().__init__()
        layer, options = layer_name(layer), dict(layer_options or {})
        self.arguments = arguments | {"layer": layer, "layer_options": options}
        self._check_pooling(pooling)
        self.pooling: Pooling = pooling
        place = torch.get_default_device() if device is None else device
        with seeded(seed):
            self.backbone = Backbone(
                d_input,
                vocabulary=vocabulary,
                padding_idx=padding_idx,
                layer=layer,
                layer_options=options,
                d_model=d_model,
                n_layers=n_layers,
                norm=norm,
                prenorm=prenorm,
                activation=activation,
                glu=glu,
                dropout=dropout,
                tied_dropout=tied_dropout,
                residual=residual,
                dtype=dtype,
            )
            self.head = self._make_head(d_model, positive_int(d_output, "d_output"), dtype)
        self.to(place, dtype)

    def _check_pooling(self, pooling: Pooling) -> None:
        if pooling not in POOLINGS:
            raise UnknownNameError("pooling", pooling, POOLINGS)

    def _make_head(self, d_model: int, d_output: int, dtype: torch.dtype | None) -> nn.Module:
        return nn.Linear(d_model, d_output, dtype=dtype)

    def _read_out(self, h: Tensor, known: Lengths | None) -> Tensor:
        """Pool, then the head; steps in the padding come out as zero."""
        y = self.head(pool(h, known, self.pooling))
        return known.zero(y) if known is not None and self.pooling == "none" else y


class SequenceClassifier(SequenceModel):
    """Scores of ``d_output`` classes for each sequence (for each step with ``pooling="none"``).

    The arguments are those of every model here: see ``SequenceModel``.

    >>> model = SequenceClassifier(3, 10, layer="s4ptd", d_model=16, n_layers=2)
    >>> model(torch.randn(2, 100, 3), lengths=torch.tensor([100, 60])).shape
    torch.Size([2, 10])
    >>> words = SequenceClassifier(None, 2, vocabulary=135, layer="s5", d_model=16, layer_options={"d_state": 32})
    >>> words(torch.randint(135, (2, 100))).shape
    torch.Size([2, 2])
    """

    def forward(self, x: Tensor, *, lengths: Tensor | Lengths | None = None) -> Float[Tensor, "batch *length d_output"]:
        """Tokens ``(batch, length)`` or numbers ``(batch, length, d_input)`` to scores before the softmax."""
        known = self.backbone.known(x, lengths)
        return self._read_out(self.backbone(x, lengths=known), known)


class SequenceRegressor(SequenceModel):
    """``d_output`` numbers for each sequence, or for each step with ``pooling="none"``; then it also streams.

    >>> model = SequenceRegressor(3, 1, layer="s4ptd", d_model=16, n_layers=2, pooling="none").eval()
    >>> y, state = model(torch.randn(2, 100, 3), return_state=True)
    >>> y.shape
    torch.Size([2, 100, 1])
    >>> y, state = model.step(torch.randn(2, 3), state)
    >>> y.shape
    torch.Size([2, 1])
    """

    def forward(
        self,
        x: Tensor,
        *,
        lengths: Tensor | Lengths | None = None,
        state: States | None = None,
        return_state: bool = False,
    ) -> Tensor | tuple[Tensor, States]:
        """Whole sequences; ``state`` continues an earlier call."""
        known = self.backbone.known(x, lengths)
        if state is None and not return_state:
            return self._read_out(self.backbone(x, lengths=known), known)
        self._check_streams()
        h, states = self.backbone.with_state(x, lengths=known, state=state)
        y = self._read_out(h, known)
        return (y, states) if return_state else y

    def initial_state(self, batch: int) -> States:
        """The states of the layers before the first step."""
        self._check_streams()
        return self.backbone.initial_state(batch)

    def step(self, x: Tensor, state: States) -> tuple[Float[Tensor, "batch d_output"], States]:
        """The next ``(batch,)`` tokens or ``(batch, d_input)`` numbers: output here, and the states after it."""
        self._check_streams()
        h, state = self.backbone.step(x, state)
        return self.head(h), state

    def _check_streams(self) -> None:
        if self.pooling not in ("none", "last"):
            raise ArgumentError(
                f"pooling={self.pooling!r} looks at the whole sequence: to stream, build with pooling='none' or 'last'"
            )


class PairClassifier(SequenceModel):
    """Classes of pairs of sequences, both read by the same backbone: the retrieval task.

    With ``a`` and ``b`` the pooled vectors the scores are ``W_2 gelu(W_1 [a, b, a - b, a * b])``, where ``W_1`` maps
    from 4 to 1 times ``d_model`` and both have a bias. Batch norm takes its statistics over all sequences of all pairs.

    >>> model = PairClassifier(None, 2, vocabulary=98, layer="s5ptd", d_model=16, n_layers=2)
    >>> model(torch.randint(98, (4, 100)), torch.randint(98, (4, 80))).shape
    torch.Size([4, 2])
    """

    def forward(
        self,
        a: Tensor,
        b: Tensor,
        *,
        lengths_a: Tensor | Lengths | None = None,
        lengths_b: Tensor | Lengths | None = None,
    ) -> Float[Tensor, "batch d_output"]:
        """Scores before the softmax."""
        if a.shape[0] != b.shape[0]:
            raise ShapeError(f"a holds {a.shape[0]} sequences, b {b.shape[0]}: pairs need as many of each")
        x, known = _together(a, self.backbone.known(a, lengths_a), b, self.backbone.known(b, lengths_b))
        a, b = pool(self.backbone(x, lengths=known), known, self.pooling).chunk(2)
        return self.head(torch.cat([a, b, a - b, a * b], -1))

    def _check_pooling(self, pooling: Pooling) -> None:
        super()._check_pooling(pooling)
        if pooling == "none":
            raise ArgumentError("pairs are compared as a whole: pooling must be 'mean', 'last' or 'max'")

    def _make_head(self, d_model: int, d_output: int, dtype: torch.dtype | None) -> nn.Module:
        first, last = nn.Linear(4 * d_model, d_model, dtype=dtype), nn.Linear(d_model, d_output, dtype=dtype)
        return nn.Sequential(first, nn.GELU(), last)


def _together(a: Tensor, known_a: Lengths | None, b: Tensor, known_b: Lengths | None) -> tuple[Tensor, Lengths | None]:
    """One batch, ``a`` above ``b``, the shorter one padded."""
    size = max(a.shape[1], b.shape[1])
    x = torch.cat([F.pad(t, [0, 0] * (t.ndim - 2) + [0, size - t.shape[1]]) for t in (a, b)])
    if known_a is None and known_b is None and a.shape[1] == b.shape[1]:
        return x, None
    values = [
        torch.full((len(t),), t.shape[1], device=t.device) if known is None else known.values
        for t, known in ((a, known_a), (b, known_b))
    ]
    return x, Lengths(torch.cat(values), size)
