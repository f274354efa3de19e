"""Diagonal plus low rank under the bilinear rule, against matrices that are inverted, and its derivatives."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kernel_suite import _written_out, random
from wellposed.kernels import LowRankRecurrence, Spectrum
from wellposed.kernels.woodbury import bilinear_low_rank


def arguments(rank: int, channels: int = 2, modes: int = 3) -> list[Any]:
    values = [
        random(channels, modes, seed=1),
        10 * random(channels, modes, seed=2),
        random(channels, modes, rank, 2, seed=3),
        random(channels, modes, 2, seed=4),
        random(channels, seed=5) - 2,
    ]
    count = torch.tensor([2.0, 2.0, 1.0], dtype=torch.float64)[-modes:]
    return [*(v.requires_grad_() for v in values), count]


@pytest.mark.parametrize("rank", [1, 2])
def test_is_the_bilinear_rule(rank: int):
    log_real, imag, P, B, log_dt, count = values = [v.detach() for v in arguments(rank)]
    decay, angle, U, V, B_bar = bilinear_low_rank(*values)
    made = LowRankRecurrence(Spectrum(decay, angle), U, V, B_bar, B_bar[None])
    eye = torch.eye(6, dtype=torch.float64)
    for h, dt in enumerate(log_dt.exp()):
        lam = torch.complex(-log_real[h].exp(), imag[h])
        blocks = torch.stack([torch.stack([lam.real, -lam.imag], -1), torch.stack([lam.imag, lam.real], -1)], -2)
        p = P[h].transpose(1, 2).reshape(6, rank)  # P^* x is the sum over both halves of every pair
        A = torch.block_diag(*blocks) - p @ (count.repeat_interleave(2)[:, None] * p).mT
        inverse = torch.linalg.inv(eye - dt / 2 * A)
        torch.testing.assert_close(_written_out(made)[h], inverse @ (eye + dt / 2 * A), rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(B_bar[h], dt * inverse @ B[h].flatten(), rtol=1e-12, atol=1e-12)


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # by PyTorch itself
@pytest.mark.parametrize("rank", [1, 2])
def test_derivatives(rank: int):
    """First, second and forward-mode: those by hand against difference quotients."""
    values = arguments(rank, channels=1, modes=2)
    assert torch.autograd.gradcheck(bilinear_low_rank, values, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(bilinear_low_rank, values)


def test_slow_modes_keep_their_digits():
    """A decay of 1e-12 a step is found as exactly as any."""
    _, imag, P, B, _, count = (v.detach() for v in arguments(1))
    slow = torch.full_like(imag, 1e-9).log()
    decay = bilinear_low_rank(slow, imag, P, B, torch.full((2,), 1e-3, dtype=torch.float64).log(), count)[0]
    right = -1e-12 / (1 + (1e-3 * imag / 2) ** 2)
    torch.testing.assert_close(decay, right, rtol=1e-9, atol=0.0)


def test_a_mode_that_forgets_at_once():
    """``dt lambda = -2`` makes ``lambda_bar = 0``, which has no logarithm: nothing is infinite."""
    _, imag, P, B, _, count = (v.detach() for v in arguments(1))
    log_real = torch.full_like(imag, 2.0).log().requires_grad_()
    results = bilinear_low_rank(log_real, torch.zeros_like(imag), P, B, torch.zeros(2, dtype=torch.float64), count)
    (gradient,) = torch.autograd.grad(torch.stack([r.sum() for r in results]).sum(), log_real)
    assert all(r.isfinite().all() for r in results)
    assert gradient.isfinite().all()
