"""S4: the whole HiPPO matrix, as a diagonal plus a matrix of low rank."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from wellposed._checks import positive_int
from wellposed.kernels import DenseRecurrence, Discretisation, LowRankParameters, as_float64
from wellposed.kernels.low_rank import matrix_of
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
        count = as_float64(self.count)
        return (as_float64(self.C) * torch.stack([count, -count], -1)).flatten(2)

    def _kernel_system(self) -> LowRankParameters | DenseRecurrence:
        """The parameters as they are under the bilinear rule, matrices in discrete time under the other."""
        if self.disc == "bilinear":
            return LowRankParameters(self.A_log_real, self.A_imag, self.P, self.B, self.C, self.log_dt, self.count)
        return self._held()

    def _held(self) -> DenseRecurrence:
        """By the exponential of ``[[A, B], [0, 0]]``, which holds both that of ``A`` and the integral for ``B``."""
        Lambda, P, Q = self._continuous()
        dt = as_float64(self.log_dt).exp()[:, None]
        top = (
            torch.cat([matrix_of(Lambda) - P @ Q.mT, self._repeated(self.B).flatten(1)[..., None]], -1) * dt[..., None]
        )
        both = matrix_exp(torch.cat([top, torch.zeros_like(top[:, :1])], 1))
        return DenseRecurrence(both[:, :-1, :-1], both[:, :-1, -1], self._rows())

    def system(self) -> DenseSystem:
        """The layer as it stands: real systems of continuous time, one a channel."""
        Lambda, P, Q = self._continuous()
        B, C = self._repeated(self.B).flatten(1), self._rows()[0]
        return DenseSystem(matrix_of(Lambda) - P @ Q.mT, B[..., None], C[:, None], as_float64(self.D)[:, None, None])
