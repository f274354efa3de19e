"""The models around Luna, hierarchical and plain attention and FlexConv, against their equations; and padding."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import baseline_twins
from wellposed.errors import ArgumentError, ShapeError
from wellposed.nn import PairClassifier, ResidualBlock, SelfAttention, SequenceClassifier, TransformerBlock

TRANSFORMER: dict[str, Any] = {
    "layer": "attention",
    "layer_options": {"n_heads": 2, "d_attention": 4, "rotary": False, "bias": False, "xavier": True},
    "positions": "sinusoidal",
    "pooling": "cls",
    "head": "relu",
    "d_head": 6,
    "d_ffn": 12,
}
HIERARCHICAL = TRANSFORMER | {
    "layer": "hierarchical-attention",
    "layer_options": {"n_heads": 2, "block": 4, "bias": False},
    "positions": "learned",
    "max_length": 50,
}
LUNA: dict[str, Any] = {
    "layer": "luna",
    "layer_options": {"n_heads": 2, "packed": 5},
    "positions": "sinusoidal",
    "pooling": "first",
    "head": "gelu",
    "d_head": 6,
    "d_ffn": 12,
    "prenorm": False,
}
CCNN: dict[str, Any] = {
    "encoding": "layer",
    "layer": "flexconv",
    "layer_options": {"length": 40, "hidden": 4, "omega_0": 1, "mask_width": 0.7},
    "norm": "batch",
    "glu": "linear",
}
ALL = {"transformer": TRANSFORMER, "h-transformer": HIERARCHICAL, "luna": LUNA, "ccnn": CCNN}
SIZES: dict[str, Any] = {"d_model": 8, "n_layers": 2, "seed": 0, "dtype": torch.float64}


def tokens(*shape: int, vocabulary: int = 9) -> Tensor:
    return torch.randint(vocabulary, shape, generator=torch.Generator().manual_seed(0))


def shaken(model: Any) -> Any:
    """Every parameter away from where it starts, zeros and ones above all."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p in model.parameters():
            p += 0.1 * torch.randn(p.shape, generator=generator, dtype=p.dtype)
        for name, b in model.named_buffers():
            if name.endswith("running_mean"):
                b += 0.1 * torch.randn(b.shape, generator=generator, dtype=b.dtype)
    return model.eval()


def part(p: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(f"{prefix}."): t for name, t in p.items() if name.startswith(f"{prefix}.")}


