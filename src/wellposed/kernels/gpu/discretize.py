"""Discrete time from a layer's parameters, and gradients back to them: a launch each, in float64 inside.

With ``z = lambda dt`` a mode becomes ``f(z)`` and its input is multiplied by ``dt phi(z)``:

    zero-order hold   f = exp(z)                     phi = (exp(z) - 1) / z
    bilinear          f = (1 + z/2) / (1 - z/2)      phi = 1 / (1 - z/2)

Both are holomorphic, so that a gradient ``g`` of ``f`` (as ``d/dRe + i d/dIm``) is ``conj(f') g`` of ``z``.
"""

from __future__ import annotations

from typing import Any, NamedTuple, no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from wellposed.kernels.discretize import Discretisation
from wellposed.kernels.gpu.launches import launch
from wellposed.kernels.gpu.mode_scan import STEPS, Modes
from wellposed.kernels.gpu.modes import derivatives, discretized, times
from wellposed.kernels.gpu.pieces import jit

_MODES, _CHANNELS, _WARPS = 16, 64, 4  # a program of the tables
_BACK_MODES, _BACK_CHANNELS = 4, 128  # of their gradients, which are summed over channels


class Parameters(NamedTuple):
    """Those of ``SharedParameters`` that are tensors, in one order for all."""

    A_log_real: Float[Tensor, " mode"]
    A_imag: Float[Tensor, " mode"]
    log_dt: Float[Tensor, " mode"]
    B: Float[Tensor, "mode channel 2"]
    C: Float[Tensor, "direction channel mode 2"]
    weight: Float[Tensor, " mode"]


class Tables(NamedTuple):
    """What the products and scans take: real parts of all modes, then imaginary parts."""

    modes: Modes
    B: Float[Tensor, "state channel"]
    C: Float[Tensor, "channel wide"]
    """Directions side by side, imaginary parts negative: ``Re(C x)`` is a product."""


