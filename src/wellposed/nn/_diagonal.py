"""Diagonal layers with one system a channel: what S4D and S4-PTD share once they have started."""

from __future__ import annotations

from typing import Any, TypeVar

import torch

from wellposed.errors import ArgumentError, UnknownNameError
from wellposed.kernels import DiagonalParameters, as_float64
from wellposed.nn._from_system import channels_of
from wellposed.nn._siso import SISOConfig, SISOLayer
from wellposed.systems import DiagonalSystem

Own = TypeVar("Own", bound="DiagonalLayer")


class DiagonalLayer(SISOLayer):
    """``lambda = -exp(A_log_real) + i A_imag`` for every mode: negative real parts whatever training does."""

    def _kernel_system(self) -> DiagonalParameters:
        """The parameters as they are."""
        return DiagonalParameters(
            self.A_log_real, self.A_imag, self.B, self.C, self.log_dt, weight=self.count, disc=self.disc
        )

    def system(self) -> DiagonalSystem:
        """The layer as it stands: systems of continuous time, one a channel; read backwards parts are left out."""
        real, imag = -self._repeated(self.A_log_real).exp(), self._repeated(self.A_imag)
        B, C = (torch.view_as_complex(t.contiguous()) for t in (self._repeated(self.B), self._weighted_C()[0] / 2))
        Lambda = torch.complex(real, imag)
        Lambda, B, C = (torch.cat([t, t.conj()], -1) for t in (Lambda, B, C))
        return DiagonalSystem(Lambda, B[..., None], C[:, None], as_float64(self.D)[:, None, None])

    @classmethod
    def from_system(cls: type[Own], system: DiagonalSystem, d_model: int | None = None, **options: Any) -> Own:
        """A layer that starts from a diagonal system: from one for all channels, or from a batch, one a channel.

        ``d_model`` may be left out for a batch. ``options`` are those of ``SISOConfig``; steps are drawn between
        ``dt_min`` and ``dt_max`` as always. The system must be real, continuous and stable.

        >>> from wellposed import ptd
        >>> from wellposed.nn import S4PTD
        >>> from wellposed.systems import s4
        >>> exact = s4(16, form="dense")
        >>> layer = S4PTD.from_system(exact.diagonalized(ptd(exact.A, stable=True)), d_model=8)
        >>> layer(torch.randn(2, 100, 8)).shape
        torch.Size([2, 100, 8])
        """
        modes, C, D = channels_of(system, d_model)
        if taken := [name for name in ("d_state", "C_init", "scale") if name in options]:
            raise ArgumentError(f"{', '.join(taken)}: the system says that; change it with system.replace(...)")
        for name in options:
            if name not in SISOConfig.__dataclass_fields__:
                raise UnknownNameError(f"option of {cls.__name__}.from_system", name, SISOConfig.__dataclass_fields__)
        if not cls.__init__.__module__.startswith("wellposed."):
            raise ArgumentError(
                f"{cls.__name__} has a constructor of its own, which from_system would pass over: build it there from "
                "S4PTD.from_system(...), or override from_system"
            )
        config = SISOConfig(len(D), **options)
        layer = cls.__new__(cls)
        directions = 2 if config.bidirectional else 1
        SISOLayer.__init__(layer, config, modes, C=C.expand(directions, -1, -1), D=D)
        return layer
