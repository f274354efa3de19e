"""Systems ``Lambda - P P^*`` of continuous time under the bilinear rule, by Woodbury's formula: what S4 starts from.

No matrix of the size of the state is inverted or made. docs/devdocs/layers.md, (7) and (8)
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from wellposed.kernels.discretize import FORGOTTEN, complex_product, discretize
from wellposed.kernels.twins import Tensors, Twins

Modes = Float[Tensor, "channel mode"]


def bilinear_low_rank(
    log_real: Modes,
    imag: Modes,
    P: Float[Tensor, "channel mode rank 2"],
    B: Float[Tensor, "channel mode 2"],
    log_dt: Float[Tensor, " channel"],
    count: Float[Tensor, " mode"],
) -> Tensors:
    """``decay, angle, U, V`` and ``B`` of a ``LowRankRecurrence``, where ``lambda = -exp(log_real) + i imag``.

    ``count`` says how many eigenvalues a mode stands for: 2, or 1 if it is real.
    """
    return _TWINS(log_real, imag, P, B, log_dt, count)


def _plain(log_real: Tensor, imag: Tensor, P: Tensor, B: Tensor, log_dt: Tensor, count: Tensor) -> Tensors:
    dt = log_dt.exp()[:, None]
    decay, angle, gain = discretize(-log_real.exp(), imag, dt, "bilinear")
    P = P.transpose(1, 2)
    Q = count[:, None] * P  # P^* x over both halves of every pair is count * Re(conj(P) x)
    back = torch.stack([gain[..., 0], -gain[..., 1]], -1)  # for rows, which stand for conjugates
    GP, GB, V = complex_product(gain[:, None], P), complex_product(gain, B), complex_product(back[:, None], Q)
    GP, GB, Q = GP.flatten(2), GB.flatten(1), Q.flatten(2)
    U = -_inverse_of_one_plus(GP @ Q.mT / 2) @ GP / dt[..., None]
    return decay, angle, U, V.flatten(2), GB + dt / 2 * ((Q @ GB[..., None]) * U).sum(1)


def _inverse_of_one_plus(small: Float[Tensor, "channel rank rank"]) -> Float[Tensor, "channel rank rank"]:
    """The rank is 1 but for LegT."""
    if small.shape[-1] == 1:
        return 1 / (1 + small)
    return torch.linalg.inv(torch.eye(small.shape[-1]).to(small) + small)


def _fast(
    log_real: Tensor, imag: Tensor, P: Tensor, B: Tensor, log_dt: Tensor, count: Tensor
) -> tuple[Tensors, Tensors]:
    """The same in complex numbers: ``inverse = 1 / (1 - dt/2 lambda)``, ``lambda_bar = 2 inverse - 1``."""
    dt = log_dt.exp()[:, None]
    Lambda = torch.complex(-log_real.exp(), imag)
    inverse = (1 - dt / 2 * Lambda).reciprocal()
    bar, gain = 2 * inverse - 1, dt * inverse
    decay = torch.log1p((2 * dt * Lambda.real * inverse.abs().square()).clamp(min=FORGOTTEN)) / 2
    P, B = torch.view_as_complex(P.transpose(1, 2).contiguous()), torch.view_as_complex(B.contiguous())
    Q = count * P
    GP, GB, V = gain[:, None] * P, gain * B, gain.conj()[:, None] * Q
    core = _inverse_of_one_plus(_real(GP) @ _real(Q).mT / 2)
    U = core @ _real(GP) / -dt[..., None]
    k = _real(Q) @ _real(GB)[..., None]  # (channel, rank, 1)
    B_bar = _real(GB) + dt / 2 * (k * U).sum(1)
    kept = dt, Lambda, inverse, bar, gain, P, B, Q, GP, GB, core, U, k
    return (decay, bar.angle(), U, _real(V), B_bar), kept


def _gradients(inputs: Tensors, kept: Tensors, grads: Tensors) -> Tensors:
    dt, Lambda, inverse, bar, gain, P, B, Q, GP, GB, core, U, k = kept
    for_decay, for_angle, for_U, for_V, for_B = grads
    count = inputs[5]
    # B_bar = GB + dt/2 sum k U,  k = Q GB
    for_k = dt[..., None] / 2 * (U @ for_B[..., None])
    for_GB = for_B + (for_k * _real(Q)).sum(1)
    for_U = for_U + dt[..., None] / 2 * k * for_B[:, None]
    # U = -core GP / dt,  core^-1 = I + GP Q^T / 2
    for_GP = core.mT @ for_U / -dt[..., None]
    for_inverse = for_GP @ _real(GP).mT @ core.mT / -2
    for_dt = ((k * for_k).sum((1, 2)) - (U * for_U).sum((1, 2))) / dt[:, 0]
    for_Q = for_k * _real(GB)[:, None] + for_inverse.mT @ _real(GP)
    for_GP = for_GP + for_inverse @ _real(Q)
    for_GP, for_Q, for_GB, for_V = (_complex(t.contiguous()) for t in (for_GP, for_Q, for_GB, for_V))
    for_Q = for_Q + gain[:, None] * for_V
    shrunk = inverse.conj().resolve_conj()  # once: products would copy it each time
    back = dt * shrunk
    for_P = back[:, None] * for_GP + count * for_Q
    for_gain = (P.conj() * for_GP + for_V.conj() * Q).sum(1) + B.conj() * for_GB
    # gain = dt inverse; the logarithm of lambda_bar = 2 inverse - 1 has none at 0
    for_log = (torch.complex(for_decay, for_angle) / bar.conj()).masked_fill(bar == 0, 0)
    slopes = shrunk.square() * (dt * for_gain + 2 * for_log)  # for dt/2 lambda
    for_Lambda = dt / 2 * slopes
    for_dt = for_dt + (shrunk * for_gain + Lambda.conj() / 2 * slopes).real.sum(1)
    return (
        Lambda.real * for_Lambda.real,
        for_Lambda.imag,
        torch.view_as_real(for_P).transpose(1, 2),
        torch.view_as_real(back * for_GB),
        dt[:, 0] * for_dt,
        torch.zeros_like(count),
    )


def _complex(x: Float[Tensor, "*shape state"]) -> Tensor:
    return torch.view_as_complex(x.unflatten(-1, (-1, 2)))


def _real(z: Tensor) -> Tensor:
    return torch.view_as_real(z).flatten(-2)


_TWINS = Twins(_plain, _fast, _gradients)
