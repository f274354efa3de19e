"""Causal convolution by FFT, real numbers in and out, so that compilers never meet a complex one."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor


def convolve(
    u: Float[Tensor, "channel batch length"], k: Float[Tensor, "channel length"]
) -> Float[Tensor, "channel batch length"]:
    """``y_t = sum over s <= t of k_{t-s} u_s`` for every channel."""
    return _Product.apply(u, k[:, None].expand_as(u), False)


@torch.library.custom_op(
    "wellposed::fft_product", mutates_args=(), schema="(Tensor u, Tensor k, bool conjugate) -> Tensor"
)
def _fft_product(u: Tensor, k: Tensor, conjugate: bool) -> Tensor:
    """Convolution of the last dimensions, or correlation with ``k``, at the first ``length`` lags."""
    length = u.shape[-1]
    size = 2 * length
    spectrum = torch.fft.rfft(k, n=size)
    spectrum = spectrum.conj() if conjugate else spectrum
    product = torch.fft.irfft(torch.fft.rfft(u, n=size) * spectrum, n=size)
    return product[..., :length].contiguous()


@_fft_product.register_fake
def _(u: Tensor, k: Tensor, conjugate: bool) -> Tensor:
    return torch.empty(torch.broadcast_shapes(u.shape, k.shape), dtype=u.dtype, device=u.device)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(u: Tensor, k: Tensor, conjugate: bool) -> Tensor:
        same = k.stride(1) == 0 and k.shape[1] > 0
        return _fft_product(u, k[:, :1] if same else k, conjugate)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        u, k, ctx.conjugate = inputs
        ctx.save_for_backward(u, k)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The adjoint of a convolution is a correlation, and the other way round."""
        u, k = ctx.saved_tensors
        for_u = _Product.apply(grad, k, not ctx.conjugate)
        for_k = _Product.apply(u, grad, True) if ctx.conjugate else _Product.apply(grad, u, True)
        return for_u, for_k, None

    @staticmethod
    def vmap(info: Any, in_dims: Any, u: Tensor, k: Tensor, conjugate: bool) -> tuple[Tensor, int]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Channels are independent: a mapped dimension joins them."""
        size = info.batch_size
        front = [
            t.movedim(d, 0) if d is not None else t.expand(size, *t.shape)
            for t, d in zip((u, k), in_dims[:2], strict=True)
        ]
        out = _Product.apply(*(t.flatten(0, 1) for t in front), conjugate)
        return out.unflatten(0, (size, -1)), 0
