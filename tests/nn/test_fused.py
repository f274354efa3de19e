"""A block by kernels in Triton is the block by PyTorch's modules, in float64; where it must be, it is made of them."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

pytest.importorskip("triton")

from wellposed.kernels import layout
from wellposed.kernels.layout import is_channels_first
from wellposed.nn import S4D, ResidualBlock, SelfAttention, SequenceClassifier, _fused

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
OPTIONS = [
    {"glu": glu, "activation": activation, "norm": norm, "prenorm": prenorm, "residual": residual, "lengths": lengths}
    for glu, activation, norm, prenorm, residual, lengths in product(
        ["full", "half", "half2", "none"],
        ["gelu", "gelu_tanh", "none"],
        ["layer", "batch", "none"],
        *[[True, False]] * 3,
    )
]


@pytest.fixture(autouse=True)
def _kernels_on_the_cpu_too(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(layout, "FASTEST_ON", ("cuda", "cpu"))


def sequences(*shape: int, seed: int = 1) -> Tensor:
    """Channels and steps that differ: where they do not, a norm shows nothing but rounding errors."""
    noise = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return (noise + torch.linspace(-2, 2, shape[-1])).to(DEVICE)


def made(**options: Any) -> ResidualBlock:
    block = ResidualBlock(S4D(5, 6, seed=0, mode="conv"), seed=3, **options).to(DEVICE)
    for i, p in enumerate(block.norm.parameters()):
        nn.init.normal_(p, generator=torch.Generator(DEVICE).manual_seed(i))
    return block


def outputs(block: ResidualBlock, u: Tensor, **options: Any) -> list[Tensor]:
    """What comes out, and the gradients of the input and of all parameters."""
    u = u.detach().clone(memory_format=torch.preserve_format).requires_grad_()
    y = block(u, **options)
    weights = torch.sin(torch.arange(y.numel(), device=DEVICE)).to(y.dtype).view(y.shape)
    (y * weights).sum().backward()
    return [y.detach(), *(t.grad for t in (u, *block.parameters()) if t.grad is not None)]


def close(found: list[Tensor], right: list[Tensor], tolerance: float = 1e-5) -> None:
    assert len(found) == len(right)
    for a, b in zip(found, right, strict=True):
        assert (a.double() - b.double()).norm() <= tolerance * max(b.double().norm().item(), 1e-2)


@pytest.mark.parametrize(
    "options", [pytest.param(o, marks=[] if i % 17 == 0 else pytest.mark.slow) for i, o in enumerate(OPTIONS)]
)
def test_is_the_block_of_modules(options: dict[str, Any]):
    options = dict(options)
    lengths = torch.tensor([4, 9, 1], device=DEVICE) if options.pop("lengths") else None
    block = made(**options)
    twin, u = deepcopy(block).double(), sequences(3, 9, 5)
    right = outputs(twin, u.double(), lengths=lengths)
    found = outputs(block, u, lengths=lengths)
    assert found[0].is_contiguous()
    close(found, right)
    close([b.float() for b in block.buffers()], [b.float() for b in twin.buffers()])
    laid = deepcopy(block).eval()(u.permute(2, 0, 1).contiguous().permute(1, 2, 0), lengths=lengths)
    assert is_channels_first(laid)
    close([laid.detach()], [twin.eval()(u.double(), lengths=lengths).detach()])


@pytest.mark.parametrize("options", [{}, {"prenorm": False}, {"glu": "none"}])
@pytest.mark.parametrize("laid", [True, False])
def test_outputs_can_be_changed_in_place(options: dict[str, Any], laid: bool):
    block, u = made(**options), sequences(2, 9, 5)
    y = block(u.permute(2, 0, 1).contiguous().permute(1, 2, 0) if laid else u)
    y += 1
    y.sum().backward()


def test_padding_may_hold_anything():
    block, lengths = made(norm="batch", glu="half2"), torch.tensor([4, 9, 1], device=DEVICE)
    u = sequences(3, 9, 5)
    right = outputs(deepcopy(block), torch.where(_mask(lengths, 9), u, 0.0), lengths=lengths)
    found = outputs(block, torch.where(_mask(lengths, 9), u, torch.nan), lengths=lengths)
    for a, b in zip(found, right, strict=True):
        assert torch.equal(a, b)
    assert not found[0][0, 4:].any()
    assert not found[1][0, 4:].any()


def _mask(lengths: Tensor, size: int) -> Tensor:
    return (torch.arange(size, device=DEVICE) < lengths[:, None])[..., None]


def test_autocast_keeps_the_sum_of_the_blocks_in_float32():
    block, u = made(), sequences(3, 9, 5)
    seen: list[torch.dtype] = []
    block.layer.register_forward_hook(lambda module, args, y: seen.extend([args[0].dtype, y.dtype]))
    right = outputs(deepcopy(block).double(), u.double())
    seen.clear()
    with torch.autocast(DEVICE, torch.bfloat16):
        found = outputs(block, u)
    assert seen == [torch.bfloat16] * 2
    assert found[0].dtype == torch.float32
    close(found, right, 3e-2)


def calls(block: ResidualBlock, u: Tensor) -> int:
    """How often a linear map of PyTorch's was called: never by kernels."""
    count, original = 0, nn.functional.linear

    def linear(*args: Any, **kwargs: Any) -> Tensor:
        nonlocal count
        count += 1
        return original(*args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nn.functional, "linear", linear)
        block(u)
    return count


