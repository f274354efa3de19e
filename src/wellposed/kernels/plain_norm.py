"""The norms in plain PyTorch, for derivatives of derivatives."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def plain_layer_norm(u: Tensor, weight: Tensor, bias: Tensor, eps: float, lengths: Tensor | None) -> Tensor:
    """Each step over its channels, zero in the padding."""
    x = _zeroed(u.float(), lengths)
    return _zeroed(F.layer_norm(x, x.shape[-1:], weight.float(), bias.float(), eps), lengths)


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
    x = _zeroed(u.float(), lengths)
    if fixed is None:
        counted = None if count_padding else lengths
        count = u.shape[0] * u.shape[1] if counted is None else counted.sum()
        mean = x.sum((0, 1)) / count
        rstd = (_zeroed(x - mean, counted).square().sum((0, 1)) / count + eps).rsqrt()
    else:
        mean, rstd = fixed
    return _zeroed((x - mean) * rstd * weight + bias, lengths)


def _zeroed(x: Tensor, lengths: Tensor | None) -> Tensor:
    if lengths is None:
        return x
    return torch.where((torch.arange(x.shape[1], device=x.device) < lengths[:, None])[..., None], x, 0.0)
