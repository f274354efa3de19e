"""Whole models: padding, streaming, seeds, and life among PyTorch's tools."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import json
import traceback
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from covering import covering
from subprocesses import run_python
from wellposed.errors import ArgumentError, ShapeError, UnknownNameError
from wellposed.kernels import BACKENDS, chunks
from wellposed.nn import (
    LAYERS,
    S4D,
    S4PTD,
    BlockConfig,
    ModelConfig,
    PairClassifier,
    ResidualBlock,
    SequenceClassifier,
    SequenceRegressor,
    pool,
)

OPTIONS: dict[str, dict[str, Any]] = {
    "s4": {"d_state": 6},
    "s4d": {"d_state": 6},
    "s4ptd": {"d_state": 6},
    "s5": {"d_state": 6},
    "s5ptd": {"d_state": 6},
    "liquid-s4": {"d_state": 6},
    "attention": {"n_heads": 2},
}
LENGTHS = torch.tensor([9, 4, 1])


def small(
    kind: Any, layer: str = "s4ptd", *, d_output: int = 3, dtype: torch.dtype = torch.float64, **options: Any
) -> Any:
    body: dict[str, Any] = {"d_model": 8, "n_layers": 2, "seed": 1, "layer_options": OPTIONS[layer]}
    return kind(None if "vocabulary" in options else 2, d_output, layer=layer, dtype=dtype, **body | options)


def numbers(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(2))


def padded(dtype: torch.dtype = torch.float64) -> Tensor:
    x = numbers(3, 9, 2, dtype=dtype)
    x[1, 4:], x[2, 1:] = torch.nan, torch.inf
    return x


def close(a: Any, b: Any, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def gradients(loss: Tensor, model: nn.Module) -> list[Tensor]:
    return list(torch.autograd.grad(loss, list(model.parameters())))


def test_is_what_it_says():
    model = small(SequenceClassifier, n_layers=1)
    x, (block,) = numbers(2, 5, 2), model.backbone.blocks
    u = x @ model.backbone.encoder.weight.T + model.backbone.encoder.bias
    y = block.layer(F.layer_norm(u, (8,)))
    h = u + F.glu(F.gelu(y) @ block.mix.weight.T + block.mix.bias)
    close(model(x), F.layer_norm(h, (8,)).mean(1) @ model.head.weight.T + model.head.bias)
    post = small(SequenceClassifier, n_layers=1, prenorm=False, pooling="last")
    u = x @ post.backbone.encoder.weight.T + post.backbone.encoder.bias
    h = u + F.glu(F.gelu(post.backbone.blocks[0].layer(u)) @ block.mix.weight.T + block.mix.bias)
    close(post(x), F.layer_norm(h, (8,))[:, -1] @ post.head.weight.T + post.head.bias)


def test_ends_as_those_of_s5():
    """No norm after the last block; dense maps, and vectors of tokens, of variance one over their inputs, no biases."""
    model = small(SequenceClassifier, n_layers=1, last_norm=False)
    x, (block,) = numbers(2, 5, 2), model.backbone.blocks
    u = x @ model.backbone.encoder.weight.T + model.backbone.encoder.bias
    h = u + F.glu(F.gelu(block.layer(F.layer_norm(u, (8,)))) @ block.mix.weight.T + block.mix.bias)
    close(model(x), h.mean(1) @ model.head.weight.T + model.head.bias)
    options: dict[str, Any] = {"layer": "s5ptd", "layer_options": {"d_state": 16}, "d_model": 200, "n_layers": 1}
    lecun: Any = SequenceClassifier(None, 300, vocabulary=150, padding_idx=0, dense="lecun", seed=0, **options)
    mix, table = lecun.backbone.blocks[0].mix, lecun.backbone.encoder.weight
    # 30,000 numbers or more: their deviation is known to half a per cent
    for weight, inputs in ((table[1:], 150), (mix.weight, 200), (lecun.head.weight, 200)):
        assert weight.std().item() == pytest.approx(inputs**-0.5, rel=0.02)
        assert abs(weight.mean().item()) < 0.02 * inputs**-0.5
    for zero in (table[0], mix.bias, lecun.head.bias):
        assert zero.count_nonzero() == 0
    own: dict[str, Any] = {"layer": "flexconv", "layer_options": {"generator": "siren", "length": 50}, "seed": 0}
    usual, conv = (
        SequenceClassifier(2, 3, d_model=8, n_layers=1, dense=dense, **own).state_dict() for dense in ("torch", "lecun")
    )
    inside = {name for name in usual if ".layer." in name}  # sines of sines that start otherwise are noise
    assert inside
    assert {name for name in usual if usual[name].equal(conv[name])} >= inside
    assert not usual["head.weight"].equal(conv["head.weight"])
    with pytest.raises(UnknownNameError, match="unknown dense 'glorot'"):
        SequenceClassifier(2, 3, dense="glorot")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(("layer", "pooling"), covering(list(OPTIONS), ["mean", "last", "max", "none"], every=2))
def test_a_padded_batch_is_its_sequences(layer: str, pooling: Any):
    model, x = small(SequenceClassifier, layer, pooling=pooling), padded()
    together = model(x, lengths=LENGTHS)
    apart = [model(x[i : i + 1, :n])[0] for i, n in enumerate(LENGTHS.tolist())]
    if pooling == "none":
        assert not together[1, 4:].any()
        together = [together[i, :n] for i, n in enumerate(LENGTHS.tolist())]
    loss = sum(t.square().sum() for t in together)
    assert isinstance(loss, Tensor)
    for a, b in zip(together, apart, strict=True):
        close(a, b)
    for a, b in zip(
        gradients(loss, model), gradients(torch.stack([t.square().sum() for t in apart]).sum(), model), strict=True
    ):
        close(a, b)


@pytest.mark.parametrize("layer", OPTIONS)
@pytest.mark.parametrize("norm", ["layer", "batch"])
def test_a_padded_batch_in_single_precision(layer: str, norm: Any):
    model, x = small(SequenceClassifier, layer, norm=norm, dtype=torch.float32).eval(), padded(torch.float32)
    apart = [model(x[i : i + 1, :n])[0] for i, n in enumerate(LENGTHS.tolist())]
    close(model(x, lengths=LENGTHS), torch.stack(apart), 1e-6)


@pytest.mark.parametrize("layer", ["s4ptd", "s5ptd", "liquid-s4"])
@pytest.mark.parametrize("norm", ["layer", "batch"])
@pytest.mark.parametrize("prenorm", [True, False])
def test_a_padded_batch_in_both_directions(layer: str, norm: Any, prenorm: bool):
    options = OPTIONS[layer] | {"bidirectional": True}
    model, x = small(SequenceClassifier, layer, norm=norm, prenorm=prenorm, layer_options=options).eval(), padded()
    apart = torch.stack([model(x[i : i + 1, :n])[0] for i, n in enumerate(LENGTHS.tolist())])
    together = model(x, lengths=LENGTHS)
    close(together, apart)
    for a, b in zip(gradients(together.square().sum(), model), gradients(apart.square().sum(), model), strict=True):
        close(a, b)


def test_batch_norm_in_training_is_that_of_the_sequences_laid_end_to_end():
    """Every norm of the model, replaced by PyTorch's on the true steps alone, gives the same model."""
    model, x = small(SequenceClassifier, norm="batch", dropout=0.0), padded()
    together = model(x, lengths=LENGTHS)
    twin = small(SequenceClassifier, norm="batch", dropout=0.0)
    counts = LENGTHS.tolist()
    rows = [torch.nn.Linear.forward(twin.backbone.encoder, x[i, :n]) for i, n in enumerate(counts)]
    for block in twin.backbone.blocks:
        normed = nn.BatchNorm1d.forward(block.norm, torch.cat(rows)[None].mT)[0].mT.split(counts)
        y = [block.layer(part[None])[0] for part in normed]
        rows = [u + F.glu(block.mix(F.gelu(part))) for u, part in zip(rows, y, strict=True)]
    last = nn.functional.batch_norm(torch.cat(rows), None, None, training=True).split(counts)
    close(together, twin.head(torch.stack([part.mean(0) for part in last])))


