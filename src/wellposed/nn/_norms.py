"""Normalisation that padding cannot disturb."""

from __future__ import annotations

from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from wellposed._checks import positive_int
from wellposed.errors import ArgumentError, ShapeError
from wellposed.nn._lengths import Lengths, as_lengths
from wellposed.nn._tracing import readable

Norm = Literal["layer", "batch", "none"]
NORMS = ("layer", "batch", "none")

Sequences = Float[Tensor, "batch length channel"]


class MaskedBatchNorm(nn.BatchNorm1d):
    """Batch norm over the steps that exist: mean and variance of a channel leave padding out.

    With ``count_padding`` they count it, as zeros: statistics then depend on how much of a batch is padding, which
    published code of S4 and S5 lets happen. It comes out as zero all the same.

    Without ``lengths`` this is ``nn.BatchNorm1d`` of ``(batch, length, channel)``; its parameters and buffers have the
    same names.

    >>> norm = MaskedBatchNorm(4)
    >>> norm(torch.randn(2, 100, 4), lengths=torch.tensor([100, 60])).shape
    torch.Size([2, 100, 4])
    """

    count_padding: bool = False  # also of modules pickled whole before there was a choice

    def __init__(
        self,
        d_model: int,
        *,
        eps: float | int = 1e-5,
        momentum: float | int | None = 0.1,
        affine: bool = True,
        count_padding: bool = False,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(positive_int(d_model, "d_model"), eps, momentum, affine, device=device, dtype=dtype)
        self.count_padding = count_padding

    def extra_repr(self) -> str:
        """As of PyTorch's."""
        return super().extra_repr() + (", count_padding=True" if self.count_padding else "")

    def forward(self, input: Sequences, lengths: Tensor | Lengths | None = None) -> Sequences:
        """Normalised sequences; padding comes out as zero."""
        x = input
        if x.ndim != 3 or x.shape[-1] != self.num_features:
            raise ShapeError(f"this norm takes (batch, length, {self.num_features}), got {tuple(x.shape)}")
        lengths = as_lengths(lengths, x.shape[0], x.shape[1], x.device)
        if self.training:
            check_enough(x, lengths)
        if lengths is None:
            return super().forward(x.flatten(0, 1)).view(x.shape)
        x = lengths.zero(x)
        mean, var = self._masked_statistics(x, lengths) if self.training else (self.running_mean, self.running_var)
        assert mean is not None
        assert var is not None
        return lengths.zero(self._normalised(x, mean, var))

    def _normalised(self, x: Sequences, mean: Tensor, var: Tensor) -> Sequences:
        scale = (var + self.eps).rsqrt()
        y = (x - mean) * (scale if self.weight is None else scale * self.weight)
        return (y if self.bias is None else y + self.bias).to(x.dtype)

    def _masked_statistics(self, x: Sequences, lengths: Lengths) -> tuple[Tensor, Tensor]:
        """Mean and variance of this batch, at least in float32; the running ones move towards them."""
        x = x.to(torch.promote_types(x.dtype, torch.float32))
        count: Any = x.shape[0] * x.shape[1] if self.count_padding else lengths.values.sum().to(x.dtype)
        mean = x.sum((0, 1)) / count
        distances = x - mean if self.count_padding else lengths.zero(x - mean)
        var = distances.square().sum((0, 1)) / count
        self._track(mean.detach(), (var * count / (count - 1)).detach())
        return mean, var

    def _track(self, mean: Tensor, unbiased: Tensor) -> None:
        """Move the running statistics, as ``nn.BatchNorm1d`` does: its running variance is the unbiased one."""
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        share = 1 / self.num_batches_tracked if self.momentum is None else self.momentum
        for running, new in ((self.running_mean, mean), (self.running_var, unbiased)):
            assert running is not None
            running.copy_((1 - share) * running + share * new)


def check_enough(x: Sequences, lengths: Lengths | None) -> None:
    """Two values a channel at least; every sequence has one, so that only a batch of one has to be looked at."""
    batch, size, _ = x.shape
    alone = batch * size == 1
    if batch == 1 and lengths is not None and readable(lengths.values):
        alone = int(lengths.values.sum()) == 1
    if alone:
        raise ArgumentError("batch norm in training needs more than one step in the batch: one value has no variance")


def make_norm(
    kind: Norm,
    d_model: int,
    *,
    momentum: float | int = 0.1,
    count_padding: bool = False,
    device: Any = None,
    dtype: torch.dtype | None = None,
) -> nn.Module:
    """Layer norm (each step by itself), batch norm (a channel over all steps of a batch), or nothing."""
    if kind == "layer":
        return nn.LayerNorm(d_model, device=device, dtype=dtype)
    if kind == "batch":
        return MaskedBatchNorm(d_model, momentum=momentum, count_padding=count_padding, device=device, dtype=dtype)
    return nn.Identity()


def normalise(module: nn.Module, x: Sequences, lengths: Lengths | None) -> Sequences:
    """Apply what ``make_norm`` made."""
    return module(x, lengths) if isinstance(module, MaskedBatchNorm) else module(x)


def normalise_step(module: nn.Module, x: Float[Tensor, "batch channel"]) -> Float[Tensor, "batch channel"]:
    """The same for a single step; batch norm needs its running statistics for that."""
    if isinstance(module, MaskedBatchNorm) and module.training:
        raise ArgumentError("step through batch norm in training: one step has no statistics of its own; use eval()")
    return normalise(module, x[:, None], None)[:, 0]
