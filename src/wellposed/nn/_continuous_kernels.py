"""Convolution kernels as functions of time, made by small networks: any number of samples from the same weights."""

from __future__ import annotations

import math
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from wellposed.nn._weights import applied

Generator = Literal["magnet", "siren"]
GENERATORS = ("magnet", "siren")
FILTERS = 4
"""Of MAGNet, one after another, as CCNN has them."""
SINES = 2
"""Of SIREN, likewise: three maps with the last."""

Times = Float[Tensor, " sample"]
Values = Float[Tensor, "sample channel"]


class MAGNet(nn.Module):
    """A multiplicative anisotropic Gabor network (Romero et al., 2022) of time in ``[-1, 1]``.

    With ``g_l(t) = exp(-(gamma_l (t - mu_l))^2 / 2) sin(W_l t + b_l)`` for each hidden channel: ``h_0 = g_0``,
    ``h_l = g_l (U_l h_{l-1} + c_l)``, and the kernel is ``U h_3 + c``.
    """

    def __init__(self, channels: int, hidden: int, omega_0: float, reach: float, *, dtype: torch.dtype | None) -> None:
        super().__init__()
        order = torch.arange(1, FILTERS + 1)
        concentration = (6.0 / order)[:, None].expand(-1, hidden)
        gamma = torch.distributions.Gamma(concentration, torch.ones_like(concentration)).sample().to(dtype)
        self.gamma = nn.Parameter(gamma)
        # Centres where the mask is not small yet: time 1 is now, and the mask falls towards the past.
        self.mu = nn.Parameter(1 - 1.667 * reach * torch.rand(FILTERS, hidden, dtype=dtype))
        self.W = nn.Parameter((2 * torch.rand(FILTERS, hidden, dtype=dtype) - 1) * 2 * math.pi * omega_0 * gamma)
        self.b = nn.Parameter(torch.zeros(FILTERS, hidden, dtype=dtype))
        self.inner = nn.ModuleList(nn.Linear(hidden, hidden, dtype=dtype) for _ in range(FILTERS - 1))
        self.out = nn.Linear(hidden, channels, dtype=dtype)
        for linear in (*self.inner, self.out):
            assert isinstance(linear, nn.Linear)
            nn.init.kaiming_uniform_(linear.weight, nonlinearity="linear")
            nn.init.constant_(linear.bias, 0.0 if linear is self.out else 1.0)

    def forward(self, t: Times) -> Values:
        """Samples of the kernels of all channels."""
        t = t[:, None, None]
        filters = (-((self.gamma * (t - self.mu)) ** 2) / 2).exp() * (self.W * t + self.b).sin()
        h = filters[:, 0]
        for l, linear in enumerate(self.inner, start=1):
            assert isinstance(linear, nn.Linear)
            h = filters[:, l] * applied(linear, h)
        return applied(self.out, h)


class SIREN(nn.Module):
    """Sines of sines (Sitzmann et al., 2020): ``h <- sin(omega_0 (W h + b))``, from ``h = t``; then a linear map."""

    def __init__(self, channels: int, hidden: int, omega_0: float, *, dtype: torch.dtype | None) -> None:
        super().__init__()
        self.omega_0 = omega_0
        sizes = (1, *(hidden for _ in range(SINES - 1)))
        self.inner = nn.ModuleList(nn.Linear(size, hidden, dtype=dtype) for size in sizes)
        self.out = nn.Linear(hidden, channels, dtype=dtype)
        for linear in (*self.inner, self.out):
            assert isinstance(linear, nn.Linear)
            size = linear.in_features
            bound = 1.0 if size == 1 else math.sqrt(6 / size) / omega_0
            nn.init.uniform_(linear.weight, -bound, bound)
            nn.init.zeros_(linear.bias)
        nn.init.kaiming_uniform_(self.out.weight, nonlinearity="linear")  # no sine follows it

    def forward(self, t: Times) -> Values:
        """Samples of the kernels of all channels."""
        h = t[:, None]
        for linear in self.inner:
            assert isinstance(linear, nn.Linear)
            h = (self.omega_0 * applied(linear, h)).sin()
        return applied(self.out, h)


def make_generator(
    kind: Generator, channels: int, hidden: int, omega_0: float, reach: float, *, dtype: torch.dtype | None
) -> MAGNet | SIREN:
    """By its name; ``reach`` is how far back the mask reaches at the start."""
    if kind == "magnet":
        return MAGNet(channels, hidden, omega_0, reach, dtype=dtype)
    return SIREN(channels, hidden, omega_0, dtype=dtype)
