"""The backend ``"conv"``: causal convolution by FFT, real numbers in and out, so that compilers meet no complex one."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from wellposed.kernels.chunks import final_state, run_shared
from wellposed.kernels.device import exporting
from wellposed.kernels.diagonal import Spectrum
from wellposed.kernels.layout import rows
from wellposed.kernels.recurrence import Recurrence
from wellposed.kernels.scan import scan
from wellposed.kernels.shared import SharedParameters
from wellposed.kernels.tables import with_skip
from wellposed.kernels.work import Inputs, Output, Sequences, Work, in_both_directions


def supports(work: Work) -> bool:
    """Not while a model is exported: exporters know no FFT of real numbers alone."""
    return not exporting()


def run(work: Work) -> Output:
    """Outputs, and the last state where it is wanted."""
    if isinstance(work.system, SharedParameters):
        return run_shared(work, work.system.discretize(work.u.dtype), _convolved_states)
    recurrence = work.system.discretize()

    def forward(u: Inputs, direction: int) -> Output:
        inputs = recurrence.inputs
        kernel = kernel_values(recurrence, direction, u.shape[1], u.dtype)[..., 0, :]
        kernel = kernel.permute(2, 0, 1).flatten(0, 1)  # as the inputs lie: the first of all channels, then the second
        skip = None if work.D is None or direction else F.pad(work.D, (0, len(kernel) - len(work.D)))
        y = convolve(u.permute(2, 0, 1), with_skip(kernel, skip))
        y = (y if inputs == 1 else y.unflatten(0, (inputs, -1)).sum(0)).permute(1, 2, 0)
        return y if work.state is None or direction else y + _read_out(recurrence, work.state, u.shape[1]), None

    y, _ = in_both_directions(work, recurrence.directions, forward)
    return y, final_state(recurrence, work.u, work.state, work.lengths) if work.want_state else None


def _split(length: int) -> tuple[int, int]:
    """``T, J`` with ``T J >= length``, both near its root; ``T`` a power of 2, found by comparisons alone."""
    T = 1
    while length > T * T:
        T *= 2
    return T, -(-length // T)


def kernel_values(
    recurrence: Recurrence, direction: int, length: int, dtype: torch.dtype
) -> Float[Tensor, "channel length output input"]:
    """``C A^t B`` for ``t < length``, but never as large as all modes at all times.

    With ``t = j T + r`` a value is ``(C A^(jT)) (A^r B)``: two short tables and their product.
    """
    T, J = _split(length)
    rows, columns = recurrence.every(T).rows(J, direction), recurrence.columns(T)
    products = (rows.to(dtype) @ columns.to(dtype)).unflatten(2, (T, -1)).unflatten(1, (J, -1))
    return products.transpose(2, 3).flatten(1, 2)[:, :length]


def _read_out(recurrence: Recurrence, state: Float[Tensor, "batch channel state"], length: int) -> Sequences:
    """``C A^(jT + r + 1) x0``: the state at the start of every chunk, read out along it."""
    T, J = _split(length)
    x0 = state.transpose(0, 1)
    channels, batch, states = x0.shape
    A = recurrence.every(T).transition
    starts = torch.cat([x0[:, :, None], scan(x0.new_zeros(channels, batch, J, states), A, x0)], 2)[:, :, :J]
    rows = recurrence.rows(T + 1)[:, 1:].to(x0.dtype)
    return torch.einsum("hbjs,hts->bjth", starts, rows).flatten(1, 2)[:, :length]


def _convolved_states(modes: Spectrum, v: Sequences, x0: Float[Tensor, "batch state"]) -> Sequences:
    """Every state by FFT: a complex convolution for each mode, made of real ones."""
    batch, length, _ = v.shape
    powers = modes.powers(length + 1)[0].to(v.dtype)  # (mode, 2, length + 1)
    inputs = v.unflatten(-1, (-1, 2)).permute(2, 3, 0, 1).flatten(1, 2)  # (mode, 2 batch, length)
    re, im = (convolve(inputs, powers[:, k, :length]).unflatten(1, (2, batch)) for k in (0, 1))
    x = torch.stack([re[:, 0] - im[:, 1], re[:, 1] + im[:, 0]], 1)  # (mode, 2, batch, length)
    x = x.permute(2, 3, 0, 1).flatten(2)
    first = powers[:, :, 1:].permute(2, 0, 1).flatten(1)  # lambda^(t+1), (length, state)
    (a, b), (p, q) = (t.unflatten(-1, (-1, 2)).unbind(-1) for t in (first, x0[:, None]))
    return x + torch.stack([a * p - b * q, a * q + b * p], -1).flatten(-2)


def convolve(
    u: Float[Tensor, "channel batch length"], k: Float[Tensor, "channel length"]
) -> Float[Tensor, "channel batch length"]:
    """``y_t = sum over s <= t of k_{t-s} u_s`` for every channel."""
    return _apply(u, k[:, None], False, u.shape[1])


@torch.library.custom_op(
    "wellposed::fft_product", mutates_args=(), schema="(Tensor u, Tensor k, bool conjugate, SymInt batch) -> Tensor"
)
def _opaque_product(u: Tensor, k: Tensor, conjugate: bool, batch: int) -> Tensor:
    """The same, out of the compilers' sight."""
    return _plain_product(u, k, conjugate, batch)