def test_padding_tokens_are_never_looked_up():
    model = small(SequenceClassifier, vocabulary=5)
    tokens = torch.tensor([[4, 1, 2, 3], [3, 4, -100, 99]])
    lengths = torch.tensor([4, 2])
    apart = torch.cat([model(tokens[:1]), model(tokens[1:, :2])])
    together = model(tokens, lengths=lengths)
    close(together, apart)
    for a, b in zip(gradients(together.square().sum(), model), gradients(apart.square().sum(), model), strict=True):
        close(a, b)
    close(model(tokens.to(torch.int16), lengths=lengths), together)
    blank = small(SequenceClassifier, vocabulary=5, padding_idx=0)
    assert not blank.backbone.encoder.weight[0].any()
    blank(torch.tensor([[0, 1, 0]])).sum().backward()
    assert not blank.backbone.encoder.weight.grad[0].any()


@pytest.mark.parametrize(
    ("layer", "norm", "prenorm"), covering(list(OPTIONS), ["layer", "batch"], [True, False], every=2)
)
def test_streams(layer: str, norm: Any, prenorm: bool):
    options = OPTIONS[layer] | ({"causal": True} if layer == "attention" else {})
    model = small(SequenceRegressor, layer, pooling="none", norm=norm, prenorm=prenorm, layer_options=options)
    x = numbers(2, 12, 2)
    model(3 * x + 1)  # running statistics away from 0 and 1
    model.eval()
    whole, last = model(x, return_state=True)
    first, state = model(x[:, :7], state=model.initial_state(2), return_state=True)
    parts = [first]
    for t in range(7, 12):
        y, state = model.step(x[:, t], state)
        parts.append(y[:, None])
    close(torch.cat(parts, 1), whole)
    close(state, last)
    close(model(x), whole)
    close(model(x[:, 7:], state=model(x[:, :7], return_state=True)[1]), whole[:, 7:])


