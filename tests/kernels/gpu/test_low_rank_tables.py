"""Tables of S4 by kernels and their gradients, against matrices that are inverted and multiplied in float64."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from kernel_suite import DEVICE, _by_inverses, moved, off, random
from wellposed.kernels import LowRankParameters, Work
from wellposed.kernels.device import triton_takes
from wellposed.nn import S4

pytestmark = pytest.mark.skipif(
    not triton_takes(torch.zeros(1, device=DEVICE)), reason="neither a GPU nor Triton's interpreter"
)
ROUNDING = 2.0**-24
CASES = [  # rank, modes, T, directions, channels, systems, chunks of a jump
    (1, 1, 16, 1, 2, 2, 0),
    pytest.param(2, 2, 32, 2, 2, 1, 0, marks=pytest.mark.slow),
    (3, 3, 16, 1, 1, 1, 5),
    (1, 33, 64, 1, 1, 1, 3),
]


@pytest.fixture(autouse=True)
def _new_memory_is_nan() -> Iterator[None]:
    """A place that no kernel writes to is seen."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)


def parameters(rank: int, modes: int, directions: int, channels: int, systems: int) -> list[Any]:
    """The fields of ``LowRankParameters``, one mode of them real, in numbers that float32 has."""
    weight = torch.full((modes,), 2.0, dtype=torch.float64)
    weight[min(1, modes - 1)] = 1.0
    values = (
        random(systems, modes, seed=1),
        20 * random(systems, modes, seed=2),
        random(systems, modes, rank, 2, seed=3),
        random(systems, modes, 2, seed=4),
        random(directions, channels, modes, 2, seed=5),
        random(channels, seed=6) - 3,
    )
    return [*(v.float().double() for v in values), weight]


def right_tables(system: LowRankParameters, D: Tensor, T: int, jump: int, state: int) -> list[Tensor]:
    """Kernel, fold, read, carry and jump from powers of matrices."""
    A, B, C = _by_inverses(system, len(D))
    powers = [torch.eye(A.shape[-1], dtype=A.dtype).expand_as(A)]
    for _ in range(T):
        powers.append(powers[-1] @ A)
    columns = torch.cat([P @ B for P in powers[:T]], 2)  # (channel, state, T)
    rows = torch.stack([torch.einsum("dhs,hsk->dhk", C, P) for P in powers], 3)  # (direction, channel, state, T + 1)
    kernel = torch.einsum("dhs,hst->dht", C, columns)
    skip = torch.zeros_like(kernel)
    skip[0, :, 0] = 1.0
    pad = state - A.shape[-1]
    tables = [
        kernel + skip * D[:, None],
        torch.nn.functional.pad(columns.flip(2).mT, (0, pad)),
        torch.nn.functional.pad(rows[..., 1:], (0, 0, 0, pad)),
        torch.nn.functional.pad(powers[-1], (0, pad, 0, pad)),
    ]
    far = torch.linalg.matrix_power(powers[-1], jump).detach()
    return [*tables, torch.nn.functional.pad(far, (0, pad, 0, pad)) if jump else kernel.new_zeros(0)]


@pytest.mark.filterwarnings("ignore:.*deterministic.*:UserWarning")  # of products on a GPU, which are not in question
@pytest.mark.parametrize(("rank", "modes", "T", "directions", "channels", "systems", "jump"), CASES)
def test_tables_and_gradients(rank: int, modes: int, T: int, directions: int, channels: int, systems: int, jump: int):
    from wellposed.kernels.gpu.makers import MAKERS
    from wellposed.kernels.gpu.pieces import Sizes

    state = max(32, 1 << (2 * modes - 1).bit_length())
    sizes = Sizes(directions, channels, T, state, jump, True)
    *leaves, weight = parameters(rank, modes, directions, channels, systems)
    D = random(channels, seed=7).float().double()
    leaves = [t.requires_grad_() for t in (*leaves, D)]
    fields: list[Any] = [*leaves[:6], weight]
    right = right_tables(LowRankParameters(*fields), D, T, jump, state)

    maker = MAKERS["low-rank"]
    values = [t.detach().to(DEVICE, torch.float32) for t in (*fields, D)]
    tables, *kept = maker.make(values, sizes)
    for found, exact in zip(sizes.split(tables.cpu()), right, strict=True):
        largest = exact.abs().max() if exact.numel() else 1.0
        assert ((found - exact).abs() <= 2 * ROUNDING * exact.abs() + 1e-12 * largest).all()
    for a, b in zip(kept, maker.kept_like(values, sizes), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)

    gradient = random(sizes.total, seed=8).float()
    weights = [g.double() for g in sizes.split(gradient)[:4]]  # none goes through the jump
    exact = torch.autograd.grad(right[:4], leaves, weights)
    *found, for_weight, for_D = maker.gradients(values, kept, sizes, gradient.to(DEVICE))
    assert for_weight is None
    for a, b in zip([*found, for_D], exact, strict=True):
        assert a is not None
        assert a.shape == b.shape
        assert off(a, b) < 1e-6


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*deterministic.*:UserWarning")
@pytest.mark.parametrize(
    ("options", "length"),
    [({"bidirectional": True}, 17), ({"hippo": "legt", "n_ssm": 1}, 65), ({"disc": "zoh"}, 17)],
)
def test_layer(options: dict[str, Any], length: int):
    """Outputs and all gradients of a layer in float32 against itself in float64 without kernels."""
    u, results = random(2, length, 2, seed=1), []
    for mode, dtype, device in (("triton", torch.float32, DEVICE), ("scan", torch.float64, "cpu")):
        torch.manual_seed(0)
        layer = S4(2, 6, mode=mode, **options).to(device, dtype)
        x = u.to(device, dtype).requires_grad_()
        y = layer(x)
        named = dict(layer.named_parameters())
        found = torch.autograd.grad((y * random(*y.shape, seed=2).to(y)).sum(), [x, *named.values()])
        results.append([y, *found])
    for a, b in zip(*results, strict=True):
        assert off(a.detach(), b.detach()) < 1e-5


def test_high_ranks_take_plain_operations():
    from wellposed.kernels.gpu import makers
    from wellposed.kernels.gpu.pieces import Sizes

    work = Work(LowRankParameters(*parameters(5, 2, 1, 1, 1)), torch.zeros(1, 8, 1))
    kind, (tables,) = makers.of(moved(work, DEVICE, torch.float32), Sizes(1, 1, 16, 32, 0, True))
    assert kind == "given"
    assert tables is not None
    assert tables.isfinite().all()
