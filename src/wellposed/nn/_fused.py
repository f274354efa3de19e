"""What stands around a layer, by kernels in Triton where they take it, else by the modules of the block.

Modules that do more than their class says are always called: those with hooks, with parametrisations, or put in the
place of ours.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook

from wellposed.kernels.gate import Gate, activate_and_gate
from wellposed.kernels.layout import inner_dtype, is_channels_first, kernels_take, to_channels_first
from wellposed.kernels.norm import batch_norm, batch_norm_into, layer_norm
from wellposed.nn._encoders import NumberEncoder
from wellposed.nn._layer import SequenceLayer
from wellposed.nn._lengths import Lengths
from wellposed.nn._norms import MaskedBatchNorm, check_enough, normalise
from wellposed.nn._tied_dropout import TiedDropout

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def laid_out(u: Tensor, layer: SequenceLayer) -> Tensor:
    """Sequences as the layer, and the kernels around it, like them in memory; all others as they are."""
    if not layer.channels_first or is_channels_first(u) or not kernels_take(u):
        return u
    return to_channels_first(u)


def encoded(encoder: Any, x: Tensor, lengths: Lengths | None, layer: SequenceLayer | None) -> Tensor:
    """What the encoder makes of the input, as the first layer likes it in memory."""
    if layer is None or not layer.channels_first:
        return encoder(x, lengths)
    if (
        _untouched(encoder, NumberEncoder)
        and encoder.bias is not None
        and kernels_take(x, encoder.weight, encoder.bias)
    ):
        return encoder.channels_first(x, lengths)
    return laid_out(encoder(x, lengths), layer)


def normalised(norm: Any, u: Tensor, lengths: Lengths | None, *, inner: bool) -> tuple[Tensor, Tensor]:
    """What ``make_norm`` made, applied, zero in the padding; and ``u`` for the way around.

    Kernels give it the precision of ``u``, or autocast's if it goes ``inner``, to a layer.
    """
    how: Any = {"lengths": None if lengths is None else lengths.values}
    if _fits(u, norm, nn.LayerNorm) and tuple(norm.normalized_shape) == u.shape[2:]:
        how |= {"dtype": inner_dtype(u) if inner else u.dtype}
        return layer_norm(u, norm.weight, norm.bias, norm.eps, **how)
    if _is_batch_norm(norm, u):
        if norm.training:
            check_enough(u, lengths)
        how |= {"dtype": inner_dtype(u) if inner else u.dtype}
        return batch_norm(u, norm.weight, norm.bias, norm.eps, **_batch_norm_options(norm), **how)
    u = u if lengths is None else lengths.zero(u)
    x = normalise(norm, u, lengths)
    return x if lengths is None or x is u else lengths.zero(x), u


def normalised_into(
    norm: Any, layer: SequenceLayer, u: Tensor, lengths: Lengths | None
) -> tuple[Tensor, Tensor] | None:
    """Batch norm and the layer in one, and ``u`` for the way around; ``None`` where each must be called by itself."""
    if not (_is_batch_norm(norm, u) and _untouched(layer, type(layer)) and layer.compute_dtype == torch.float32):
        return None
    dtype, work = inner_dtype(u), layer._work(u, lengths)
    if work is None or (dtype == torch.bfloat16 and layer._sequence_dtype(u) != dtype):
        return None
    if norm.training:
        check_enough(u, lengths)
    return batch_norm_into(work, norm.weight, norm.bias, norm.eps, **_batch_norm_options(norm), dtype=dtype)


def _is_batch_norm(norm: Any, u: Tensor) -> bool:
    return _fits(u, norm, MaskedBatchNorm) and norm.running_mean is not None and norm.num_features == u.shape[2]


def _batch_norm_options(norm: MaskedBatchNorm) -> Any:
    running = (norm.running_mean, norm.running_var, norm.num_batches_tracked)
    how = {"momentum": norm.momentum, "count_padding": norm.count_padding}
    return {"running": running, "training": norm.training} | how


def gated(
    y: Tensor,
    u: Tensor,
    linear: Any,
    dropout: Any,
    *,
    activation: str,
    glu: str,
    residual: bool,
    lengths: Lengths | None,
) -> Tensor | None:
    """All that follows the layer, the input ``u`` added, zero in the padding; ``None`` where modules must be called."""
    if glu == "linear":
        return None
    fits = kernels_take(u, y) and is_channels_first(u) if linear is None else _fits(u, linear, nn.Linear, y)
    if not fits or not _untouched(dropout, nn.Dropout, TiedDropout) or dropout.p >= 1:
        return None
    if linear is not None and linear.weight.shape != ((2 if glu == "full" else 1) * u.shape[2], u.shape[2]):
        return None  # of a size of the user's own, which modules may broadcast
    p = dropout.p if dropout.training else 0.0
    gate = Gate(activation, glu, p, isinstance(dropout, TiedDropout))
    weight, bias = (None, None) if linear is None else (linear.weight, linear.bias)
    values = None if lengths is None else lengths.values
    y, added = to_channels_first(y), u if residual else None
    return activate_and_gate(y, added, weight, bias, gate, lengths=values, inner=inner_dtype(u), dtype=u.dtype)


def _fits(u: Tensor, module: Any, kind: type[nn.Module], *others: Tensor) -> bool:
    """Whether kernels take the place of this module, for sequences that lie channels first."""
    if not _untouched(module, kind):
        return False
    weight, bias = module.weight, module.bias
    return weight is not None and bias is not None and kernels_take(u, weight, bias, *others) and is_channels_first(u)


def _untouched(module: Any, *kinds: type[nn.Module]) -> bool:
    """Whether a call does what one of these classes says and nothing else."""
    if type(module) not in kinds or "forward" in vars(module) or _has_any_global_hook():
        return False
    return not any(getattr(module, name) for name in _HOOKS)