@pytest.mark.parametrize(
    ("kind", "pooling", "layer"),
    covering(
        [SequenceClassifier, SequenceRegressor],
        ["mean", "max", "last", "none"],
        ["s4ptd", "s5", "liquid-s4", "attention"],
        every=4,
    ),
)
def test_streams_with_pooling_that_runs_along(kind: Any, pooling: Any, layer: str):
    """Whatever was read in pieces, in steps or by a stepper: the output is that of the sequence so far."""
    options = OPTIONS[layer] | ({"causal": True} if layer == "attention" else {})
    model, x = small(kind, layer, pooling=pooling, layer_options=options).eval(), numbers(2, 12, 2)
    _, state = model(x[:, :4], return_state=True)
    part, state = model(x[:, 4:7], state=state, return_state=True)
    close(part, model(x[:, :7])[:, 4:] if pooling == "none" else model(x[:, :7]))
    step, other = model.stepper(), state
    for t in range(7, 12):
        y, state = model.step(x[:, t], state)
        again, other = step(x[:, t], other)
        whole = model(x[:, : t + 1])
        close(y, whole[:, -1] if pooling == "none" else whole)
        close(again, y)
    close(model(x, return_state=True)[1], state)
    begun, _ = model(x, state=model.initial_state(2), return_state=True)
    close(begun, model(x))


@pytest.mark.parametrize("pooling", ["mean", "max", "last"])
def test_streams_on_from_padded_sequences(pooling: Any):
    model, x = small(SequenceClassifier, pooling=pooling).eval(), padded()
    _, state = model(x, lengths=LENGTHS, return_state=True)
    more = numbers(3, 3, 2)
    y, state = model(more, lengths=torch.tensor([3, 1, 2]), state=state, return_state=True)
    last, _ = model.step(more[:, 2], state)
    for i, (n, m) in enumerate(zip(LENGTHS.tolist(), (3, 1, 2), strict=True)):
        whole = torch.cat([x[i : i + 1, :n], more[i : i + 1, :m]], 1)
        close(y[i], model(whole)[0])
        close(last[i], model(torch.cat([whole, more[i : i + 1, 2:]], 1))[0])


