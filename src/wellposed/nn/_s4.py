"""S4: the whole HiPPO matrix, as a diagonal plus a matrix of low rank."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from wellposed._checks import positive_int
from wellposed.kernels import DenseRecurrence, Discretisation, adjoint, as_float64, times
from wellposed.linalg import matrix_exp
from wellposed.nn._config import built_from
from wellposed.nn._initial import low_rank
from wellposed.nn._siso import SISOConfig, SISOLayer
from wellposed.systems import DenseSystem


@dataclass(frozen=True, eq=False, kw_only=True)
class S4Config(SISOConfig):
    """What S4 takes."""

    disc: Discretisation = "bilinear"
    """From continuous to discrete time: ``"bilinear"``, as published, or ``"zoh"``."""
    hippo: str = "legs"
    """A measure by name; for matrices of your own take S4-PTD."""


class S4(SISOLayer):
    """S4: ``A = diag(Lambda) - P P^*``, stable by construction since ``Re(Lambda) < 0`` and ``P P^*`` only damps.

    The reference the diagonal layers are measured against; its channels carry matrices, so it costs more.

    >>> S4(4, 64)(torch.randn(2, 100, 4)).shape
    torch.Size([2, 100, 4])
    """

    @built_from(S4Config)
    def __init__(self, config: S4Config) -> None:
        super().__init__(config, low_rank(config.hippo, positive_int(config.d_state or 0, "d_state"), config.scale))

    def _continuous(self) -> tuple[Tensor, Tensor, Tensor]:
        """Eigenvalues ``(channel, state)`` in real pairs, and ``P, Q`` of ``A = Lambda - P Q^T``, real coordinates."""
        real, imag = -self._repeated(self.A_log_real).exp(), self._repeated(self.A_imag)
        P = self._repeated(self.P)  # (channel, mode, rank, 2)
        # P^* x over both halves of every pair is count * Re(conj(P) x), a row for [Re x, Im x].
        Q = P * as_float64(self.count)[:, None, None]
        P, Q = (t.transpose(2, 3).flatten(1, 2) for t in (P, Q))
        return torch.stack([real, imag], -1).flatten(1), P, Q

    def _rows(self) -> Tensor:
        """``Re(C x)`` of each direction as a row for ``[Re x, Im x]``, ``(direction, channel, state)``."""
        C = self._weighted_C()
        return torch.stack([C[..., 0], -C[..., 1]], -1).flatten(2)

    def _kernel_system(self) -> DenseRecurrence:
        """The systems in discrete time, as real matrices."""
        Lambda, P, Q = self._continuous()
        dt = as_float64(self.log_dt).exp()[:, None]
        B, C = self._repeated(self.B).flatten(1), self._rows()
        if self.disc == "bilinear":
            R = _resolvent(Lambda, P, Q, dt / 2)
            A_bar = 2 * R - torch.eye(R.shape[-1], dtype=R.dtype, device=R.device)
            return DenseRecurrence(A_bar, dt * (R @ B[..., None])[..., 0], C)
        A = _blocks(Lambda) - P @ Q.mT
        # exp of [[A, B], [0, 0]] holds both exp(A) and the integral that makes B_bar.
        top = torch.cat([A, B[..., None]], -1) * dt[..., None]
        both = matrix_exp(torch.cat([top, torch.zeros_like(top[:, :1])], 1))
        return DenseRecurrence(both[:, :-1, :-1], both[:, :-1, -1], C)

    def system(self) -> DenseSystem:
        """The layer as it stands: real systems of continuous time, one a channel."""
        Lambda, P, Q = self._continuous()
        B, C = self._repeated(self.B).flatten(1), self._rows()[0]
        return DenseSystem(_blocks(Lambda) - P @ Q.mT, B[..., None], C[:, None], as_float64(self.D)[:, None, None])


def _blocks(Lambda: Tensor) -> Tensor:
    """A diagonal complex matrix in real coordinates: blocks ``[[Re, -Im], [Im, Re]]``."""
    re, im = Lambda.unflatten(-1, (-1, 2)).unbind(-1)
    block = torch.stack([torch.stack([re, -im], -1), torch.stack([im, re], -1)], -2)  # (channel, mode, 2, 2)
    eye = torch.eye(re.shape[-1], dtype=re.dtype, device=re.device)
    return (eye[:, None, :, None] * block[:, :, :, None]).flatten(3, 4).flatten(1, 2)


def _resolvent(Lambda: Tensor, P: Tensor, Q: Tensor, h: Tensor) -> Tensor:
    """``(I - h (Lambda - P Q^T))^-1`` by Woodbury's formula: no matrix of the size of the state is inverted."""
    re, im = (h[..., None] * Lambda.unflatten(-1, (-1, 2))).unbind(-1)
    size = (1 - re) ** 2 + im**2
    D = torch.stack([(1 - re) / size, im / size], -1).flatten(1)  # 1 / (1 - h lambda)
    DP, DQ = times(D, P.mT).mT, times(adjoint(D), Q.mT).mT
    small = h[..., None] * (Q.mT @ DP)
    core = 1 / (1 + small) if small.shape[-1] == 1 else torch.linalg.inv(torch.eye(small.shape[-1]).to(small) + small)
    return _blocks(D) - h[..., None] * DP @ core @ DQ.mT
