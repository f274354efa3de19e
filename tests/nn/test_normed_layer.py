"""Batch norm and the layer behind it in one is both, one after the other, in float64."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("triton")

from wellposed.kernels import layout, norm
from wellposed.nn import S4, S4D, S4PTD, S5, S5PTD, LiquidS4, ResidualBlock, SequenceLayer, fourier_noise

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def _kernels_on_the_cpu_too(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(layout, "FASTEST_ON", ("cuda", "cpu"))


@pytest.fixture
def _nan_in_fresh_memory(monkeypatch: pytest.MonkeyPatch):
    """What a kernel does not write is seen."""

    def filled(empty: Any) -> Any:
        def make(*args: Any, **options: Any) -> Tensor:
            made = empty(*args, **options)
            return made.fill_(torch.nan) if made.is_floating_point() else made

        return make

    for name in ("empty", "empty_strided", "empty_like"):
        monkeypatch.setattr(torch, name, filled(getattr(torch, name)))


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was done in one."""
    calls, original = [], norm.batch_norm_into

    def counted(*args: Any, **options: Any) -> Any:
        found = original(*args, **options)
        if found is not None:
            calls.append(args)
        return found

    monkeypatch.setattr("wellposed.nn._fused.batch_norm_into", counted)
    return calls


def made(
    layer: type[SequenceLayer] = S4D, d_model: int = 3, *, norm_padding: bool = False, **options: Any
) -> ResidualBlock:
    own = layer(d_model, 6, seed=0, mode="triton", **options)  # pyright: ignore[reportCallIssue]
    block = ResidualBlock(own, norm="batch", norm_padding=norm_padding, seed=3).to(DEVICE)
    for i, p in enumerate(block.norm.parameters()):
        nn.init.normal_(p, generator=torch.Generator(DEVICE).manual_seed(i))
    return block


def sequences(*shape: int) -> Tensor:
    noise = torch.randn(*shape, generator=torch.Generator().manual_seed(1))
    return (noise + torch.linspace(-2, 2, shape[-1])).to(DEVICE)


def gradients(block: ResidualBlock, u: Tensor, **options: Any) -> list[Tensor]:
    """What comes out, and the gradients of the input and of all parameters."""
    u = u.detach().clone().requires_grad_()
    y = block(u, **options)
    weights = torch.sin(torch.arange(y.numel(), device=DEVICE)).to(y.dtype).view(y.shape)
    return [y.detach(), *torch.autograd.grad((y * weights).sum(), [u, *block.parameters()])]


def twin_of(block: ResidualBlock) -> ResidualBlock:
    twin: Any = deepcopy(block).double()
    twin.layer.mode = "scan"
    return twin


def close(found: list[Tensor], right: list[Tensor], tolerance: float = 2e-5) -> None:
    for a, b in zip(found, right, strict=True):
        assert (a.double() - b.double()).norm() <= tolerance * max(b.double().norm().item(), 1e-2)