def test_a_mean_goes_on_after_many_steps():
    """Counted in float32 it would stand still at 2^24."""
    model = small(SequenceRegressor, n_layers=1, dtype=torch.float32).eval()
    *layers, total, count = model.initial_state(1)
    many = 2.0**26
    state = (*layers, total + many * 0.3, count + many)
    for _ in range(3):
        _, state = model.step(numbers(1, 2, dtype=torch.float32), state)
    assert state[-1].item() == many + 3
    assert (state[-2] != many * 0.3).all()
    with pytest.raises(ShapeError, match="of 1 sequences, this batch has 2"):
        model.step(numbers(2, 2, dtype=torch.float32), (*model.initial_state(2)[:-2], *state[-2:]))


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # by PyTorch itself
def test_second_derivatives_of_a_whole_model():
    """Forward over reverse, forward over forward, and a tangent of a map agree with reverse over reverse.

    Without a norm: of PyTorch's own layer norm, forward over forward is wrong (2.13).
    """
    model, x = small(SequenceRegressor, n_layers=1, d_output=1, glu="half", norm="none"), numbers(1, 6, 2)

    def scalar(x: Tensor) -> Tensor:
        return model(x).square().sum()

    right = torch.autograd.functional.hessian(scalar, x)
    close(torch.func.hessian(scalar)(x), right, 1e-8)
    close(torch.func.jacfwd(torch.func.jacfwd(scalar))(x), right, 1e-8)
    several, tangent = numbers(3, 1, 6, 2), torch.ones(3, 1, 6, 2, dtype=torch.float64)
    found = torch.func.jvp(torch.func.vmap(scalar), (several,), (tangent,))[1]
    close(found, torch.stack([torch.func.jvp(scalar, (one,), (tangent[0],))[1] for one in several]))


def test_a_config_is_the_model():
    config = ModelConfig(
        2, 3, layer=S4D, layer_options={"d_state": 4}, d_model=8, norm="batch", norm_momentum=0.05, seed=1
    )
    assert config.layer == "s4d"
    model = SequenceClassifier.from_config(config)
    assert model.config == config
    twin = SequenceClassifier(2, 3, layer="s4d", layer_options={"d_state": 4}, d_model=8, norm="batch", seed=1)
    x = numbers(2, 5, 2, dtype=torch.float32)
    assert torch.equal(model.eval()(x), twin.eval()(x))
    assert {m.momentum for m in model.modules() if isinstance(m, nn.BatchNorm1d)} == {0.05}
    assert {m.momentum for m in twin.modules() if isinstance(m, nn.BatchNorm1d)} == {0.1}
    assert config.block == BlockConfig(norm="batch", norm_momentum=0.05)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.d_model = 3  # pyright: ignore[reportAttributeAccessIssue]


def test_signatures_show_every_option():
    """Of constructors, as help and editors show them; each is written down once, in a config."""
    shown = inspect.signature(SequenceClassifier).parameters
    assert set(shown) == {field.name for field in dataclasses.fields(ModelConfig)} | {"device"}
    for name, layer in LAYERS.items():
        parameters = inspect.signature(layer).parameters
        assert next(iter(parameters)) == "d_model"
        assert not any(p.kind == p.VAR_KEYWORD for p in parameters.values()), name
    assert {"rel", "dt_min", "n_ssm", "scale", "mode"} <= set(inspect.signature(S4PTD).parameters)
    assert {"norm", "glu", "layer"} <= set(inspect.signature(ResidualBlock).parameters)


def test_the_way_to_the_kernel_is_short(monkeypatch: pytest.MonkeyPatch):
    """From ``SequenceClassifier.forward`` a tensor meets at most six functions of this library before a kernel runs."""
    seen: list[str] = []

    def catch(work: Any) -> Any:
        frames = [f for f in traceback.extract_stack() if "/wellposed/" in f.filename]
        seen.extend(f"{Path(f.filename).stem}.{f.name}" for f in frames)
        return chunks.run(work)

    monkeypatch.setitem(BACKENDS, "scan", BACKENDS["scan"]._replace(run=catch))
    small(SequenceClassifier, n_layers=1)(numbers(2, 5, 2))
    assert seen[0] == "_sequence_model.forward"
    assert len(seen) <= 6, seen