class Counted(TorchDispatchMode):
    """PyTorch's own operations by name."""

    def __init__(self):
        super().__init__()
        self.seen: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen[func.overloadpacket.__name__] += 1
        return func(*args, **(kwargs or {}))


class Passing(S4D):
    """A layer that hands its input on."""

    def _sequence(self, u: Tensor, lengths: Any, state: Any, want_state: bool) -> tuple[Tensor, None]:
        return u.view_as(u), None


@pytest.mark.parametrize("glu", ["full", "half", "half2"])
@pytest.mark.parametrize("norm", ["layer", "batch"])
def test_nothing_is_copied_or_added_besides(glu: Any, norm: Any):
    """Sequences, gradients and the way around meet inside kernels; PyTorch multiplies matrices and adds a few sums."""
    block = ResidualBlock(Passing(5, 6, seed=0), glu=glu, norm=norm, dropout=0.1).to(DEVICE)
    u = sequences(3, 9, 5).permute(2, 0, 1).contiguous().permute(1, 2, 0).requires_grad_()
    with Counted() as forward:
        y = block(u)
    with Counted() as backward:
        y.backward(torch.ones_like(y))
    assert forward.seen["mm"] == forward.seen["randint"] == 1
    assert backward.seen["mm"] + backward.seen["addmm_"] == 2
    assert backward.seen["sum"] == (2 if norm == "layer" else 1)
    for both in (forward.seen, backward.seen):
        assert not both.keys() & {"add", "add_", "clone", "mul", "where", "_to_copy", "addmm", "bmm", "t_copy"}


class Doubled(nn.Linear):
    """Somebody's own linear map, as adapters are."""

    def forward(self, input: Tensor) -> Tensor:
        return 2 * super().forward(input)


def test_modules_that_do_more_are_called():
    u = sequences(2, 9, 5)
    assert calls(made(), u) == 0
    block = made()
    seen: list[str] = []
    for name in ("norm", "mix", "dropout"):
        getattr(block, name).register_forward_hook(lambda module, args, y: seen.append(type(module).__name__))
    plain = made()
    close([block(u).detach()], [plain(u).detach()])
    assert seen == ["LayerNorm", "TiedDropout", "Linear", "TiedDropout"]

    block = made()
    own = Doubled(5, 10).to(DEVICE)
    own.load_state_dict(block.mix.state_dict())
    block.mix = own
    assert calls(block, u) == 1
    assert not torch.equal(block(u), plain(u))

    block = made()
    nn.utils.parametrizations.weight_norm(block.mix)
    assert calls(block, u) == 1
    close([block(u).detach()], [plain(u).detach()])


def test_hooks_of_gradients_are_called():
    block, seen = made(), []
    block.norm.register_full_backward_hook(lambda module, before, after: seen.append(after[0].shape))
    block(sequences(2, 9, 5).requires_grad_()).sum().backward()
    assert seen == [(2, 9, 5)]


def test_attention_keeps_its_layout():
    block = ResidualBlock(SelfAttention(8, 2, seed=1), seed=2).to(DEVICE)
    seen: list[Tensor] = []
    block.layer.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    block(sequences(2, 9, 8))
    assert seen[0].is_contiguous()


