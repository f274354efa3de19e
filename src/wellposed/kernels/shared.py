"""One diagonal recurrence for all channels: S5 and S5-PTD."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from wellposed.kernels.diagonal import Spectrum
from wellposed.kernels.discretize import Discretisation, complex_product, discretize
from wellposed.kernels.precision import as_float64


@dataclass(frozen=True)
class SharedParameters:
    """A diagonal system of continuous time as a layer stores it; every mode has its own step."""

    A_log_real: Float[Tensor, " mode"]
    A_imag: Float[Tensor, " mode"]
    B: Float[Tensor, "mode channel 2"]
    C: Float[Tensor, "direction channel mode 2"]
    log_dt: Float[Tensor, " mode"]
    weight: Float[Tensor, " mode"]
    disc: Discretisation

    @property
    def states(self) -> int:
        """Real numbers in the state."""
        return 2 * self.A_imag.shape[0]

    def discretize(self, dtype: torch.dtype) -> SharedRecurrence:
        """In discrete time, with ``B`` and ``C`` in the precision of the sequence."""
        real, imag = -as_float64(self.A_log_real).exp(), as_float64(self.A_imag)
        decay, angle, gain = discretize(real, imag, as_float64(self.log_dt).exp(), self.disc)
        B = complex_product(gain[:, None], as_float64(self.B))  # (mode, channel, 2)
        C = as_float64(self.C) * as_float64(self.weight)[:, None]
        C = torch.stack([C[..., 0], -C[..., 1]], -1).flatten(-2)  # Re(C x) as rows
        return SharedRecurrence(
            Spectrum(decay[None], angle[None]), B.permute(1, 0, 2).flatten(1).to(dtype), C.to(dtype)
        )


@dataclass(frozen=True)
class SharedRecurrence:
    """``x_t = A x_{t-1} + u_t B``, ``y_t = x_t C^T``, with complex states stored as ``[Re, Im, ...]``."""

    modes: Spectrum
    B: Float[Tensor, "channel state"]
    C: Float[Tensor, "direction channel state"]

    @property
    def directions(self) -> int:
        """As many as there are read-outs."""
        return self.C.shape[0]
