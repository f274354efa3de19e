"""The kernels against loops and numpy: scans, convolutions, tables of powers."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from kernel_suite import system
from wellposed.kernels import Recurrence, Work, chunks, discretize, run, scan
from wellposed.kernels.discretize import discretize_any
from wellposed.kernels.fft import convolve
from wellposed.kernels.scan import doubling


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def transition(kind: str, channels: int, modes: int) -> tuple[torch.Tensor, torch.Tensor]:
    """What ``scan`` takes, and the same as real matrices."""
    if kind == "dense":
        A = 0.5 * random(channels, 2 * modes, 2 * modes) / (2 * modes) ** 0.5
        return A, A
    lam = 0.97 * torch.exp(2j * random(channels, modes))
    blocks = torch.stack([torch.stack([lam.real, -lam.imag], -1), torch.stack([lam.imag, lam.real], -1)], -2)
    return torch.view_as_real(lam).flatten(1), torch.stack([torch.block_diag(*b) for b in blocks])


def loop(s: torch.Tensor, A: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    states = []
    for j in range(s.shape[2]):
        x = torch.einsum("hrs,hbs->hbr", A, x) + s[:, :, j]
        states.append(x)
    return torch.stack(states, 2)


@pytest.mark.parametrize("kind", ["diagonal", "dense"])
@given(
    length=st.sampled_from([1, 2, 15, 16, 17, 31, 32, 33, 255, 256, 257, 300]),
    sizes=st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3)),
)
def test_scan_is_the_recurrence(kind: str, length: int, sizes: tuple[int, int, int]):
    channels, batch, modes = sizes
    A, matrix = transition(kind, channels, modes)
    s, x0 = random(channels, batch, length, 2 * modes, seed=1), random(channels, batch, 2 * modes, seed=2)
    before = s.clone()
    right = loop(s, matrix, x0)
    for method in (scan, doubling):
        torch.testing.assert_close(method(s, A, x0), right, rtol=1e-12, atol=1e-12)
    assert torch.equal(s, before)


@pytest.mark.parametrize("kind", ["diagonal", pytest.param("dense", marks=pytest.mark.slow)])
def test_gradients_of_the_scan(kind: str):
    """First and second derivatives against difference quotients."""
    A, _ = transition(kind, 2, 1)
    inputs = [t.requires_grad_() for t in (random(2, 1, 18, 2, seed=1), A, random(2, 1, 2, seed=2))]
    assert torch.autograd.gradcheck(scan, inputs)
    assert torch.autograd.gradgradcheck(scan, inputs)


def test_mapped_scan():
    """``vmap`` over inputs, transitions or both, and over a gradient."""
    A, _ = transition("diagonal", 2, 2)
    s, x0 = random(5, 2, 3, 20, 4), random(2, 3, 4)
    several = torch.stack([A, 0.5 * A, A, A, A])
    found = torch.func.vmap(scan, in_dims=(0, None, None))(s, A, x0)
    torch.testing.assert_close(found, torch.stack([scan(one, A, x0) for one in s]))
    found = torch.func.vmap(scan, in_dims=(0, 0, None))(s, several, x0)
    torch.testing.assert_close(found, torch.stack([scan(one, a, x0) for one, a in zip(s, several, strict=True)]))

    def loss(a: torch.Tensor, one: torch.Tensor) -> torch.Tensor:
        return scan(one, a, x0).pow(2).sum()

    found = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(A, s)
    torch.testing.assert_close(found, torch.stack([torch.func.grad(loss)(A, one) for one in s]))


@given(length=st.integers(1, 60))
def test_convolve_is_that_of_numpy(length: int):
    u, k = random(2, 3, length), random(2, length, seed=1)
    right = [[np.convolve(u[h, b], k[h])[:length] for b in range(3)] for h in range(2)]
    np.testing.assert_allclose(convolve(u, k).numpy(), np.array(right), rtol=1e-11, atol=1e-12)


def test_gradients_of_the_convolution():
    inputs = [t.requires_grad_() for t in (random(2, 3, 7), random(2, 7, seed=1))]
    assert torch.autograd.gradcheck(convolve, inputs)
    assert torch.autograd.gradgradcheck(convolve, inputs)
    found = torch.func.vmap(convolve, in_dims=(0, None))(random(4, 2, 3, 7), inputs[1].detach())
    right = torch.stack([convolve(one, inputs[1].detach()) for one in random(4, 2, 3, 7)])
    torch.testing.assert_close(found, right)


def test_a_training_step_transforms_a_batch_five_times():
    """Input and output, the gradient of the output, the input again, its gradient; one row for that of the kernel."""
    u, k = random(2, 3, 20).requires_grad_(), random(2, 20, seed=1).requires_grad_()
    sizes = []

    class Counting(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if "_fft_" in func.name():
                sizes.append(args[0].shape[1])
            return func(*args, **(kwargs or {}))

    with Counting():
        convolve(u, k).sum().backward()
    assert (sizes.count(3), sizes.count(1)) == (5, 3)
    sizes.clear()
    with Counting():
        convolve(u.detach(), k).sum().backward()  # data: nobody asks for its gradient
    assert sizes.count(3) == 4


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("scan", (random(2, 3, 20, 4), random(2, 4), random(2, 3, 4))),
        ("scan", (random(1, 1, 20, 4), random(1, 4, 4), random(1, 1, 4))),
        ("fft_product", (random(2, 3, 20), random(2, 1, 20), False, 3)),
        ("fft_product", (random(2, 3, 20), random(2, 3, 20), True, 1)),
    ],
)
def test_operators_keep_the_contract_of_pytorch(name: str, arguments: tuple[Any, ...]):
    """No input changed or returned, shapes predicted: what compilers rely on."""
    torch.library.opcheck(
        getattr(torch.ops.wellposed, name).default,
        arguments,
        test_utils=("test_schema", "test_faketensor"),
    )


@pytest.mark.parametrize("method", ["zoh", "bilinear"])
def test_discretize_against_complex_arithmetic(method: Any):
    """Also for modes so slow that ``exp(z) - 1`` would lose all digits."""
    lam = np.array([-0.5 + 300j, -1e-9 + 1e-9j, -40.0 + 0j, -0.5 + 1e-7j, -1e4 + 1e3j])
    dt = np.array([1e-3, 1e-3, 0.1, 1.0, 0.1])
    z = lam * dt
    if method == "zoh":
        bar = np.exp(z)
        factor = np.where(np.abs(z) < 1e-6, dt * (1 + z / 2 + z**2 / 6), (bar - 1) / lam)
    else:
        bar, factor = (1 + z / 2) / (1 - z / 2), dt / (1 - z / 2)
    real, imag = torch.from_numpy(np.real(lam).copy()), torch.from_numpy(np.imag(lam).copy())
    decay, angle, found = discretize(real, imag, torch.from_numpy(dt), method)
    np.testing.assert_allclose((decay + 1j * angle).exp().numpy(), bar, rtol=1e-13)
    np.testing.assert_allclose(torch.view_as_complex(found.contiguous()).numpy(), factor, rtol=1e-12)
    if method == "bilinear":
        slow = 0.5 * np.log1p(2 * z[1].real / abs(1 - z[1] / 2) ** 2)
        np.testing.assert_allclose(decay[1].item(), slow, rtol=1e-14)


@pytest.mark.parametrize("method", ["zoh", "bilinear"])
def test_discretize_any_mode_against_mpmath(method: Any):
    """Unstable and marginal modes, one that is gone after a step, and gradients of modes that hardly move."""
    points = [0, -2, 3j, 0.5 + 3j, -2 + 1e-14, 1e-9 - 1e-8j, 1e-5j, 0.0099, 0.0101j, 20 + 1j, -700 + 1e4j, -1e8 + 1e9j]
    lam = torch.tensor(points, dtype=torch.complex128)
    real, imag = lam.real.clone().requires_grad_(), lam.imag.clone()
    dt = torch.ones(1, dtype=torch.float64)
    bar, gain = discretize_any(real, imag, dt, method)
    # holomorphic in lambda, so that d gain / d Re lambda is its derivative
    slopes = [torch.autograd.grad(gain[:, k].sum(), real, retain_graph=True)[0] for k in (0, 1)]
    found = [torch.view_as_complex(t.detach().contiguous()) for t in (bar, gain, torch.stack(slopes, -1))]
    with mpmath.workdps(100):
        for k, point in enumerate(points):
            z = mpmath.mpc(complex(lam[k])) if point else mpmath.mpc(1e-30)
            if method == "zoh":
                e = mpmath.exp(z)
                right = (e, (e - 1) / z, (e * (z - 1) + 1) / z**2)
            else:
                right = ((1 + z / 2) / (1 - z / 2), 1 / (1 - z / 2), 1 / (1 - z / 2) ** 2 / 2)
            for one, value, bound in zip(found, right, (1e-15, 1e-15, 1e-13), strict=True):
                assert abs(one[k].item() - complex(value)) <= bound * abs(complex(value)), (point, value)


def test_modes_whose_square_overflows():
    real, imag = torch.tensor([[-1e200, 0.0, -1e160], [0.0, 1e200, 1e159]], dtype=torch.float64)
    bar, gain = discretize_any(real, imag, torch.ones(1).double(), "bilinear")
    assert bar.tolist() == [[-1, 0]] * 3
    assert gain.abs().max() < 1e-150
    bar, gain = discretize_any(real, imag, torch.ones(1).double(), "zoh")
    assert bar[[0, 2]].tolist() == [[0, 0]] * 2
    assert gain.abs().max() < 1e-150


@pytest.mark.parametrize("kind", ["diagonal", "low-rank", "dense"])
def test_tables_of_a_recurrence(kind: str):
    """Columns, rows and coarser steps are powers of the one-step matrix."""
    recurrence: Recurrence = system(kind).discretize()
    A = recurrence.transition
    if A.ndim == 2:
        lam = torch.view_as_complex(A.unflatten(1, (-1, 2)).contiguous())
        blocks = torch.stack([torch.stack([lam.real, -lam.imag], -1), torch.stack([lam.imag, lam.real], -1)], -2)
        A = torch.stack([torch.block_diag(*b) for b in blocks])
    B, C = recurrence.columns(1), recurrence.rows(1)
    for t in (0, 1, 5, 12):
        power = torch.linalg.matrix_power(A, t)
        torch.testing.assert_close(recurrence.columns(13)[..., t], (power @ B)[..., 0], rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(recurrence.rows(13)[:, t], (C @ power)[:, 0], rtol=1e-12, atol=1e-12)
    coarse, fine = recurrence.every(5).columns(3), recurrence.columns(11)
    torch.testing.assert_close(coarse, fine[..., ::5], rtol=1e-12, atol=1e-12)
    x, steps = random(3, 4, recurrence.states), torch.tensor([0, 1, 6, 19])
    moved = recurrence.advance(x, steps, 19)
    for b, t in enumerate(steps.tolist()):
        right = (torch.linalg.matrix_power(A, t) @ x[:, b, :, None])[..., 0]
        torch.testing.assert_close(moved[:, b], right, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ["diagonal", "low-rank", "dense"])
@pytest.mark.parametrize("chunk", [1, 7, 64, 500])
def test_the_size_of_chunks_does_not_matter(kind: str, chunk: int, monkeypatch: pytest.MonkeyPatch):
    made, u = system(kind), random(2, 200, 3)
    states = made.discretize().states
    work = Work(made, u, state=random(2, 3, states), want_state=True)
    right = run(work, "conv")
    monkeypatch.setattr(chunks, "chunk_length", lambda u: min(chunk, u.shape[1]))
    for a, b in zip(run(work, "scan"), right, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-11)


def test_a_mode_that_does_not_move():
    """``lambda = 0`` integrates: the gain is ``dt`` in both rules, and its gradient is finite."""
    zero = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    dt = torch.tensor([0.1], dtype=torch.float64)
    for method in ("zoh", "bilinear"):
        bar, gain = discretize_any(zero, zero, dt, method)
        assert bar[0].tolist() == [1, 0]
        assert gain[0].tolist() == pytest.approx([0.1, 0])
        (gradient,) = torch.autograd.grad(gain.sum(), zero)
        assert gradient.isfinite().all()