@pytest.mark.parametrize("tied", [True, False])
def test_checkpointing_finds_the_same_masks(tied: bool):
    block, u = made(dropout=0.5, tied_dropout=tied), sequences(2, 9, 5)
    torch.manual_seed(0)
    right = outputs(block, u)
    for p in block.parameters():
        p.grad = None
    torch.manual_seed(0)
    leaf = u.clone().requires_grad_()
    y = checkpoint(block, leaf, use_reentrant=False)
    assert isinstance(y, Tensor)
    (y * torch.sin(torch.arange(y.numel(), device=DEVICE)).to(y.dtype).view(y.shape)).sum().backward()
    for a, b in zip([y.detach(), leaf.grad, *(p.grad for p in block.parameters())], right, strict=True):
        assert a is not None
        assert torch.equal(a, b)


def test_modules_of_another_size_are_called():
    """A gate that broadcasts, and an encoder without a bias."""
    block = made(glu="half").eval()
    u, twin = sequences(2, 9, 5), deepcopy(block).double()
    for own in (block, twin):
        own.mix = torch.nn.Linear(5, 1, device=DEVICE, dtype=next(own.parameters()).dtype)
        torch.nn.init.constant_(own.mix.weight, 0.3)
        torch.nn.init.constant_(own.mix.bias, 0.1)
    close([block(u).detach()], [twin(u.double()).detach()])
    model = SequenceClassifier(3, 4, layer="s4d", d_model=6, n_layers=1, layer_options={"mode": "conv"}).to(DEVICE)
    model.backbone.encoder.register_parameter("bias", None)
    assert model(torch.randn(2, 9, 3, device=DEVICE)).isfinite().all()


def test_transforms_take_the_modules():
    block = made().eval()
    u = sequences(4, 9, 5)
    mapped = torch.func.vmap(lambda x: block(x[None])[0])(u)
    close([mapped.detach()], [block(u).detach()])


def test_a_model_never_changes_layout(monkeypatch: pytest.MonkeyPatch):
    """The encoder writes it; blocks, the last norm and the pooling keep it, and nothing is copied on the way."""
    model = SequenceClassifier(3, 4, layer="s4d", d_model=6, n_layers=2, layer_options={"mode": "conv"}).to(DEVICE)
    count = 0
    original = _fused.to_channels_first

    def counted(x: Tensor) -> Tensor:
        nonlocal count
        count += not is_channels_first(x)
        return original(x)

    monkeypatch.setattr(_fused, "to_channels_first", counted)
    x = torch.randn(2, 9, 3, device=DEVICE)
    twin = deepcopy(model).double()
    y = model(x)
    assert count == 0
    close([y.detach()], [twin(x.double()).detach()])
    weights = torch.arange(8.0, device=DEVICE).view(2, 4)
    (y * weights).sum().backward()
    (twin(x.double()) * weights).sum().backward()
    close(
        [p.grad for p in model.parameters() if p.grad is not None],
        [p.grad for p in twin.parameters() if p.grad is not None],
        3e-5,
    )


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: a training step is captured in a CUDA graph")
@pytest.mark.parametrize("norm", ["layer", "batch"])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_a_training_step_is_captured(norm: Any, dropout: float):
    """Nothing waits for the GPU, lengths and tokens included; replays move the parameters, and draw new masks."""
    options: Any = {"layer": "s4d", "d_model": 6, "n_layers": 2, "layer_options": {"mode": "conv"}}
    model = SequenceClassifier(None, 4, vocabulary=9, norm=norm, dropout=dropout, **options).cuda()
    tokens, lengths = torch.randint(9, (3, 50), device="cuda"), torch.tensor([50, 7, 20], device="cuda")

    def step() -> Tensor:
        model.zero_grad(set_to_none=False)
        loss = model(tokens, lengths=lengths).logsumexp(-1).sum()
        loss.backward()
        return loss.detach()

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    seen = []
    for _ in range(4):
        graph.replay()
        seen.append((loss.item(), [p.grad.clone() for p in model.parameters() if p.grad is not None]))
    if dropout:
        assert len({value for value, _ in seen}) == 4
    else:
        right = step()
        torch.testing.assert_close(seen[-1][0], right.item(), rtol=1e-5, atol=1e-5)
        close(seen[-1][1], [p.grad for p in model.parameters() if p.grad is not None])