def layer_norm(p: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    x = (x - x.mean(-1, keepdim=True)) / (x.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt()
    return x * p[f"{name}.weight"] + p[f"{name}.bias"]


def waves(length: int, channels: int) -> Tensor:
    half = channels // 2
    rows = [[t / 10000 ** (i / (half - 1)) for i in range(half)] for t in range(length)]
    return torch.tensor([[math.sin(a) for a in row] + [math.cos(a) for a in row] for row in rows], dtype=torch.float64)


def gelu(x: Tensor) -> Tensor:
    return x / 2 * (1 + torch.erf(x / 2**0.5))


def transformer(p: dict[str, Tensor], x: Tensor) -> Tensor:
    h = p["backbone.encoder.weight"][x]
    h = torch.cat([p["backbone.entry.cls"].expand(len(h), 1, -1), h], 1)
    h = h + waves(h.shape[1], h.shape[2])
    linear = baseline_twins.linear
    for k in range(2):
        b = part(p, f"backbone.blocks.{k}")
        q, key, v = linear(b, "layer.qkv", layer_norm(b, "norm", h)).chunk(3, -1)
        h = h + linear(b, "layer.out", baseline_twins.softmax_attention(q, key, v, 2))
        h = h + linear(b, "ffn.last", gelu(linear(b, "ffn.first", layer_norm(b, "norm_ffn", h))))
    h = layer_norm(p, "backbone.norm", h)[:, 0]
    return linear(p, "head.2", F.relu(linear(p, "head.0", h)))


def luna(p: dict[str, Tensor], x: Tensor) -> Tensor:
    def start(vectors: Tensor, name: str) -> Tensor:
        return layer_norm(p, name, vectors * 8**0.5 + waves(vectors.shape[-2], 8))

    h = start(p["backbone.encoder.weight"][x], "backbone.entry.norm")
    packed = start(p["backbone.packed"], "backbone.blocks.0.norm_packed")[: x.shape[1]].expand(len(x), -1, -1)
    linear = baseline_twins.linear
    for k in range(2):
        b = part(p, f"backbone.blocks.{k}")
        y, y_packed = baseline_twins.luna_attention(part(b, "layer"), h, packed, 2)
        h = layer_norm(b, "norm", h + y)
        packed = layer_norm(p, "backbone.blocks.1.norm_packed", packed + y_packed)
        h = layer_norm(b, "norm_ffn", h + linear(b, "ffn.last", gelu(linear(b, "ffn.first", h))))
    return gelu(linear(p, "head.0", h[:, 0])) @ p["head.3.weight"].T


def ccnn(p: dict[str, Tensor], x: Tensor) -> Tensor:
    def norm(name: str, x: Tensor) -> Tensor:
        scale = p[f"{name}.weight"] / (p[f"{name}.running_var"] + 1e-5).sqrt()
        return (x - p[f"{name}.running_mean"]) * scale + p[f"{name}.bias"]

    def conv(name: str, x: Tensor) -> Tensor:
        return baseline_twins.flexconv(part(p, name), x, 40)[0]

    h = gelu(norm("backbone.encoder.norm", conv("backbone.encoder.layer", x[..., None].double())))
    for k in range(2):
        b = f"backbone.blocks.{k}"
        h = h + gelu(baseline_twins.linear(p, f"{b}.mix", gelu(conv(f"{b}.layer", norm(f"{b}.norm", h)))))
    return baseline_twins.linear(p, "head", norm("backbone.norm", h).mean(1))


@pytest.mark.parametrize("twin", [transformer, luna, ccnn])
@pytest.mark.parametrize("length", [3, 17])
def test_models_are_their_equations(twin: Callable[[dict[str, Tensor], Tensor], Tensor], length: int):
    model = shaken(SequenceClassifier(None, 3, vocabulary=9, **ALL[twin.__name__], **SIZES))
    x = tokens(2, length)
    p = {name: t.detach() for name, t in model.state_dict().items()}
    torch.testing.assert_close(model(x), twin(p, x), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ALL)
def test_a_padded_batch_is_every_sequence_alone(name: str):
    model = shaken(SequenceClassifier(None, 3, vocabulary=9, **ALL[name], **SIZES))
    x, lengths = tokens(4, 30), [30, 21, 4, 1]
    padded = x.clone()
    for row, length in enumerate(lengths):
        padded[row, length:] = 99  # no token at all
    together = model(padded, lengths=torch.tensor(lengths))
    for row, length in enumerate(lengths):
        torch.testing.assert_close(together[row], model(x[row : row + 1, :length])[0], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ALL)
def test_every_parameter_learns(name: str):
    """Several devices wait for the gradients of all parameters."""
    model = SequenceClassifier(None, 3, vocabulary=9, **ALL[name], **SIZES)
    model(tokens(4, 30)).square().sum().backward()
    assert [name for name, p in model.named_parameters() if p.grad is None] == []


@pytest.mark.parametrize("name", ["transformer", "luna"])
def test_pairs_are_each_read_alone(name: str):
    model = shaken(PairClassifier(None, 2, vocabulary=9, **ALL[name], **SIZES))
    a, b = tokens(2, 20), tokens(3, 12)[1:]
    together = model(a, b, lengths_a=torch.tensor([20, 7]), lengths_b=torch.tensor([12, 12]))
    torch.testing.assert_close(together[1:], model(a[1:, :7], b[1:]), rtol=1e-10, atol=1e-10)
    assert model.head[0].in_features == 16
    assert sum(isinstance(m, torch.nn.Linear) for m in model.head) == {"transformer": 3, "luna": 2}[name]


@pytest.mark.parametrize("name", ALL)
def test_what_does_not_stream_says_so(name: str):
    model = SequenceClassifier(None, 3, vocabulary=9, **ALL[name], **SIZES).eval()
    x = tokens(2, 10)
    for call in (
        lambda: model.initial_state(2),
        lambda: model.stepper()(x[:, 0], ()),
        lambda: model(x, return_state=True),
        lambda: model.step(x[:, 0], ()),
    ):
        with pytest.raises(ArgumentError, match="does not stream"):
            call()


def test_pixels_as_tokens():
    model = SequenceClassifier(1, 3, encoding="levels", lowest=-2, highest=2, levels=5, **TRANSFORMER, **SIZES).eval()
    x = torch.tensor([[-2.0, -1.1, 0.4, 0.9, 2.0, 7.0]], dtype=torch.float64)[..., None]
    encoder: Any = model.backbone.encoder
    assert torch.equal(encoder(x)[0], encoder.weight[torch.tensor([0, 1, 2, 3, 4, 4])])
    x[0, 2:4] = torch.tensor([[torch.nan], [torch.inf]])
    assert encoder(x)[0].isnan().all(1).tolist() == [False, False, True, False, False, False]
    assert torch.equal(encoder(x)[0, 3], encoder.weight[4])
    with pytest.raises(ArgumentError, match="encoding='levels' is for one number a step, these are 9 tokens"):
        SequenceClassifier(None, 3, vocabulary=9, encoding="levels", **TRANSFORMER, **SIZES)


def test_a_transformer_of_causal_attention_streams():
    options = {"layer": "attention", "layer_options": {"n_heads": 2, "causal": True}, "d_ffn": 16}
    for prenorm in (True, False):
        model = shaken(SequenceClassifier(2, 3, prenorm=prenorm, **options, **SIZES))
        x = torch.randn(2, 12, 2, dtype=torch.float64)
        y, state = model(x[:, :7], return_state=True)
        for t in range(7, 12):
            y, state = model.step(x[:, t], state)
        torch.testing.assert_close(y, model(x), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", [SequenceClassifier, PairClassifier])
def test_luna_s_head_starts_as_its_other_maps(kind: type[SequenceClassifier] | type[PairClassifier]):
    options = {"n_heads": 2, "packed": 5}
    for init, std in (("xavier", None), ("normal", 0.02)):
        how: dict[str, Any] = LUNA | {"layer_options": options | {"init": init}, "d_head": 400, "d_ffn": 8}
        head: Any = kind(None, 100, vocabulary=9, **how, d_model=200, n_layers=1, seed=0).head
        for linear in (head[0], head[3]):
            right = (2 / (linear.in_features + linear.out_features)) ** 0.5 if std is None else std
            assert linear.weight.std().item() == pytest.approx(right, rel=0.02)
            assert linear.bias is None or not linear.bias.any()


def test_ccnn_s_maps_start_by_he_s_rule():
    block: Any = SequenceClassifier(1, 2, **CCNN, d_model=200, n_layers=1, seed=0).backbone.blocks[0]
    for linear in (block.mix, block.layer.mix):
        assert linear.weight.std().item() == pytest.approx((2 / 200) ** 0.5, rel=0.02)
        assert not linear.bias.any()


def test_ccnn_reads_sequences_of_half_the_sampling():
    """The same signal with every other step left out: the same scores with ``rate=2``, others without."""
    t = torch.arange(0, 800, dtype=torch.float64)
    x = torch.stack([torch.sin(t / 60) * torch.sin(t / 400), torch.cos(t / 45)], -1)[None]
    kernel = {"length": 401, "hidden": 4, "omega_0": 0.3, "mask_width": 0.3}
    fine, coarse = (
        SequenceClassifier(2, 3, **CCNN | {"layer_options": kernel | {"rate": rate}}, **SIZES).eval() for rate in (1, 2)
    )
    coarse.load_state_dict(shaken(fine).state_dict())
    right, found, other = fine(x), coarse(x[:, ::2]), fine(x[:, ::2])
    assert (found - right).abs().max() < 0.02 * right.abs().max()
    assert (other - right).abs().max() > 0.1 * right.abs().max()


def test_saved_and_loaded(tmp_path: Path):
    for name, options in ALL.items():
        model = shaken(SequenceClassifier(None, 3, vocabulary=9, **options, **SIZES))
        loaded = SequenceClassifier.from_pretrained(model.save_pretrained(tmp_path / name))
        assert torch.equal(loaded(tokens(2, 20)), model(tokens(2, 20)))


def test_errors():
    none_packed: dict[str, Any] = LUNA | {"layer_options": {"packed": -1}}
    with pytest.raises(ShapeError, match="sequences of 51 steps, and positions were learned for 50"):
        SequenceClassifier(None, 3, vocabulary=9, **HIERARCHICAL, **SIZES)(tokens(1, 51))
    with pytest.raises(ArgumentError, match="positions='learned' has a vector for each step: give max_length"):
        SequenceClassifier(3, 3, positions="learned")
    with pytest.raises(ArgumentError, match="d_head is the width of a hidden layer: got None with head='relu'"):
        SequenceClassifier(3, 3, head="relu")
    with pytest.raises(ArgumentError, match="pass norm='layer', prenorm=False"):
        SequenceClassifier(3, 3, layer="luna", d_ffn=8)
    with pytest.raises(ShapeError, match="packed must be at least 1, got -1"):
        SequenceClassifier(3, 3, **none_packed)
    with pytest.raises(ArgumentError, match="encoding='layer' begins with a layer that changes the number of channels"):
        SequenceClassifier(3, 3, layer="s4d", encoding="layer")
    with pytest.raises(ArgumentError, match="d_ffn = 8: this block has no feed-forward network"):
        ResidualBlock(SelfAttention(8), d_ffn=8)
    with pytest.raises(ArgumentError, match="give its width, d_ffn"):
        TransformerBlock(SelfAttention(8))
    with pytest.raises(ArgumentError, match="token 12 is not in the vocabulary"):
        SequenceClassifier(None, 3, vocabulary=9, **CCNN, **SIZES).eval()(tokens(1, 5) + 12 - tokens(1, 5))