@pytest.mark.slow
def test_another_batch_size_does_not_compile_anew():
    """Four layers; the first size compiles for all of them, with lengths and without."""
    printed = run_python("""
import warnings
import torch
from torch._dynamo.backends.debugging import aot_eager
from wellposed.nn import SequenceClassifier
# Raised by the compiler itself at every torch.autograd.Function.
warnings.filterwarnings("ignore", "<class 'torch.autograd.function.Function'>", DeprecationWarning)
count = 0
def counting(graph, inputs):
    global count
    count += 1
    return aot_eager(graph, inputs)
for layer in ("s4ptd", "s5ptd"):
    model = SequenceClassifier(3, 5, d_model=4, n_layers=4, layer=layer, norm="batch", layer_options={"d_state": 4})
    compiled, counts = torch.compile(model, backend=counting, fullgraph=True), []
    for batch in (4, 6, 3, 33):
        x, lengths = torch.randn(batch, 90, 3), torch.randint(1, 91, (batch,))
        compiled(x).sum().backward()
        compiled(x, lengths=lengths).sum().backward()
        counts.append(count)
    print(counts[-1] - counts[0])
""")
    assert printed.split() == ["0", "0"]


def test_streams_tokens_and_after_padding():
    model = small(SequenceRegressor, vocabulary=5, pooling="last").eval()
    tokens = torch.randint(5, (2, 9))
    _, state = model(tokens[:, :6], lengths=torch.tensor([6, 3]), return_state=True)
    y, _ = model.step(tokens[:, 8], state)
    close(y[0], model(tokens[:1, [0, 1, 2, 3, 4, 5, 8]])[0])
    close(y[1], model(tokens[1:, [0, 1, 2, 8]])[0])


def test_pairs():
    model = small(PairClassifier, vocabulary=7)
    a, b, lengths = torch.randint(7, (3, 6)), torch.randint(7, (3, 9)), torch.tensor([2, 6, 1])
    rows = []
    for i, n in enumerate(lengths.tolist()):
        p, q = model.backbone(a[i : i + 1, :n]).mean(1), model.backbone(b[i : i + 1]).mean(1)
        rows.append(model.head[2](F.gelu(model.head[0](torch.cat([p, q, p - q, p * q], -1)))))
    close(model(a, b, lengths_a=lengths), torch.cat(rows))
    assert model.head[0].weight.shape == (8, 32)
    close(model(a, a), model(a, a, lengths_a=torch.full((3,), 6), lengths_b=torch.full((3,), 6)))


def test_pooling():
    x, lengths = numbers(2, 5, 3), torch.tensor([5, 2])
    rows = [x[0], x[1, :2]]
    close(pool(x, lengths, "mean"), torch.stack([r.mean(0) for r in rows]))
    close(pool(x, lengths, "max"), torch.stack([r.max(0).values for r in rows]))
    close(pool(x, lengths, "last"), torch.stack([r[-1] for r in rows]))
    close(pool(x, lengths, "none")[1], torch.cat([x[1, :2], torch.zeros(3, 3, dtype=x.dtype)]))
    for how in ("mean", "max", "last", "none"):
        close(pool(x, None, how), pool(x, torch.tensor([5, 5]), how))
    with pytest.raises(ShapeError, match="length of 1 or more"):
        pool(x[:, :0])


@pytest.mark.parametrize("layer", OPTIONS)
def test_seed(layer: str):
    torch.manual_seed(0)
    before = torch.get_rng_state()
    a, b, other = (small(SequenceClassifier, layer, seed=seed) for seed in (3, 3, 4))
    assert torch.equal(before, torch.get_rng_state())
    first, second, third = (list(m.state_dict().values()) for m in (a, b, other))
    assert all(map(torch.equal, first, second))
    assert not all(map(torch.equal, first, third))
    inner = [dict(block.layer.named_parameters()) for block in a.backbone.blocks]
    name = "qkv.weight" if layer == "attention" else "C"
    assert not torch.equal(inner[0][name], inner[1][name])
    torch.manual_seed(5)
    c = small(SequenceClassifier, layer, seed=None)
    torch.manual_seed(5)
    d = small(SequenceClassifier, layer, seed=None)
    assert not torch.equal(before, torch.get_rng_state())
    assert all(map(torch.equal, c.state_dict().values(), d.state_dict().values()))