def _plain_product(u: Tensor, k: Tensor, conjugate: bool, batch: int) -> Tensor:
    """Convolution along the last dimension, or correlation with ``k``, at the first ``length`` lags.

    Where ``batch`` is 1 and that of the factors is not, the sum over theirs.
    """
    size = fast_size(u.shape[-1])
    product = _multiplied(torch.fft.rfft(u, n=size), torch.fft.rfft(k, n=size), conjugate, batch)
    return _lags(product, u.shape[-1])


def fast_size(length: int) -> int:
    """Enough for a convolution that does not come around, and made of small primes: others take three times as long.

    >>> [fast_size(n) for n in (1, 1000, 1009, 1024)]
    [1, 2048, 2048, 2048]
    >>> fast_size(1999)
    4096
    """
    enough, power = 2 * length - 1, 1
    while 2 * power <= enough:
        power *= 2
    return next(n for m in (8, 9, 10, 12, 15, 16) if (n := -(-power * m // 8)) >= enough)


def _multiplied(a: Tensor, b: Tensor, conjugate: bool, batch: int) -> Tensor:
    product = a * (b.conj() if conjugate else b)
    return product.sum(1, keepdim=True) if batch == 1 else product


def _lags(spectrum: Tensor, length: int) -> Tensor:
    return torch.fft.irfft(spectrum, n=fast_size(length))[..., :length].contiguous()


@_opaque_product.register_fake
def _(u: Tensor, k: Tensor, conjugate: bool, batch: int) -> Tensor:
    return torch.empty((u.shape[0], batch, u.shape[2]), dtype=u.dtype, device=u.device)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(u: Tensor, k: Tensor, conjugate: bool, batch: int) -> Tensor:
        # The first call of an operator of one's own loads the compiler, which takes seconds.
        product = _opaque_product if torch.compiler.is_compiling() else _plain_product
        return product(u, k, conjugate, batch)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        u, k, ctx.conjugate, ctx.batch = inputs
        ctx.save_for_backward(u, k)
        ctx.save_for_forward(u, k)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The adjoint of a convolution is a correlation, and the other way round."""
        u, k = ctx.saved_tensors
        if not (ctx.conjugate or torch.is_grad_enabled() or torch.compiler.is_compiling()):
            return *_gradients(ctx, u, k, grad), None, None
        for_u = _apply(grad, k, not ctx.conjugate, u.shape[1])
        a, b = (u, grad) if ctx.conjugate else (grad, u)
        return for_u, _apply(a, b, True, k.shape[1]), None, None

    @staticmethod
    def vmap(info: Any, in_dims: Any, u: Tensor, k: Tensor, conjugate: bool, batch: int) -> tuple[Tensor, int]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Channels are independent: a mapped dimension joins them."""
        size = info.batch_size
        front = [
            t.movedim(d, 0) if d is not None else t.expand(size, *t.shape)
            for t, d in zip((u, k), in_dims[:2], strict=True)
        ]
        u, k = (t.flatten(0, 1) for t in front)
        out = _apply(u, k, conjugate, batch)
        return out.unflatten(0, (size, -1)), 0


def _gradients(ctx: Any, u: Tensor, k: Tensor, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """Of a convolution, where nobody differentiates them again: both need the transform of ``grad``, taken once.

    That of ``k`` is summed over the batch before it comes back from the frequencies. Transforms of long sequences are
    most of the time a convolution takes, and there are three here instead of five.
    """
    length = u.shape[-1]
    size = fast_size(length)
    spectrum = torch.fft.rfft(rows(grad.permute(1, 2, 0)), n=size)
    for_u = for_k = None
    if ctx.needs_input_grad[0]:
        for_u = _lags(_multiplied(spectrum, torch.fft.rfft(k, n=size), True, u.shape[1]), length)
    if ctx.needs_input_grad[1]:
        for_k = _lags(_multiplied(spectrum, torch.fft.rfft(u, n=size), True, k.shape[1]), length)
    return for_u, for_k


class _ProductWithTangents(_Product):
    """Forward-mode derivatives besides, which the compiler does not take."""

    @staticmethod
    def jvp(ctx: Any, u_t: Tensor | None, k_t: Tensor | None, *_: None) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The product rule."""
        u, k = ctx.saved_tensors
        pairs = ((u_t, k), (u, k_t))
        terms = [_apply(a, b, ctx.conjugate, ctx.batch) for a, b in pairs if a is not None and b is not None]
        return sum(terms[1:], terms[0])


def _apply(u: Tensor, k: Tensor, conjugate: bool, batch: int) -> Tensor:
    return (_Product if torch.compiler.is_compiling() else _ProductWithTangents).apply(u, k, conjugate, batch)