def tables(parameters: Parameters, disc: Discretisation, dtype: torch.dtype) -> Tables:
    """``B`` and ``C`` in the precision of the sequence."""
    C = parameters.C
    directions, H, P, _ = C.shape
    made = Tables(
        Modes(torch.empty(2, P, device=C.device), torch.empty(2, P, dtype=torch.float64, device=C.device)),
        torch.empty(2 * P, H, dtype=dtype, device=C.device),
        torch.empty(H, directions * 2 * P, dtype=dtype, device=C.device),
    )
    tile = _tile((_MODES, P), (_CHANNELS, H))
    arguments: list[Any] = [*(t.contiguous() for t in parameters), *made.modes, made.B, made.C, P, H]
    launch(
        _tables,
        (-(-P // tile["MODES"]), -(-H // tile["CHANNELS"])),
        *arguments,
        DIRECTIONS=directions,
        BILINEAR=disc == "bilinear",
        DOUBLINGS=STEPS.bit_length() - 1,
        **tile,
    )
    return made


def gradients(
    parameters: Parameters,
    disc: Discretisation,
    d_modes: Float[Tensor, "2 mode"],
    dB: Float[Tensor, "state channel"],
    dC: Float[Tensor, "channel wide"],
) -> list[Tensor]:
    """Of ``A_log_real, A_imag, log_dt, B, C``, from those of ``lambda_bar`` and of the tables."""
    directions, H, P, _ = parameters.C.shape
    made = [torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in parameters[:-1]]
    tile = _tile((_BACK_MODES, P), (_BACK_CHANNELS, H))
    arguments: list[Any] = [*(t.contiguous() for t in (*parameters, d_modes, dB, dC)), *made, P, H]
    launch(
        _gradients,
        (-(-P // tile["MODES"]),),
        *arguments,
        DIRECTIONS=directions,
        BILINEAR=disc == "bilinear",
        **tile,
    )
    return made


def _tile(modes: tuple[int, int], channels: tuple[int, int]) -> dict[str, Any]:
    """At most so many, and no more than there are."""
    sizes = [min(most, int(triton.next_power_of_2(there))) for most, there in (modes, channels)]
    return {"MODES": sizes[0], "CHANNELS": sizes[1], "num_warps": _WARPS}


@jit
@no_type_check
def _load64(at, mask):
    return tl.load(at, mask, other=0.0).to(tl.float64)


@jit
@no_type_check
def _discrete(A_log_real, A_imag, log_dt, p, P, BILINEAR: tl.constexpr):
    """``dt, z, f, phi`` of some modes; where there is none, of ``lambda = -1``."""
    dt = tl.exp(_load64(log_dt + p, p < P))
    x = -tl.exp(_load64(A_log_real + p, p < P)) * dt
    y = _load64(A_imag + p, p < P) * dt
    fr, fi, hr, hi = discretized(x, y, BILINEAR)
    return dt, x, y, fr, fi, hr, hi


@jit
@no_type_check
def _tables(
    A_log_real,
    A_imag,
    log_dt,
    B,
    C,
    weight,
    one,
    tile,
    B_out,
    C_out,
    P,
    H,
    DIRECTIONS: tl.constexpr,
    BILINEAR: tl.constexpr,
    DOUBLINGS: tl.constexpr,
    MODES: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    p = tl.program_id(0) * MODES + tl.arange(0, MODES)[:, None]
    h = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)[None, :]
    mask = (p < P) & (h < H)
    dt, _, _, fr, fi, hr, hi = _discrete(A_log_real, A_imag, log_dt, p, P, BILINEAR)
    first = (p < P) & (tl.program_id(1) == 0)
    tl.store(one + p, fr.to(tl.float32), first)
    tl.store(one + P + p, fi.to(tl.float32), first)
    for _ in tl.static_range(DOUBLINGS):
        fr, fi = times(fr, fi, fr, fi)
    tl.store(tile + p, fr, first)
    tl.store(tile + P + p, fi, first)
    at = B + (p * H + h) * 2
    br, bi = times(dt * hr, dt * hi, _load64(at, mask), _load64(at + 1, mask))
    kind = B_out.dtype.element_ty
    tl.store(B_out + p * H + h, br.to(tl.float32).to(kind), mask)
    tl.store(B_out + (P + p) * H + h, bi.to(tl.float32).to(kind), mask)
    w = _load64(weight + p, p < P)
    for d in tl.static_range(DIRECTIONS):
        at = C + ((d * H + h) * P + p) * 2
        out = C_out + (h * DIRECTIONS + d) * 2 * P + p
        tl.store(out, (w * _load64(at, mask)).to(tl.float32).to(kind), mask)
        tl.store(out + P, (-w * _load64(at + 1, mask)).to(tl.float32).to(kind), mask)


@jit
@no_type_check
def _gradients(
    A_log_real,
    A_imag,
    log_dt,
    B,
    C,
    weight,
    d_modes,
    dB_in,
    dC_in,
    d_log_real,
    d_imag,
    d_log_dt,
    dB,
    dC,
    P,
    H,
    DIRECTIONS: tl.constexpr,
    BILINEAR: tl.constexpr,
    MODES: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    p = tl.program_id(0) * MODES + tl.arange(0, MODES)[:, None]
    dt, x, y, fr, fi, hr, hi = _discrete(A_log_real, A_imag, log_dt, p, P, BILINEAR)
    w = _load64(weight + p, p < P)
    gr = tl.zeros((MODES, CHANNELS), tl.float64)  # of the gain dt phi
    gi = gr
    for start in range(0, H, CHANNELS):
        h = start + tl.arange(0, CHANNELS)[None, :]
        mask = (p < P) & (h < H)
        at = (p * H + h) * 2
        br, bi = _load64(B + at, mask), _load64(B + at + 1, mask)
        er, ei = _load64(dB_in + p * H + h, mask), _load64(dB_in + (P + p) * H + h, mask)
        cr, ci = times(br, -bi, er, ei)
        gr += cr
        gi += ci
        cr, ci = times(dt * hr, -dt * hi, er, ei)
        tl.store(dB + at, cr.to(dB.dtype.element_ty), mask)
        tl.store(dB + at + 1, ci.to(dB.dtype.element_ty), mask)
        for d in tl.static_range(DIRECTIONS):
            own = dC_in + (h * DIRECTIONS + d) * 2 * P + p
            at = dC + ((d * H + h) * P + p) * 2
            tl.store(at, (w * _load64(own, mask)).to(dC.dtype.element_ty), mask)
            tl.store(at + 1, (-w * _load64(own + P, mask)).to(dC.dtype.element_ty), mask)
    gr = dt * tl.sum(gr, 1)[:, None]
    gi = dt * tl.sum(gi, 1)[:, None]
    fr, fi, sr, si = derivatives(x, y, fr, fi, hr, hi, BILINEAR)
    zr, zi = times(sr, -si, gr, gi)
    ar, ai = times(fr, -fi, _load64(d_modes + p, p < P), _load64(d_modes + P + p, p < P))
    zr += ar
    zi += ai
    step = gr * hr + gi * hi + zr * x + zi * y  # dt phi(lambda dt) and lambda dt grow with log dt
    tl.store(d_log_real + p, (zr * x).to(d_log_real.dtype.element_ty), p < P)
    tl.store(d_imag + p, (zi * dt).to(d_imag.dtype.element_ty), p < P)
    tl.store(d_log_dt + p, step.to(d_log_dt.dtype.element_ty), p < P)