def slow(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.mark.usefixtures("_nan_in_fresh_memory")
@pytest.mark.parametrize(
    ("layer", "batch", "length", "padded", "bidirectional"),
    [
        (S4D, 3, 2, False, False),
        (S4D, 3, 130, True, True),
        (S5PTD, 3, 40, True, False),
        slow(S4D, 3, 2, False, True),
        slow(S4D, 3, 130, True, False),
        slow(S5PTD, 3, 40, True, True),
        *(slow(S4D, *how, both) for how in [(1, 200, False), (3, 63, True), (2, 64, False)] for both in (False, True)),
        *(slow(S5PTD, *how, both) for how in [(1, 200, False), (3, 2, False), (3, 1, False)] for both in (False, True)),
        *(slow(S5, 3, 130, True, both) for both in (False, True)),
    ],
)
def test_is_norm_and_layer(
    layer: type[SequenceLayer], batch: int, length: int, padded: bool, bidirectional: bool, together: list[Any]
):
    block, u = made(layer, bidirectional=bidirectional), sequences(batch, length, 3)
    lengths = torch.tensor([length, max(length - 5, 1), 1][:batch], device=DEVICE) if padded else None
    twin = twin_of(block)
    right = gradients(twin, u.double(), lengths=lengths)
    close(gradients(block, u, lengths=lengths), right)
    close([b.float() for b in block.buffers()], [b.float() for b in twin.buffers()])
    for module in (block, twin):
        module.eval()
    close(gradients(block, u, lengths=lengths), gradients(twin, u.double(), lengths=lengths))
    assert len(together) == 2


@pytest.mark.usefixtures("_nan_in_fresh_memory")
@pytest.mark.parametrize("layer", [S4D, S5PTD])
def test_padding_may_count_as_zeros(layer: type[SequenceLayer], together: list[Any]):
    """Whatever stands in it."""
    block, lengths = made(layer, norm_padding=True), torch.tensor([40, 21, 1], device=DEVICE)
    u, twin = sequences(3, 40, 3), twin_of(block)
    u[1, 21:] = torch.nan
    found, right = (
        gradients(one, u.to(dtype), lengths=lengths) for one, dtype in ((block, u.dtype), (twin, u.double()))
    )
    close(found, right)
    close([b.float() for b in block.buffers()], [b.float() for b in twin.buffers()])
    assert len(together) == 1
    left_out = gradients(made(layer), u, lengths=lengths)[0]
    assert (left_out - found[0]).norm() > 0.01 * found[0].norm()  # most of it is the input, added


@pytest.mark.usefixtures("_nan_in_fresh_memory")
def test_sums_of_many_shares(monkeypatch: pytest.MonkeyPatch):
    """More blocks than programs, and a last one that is not full; the normalised sequence is made again."""
    for name in ("_NORMALISE", "_SUMS", "_GRADIENT"):
        monkeypatch.setattr(f"wellposed.kernels.gpu.norm_skip.{name}", (16, 1))
    monkeypatch.setattr("wellposed.kernels.gpu.batch_norm.PROGRAMS", 12)
    block, u = made(S5PTD), sequences(3, 37, 3)
    lengths = torch.tensor([37, 20, 1], device=DEVICE)
    close(gradients(block, u, lengths=lengths), gradients(twin_of(block), u.double(), lengths=lengths))


@pytest.mark.parametrize("layer", [S4PTD, slow(S4), slow(S5)])
def test_of_other_layers(layer: type[SequenceLayer], together: list[Any]):
    block, u = made(layer), sequences(2, 70, 3)
    close(gradients(block, u), gradients(twin_of(block), u.double()))
    assert together


@pytest.mark.parametrize("layer", [S4D, slow(S5PTD)])
def test_padding_may_hold_anything(layer: type[SequenceLayer]):
    block, u, lengths = made(layer), sequences(2, 70, 3), torch.tensor([70, 7], device=DEVICE)
    right = gradients(block, u, lengths=lengths)
    u[1, 7:] = torch.nan
    found = gradients(block, u, lengths=lengths)
    close(found, right, tolerance=1e-6)
    assert (found[1][1, 7:] == 0).all()


def test_large_means_are_taken_off_first():
    """Numbers far from zero lose no more digits than the norm itself does."""
    block, u = made(), sequences(3, 70, 3) + 1000
    close(gradients(block, u)[:2], gradients(twin_of(block), u.double())[:2], tolerance=2e-4)


@pytest.mark.parametrize("precision", [slow("highest"), slow("high")])
def test_products_do_not_see_the_mean(precision: str):
    """S5 multiplies what is normalised. Made of the input, ``dB`` would lose as many digits as the mean has."""
    block, u = made(S5PTD, bidirectional=True, d_model=8), sequences(3, 70, 8)
    before = torch.get_float32_matmul_precision()

    def errors(u: Tensor) -> list[Tensor]:
        right = gradients(twin_of(block), u.double())
        return [(a - b).norm() / b.norm() for a, b in zip(gradients(block, u), right, strict=True)]

    torch.set_float32_matmul_precision(precision)
    try:
        assert all(far < 3 * near + 1e-4 for near, far in zip(errors(u), errors(u + 100), strict=True))
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("layer", [S4D, slow(S5PTD)])
def test_second_derivatives(layer: type[SequenceLayer]):
    block, u = made(layer), sequences(2, 40, 3)

    def second(block: ResidualBlock, u: Tensor) -> list[Tensor]:
        u = u.detach().clone().requires_grad_()
        first = torch.autograd.grad(block(u).square().sum(), [u, *block.parameters()], create_graph=True)
        return list(torch.autograd.grad(sum(g.square().sum() for g in first), [u, *block.parameters()]))  # pyright: ignore[reportArgumentType, reportCallIssue]

    close(second(block, u), second(twin_of(block), u.double()), tolerance=1e-4)


def test_nothing_as_long_as_the_sequence_is_kept_besides(together: list[Any]):
    """The input, the output of the layer and the two halves of the gate."""
    block, u = made(d_model=4), sequences(2, 512, 4)
    u.requires_grad_()
    kept = {}
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.setdefault(t.data_ptr(), t), lambda t: t):
        block(u)
    assert together
    long = [t.numel() // u.numel() for t in kept.values() if t.numel() % u.numel() == 0]  # tables are of other sizes
    assert sorted(long) == [1, 1, 2]


@pytest.mark.parametrize(("d_model", "kept"), [(6, [6, 6, 12, 12]), (2, [2, 2, 2, 4, 12])])
def test_of_a_shared_system_states_are_kept(d_model: int, kept: list[int], together: list[Any]):
    """And what is normalised, where they are more than twice as wide: the input, the output, the gate's, states."""
    block, u = made(S5PTD, d_model, bidirectional=True), sequences(2, 512, d_model).requires_grad_()
    found = {}
    with torch.autograd.graph.saved_tensors_hooks(lambda t: found.setdefault(t.data_ptr(), t), lambda t: t):
        block(u)
    assert together
    assert sorted(t.numel() // 1024 for t in found.values() if t.numel() >= 1024) == kept


@pytest.mark.slow
@pytest.mark.parametrize("layer", [S4D, S5PTD])
def test_autocast(layer: type[SequenceLayer], together: list[Any], monkeypatch: pytest.MonkeyPatch):
    """The way around stays float32, and all is as near to float64 as when norm and layer are called by themselves."""
    half = {torch.float32: torch.bfloat16}
    monkeypatch.setattr(layer, "_sequence_dtype", lambda _, u: half.get(u.dtype, u.dtype))  # as on a GPU
    block, u = made(layer, bidirectional=True), sequences(2, 130, 3)
    right = gradients(twin_of(block), u.double())

    def errors() -> list[Tensor]:
        with torch.autocast(DEVICE, torch.bfloat16):
            found = gradients(block, u)
        assert found[0].dtype == torch.float32
        return [(a.double() - b).norm() / b.norm() for a, b in zip(found, right, strict=True)]

    in_one = errors()
    assert len(together) == 1
    monkeypatch.setattr("wellposed.nn._residual_block.normalised_into", lambda *_: None)
    assert all(a < 1.5 * b for a, b in zip(in_one, errors(), strict=True))
    assert len(together) == 1


def test_what_does_more_is_called(together: list[Any]):
    block, u = made(), sequences(2, 9, 3)
    with fourier_noise(amplitude=0.1).on(block):
        block(u)
    handle = block.layer.register_forward_hook(lambda *_: None)
    block(u)
    handle.remove()
    state = block.eval().initial_state(2)
    block(u, state=state, return_state=True)
    liquid = ResidualBlock(LiquidS4(3, 4, kernel="kb"), norm="batch").to(DEVICE)
    liquid(u)
    assert not together
    block(u)
    assert len(together) == 1


def test_a_shared_system_without_skip_is_called():
    block, u = made(S5PTD), layout.to_channels_first(sequences(2, 9, 3))
    work, own = block.layer._work(u, None), block.norm
    assert work is not None
    running = (own.running_mean, own.running_var, own.num_batches_tracked)
    how: Any = {"running": running, "momentum": 0.1, "training": True, "dtype": torch.float32}
    args: Any = (own.weight, own.bias, own.eps)
    assert norm.batch_norm_into(replace(work, D=None), *args, **how) is None
    assert norm.batch_norm_into(work, *args, **how) is not None