def test_a_function_makes_the_layers():
    widths = []

    def make(d_model: int) -> S4D:
        widths.append(d_model)
        return S4D(d_model, 4)

    before = torch.get_rng_state()
    a, b = (SequenceClassifier(2, 3, layer=make, d_model=6, n_layers=2, seed=0) for _ in range(2))
    assert torch.equal(before, torch.get_rng_state())
    assert widths == [6] * 4
    x = numbers(2, 5, 2, dtype=torch.float32)
    assert torch.equal(a(x), b(x))
    assert SequenceClassifier(2, 3, layer=S4D, d_model=6, n_layers=1, layer_options={"d_state": 4})(x).shape == (2, 3)


@pytest.mark.parametrize("layer", OPTIONS)
def test_copies_and_state_dicts(layer: str):
    model, other, x = small(SequenceClassifier, layer), small(SequenceClassifier, layer, seed=9), numbers(2, 5, 2)
    assert not torch.equal(model(x), other(x))
    other.load_state_dict(model.state_dict())
    assert torch.equal(model(x), other(x))
    twin = copy.deepcopy(model)
    with torch.no_grad():
        next(twin.parameters()).add_(1)
    assert torch.equal(model(x), other(x))
    assert not torch.equal(model(x), twin(x))


def each_gradient(model: nn.Module, x: Tensor, **mapped: Tensor) -> dict[str, Tensor]:
    parameters: dict[str, Tensor] = dict(model.named_parameters())
    buffers = dict(model.named_buffers())

    def loss(parameters: dict[str, Tensor], x: Tensor, mapped: dict[str, Tensor]) -> Tensor:
        known = {name: value[None] for name, value in mapped.items()}
        return torch.func.functional_call(model, (parameters, buffers), (x[None],), known).square().sum()

    return torch.func.vmap(torch.func.grad(loss), (None, 0, 0))(parameters, x, mapped)


@pytest.mark.parametrize("kind", ["numbers", "tokens"])
@pytest.mark.parametrize("layer", ["s4ptd", "s5ptd", "attention"])
def test_gradients_of_each_sequence_by_vmap(layer: str, kind: str):
    options: dict[str, Any] = {"vocabulary": 5} if kind == "tokens" else {}
    model = small(SequenceClassifier, layer, n_layers=1, **options)
    x = torch.randint(5, (3, 5)) if kind == "tokens" else numbers(3, 5, 2)
    each = each_gradient(model, x)
    for i in range(3):
        alone = gradients(model(x[i : i + 1]).square().sum(), model)
        for name, expected in zip(each, alone, strict=True):
            close(each[name][i], expected, 1e-9)


@pytest.mark.parametrize("layer", ["s4ptd", "s5ptd", "attention"])
def test_gradients_of_each_padded_sequence_by_vmap(layer: str):
    model, x, lengths = small(SequenceClassifier, layer, n_layers=1), numbers(3, 5, 2), torch.tensor([5, 3, 1])
    each = each_gradient(model, x, lengths=lengths)
    for i, n in enumerate(lengths.tolist()):
        alone = gradients(model(x[i : i + 1, :n]).square().sum(), model)
        for name, expected in zip(each, alone, strict=True):
            close(each[name][i], expected, 1e-9)


@pytest.mark.parametrize("layer", OPTIONS)
@pytest.mark.parametrize("norm", ["layer", "batch"])
def test_bfloat16_autocast(layer: str, norm: Any):
    model = small(SequenceClassifier, layer, norm=norm, dtype=torch.float32)
    x, lengths = numbers(4, 20, 2, dtype=torch.float32), torch.tensor([20, 11, 3, 1])
    expected = model.eval()(x, lengths=lengths)
    with torch.autocast("cpu", torch.bfloat16):
        close(model(x, lengths=lengths).float(), expected, 0.05)
        loss = model.train()(x, lengths=lengths).float().square().sum()
    assert all(torch.isfinite(g).all() for g in gradients(loss, model))


