"""What a careful first implementation does, in plain PyTorch: the layers to measure ours against, and to check them by.

A ``Textbook`` takes the parameters of one of our layers and computes the same function as the papers write it down: the
kernel of every channel from all modes at all times, then a convolution by FFT; for S5 a parallel scan, or the states by
FFT. It shares no code with ``wellposed.kernels``; in float64 it is what errors are measured against.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from wellposed.nn import S4, S5, S5PTD, SequenceLayer

How = Literal["fft", "scan"]


class Textbook(SequenceLayer):
    """The function of ``layer``, with its parameters, by the book; ``how`` S5 finds its states."""

    def __init__(self, layer: SequenceLayer, how: How = "fft") -> None:
        super().__init__(layer.d_model, bidirectional=layer.bidirectional)
        self.own = layer
        self.how: How = how

    @property
    def state_shape(self) -> tuple[int, ...]:
        """That of the layer."""
        return self.own.state_shape

    def _one_step(self, u: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        raise NotImplementedError("the textbook implementation is for whole sequences")

    def _sequence(self, u: Tensor, lengths: object, state: object, want_state: bool) -> tuple[Tensor, None]:
        assert lengths is None
        assert state is None
        own: Any = self.own
        if isinstance(own, S5 | S5PTD):
            return _shared(own, u, self.how) + own.D * u, None
        kernel = (_low_rank_kernel if isinstance(own, S4) else _diagonal_kernel)(own, u.shape[1])
        return convolve(u.transpose(1, 2), kernel).transpose(1, 2) + own.D * u, None


def convolve(u: Tensor, kernel: Tensor) -> Tensor:
    """``(batch, channel, length)`` with kernels ``(direction, channel, length)``; the second looks ahead."""
    length = u.shape[-1]
    spectrum = torch.fft.rfft(kernel, n=2 * length)
    # A kernel reversed in time has the conjugate spectrum.
    spectrum = spectrum[0] if len(spectrum) == 1 else spectrum[0] + spectrum[1].conj()
    return torch.fft.irfft(torch.fft.rfft(u, n=2 * length) * spectrum, n=2 * length)[..., :length]


def associative_scan(a: Tensor, s: Tensor) -> Tensor:
    """``x_t = a x_{t-1} + s_t`` along dim 1: neighbours are paired, the pairs scanned with ``a^2``, the rest filled in.

    As ``jax.lax.associative_scan`` does it, but for the powers of ``a``, which are the same at all steps.
    """
    length = s.shape[1]
    if length == 1:
        return s
    odd = associative_scan(a * a, s[:, 1::2] + a * s[:, : length - 1 : 2])
    even = torch.cat([s[:, :1], s[:, 2::2] + a * odd[:, : (length - 1) // 2]], 1)
    if length % 2:
        both = torch.stack([even[:, :-1], odd], 2).flatten(1, 2)
        return torch.cat([both, even[:, -1:]], 1)
    return torch.stack([even, odd], 2).flatten(1, 2)


def _complex(parameter: Tensor) -> Tensor:
    return torch.view_as_complex(parameter.contiguous())


def _eigenvalues(own: Any) -> Tensor:
    return torch.complex(-own.A_log_real.exp(), own.A_imag)


def _powers(z: Tensor, length: int) -> Tensor:
    """``exp(z t)`` at all times, written out."""
    return (z[..., None] * torch.arange(length, device=z.device)).exp()


def _diagonal_kernel(own: Any, length: int) -> Tensor:
    """S4D, S4-PTD under zero-order hold: channels x modes x length complex numbers, then their sum."""
    assert own.disc == "zoh"
    copies = len(own.log_dt) // len(own.A_imag)
    Lambda = _eigenvalues(own).repeat(copies, 1)
    z = Lambda * own.dt[:, None]
    B = _complex(own.B).repeat(copies, 1) * (z.exp() - 1) / Lambda
    weights = _complex(own.C) * own.count * B
    return torch.einsum("dhn,hnl->dhl", weights, _powers(z, length)).real


def _shared(own: Any, u: Tensor, how: How) -> Tensor:
    """S5, S5-PTD under zero-order hold: inputs of the modes, their states at all times, and the read-out."""
    assert own.disc == "zoh"
    Lambda = _eigenvalues(own)
    z = Lambda * own.dt
    B = _complex(own.B) * ((z.exp() - 1) / Lambda)[:, None]
    C = _complex(own.C) * own.count
    s = torch.complex(u @ B.real.mT, u @ B.imag.mT)
    y = _read(C[0], _states(z, s, how))
    return y + _read(C[1], _states(z, s.flip(1), how).flip(1)) if own.bidirectional else y


def _states(z: Tensor, s: Tensor, how: How) -> Tensor:
    if how == "scan":
        return associative_scan(z.exp(), s)
    length = s.shape[1]
    kernel = torch.fft.fft(_powers(z, length).mT, n=2 * length, dim=0)
    return torch.fft.ifft(torch.fft.fft(s, n=2 * length, dim=1) * kernel, dim=1)[:, :length]


def _read(C: Tensor, x: Tensor) -> Tensor:
    return x.real @ C.real.mT - x.imag @ C.imag.mT


def _low_rank_kernel(own: Any, length: int) -> Tensor:
    """S4 under the bilinear rule: its generating function at the roots of unity, by Cauchy sums and Woodbury's formula.

    With ``A = Lambda - P P*`` and ``K(z) = sum over t < L of C A_bar^t B_bar z^t``,

        K(z) = C' 2 (2 (1 - z) / dt - (1 + z) A)^-1 B,      C' = C (I - A_bar^L).

    Nothing is divided by ``1 + z``, which vanishes at one of the roots.
    """
    assert own.disc == "bilinear"
    Lambda, B, C, P = _conjugate_pairs(own)
    dt = own.dt[:, None]
    C = C - (C[..., None, :] @ torch.linalg.matrix_power(_transition(Lambda, P, dt / 2), length))[..., 0, :]
    frequency = torch.arange(length // 2 + 1, device=dt.device, dtype=dt.dtype)
    root = torch.polar(torch.ones_like(frequency), -2 * torch.pi / length * frequency)
    R = 2 / (2 * (1 - root) / dt[..., None] - (1 + root) * Lambda[..., None])  # (channel, mode, root)

    def cauchy(left: Tensor, right: Tensor) -> Tensor:
        return torch.einsum("...hn,hnl->...hl", left * right, R)

    half = (1 + root) / 2
    fraction = half * cauchy(P.conj(), B) / (1 + half * cauchy(P.conj(), P))
    return torch.fft.irfft(cauchy(C, B) - cauchy(C, P) * fraction, n=length)


def _transition(Lambda: Tensor, P: Tensor, h: Tensor) -> Tensor:
    """``(I - hA)^-1 (I + hA) = 2 (I - hA)^-1 - I``, the inverse by Sherman and Morrison: no solver, which waits."""
    D = 1 / (1 - h * Lambda)
    update = h / (1 + (h * P.conj() * D * P).sum(-1, keepdim=True))
    column, row = update * D * P, P.conj() * D
    return torch.diag_embed(2 * D - 1) - 2 * column[..., :, None] * row[..., None, :]


def _conjugate_pairs(own: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Eigenvalues, ``B``, ``C`` and ``P`` of all modes, the stored ones and their conjugates; rank one."""
    copies = len(own.log_dt) // len(own.A_imag)
    stored = [_eigenvalues(own), _complex(own.B), _complex(own.P)[..., 0]]
    Lambda, B, P = (t.repeat(copies, 1) for t in stored)
    C = _complex(own.C) * own.count / 2
    Lambda, B, C, P = (torch.cat([t, t.conj()], -1) for t in (Lambda, B, C, P))
    return Lambda, B, C, P
