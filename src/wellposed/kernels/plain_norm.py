"""The norms in plain PyTorch, for derivatives of derivatives."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from wellposed.kernels.padding import zero_padding


def plain_layer_norm(u: Tensor, weight: Tensor, bias: Tensor, eps: float, lengths: Tensor | None) -> Tensor:
    """Each step over its channels, zero in the padding."""
    x = zero_padding(u.float(), lengths)
    return zero_padding(F.layer_norm(x, x.shape[-1:], weight.float(), bias.float(), eps), lengths)


def plain_batch_norm(
    u: Tensor,
    weight: Tensor,
    bias: Tensor,
    eps: float,
    lengths: Tensor | None,
    fixed: Tensor | None,
    *,
    count_padding: bool = False,
) -> Tensor:
    """Each channel over the true steps, or over all with ``count_padding``; zero in the padding.

    ``fixed`` is mean and ``1 / deviation`` where they are not those of ``u``.
    """
    x = zero_padding(u.float(), lengths)
    if fixed is None:
        counted = None if count_padding else lengths
        count = u.shape[0] * u.shape[1] if counted is None else counted.sum()
        mean = x.sum((0, 1)) / count
        rstd = (zero_padding(x - mean, counted).square().sum((0, 1)) / count + eps).rsqrt()
    else:
        mean, rstd = fixed
    return zero_padding((x - mean) * rstd * weight + bias, lengths)