def test_devices():
    """Built on the CPU from the seed, then moved: to the device asked for, or PyTorch's default one."""
    assert {p.device.type for p in small(SequenceClassifier, device="meta").parameters()} == {"meta"}
    before = torch.get_rng_state()
    with torch.device("meta"):
        model = small(SequenceClassifier, norm="batch")
        kept = small(SequenceClassifier, norm="batch", device="cpu")
    assert torch.equal(before, torch.get_rng_state())
    assert {t.device.type for t in model.state_dict().values()} == {"meta"}
    x = numbers(2, 5, 2)
    assert torch.equal(kept(x), small(SequenceClassifier, norm="batch")(x))
    assert model(x.to("meta"), lengths=None).shape == (2, 3)


def test_learns():
    """The sum of the first inputs, remembered to the end."""
    options = {"d_state": 8, "dt_min": 0.05, "dt_max": 0.5}
    model = SequenceRegressor(1, 1, d_model=8, n_layers=1, norm="none", pooling="last", layer_options=options, seed=0)
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    x = torch.randn(64, 20, 1, generator=torch.Generator().manual_seed(0))
    losses = []
    for _ in range(100):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), x[:, :3].sum(1))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0]


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["batch", "layer"])
def test_compiles_in_one_graph_and_exports(norm: str):
    found = json.loads(
        run_python(
            f"norm = {norm!r}"
            + """
import copy, json, warnings
import torch
from wellposed.nn import SequenceClassifier
# Raised by the compiler itself at every torch.autograd.Function.
warnings.filterwarnings("ignore", "<class 'torch.autograd.function.Function'>", DeprecationWarning)
x, lengths = torch.randn(3, 7, 2), torch.tensor([7, 3, 1])
found = {}
model = SequenceClassifier(2, 3, d_model=4, n_layers=1, norm=norm, layer_options={"d_state": 4}, seed=0)
twin = copy.deepcopy(model)
compiled = torch.compile(twin, fullgraph=True, backend="aot_eager")
y, expected = compiled(x, lengths=lengths), model(x, lengths=lengths)
y.square().sum().backward()
expected.square().sum().backward()
pairs = zip(twin.parameters(), model.parameters())
found["compile"] = [(y - expected).abs().max().item(), max((p.grad - q.grad).abs().max().item() for p, q in pairs)]
model.eval()
exported = torch.export.export(model, (x,), {"lengths": lengths}).module()
found["export"] = [(exported(x, lengths=lengths) - model(x, lengths=lengths)).abs().max().item()]
print(json.dumps(found))
"""
        )
    )
    assert set(found) == {"compile", "export"}
    assert all(value < 1e-5 for values in found.values() for value in values)


