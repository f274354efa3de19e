"""Diagonal layers: S4D, and S4-PTD, which starts from a perturbed matrix instead of a truncated one."""

from __future__ import annotations

from typing import Literal, Unpack

import torch

from wellposed._checks import positive_int
from wellposed.errors import UnknownNameError
from wellposed.linalg import Diagonalization
from wellposed.nn._initial import Hippo, Modes, formula, normal_part, perturbed
from wellposed.nn._kernels import Bank, diagonal_bank, wide
from wellposed.nn._siso import SISOLayer, SISOOptions
from wellposed.systems import DiagonalSystem


class DiagonalLayer(SISOLayer):
    """``lambda = -exp(A_log_real) + i A_imag`` for every mode: negative real parts whatever training does."""

    def bank(self, direction: int = 0) -> Bank:
        """The modes of every channel in discrete time."""
        real, imag = -self._repeated(self.A_log_real).exp(), self._repeated(self.A_imag)
        dt = wide(self.log_dt).exp()[:, None]
        return diagonal_bank(real, imag, dt, self._repeated(self.B), self._C(direction), self.disc)

    def system(self) -> DiagonalSystem:
        """The layer as it stands: systems of continuous time, one a channel; read backwards parts are left out."""
        real, imag = -self._repeated(self.A_log_real).exp(), self._repeated(self.A_imag)
        B, C = (torch.view_as_complex(t.contiguous()) for t in (self._repeated(self.B), self._C(0) / 2))
        Lambda = torch.complex(real, imag)
        Lambda, B, C = (torch.cat([t, t.conj()], -1) for t in (Lambda, B, C))
        return DiagonalSystem(Lambda, B[..., None], C[:, None], wide(self.D)[:, None, None])


class S4D(DiagonalLayer):
    """S4D: HiPPO-LegS without its low-rank part, or the formulas ``"lin"`` and ``"inv"``.

    Further options, the same for all of its kind: ``SISOOptions``.

    >>> layer = S4D(4, 64)
    >>> layer(torch.randn(2, 100, 4)).shape
    torch.Size([2, 100, 4])
    """

    def __init__(
        self,
        d_model: int,
        d_state: int = 64,
        *,
        init: Literal["legs", "lin", "inv"] = "legs",
        **options: Unpack[SISOOptions],
    ) -> None:
        if init not in ("legs", "lin", "inv"):
            raise UnknownNameError("init", init, ("legs", "lin", "inv"))
        d_state = positive_int(d_state, "d_state")
        super().__init__(d_model, normal_part(d_state) if init == "legs" else formula(init, d_state), **options)


class S4PTD(DiagonalLayer):
    """S4-PTD: the whole HiPPO matrix, perturbed by a hair and diagonalised. As fast as S4D, as robust as S4.

    The size of the perturbation is set by ``rel`` (0.1 if nothing is said) or ``cond``, or ready made in
    ``perturbation``; ``hippo`` names the matrix or gives ``(A, B)``.

    Further options, the same for all of its kind: ``SISOOptions``.

    >>> layer = S4PTD(4, 64, rel=0.05)
    >>> y, state = layer(torch.randn(2, 100, 4), return_state=True)
    >>> y, state = layer.step(torch.randn(2, 4), state)
    >>> y.shape
    torch.Size([2, 4])
    """

    def __init__(
        self,
        d_model: int,
        d_state: int | None = None,
        *,
        hippo: Hippo = "legs",
        perturbation: Diagonalization | None = None,
        rel: float | int | None = None,
        cond: float | int | None = None,
        **options: Unpack[SISOOptions],
    ) -> None:
        super().__init__(d_model, ptd_modes(d_state, hippo, perturbation, rel, cond), **options)


def ptd_modes(
    d_state: int | None,
    hippo: Hippo,
    perturbation: Diagonalization | None,
    rel: float | int | None,
    cond: float | int | None,
) -> Modes:
    """Modes of the perturbed matrix; 64 states unless a matrix or a perturbation says otherwise."""
    if d_state is not None:
        d_state = positive_int(d_state, "d_state")
    elif isinstance(hippo, str):
        d_state = 64 if perturbation is None else perturbation.n
    return perturbed(hippo, d_state, perturbation, rel, cond)
