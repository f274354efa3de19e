"""The paper's closed forms for HiPPO-LegS: Lemma 1 and the resolvent, signs corrected.

With ``q_l(s) = e_l^T (sI - A_H)^-1 B_H`` and ``a(s) = s/(s+n) prod_{j<n} (s-j)/(s+j)``,

    G_DPLR = q_l,    G_Diag - G_DPLR = -q_l a / (1 + a).

The paper prints the second line with the two transfer functions exchanged. On the imaginary axis every value costs
O(1) whatever ``n`` and ``l``; elsewhere O(n). Derivations: docs/devdocs/lemma1.md.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple, SupportsIndex

import torch
from jaxtyping import Bool, Complex128, Float64
from torch import Tensor

from wellposed._checks import as_tensor, finite, index_in, positive_int
from wellposed.systems._arctan_sums import sum_arctan_down, sum_arctan_up

__all__ = ["G_DPLR", "G_Diag", "G_difference", "resolvent"]

_CHUNK = 1 << 21  # complex numbers held at once by the off-axis products: 32 MiB
# exp(i pi k / 4), exact to the last digit
_EIGHTH_TURNS = [1, (1 + 1j) / 2**0.5, 1j, (-1 + 1j) / 2**0.5, -1, (-1 - 1j) / 2**0.5, -1j, (1 - 1j) / 2**0.5]


class Winding(NamedTuple):
    """``a(i omega) = r exp(i theta)``: the curve that winds around the origin and makes the spikes."""

    r: Float64[Tensor, "..."]
    one_minus_r: Float64[Tensor, "..."]
    half_turn: Complex128[Tensor, "..."]
    """``exp(i theta / 2)``"""

    @property
    def a(self) -> Complex128[Tensor, "..."]:
        """The value itself."""
        return self.r * self.half_turn**2

    @property
    def one_plus_a(self) -> Complex128[Tensor, "..."]:
        """``1 + a`` without the cancellation at ``theta = pi``."""
        return self.one_minus_r + 2 * self.r * self.half_turn.real * self.half_turn


def winding(omega: Float64[Tensor, "..."], n: int) -> Winding:
    """``a(i omega)`` for ``omega >= 0``."""
    h = torch.hypot(omega, torch.full_like(omega, n))
    half = _half_turn(omega, n - 1) * torch.exp(0.5j * torch.atan2(torch.full_like(omega, n), omega))
    return Winding(omega / h, float(n) ** 2 / (h * (h + omega)), half)


def _half_turn(omega: Float64[Tensor, "..."], m: int) -> Complex128[Tensor, "..."]:
    """Square root of ``prod_{j=1}^m (i omega - j)/(i omega + j)``, whose phase is ``2 sum arctan(j / omega)``."""
    if m < 1:
        return torch.ones_like(omega, dtype=torch.complex128)
    # Below m the phase is m pi minus something smaller; taking the m quarter turns out exactly keeps the digits.
    up = torch.exp(1j * sum_arctan_up(omega, m))
    down = torch.exp(-1j * sum_arctan_down(omega, m)) * _EIGHTH_TURNS[2 * m % 8]
    return torch.where(omega < m, down, up)


def _product_off_axis(s: Complex128[Tensor, " k"], m: int, first: int = 1) -> Complex128[Tensor, " k"]:
    """``prod_{j=first}^m (s - j)/(s + j)``, term by term."""
    total = torch.ones_like(s)
    step = max(1, _CHUNK // max(1, s.numel()))
    for start in range(first, m + 1, step):
        j = torch.arange(start, min(start + step, m + 1), dtype=torch.float64, device=s.device)
        total = total * ((s[:, None] - j) / (s[:, None] + j)).prod(dim=1)
    return total


def _q_on_axis(omega: Float64[Tensor, " k"], _: int, l: int) -> Complex128[Tensor, " k"]:
    return _q_from_product(1j * omega, l, _half_turn(omega, l - 2) ** 2)


def _q_off_axis(s: Complex128[Tensor, " k"], _: int, l: int) -> Complex128[Tensor, " k"]:
    return _q_from_product(s, l, _product_off_axis(s, l - 2))


def _q_from_product(s: Complex128[Tensor, " k"], l: int, product: Complex128[Tensor, " k"]) -> Tensor:
    c = ((2 * l - 1) / 2) ** 0.5
    return c / (s + 1) if l == 1 else c * (s / (s + (l - 1)) / (s + l)) * product


def _difference_on_axis(omega: Float64[Tensor, " k"], n: int, l: int) -> Complex128[Tensor, " k"]:
    w = winding(omega, n)
    return -_q_on_axis(omega, n, l) * (w.a / w.one_plus_a)


def _difference_off_axis(s: Complex128[Tensor, " k"], n: int, l: int) -> Complex128[Tensor, " k"]:
    # a(s) a(-s) = -s^2/(n^2 - s^2): work with whichever of a and 1/a does not overflow.
    right = s.real >= 0
    z = torch.where(right, s, -s)
    product = _product_off_axis(z, n - 1)
    above, below = torch.where(right, product * z, z), torch.where(right, z + n, product * (z - n))
    return -_q_off_axis(s, n, l) * (above / (above + below))


def _evaluate(s: Any, n: SupportsIndex, l: SupportsIndex, on_axis: Callable, off_axis: Callable) -> Tensor:
    n = positive_int(n, "n")
    l = index_in(l, "l", n)
    s = finite(as_tensor(s, "s").to(torch.complex128), "s")
    flat = s.reshape(-1)
    out = torch.empty_like(flat)
    axis: Bool[Tensor, " k"] = flat.real == 0
    omega = flat[axis].imag
    value = on_axis(omega.abs(), n, l)
    out[axis] = torch.where(omega < 0, value.conj(), value)
    if not bool(axis.all()):  # the products off the axis cost O(n) even for no point at all
        out[~axis] = off_axis(flat[~axis], n, l)
    return out.reshape(s.shape)


def _infinite_at_poles(s: Any, l: SupportsIndex, G: Complex128[Tensor, "..."]) -> Complex128[Tensor, "..."]:
    """``G``, with infinity where ``s`` is one of the poles -1, ..., -l of ``q_l``."""
    s = as_tensor(s, "s").to(torch.complex128)
    pole = (s.imag == 0) & (s.real == s.real.round()) & (s.real <= -1) & (s.real >= -operator.index(l))
    return torch.where(pole, torch.inf, G)


def G_DPLR(s: Any, n: SupportsIndex, *, l: SupportsIndex = 1) -> Complex128[Tensor, "..."]:
    """Transfer function of the HiPPO-LegS system with ``C = e_l``; it depends on ``n`` only through ``l <= n``.

    ``s`` is a number or an array, on the imaginary axis or off it; at a pole the value is infinite.

    >>> round(abs(complex(G_DPLR(1j, 8))), 6)
    0.5
    """
    return _infinite_at_poles(s, l, _evaluate(s, n, l, _q_on_axis, _q_off_axis))


def G_difference(s: Any, n: SupportsIndex, *, l: SupportsIndex = 1) -> Complex128[Tensor, "..."]:
    """``G_Diag(s) - G_DPLR(s)`` for ``C = e_l``: Lemma 1 with its sign corrected, for any complex ``s``.

    >>> round(abs(complex(G_difference(325.4263j, 32))), 4)
    0.4505
    """
    return _infinite_at_poles(s, l, _evaluate(s, n, l, _difference_on_axis, _difference_off_axis))


def G_Diag(s: Any, n: SupportsIndex, *, l: SupportsIndex = 1) -> Complex128[Tensor, "..."]:
    """Transfer function of the system of S4D, whose low-rank part is dropped, with ``C = e_l``."""
    return _evaluate(s, n, l, _diag_on_axis, _diag_off_axis)


def _diag_on_axis(omega: Float64[Tensor, " k"], n: int, l: int) -> Complex128[Tensor, " k"]:
    return _q_on_axis(omega, n, l) / winding(omega, n).one_plus_a


def _diag_off_axis(s: Complex128[Tensor, " k"], n: int, l: int) -> Complex128[Tensor, " k"]:
    # q - q a/(1 + a) = q/(1 + a), and with b = 1/a in place of a: q b/(1 + b), where the poles of q cancel in q b.
    right = s.real >= 0
    out = torch.empty_like(s)
    z = s[right]
    out[right] = _q_off_axis(z, n, l) / (1 + _product_off_axis(z, n - 1) * (z / (z + n)))
    z = -s[~right]
    c = ((2 * l - 1) / 2) ** 0.5
    ratio = (n - z) / (z + l) if l < n else -1
    qbz = (c if l == 1 else c * z / (z + (l - 1))) * ratio * _product_off_axis(z, n - 1, first=l + 1)
    out[~right] = qbz / (z + _product_off_axis(z, n - 1) * (z - n))
    return out


def resolvent(s: Any, n: SupportsIndex, *, column: SupportsIndex | None = None) -> Complex128[Tensor, "*shape n ..."]:
    """``(sI - A_H)^-1``, entry by entry, for a number or an array ``s``; infinite at a pole.

    Below the diagonal ``R[k, i] = -sqrt((2i-1)(2k-1)) / ((s+k-1)(s+k)) prod_{j=i}^{k-2} (s-j)/(s+j)``. The whole matrix
    has n^2 entries; ``column=i`` (counted from 1) gives one column, O(n) for any n up to a million.

    >>> resolvent(0, 2).real.tolist()
    [[1.0, 0.0], [-0.8660254037844386, 0.5]]
    >>> resolvent(0, 2, column=1).real.tolist()
    [1.0, -0.8660254037844386]
    """
    n = positive_int(n, "n")
    s = finite(as_tensor(s, "s").to(torch.complex128), "s")[..., None]
    k = torch.arange(1, n + 1, dtype=torch.float64, device=s.device)
    i = k if column is None else k[index_in(column, "column", n) - 1 :][:1]
    root = (2 * k - 1).sqrt()
    below = -root / ((s + (k - 1)) * (s + k))
    # factor[k, i] is what row k adds to the product of column i: (s - (k-2)) / (s + (k-2)) from row i + 2 on
    ratio = (s - (k - 2)) / (s + (k - 2))
    factor = torch.where(k[:, None] >= i + 2, ratio[..., :, None], 1)
    R = below[..., :, None] * (2 * i - 1).sqrt() * factor.cumprod(dim=-2)
    diagonal = (1 / (s + k))[..., :, None]
    R = torch.where(k[:, None] > i, R, torch.where(k[:, None] == i, diagonal, 0))
    R = torch.where((s + k == 0).any(-1)[..., None, None], torch.inf, R)
    return R if column is None else R[..., 0]