def test_errors():
    model, words = small(SequenceClassifier), small(SequenceClassifier, vocabulary=5)
    x = numbers(2, 5, 2)
    for call, error, message in (
        (lambda: SequenceClassifier(None, 2), ArgumentError, "d_input .* or vocabulary .*, not neither"),
        (lambda: SequenceClassifier(3, 2, vocabulary=4), ArgumentError, "not both"),
        (lambda: SequenceClassifier(3, 2, padding_idx=0), ArgumentError, "padding_idx is for tokens"),
        (lambda: SequenceClassifier(None, 2, vocabulary=4, padding_idx=4), ArgumentError, "from 0 to 3, got 4"),
        (lambda: SequenceClassifier(3, 0), ShapeError, "d_output must be at least 1"),
        (lambda: SequenceClassifier(3, 2, n_layers=0), ShapeError, "n_layers must be at least 1"),
        (
            lambda: SequenceClassifier(3, 2, layer_options={"seed": 1}),
            ArgumentError,
            "holds 'seed': pass it to the model",
        ),
        (lambda: model(numbers(2, 5, 3)), ShapeError, r"d_input = 2 and length at least 1, got \(2, 5, 3\)"),
        (lambda: model(x[:, :0]), ShapeError, "length at least 1"),
        (lambda: model(x[0]), ShapeError, r"got \(5, 2\)"),
        (lambda: model(x.float()), ArgumentError, r"torch.float32, the model torch.float64: use x.double\(\)"),
        (lambda: model(x.long()), ArgumentError, "for tokens give vocabulary"),
        (
            lambda: words(torch.tensor([[1, 5]])),
            ArgumentError,
            "token 5 is not in the vocabulary, which goes from 0 to 4",
        ),
        (lambda: words(torch.tensor([[1, -1]])), ArgumentError, "token -1"),
        (lambda: words(torch.tensor([[1.0, 2.0]])), ArgumentError, "whole numbers, got torch.float32"),
        (lambda: words(torch.tensor([1, 2])), ShapeError, r"\(batch, length\)"),
        (lambda: model(x, lengths=torch.tensor([6, 1])), ArgumentError, "each must be from 1 to 5"),
        (lambda: small(PairClassifier, pooling="none"), ArgumentError, "compared as a whole"),
        (lambda: small(PairClassifier)(x, x[:1]), ShapeError, "a holds 2 sequences, b 1"),
    ):
        with pytest.raises(error, match=message):
            call()
    stream = small(SequenceRegressor, pooling="none")
    with pytest.raises(ShapeError, match="state holds 1 tensors; this model has 2 layers"):
        stream.step(x[:, 0], stream.initial_state(2)[:1])
    with pytest.raises(ShapeError, match="state has shape"):
        stream(x, state=stream.initial_state(3))
    with pytest.raises(
        ShapeError, match="holds 2 tensors; this model has 2 layers, one for each, and 2 of its pooling"
    ):
        model.step(x[:, 0], stream.initial_state(2))
    for both in (small(SequenceClassifier, layer_options={"bidirectional": True}),):
        with pytest.raises(ArgumentError, match="bidirectional"):
            both.initial_state(2)


def test_unknown_names():
    """The run-time type checks of the tests would catch most of these before the library does."""
    calls = {
        "SequenceClassifier(2, 3, layer='s4dd')": "unknown layer 's4dd'; did you mean 's4d'",
        "SequenceClassifier(2, 3, norm='group')": "unknown norm 'group'; known: batch, layer, none",
        "SequenceClassifier(2, 3, glu='fulll')": "unknown glu 'fulll'; did you mean 'full'",
        "SequenceClassifier(2, 3, activation='relu')": "unknown activation 'relu'",
        "SequenceClassifier(2, 3, pooling='average')": "unknown pooling 'average'",
        "pool(torch.ones(1, 2, 3), None, 'sum')": "unknown pooling 'sum'",
    }
    found = json.loads(
        run_python(f"""
import json, torch
from wellposed.errors import UnknownNameError
from wellposed.nn import *
found = {{}}
for call in {list(calls)!r}:
    try:
        eval(call)
    except UnknownNameError as error:
        found[call] = str(error)
print(json.dumps(found))
""")
    )
    for call, message in calls.items():
        assert message in found[call]


def test_means_of_long_sequences_in_half_precision():
    """float16 ends at 65504: neither the count nor the sum may be kept in it."""
    x = torch.full((1, 70000, 1), 8.0, dtype=torch.float16)
    assert pool(x, torch.tensor([70000]), "mean").item() == 8.0


def test_a_step_needs_a_state():
    """Without the checks of annotations that come before in these tests."""
    printed = run_python("""
import torch
from wellposed.errors import WellposedError
from wellposed.nn import SequenceRegressor
for pooling in ("none", "mean"):
    model = SequenceRegressor(2, 1, layer="s4d", d_model=4, n_layers=2, pooling=pooling).eval()
    for state in (None, model.initial_state(2)[0]):
        try:
            model.step(torch.zeros(2, 2), state)
        except WellposedError as error:
            print(error)
""")
    for line, words in zip(printed.splitlines(), 2 * ["begin with initial_state", "needs a tuple of"], strict=True):
        assert words in line
