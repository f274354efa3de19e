"""Batch norm and the layer behind it in one is both, one after the other, in float64."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("triton")

from wellposed.kernels import layout, norm
from wellposed.nn import S4, S4D, S4PTD, LiquidS4, ResidualBlock, SequenceLayer, fourier_noise

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def _kernels_on_the_cpu_too(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(layout, "FASTEST_ON", ("cuda", "cpu"))


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


def made(layer: type[SequenceLayer] = S4D, d_model: int = 3, **options: Any) -> ResidualBlock:
    own = layer(d_model, 6, seed=0, mode="triton", **options)  # pyright: ignore[reportCallIssue]
    block = ResidualBlock(own, norm="batch", seed=3).to(DEVICE)
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


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize(
    ("batch", "length", "padded"),
    [
        (3, 2, False),
        (3, 130, True),
        *(pytest.param(*sizes, marks=pytest.mark.slow) for sizes in [(1, 200, False), (3, 63, True), (2, 64, False)]),
    ],
)
def test_is_norm_and_layer(batch: int, length: int, padded: bool, bidirectional: bool, together: list[Any]):
    block, u = made(bidirectional=bidirectional), sequences(batch, length, 3)
    lengths = torch.tensor([length, max(length - 5, 1), 1][:batch], device=DEVICE) if padded else None
    twin = twin_of(block)
    right = gradients(twin, u.double(), lengths=lengths)
    close(gradients(block, u, lengths=lengths), right)
    close([b.float() for b in block.buffers()], [b.float() for b in twin.buffers()])
    for module in (block, twin):
        module.eval()
    close(gradients(block, u, lengths=lengths), gradients(twin, u.double(), lengths=lengths))
    assert len(together) == 2


@pytest.mark.parametrize("layer", [S4PTD, pytest.param(S4, marks=pytest.mark.slow)])
def test_of_other_layers(layer: type[SequenceLayer], together: list[Any]):
    block, u = made(layer), sequences(2, 70, 3)
    close(gradients(block, u), gradients(twin_of(block), u.double()))
    assert together


def test_padding_may_hold_anything():
    block, u, lengths = made(), sequences(2, 70, 3), torch.tensor([70, 7], device=DEVICE)
    right = gradients(block, u, lengths=lengths)
    u[1, 7:] = torch.nan
    found = gradients(block, u, lengths=lengths)
    close(found, right, tolerance=1e-6)
    assert (found[1][1, 7:] == 0).all()


def test_large_means_are_taken_off_first():
    """Numbers far from zero lose no more digits than the norm itself does."""
    block, u = made(), sequences(3, 70, 3) + 1000
    close(gradients(block, u)[:2], gradients(twin_of(block), u.double())[:2], tolerance=2e-4)


def test_second_derivatives():
    block, u = made(), sequences(2, 40, 3)

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


def test_autocast(together: list[Any], monkeypatch: pytest.MonkeyPatch):
    """The way around stays float32, and all is as near to float64 as when norm and layer are called by themselves."""
    half = {torch.float32: torch.bfloat16}
    monkeypatch.setattr(S4D, "_sequence_dtype", lambda _, u: half.get(u.dtype, u.dtype))  # as on a GPU
    block, u = made(bidirectional=True), sequences(2, 130, 3)
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
