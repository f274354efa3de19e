"""Products in three passes of tf32, against float64: on a GPU, or under the interpreter on a CPU.

Arrays that kernels write are full of NaN before they do.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")

from covering import covering
from wellposed.kernels import layout, products
from wellposed.kernels.gpu import product as gpu

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SIZES = [
    (1, 1, 1), (1, 130, 2), (2, 63, 1), (2, 1, 130), (63, 2, 130), (63, 130, 63),
    (130, 1, 63), (130, 63, 2), (130, 130, 130), (300, 2, 2), (2, 300, 63), (63, 63, 300),
]  # fmt: skip
"""Rows, terms, columns: neither whole tiles nor always several of them."""
FLOAT32 = 1e-6
"""Errors by norm, relative to the sizes of what is summed: a sum of a few results may itself be near nothing."""


@pytest.fixture(autouse=True)
def _nan_where_nothing_was_written(monkeypatch: pytest.MonkeyPatch):
    empty = torch.empty
    monkeypatch.setattr(torch, "empty", lambda *a, **k: empty(*a, **k).fill_(torch.nan))


@pytest.fixture
def _everything_pays(monkeypatch: pytest.MonkeyPatch):
    """Small products go to the kernel too, and those on a CPU to its interpreter."""
    monkeypatch.setattr(layout, "FASTEST_ON", ("cuda", "cpu"))
    monkeypatch.setattr(products, "LEAST_SIDE", 1)
    monkeypatch.setattr(products, "LEAST_WORK", 1)


def random(m: int, n: int, *, turned: bool, seed: int) -> Tensor:
    """A matrix with its columns side by side in memory, or its rows; not all of either."""
    shape = (n + 1, m + 3) if turned else (m + 3, n + 1)
    made = torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)
    return (made.t() if turned else made)[:m, :n]


def off(found: Tensor, expected: Tensor, size: Tensor | None = None) -> float:
    return ((found.double() - expected).norm() / (expected if size is None else size).norm()).item()


@pytest.mark.parametrize(("sizes", "a_turned", "b_turned"), covering(SIZES, [False, True], [False, True], every=2))
def test_product(sizes: tuple[int, int, int], a_turned: bool, b_turned: bool):
    m, k, n = sizes
    a, b = random(m, k, turned=a_turned, seed=1), random(k, n, turned=b_turned, seed=2)
    expected, size = a.double() @ b.double(), a.double().abs() @ b.double().abs()
    found = gpu.product(a, b)
    assert found.is_contiguous()
    assert off(found, expected, size) < FLOAT32
    for turned in (False, True):
        out = random(m, n, turned=turned, seed=3)
        added = out.double() + expected
        assert gpu.product(a, b, out, add=True) is out
        assert off(out, added, size) < FLOAT32
        gpu.product(a, b, out.fill_(torch.nan))
        assert off(out, expected, size) < FLOAT32


@pytest.mark.parametrize("turned", [False, True])
def test_a_product_writes_its_own_place_only(turned: bool):
    a, b = random(63, 5, turned=False, seed=1), random(5, 70, turned=False, seed=2)
    whole = torch.full((80, 100), 7.0, device=DEVICE)
    out = (whole[:70, 10:73].t() if turned else whole[10:73, :70]).fill_(torch.nan)
    gpu.product(a, b, out)
    assert off(out, a.double() @ b.double()) < FLOAT32
    out.fill_(7.0)
    assert torch.equal(whole, torch.full_like(whole, 7.0))


@pytest.mark.parametrize(("m", "steps", "n"), SIZES)
@pytest.mark.parametrize("a_turned", [False, True])
@pytest.mark.parametrize("b_turned", [False, True])
@pytest.mark.parametrize("pieces", [1, 3])
def test_sum_over_steps(
    m: int, steps: int, n: int, a_turned: bool, b_turned: bool, pieces: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(gpu, "_PROGRAMS", pieces)
    monkeypatch.setattr(gpu, "_SHORTEST", 32)
    a, b = random(m, steps, turned=a_turned, seed=1), random(n, steps, turned=b_turned, seed=2)
    found = gpu.sum_over_steps(a, b)
    assert found.is_contiguous()
    assert off(found, a.double() @ b.double().t(), a.double().abs() @ b.double().abs().t()) < FLOAT32


def test_pieces_hold_all_steps():
    """Whole tiles of terms, none without a step, and no more of them than fill a card."""
    tile = gpu._TILES["sum, terms"]
    for steps in (1, 63, 1024, 5000, 51200, 65536, 2**19, 2**30):
        for m, n in ((1, 1), (130, 63), (256, 128), (1024, 512)):
            each = gpu._steps_of_a_piece(m, n, steps, tile)
            assert each % tile.terms == 0
            assert each >= min(steps, gpu._SHORTEST)
            tiles = -(-m // tile.rows) * -(-n // tile.columns)
            assert -(-steps // each) * tiles < gpu._PROGRAMS + tiles


@pytest.mark.parametrize(("m", "k", "n"), [(2, 63, 300), (300, 63, 2)])
def test_the_same_bits_each_time(m: int, k: int, n: int):
    a, b = random(m, k, turned=False, seed=1), random(k, n, turned=True, seed=2)
    assert torch.equal(gpu.product(a, b), gpu.product(a, b))
    assert torch.equal(gpu.sum_over_steps(a, b.t()), gpu.sum_over_steps(a, b.t()))


@pytest.mark.skipif(DEVICE == "cpu", reason="the interpreter multiplies in float32 itself")
def test_three_passes_are_as_exact_as_float32():
    """At the sizes of a model, with all numbers positive: an error that favours one side would grow with their sum."""
    for k in (128, 4096):
        a, b = (random(k, n, turned=False, seed=n).abs() for n in (20000, 256))
        assert off(gpu.product(a.t(), b), a.double().t() @ b.double()) < FLOAT32
    x, g = random(128, 100000, turned=False, seed=1).abs(), random(200, 100000, turned=True, seed=2).abs()
    assert off(gpu.sum_over_steps(g, x), g.double() @ x.double().t()) < FLOAT32


# --- who computes


class Called(Exception):
    """Our own kernel was."""


@pytest.fixture
def _seen(monkeypatch: pytest.MonkeyPatch):
    def called(*_: Any, **__: Any) -> Any:
        raise Called

    monkeypatch.setattr(gpu, "product", called)
    monkeypatch.setattr(gpu, "sum_over_steps", called)


def goes_to_our_kernel(a: Tensor, b: Tensor) -> bool:
    """``a @ b``, both ways; they agree, and are right if PyTorch computes."""
    ours = []
    for compute in (lambda: products.product(a, b), lambda: products.sum_over_steps(a, b.t())):
        try:
            assert off(compute().detach(), a.detach().double() @ b.detach().double()) < 1e-2
            ours.append(False)
        except Called:
            ours.append(True)
    assert ours[0] == ours[1]
    return ours[0]


@pytest.mark.usefixtures("_everything_pays", "_seen")
def test_in_float32_and_the_highest_precision_alone():
    a, b = random(5, 7, turned=False, seed=1), random(7, 3, turned=True, seed=2)
    assert goes_to_our_kernel(a, b)
    assert not goes_to_our_kernel(a.double(), b.double())
    assert not goes_to_our_kernel(a.bfloat16(), b.bfloat16())
    torch.set_float32_matmul_precision("high")
    try:
        assert not goes_to_our_kernel(a, b)
    finally:
        torch.set_float32_matmul_precision("highest")


@pytest.mark.usefixtures("_everything_pays", "_seen")
def test_pytorch_keeps_what_it_has_to_look_into():
    a, b = random(5, 7, turned=False, seed=1), random(7, 3, turned=True, seed=2)
    assert not goes_to_our_kernel(a.clone().requires_grad_(), b)
    with torch.no_grad():
        assert goes_to_our_kernel(a.clone().requires_grad_(), b)
    many = torch.stack([a, 2 * a])
    assert torch.equal(torch.func.vmap(lambda a: products.product(a, b))(many)[1], 2 * torch.mm(a, b))
    with torch.autograd.forward_ad.dual_level():
        assert not goes_to_our_kernel(a, b)


@pytest.mark.usefixtures("_seen")
def test_small_products_and_other_devices_are_left_to_pytorch(monkeypatch: pytest.MonkeyPatch):
    a, b = random(64, 64, turned=False, seed=1), random(64, 64, turned=True, seed=2)
    assert not goes_to_our_kernel(a, b)
    monkeypatch.setattr(layout, "FASTEST_ON", ())
    monkeypatch.setattr(products, "LEAST_WORK", 1)
    assert not goes_to_our_kernel(a, b)


@pytest.mark.usefixtures("_everything_pays", "_seen")
def test_steps_that_lie_apart_are_left_to_pytorch():
    a, b = random(5, 7, turned=True, seed=1), random(3, 7, turned=True, seed=2)
    assert off(products.sum_over_steps(a, b), a.double() @ b.double().t()) < FLOAT32


@pytest.mark.usefixtures("_everything_pays")
@pytest.mark.parametrize("add", [False, True])
def test_both_ways_write_to_out(add: bool, monkeypatch: pytest.MonkeyPatch):
    a, b, given = (random(m, n, turned=True, seed=n) for m, n in ((63, 5), (5, 33), (63, 33)))
    found = []
    for least in (1, 2**60):
        monkeypatch.setattr(products, "LEAST_WORK", least)
        out = given.clone()
        assert products.product(a, b, out=out, add=add) is out
        found.append(out)
    for out in found:
        assert off(out, (given.double() if add else 0) + a.double() @ b.double()) < FLOAT32
