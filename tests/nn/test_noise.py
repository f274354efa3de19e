"""Fourier noise: its formula, where it is added, and that nothing of it stays."""

from __future__ import annotations

import copy
import math
import os
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from covering import covering
from subprocesses import run_python
from wellposed.errors import ArgumentError, ShapeError
from wellposed.nn import (
    S4,
    S4D,
    S4PTD,
    S5,
    S5PTD,
    LiquidS4,
    PairClassifier,
    SelfAttention,
    SequenceClassifier,
    SequenceRegressor,
    fourier_noise,
)
from wellposed.systems import spikes

CHANNELS, LENGTH = 4, 50
KINDS: dict[str, Any] = {"s4": S4, "s4d": S4D, "s4ptd": S4PTD, "s5": S5, "s5ptd": S5PTD, "liquid-s4": LiquidS4}
STATE_SPACE = list(KINDS)
NAMES = [*KINDS, "attention"]


def zeros(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.zeros(shape, dtype=dtype)


def numbers(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(2))


def classifier(layer: Any = "s4d", kind: Any = SequenceClassifier, **options: Any) -> Any:
    states = {} if layer == "attention" or not isinstance(layer, str) else {"d_state": 8}
    body = {"d_model": 8, "n_layers": 2, "seed": 1, "dtype": torch.float64, "layer_options": states} | options
    return kind(None if "vocabulary" in options else 3, 5, layer=layer, **body).eval()


def added(
    noise: Any, layer: nn.Module, *, batch: int = 2, calls: int = 1, dtype: torch.dtype = torch.float64
) -> Tensor:
    """What reaches a layer that is given zeros, call after call."""
    seen: list[Tensor] = []
    with noise.on(layer):
        catch = layer.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
        for _ in range(calls):
            layer(zeros(batch, LENGTH, CHANNELS, dtype=dtype))
        catch.remove()
    return torch.cat(seen)


def state_of(model: nn.Module) -> tuple[Any, ...]:
    modules = list(model.modules())
    return [dict(m._forward_pre_hooks) for m in modules], [set(vars(m)) for m in modules]


def shares(wave: np.ndarray, angle: np.ndarray, amplitude: float) -> np.ndarray:
    """``U`` of every sequence and channel, if the rest is ``amplitude cos(angle k)``; asserts that it is."""
    cosine = np.cos(angle * np.arange(LENGTH)[:, None])
    U = wave[:, 0] / amplitude
    np.testing.assert_allclose(wave, amplitude * U[:, None] * cosine, rtol=0, atol=1e-12)
    assert ((U >= 0) & (U < 1)).all()
    return U


# --- the formula


@pytest.mark.parametrize("kind", [S4D, S4PTD])
def test_each_channel_hears_the_last_spike_in_its_own_time(kind: Any):
    layer = kind(CHANNELS, 32, seed=3, dtype=torch.float64)
    dt = np.exp(layer.log_dt.detach().numpy())
    U = shares(added(fourier_noise("layer"), layer, batch=3).numpy(), 325.42631554519 * dt, 0.1)
    assert len(np.unique(U)) == 3 * CHANNELS
    with torch.no_grad():
        layer.log_dt += 0.5  # the step as it is, not as it was
    again = shares(added(fourier_noise("layer"), layer, batch=3).numpy(), 325.42631554519 * dt * math.exp(0.5), 0.1)
    np.testing.assert_array_equal(U, again)


@pytest.mark.parametrize("kind", [S4, LiquidS4, S4D])
def test_the_spike_is_where_the_bilinear_rule_moves_it(kind: Any):
    layer = kind(CHANNELS, 32, seed=3, disc="bilinear", dtype=torch.float64)
    dt = np.exp(layer.log_dt.detach().numpy())
    shares(added(fourier_noise("layer"), layer).numpy(), 2 * np.arctan(325.42631554519 * dt / 2), 0.1)
    shares(added(fourier_noise("layer", frequency=80.0), layer).numpy(), 80.0 * dt, 0.1)  # a number is itself


@pytest.mark.parametrize(("kind", "blocks"), covering([S5, S5PTD], [1, 2], every=2))
def test_channels_of_s5_take_the_step_of_a_mode_in_resonance(kind: Any, blocks: int):
    layer = kind(CHANNELS, 16 * blocks, blocks=blocks, seed=3, dtype=torch.float64)
    top = layer.A_imag.detach().reshape(blocks, -1).argmax(-1)
    dt = layer.dt.detach().reshape(blocks, -1)[torch.arange(blocks), top].numpy()
    angle = spikes(16)[-1].frequency * dt[np.arange(CHANNELS) % blocks]
    shares(added(fourier_noise("layer"), layer).numpy(), angle, 0.1)


def test_layers_have_the_spike_of_their_own_size():
    small, large = S4D(CHANNELS, 8, seed=1, dtype=torch.float64), S4D(CHANNELS, 32, seed=1, dtype=torch.float64)
    seen: list[Tensor] = []
    with fourier_noise("layer", seed=2).on(nn.Sequential(small, large)) as model:
        for layer in model:
            layer.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
            layer(zeros(2, LENGTH, CHANNELS))
    dt = small.dt.detach().numpy()
    first = shares(seen[0].numpy(), spikes(8)[-1].frequency * dt, 0.1)
    second = shares(seen[1].numpy(), spikes(32)[-1].frequency * dt, 0.1)
    assert not np.intersect1d(first, second).size


def test_a_call_can_have_one_number_for_all():
    layer = S4D(CHANNELS, 8, seed=3, dtype=torch.float64)
    wave = added(fourier_noise("layer", per="call", amplitude=2), layer, calls=2).numpy()
    U = shares(wave, spikes(8)[-1].frequency * layer.dt.detach().numpy(), 2.0)
    assert len(np.unique(U[:2])) == len(np.unique(U[2:])) == 1
    assert U[0, 0] != U[2, 0]


@pytest.mark.parametrize("per", ["channel", "call"])
def test_of_several_frequencies_every_draw_takes_one(per: Any):
    layer = S4D(CHANNELS, 8, seed=3, dtype=torch.float64)
    every, several = spikes(8).frequency, spikes(8).frequency.tolist()
    wave = added(fourier_noise("layer", frequency="all", per=per), layer, batch=20, calls=9)
    assert torch.equal(wave, added(fourier_noise("layer", frequency=several, per=per), layer, batch=20, calls=9))
    k = torch.arange(LENGTH, dtype=torch.float64)
    cosines = torch.cos(every[:, None, None] * layer.dt.detach() * k[:, None])  # (choice, length, channel)
    error = (wave[:, None] - wave[:, None, :1] * cosines).abs().amax(2)
    assert error.amin(1).max() < 1e-12
    chosen = error.argmin(1)
    assert set(chosen.flatten().tolist()) == set(range(len(every)))
    assert (per == "call") == all(len(part.unique()) == 1 for part in chosen.split(20))
    one = added(fourier_noise("layer", per=per), layer, batch=20, calls=9)
    torch.testing.assert_close(one[:, 0], wave[:, 0])  # amplitudes do not depend on how many there are to choose from


def test_precision_is_the_models_and_the_numbers_are_the_same():
    double, single = (S4PTD(CHANNELS, 32, seed=3, dtype=dtype) for dtype in (torch.float64, torch.float32))
    with torch.no_grad():
        double.log_dt.copy_(single.log_dt)
    wave = added(fourier_noise("layer"), single, dtype=torch.float32)
    assert wave.dtype == torch.float32
    assert torch.equal(wave, added(fourier_noise("layer"), double).float())


# --- a transform


@given(
    length=st.integers(1, 40),
    channels=st.integers(1, 4),
    batch=st.integers(1, 5),
    seed=st.integers(0, 2**63 - 1),
    dt=st.none() | st.floats(0, 1),
)
def test_transform_is_the_formula(length: int, channels: int, batch: int, seed: int, dt: float | None):
    x = numbers(batch, length, channels)
    noise = fourier_noise("input", frequency=17.5, amplitude=0.3, dt=dt, seed=seed)
    wave = noise(x) - x
    cosine = np.cos(17.5 * (1 / length if dt is None else dt) * np.arange(length))[:, None]
    U = wave[:, :1].numpy() / 0.3
    np.testing.assert_allclose(wave.numpy(), 0.3 * U * cosine, rtol=0, atol=1e-14)
    assert ((U > -1e-14) & (U < 1)).all()
    noise.reset()
    apart = torch.stack([noise(item) for item in x])  # a data set item by item, or in batches
    torch.testing.assert_close(apart, x + wave, rtol=0, atol=1e-14)


def test_transform_draws_on_and_begins_again():
    noise, x = fourier_noise("input", frequency=325.4, seed=4), numbers(2, 30, 3)
    first, second = noise(x), noise(x)
    assert not torch.equal(first, second)
    noise.reset()
    assert torch.equal(first, noise(x))
    assert torch.equal(first, fourier_noise("input", frequency=325.4, seed=4)(x))
    assert not torch.equal(first, fourier_noise("input", frequency=325.4, seed=5)(x))
    assert torch.equal(pickle.loads(pickle.dumps(noise))(x), second)


def test_transform_keeps_gradients_precision_and_argument():
    noise, x = fourier_noise("input", frequency=325.4), zeros(20, 3, dtype=torch.float32).requires_grad_()
    y = noise(x)
    y.sum().backward()
    assert y.dtype == torch.float32
    assert x.grad is not None
    assert torch.equal(x.grad, torch.ones(20, 3))
    assert not x.any()
    assert torch.equal(fourier_noise("input", frequency=325.4, amplitude=0)(x), x)


# --- on a model


@pytest.mark.parametrize("mode", ["layer", "input"])
@pytest.mark.parametrize("layer", STATE_SPACE)
def test_seeded_and_gone_afterwards(layer: str, mode: Any):
    model, x = classifier(layer), numbers(3, LENGTH, 3)
    parameters, before, clean = copy.deepcopy(model.state_dict()), state_of(model), model(x)
    random = torch.random.get_rng_state()
    noise = fourier_noise(mode, seed=7)
    runs = []
    for context in (noise, noise, fourier_noise(mode, seed=7), fourier_noise(mode, seed=8)):
        with context.on(model) as same, torch.no_grad():
            assert same is model
            assert list(model.state_dict()) == list(parameters)
            runs.append((model(x), model(x)))
    assert torch.equal(random, torch.random.get_rng_state())
    assert state_of(model) == before
    assert torch.equal(model(x), clean)
    for name, value in model.state_dict().items():
        assert torch.equal(value, parameters[name])
    (first, second), again, same_seed, other = runs
    assert not torch.equal(first, clean)
    assert not torch.equal(first, second)
    assert torch.equal(first, again[0])
    assert torch.equal(second, again[1])
    assert torch.equal(first, same_seed[0])
    assert not torch.equal(first, other[0])


@pytest.mark.parametrize("mode", ["layer", "input"])
def test_gone_after_an_exception(mode: Any):
    model, x = classifier("s5"), numbers(3, LENGTH, 3)
    before, clean = state_of(model), model(x)
    with pytest.raises(RuntimeError, match="stop"), fourier_noise(mode).on(model):
        raise RuntimeError("stop")
    with pytest.raises(ShapeError), fourier_noise(mode).on(model):
        model(x[..., :2])
    assert state_of(model) == before
    assert torch.equal(model(x), clean)


def test_contexts_add_up():
    layer = S4D(CHANNELS, 8, seed=3, dtype=torch.float64)
    before = state_of(layer)
    one, two = added(fourier_noise(seed=1), layer), added(fourier_noise(seed=2), layer)
    noise = fourier_noise(seed=1)
    with noise.on(layer):
        torch.testing.assert_close(added(fourier_noise(seed=2), layer), one + two)
        with pytest.raises(ArgumentError, match="single step"):  # the outer one still refuses
            layer.step(zeros(1, CHANNELS), layer.initial_state(1))
    with noise.on(layer):
        torch.testing.assert_close(added(noise, layer), 2 * one)  # the same noise twice, not one stream shared
    assert state_of(layer) == before


@pytest.mark.parametrize("mode", ["layer", "input"])
@pytest.mark.parametrize("layer", STATE_SPACE)
def test_padding_does_not_matter(layer: str, mode: Any):
    model, x, lengths = classifier(layer), numbers(3, LENGTH, 3), torch.tensor([LENGTH, 20, 1])
    with fourier_noise(mode, seed=1).on(model):
        first = model(x, lengths=lengths)
    x[1, 20:], x[2, 1:] = torch.nan, torch.inf
    with fourier_noise(mode, seed=1).on(model):
        torch.testing.assert_close(model(x, lengths=lengths), first)
    with fourier_noise(mode, seed=1).on(model):
        apart = [model(x[i : i + 1, :n])[0] for i, n in enumerate(lengths.tolist())]
    torch.testing.assert_close(torch.stack(apart), first)  # nor do batches: each layer goes through its own numbers


def test_mixtures_leave_attention_alone():
    layers = iter([SelfAttention, S4PTD, SelfAttention, S5])
    model = classifier(lambda d_model: next(layers)(d_model, dtype=torch.float64), n_layers=4)
    assert [type(block.layer) for block in model.backbone.blocks] == [SelfAttention, S4PTD, SelfAttention, S5]
    with fourier_noise().on(model):
        hooked = [bool(block.layer._forward_pre_hooks) for block in model.backbone.blocks]
        noisy = model(numbers(2, 20, 3))
    assert hooked == [False, True, False, True]
    assert not torch.equal(noisy, model(numbers(2, 20, 3)))


def test_pairs_have_noise_in_both():
    model, a, b = classifier(kind=PairClassifier), numbers(2, 30, 3), numbers(2, 20, 3)
    for mode in ("layer", "input"):
        with fourier_noise(mode).on(model):
            noisy = model(a, b=b)
        assert not torch.allclose(noisy, model(a, b))
    encoded: list[Tensor] = []
    model.backbone.encoder.register_forward_pre_hook(lambda module, args: encoded.append(args[0]))
    with fourier_noise("input").on(model):
        model(a, b, lengths_b=torch.tensor([20, 7]))
    changed = encoded[0] - torch.cat([a, torch.nn.functional.pad(b, (0, 0, 0, 10))])
    assert changed[:, 0].abs().min() > 0
    assert len(changed[:, 0].unique()) == 4 * 3
    words = classifier(kind=PairClassifier, vocabulary=9)
    tokens = torch.ones(2, 20, dtype=torch.int64)
    with fourier_noise("layer").on(words):
        assert not torch.allclose(words(tokens, tokens), clean := words(tokens, tokens + 1))
    assert not torch.allclose(words(tokens, tokens + 1), clean)


def test_any_module_with_such_layers():
    class Mine(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.ModuleDict({"a": S4D(CHANNELS, 8, seed=1), "b": S4PTD(CHANNELS, 8, seed=2)})

        def forward(self, sequence: Tensor, scale: float = 1.0) -> Tensor:
            return scale * self.inner["b"](self.inner["a"](sequence))

    model, x = Mine(), numbers(2, 20, CHANNELS, dtype=torch.float32)
    for mode in ("layer", "input"):
        with fourier_noise(mode).on(model):
            noisy = model(sequence=x, scale=2.0)
        assert not torch.allclose(noisy, model(x, 2.0))


def test_noise_on_the_input_of_a_model():
    model, x = classifier("s4d"), numbers(2, LENGTH, 3)
    dt = np.sort(model.backbone.blocks[0].layer.dt.detach().numpy())[3]  # the lower median of 8

    def input_of(**options: Any) -> Tensor:
        seen: list[Tensor] = []
        with fourier_noise("input", **options).on(model):
            catch = model.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
            model(x)
            catch.remove()
        return seen[0]

    spike = spikes(8)[-1].frequency
    cosine = torch.cos(torch.arange(LENGTH, dtype=torch.float64) * spike * dt)[:, None]
    wave = input_of() - x
    torch.testing.assert_close(wave, wave[:, :1] * cosine, rtol=0, atol=1e-14)
    transform = fourier_noise("input", frequency=spike, dt=float(dt))
    torch.testing.assert_close(transform(x), x + wave, rtol=0, atol=1e-14)  # a context and a transform agree
    torch.testing.assert_close(input_of(frequency=4.0, dt=0.3), fourier_noise("input", frequency=4.0, dt=0.3)(x))
    attention = classifier("attention")
    with fourier_noise("input", frequency=4.0, dt=0.3).on(attention):
        noisy = attention(x)
    torch.testing.assert_close(noisy, attention(fourier_noise("input", frequency=4.0, dt=0.3)(x)))


def test_training_sees_noise_as_a_constant():
    model, x = classifier("s4ptd").train(), numbers(2, 20, 3)
    with fourier_noise().on(model):
        model(x).square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    layer = S4D(CHANNELS, 8, seed=1, dtype=torch.float64)
    assert not added(fourier_noise(), layer).requires_grad


def test_single_steps_are_refused():
    model = classifier("s4d", SequenceRegressor, pooling="none")
    x, layer = numbers(2, 10, 3), model.backbone.blocks[0].layer
    _, state = model(x, return_state=True)
    for mode in ("layer", "input"):
        with fourier_noise(mode).on(model):
            noisy, _ = model(x, return_state=True)  # beginning is allowed, continuing is not
            with pytest.raises(ArgumentError, match="without state"):
                model(x, state=state)
            for step in (lambda: model.step(x[:, 0], state), lambda: layer.stepper(), lambda: model.stepper()):
                with pytest.raises(ArgumentError, match="single step does not know its number"):
                    step()
        assert not torch.equal(noisy, model(x))
        model.step(x[:, 0], state)
        layer.stepper()(numbers(2, 8), state[0])


# --- where it could be missed


@pytest.mark.slow
def test_compiled_models_have_noise():
    """Compiled and called before, inside or around; with an outer function compiled as well."""
    printed = run_python("""
import warnings
import torch
from wellposed.nn import SequenceClassifier, fourier_noise
# Raised by the compiler itself at every torch.autograd.Function.
warnings.filterwarnings("ignore", "<class 'torch.autograd.function.Function'>", DeprecationWarning)
model = SequenceClassifier(3, 5, d_model=4, n_layers=1, layer="s4d", layer_options={"d_state": 4}, seed=0).eval()
x = torch.randn(2, 20, 3)
def changes(call, target, mode):
    clean = call(x)
    with fourier_noise(mode, amplitude=1.0).on(target):
        noisy = call(x)
    with fourier_noise(mode, amplitude=1.0).on(model):
        right = model(x)
    return not torch.allclose(clean, noisy), torch.allclose(noisy, right), torch.allclose(call(x), clean)
with torch.no_grad():
    for mode in ("layer", "input"):
        compiled = torch.compile(model, backend="eager")
        outer = torch.compile(lambda x: 1.0 * model(x), backend="eager")
        print(changes(compiled, compiled, mode), changes(compiled, model, mode), changes(outer, model, mode))
""")
    assert printed.split("\n")[:2] == 2 * [" ".join(3 * ["(True, True, True)"])]


@pytest.mark.parametrize("mode", ["layer", "input"])
def test_wrapped_models_have_noise(mode: Any, tmp_path: Any):
    device = os.environ.get("WELLPOSED_TEST_DEVICE", "cpu")
    model, x = classifier().to(device), numbers(2, LENGTH, 3).to(device)
    with fourier_noise(mode).on(model):
        right = model(x)
    file = f"file://{tmp_path / 'store'}"
    torch.distributed.init_process_group("gloo", init_method=file, rank=0, world_size=1)
    try:
        for wrapped in (nn.DataParallel(model), nn.parallel.DistributedDataParallel(model), nn.Sequential(model)):
            with fourier_noise(mode).on(wrapped):
                assert torch.equal(wrapped(x), right)
            assert torch.equal(wrapped(x), model(x))
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize("mode", ["layer", "input"])
def test_any_forward_that_takes_what_it_is_given(mode: Any):
    class Passing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = S4D(CHANNELS, 8, seed=1)

        def forward(self, *inputs: Tensor, **options: Any) -> Tensor:
            return self.inner(*inputs, **options)

    model, x = Passing(), numbers(2, 20, CHANNELS, dtype=torch.float32)
    with fourier_noise(mode).on(model):
        noisy = model(x)
    assert not torch.allclose(noisy, model(x))


def test_steppers_made_before_are_refused():
    model = classifier("s4d", SequenceRegressor, pooling="none")
    x, state = numbers(2, 3), model.initial_state(2)
    steps = [model.stepper(), model.backbone.blocks[0].stepper(), model.backbone.blocks[0].layer.stepper()]
    inputs = [(x, state), *[(numbers(2, 8), state[0])] * 2]
    clean = [step(*given) for step, given in zip(steps, inputs, strict=True)]
    with fourier_noise().on(model):
        for step, given in zip(steps, inputs, strict=True):
            with pytest.raises(ArgumentError, match="single step does not know its number"):
                step(*given)
    for step, given, (y, _) in zip(steps, inputs, clean, strict=True):
        assert torch.equal(step(*given)[0], y)


@pytest.mark.parametrize("mode", ["layer", "input"])
def test_copies_made_inside_have_none(mode: Any):
    model, x = classifier("s4d", SequenceRegressor, pooling="none"), numbers(2, 20, 3)
    clean = model(x)
    with fourier_noise(mode).on(model):
        twin = copy.deepcopy(model)
        assert not torch.equal(model(x), clean)
        assert torch.equal(twin(x), clean)
        twin.step(x[:, 0], twin.initial_state(2))
    assert torch.equal(twin(x), clean)
    with fourier_noise(mode, seed=3).on(twin):
        noisy = twin(x)
    with fourier_noise(mode, seed=3).on(model):
        assert torch.equal(model(x), noisy)


@pytest.mark.parametrize("mode", ["layer", "input"])
def test_contexts_may_end_in_any_order(mode: Any):
    model, x = classifier("s4d", SequenceRegressor, pooling="none"), numbers(2, 20, 3)
    before, clean = state_of(model), model(x)
    first, second = fourier_noise(mode, seed=1).on(model), fourier_noise(mode, seed=2).on(model)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    with pytest.raises(ArgumentError, match="single step"):  # the second one still refuses
        model.step(x[:, 0], model.initial_state(2))
    noisy = model(x)
    second.__exit__(None, None, None)
    with fourier_noise(mode, seed=2).on(model):
        assert torch.equal(model(x), noisy)
    assert state_of(model) == before
    assert torch.equal(model(x), clean)
    model.step(x[:, 0], model.initial_state(2))


@pytest.mark.slow
def test_compiled_models_when_contexts_end_out_of_order():
    """The noise that is left still reaches them, and at the end the compiler is back."""
    printed = run_python("""
import warnings
import torch
from wellposed.nn import SequenceClassifier, fourier_noise
# Raised by the compiler itself at every torch.autograd.Function.
warnings.filterwarnings("ignore", "<class 'torch.autograd.function.Function'>", DeprecationWarning)
model = SequenceClassifier(3, 5, d_model=4, n_layers=1, layer="s4d", layer_options={"d_state": 4}, seed=0).eval()
x, compiled = torch.randn(2, 20, 3), torch.compile(model, backend="eager")
with torch.no_grad():
    clean = compiled(x)
    first, second = fourier_noise(amplitude=1.0, seed=1).on(model), fourier_noise(amplitude=1.0, seed=2).on(model)
    first.__enter__(), second.__enter__(), first.__exit__(None, None, None)
    noisy = compiled(x)
    second.__exit__(None, None, None)
    seen = []
    def watching(graph, inputs):
        seen.append(graph)
        return graph
    torch.compile(lambda x: x + 1, backend=watching)(x)
    print(torch.allclose(noisy, clean), torch.allclose(compiled(x), clean), len(seen))
""")
    assert printed.split() == ["False", "True", "1"]


def test_calls_without_a_sequence_by_place_are_refused():
    class Passing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = S4D(CHANNELS, 8, seed=1)

        def forward(self, *inputs: Tensor, **options: Any) -> Tensor:
            return self.inner(*inputs, options["x"]) if not inputs else self.inner(*inputs)

    model, x = Passing(), numbers(2, 20, CHANNELS, dtype=torch.float32)
    with fourier_noise("input").on(model), pytest.raises(ArgumentError, match="first argument"):
        model(x=x)


def test_recorded_models_are_refused():
    """A graph that was recorded before does not call the layers again."""
    model, x = classifier("s4d"), numbers(2, 20, 3)
    exported = torch.export.export(model, (x,)).module()
    with pytest.raises(ArgumentError, match="recorded"), fourier_noise("input", frequency=1.0, dt=1.0).on(exported):
        pass
    model.forward = model.forward  # as torch.cuda.make_graphed_callables does
    with pytest.raises(ArgumentError, match="forward of SequenceClassifier was replaced"), fourier_noise().on(model):
        pass


# --- what it is for


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("seed", [0, 1])
def test_it_breaks_s4d_and_neither_s4_nor_s4ptd(seed: int, dtype: torch.dtype):
    """Root mean squares of the outputs of fresh layers, C as drawn and D left out, for noise alone.

    The noise itself has 0.1 / sqrt(6) = 0.041. Of it S4D makes 0.21 to 0.24, S4-PTD and S4 with the same hold make
    0.011 to 0.016: a factor of 15. Half of the channels have dt > pi / 325 and are aliased; with all below it is 80.
    """

    def heard(kind: Any, **options: Any) -> float:
        layer = kind(128, 32, seed=seed, dtype=dtype, **options)
        with torch.no_grad(), fourier_noise("layer", seed=seed).on(layer):
            layer.D.zero_()
            return layer(zeros(2, 1024, 128, dtype=dtype)).square().mean().sqrt().item()

    s4d = heard(S4D)
    assert s4d > 0.18
    assert s4d > 10 * heard(S4PTD)
    assert s4d > 10 * heard(S4, disc="zoh")
    assert heard(S4D, disc="bilinear") > 10 * heard(S4)
    slow = {"dt_min": 1e-3, "dt_max": 3e-3}
    assert heard(S4D, **slow) > 50 * heard(S4PTD, **slow)


@pytest.mark.parametrize("disc", ["zoh", "bilinear"])
def test_no_neighbour_of_the_default_is_worse(disc: Any):
    layer = S4D(64, 32, seed=0, disc=disc, dt_max=0.005, dtype=torch.float64)
    dt = layer.dt.detach()
    with torch.no_grad():
        layer.D.zero_()

    def heard(frequency: Tensor) -> Tensor:
        u = torch.cos(frequency * dt * torch.arange(4000, dtype=torch.float64)[:, None])
        return layer(u[None]).detach().square().mean((0, 1))

    spike = spikes(32)[-1].frequency
    default = spike + 0 * dt if disc == "zoh" else 2 / dt * torch.atan(spike * dt / 2)
    for away in (-20.0, -5.0, -1.0, 1.0, 5.0, 20.0):
        assert (heard(default + away) < heard(default)).all()


def test_a_whole_model_is_disturbed_as_its_layers_are():
    """Scores of fresh models change 6 to 15 times as much with S4D as with the others, for seeds 0 to 2."""
    x = numbers(4, 512, 3)

    def change(layer: str) -> float:
        model = classifier(layer, d_model=32, n_layers=4, residual=False, layer_options={"d_state": 32})
        with torch.no_grad():
            clean = model(x)
            with fourier_noise("layer", seed=1).on(model):
                return ((model(x) - clean).norm() / clean.norm()).item()

    assert change("s4d") > 4 * max(change("s4ptd"), change("s4"))


# --- errors


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"amplitude": -1.0}, "amplitude must be finite and not negative, got -1.0"),
        ({"amplitude": math.nan}, "amplitude must be finite"),
        ({"frequency": math.inf}, "frequency must be finite"),
        ({"frequency": [1.0, -2.0]}, "frequency must be finite and not negative, got -2.0"),
        ({"frequency": []}, "frequency is empty"),
        ({"dt": 0.1}, "dt goes with mode='input'"),
        ({"mode": "input", "dt": -0.1}, "dt must be finite"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"seed": True}, "seed must be a whole number"),
    ],
)
def test_arguments_are_checked(arguments: dict[str, Any], match: str):
    with pytest.raises(ArgumentError, match=match):
        fourier_noise(**arguments)


def test_wrong_types_are_explained():
    """Without the type checks that come before in these tests."""
    calls = ["mode='outputs'", "per='step'", "frequency='last'", "frequency=None, seed=0.5", "amplitude='loud'"]
    printed = run_python(f"""
from wellposed.nn import fourier_noise
from wellposed.errors import WellposedError
calls = [f"fourier_noise({{arguments}})" for arguments in {calls}]
for call in [*calls, "fourier_noise('input', frequency=1)([1.0])", "fourier_noise().on([1.0]).__enter__()"]:
    try:
        eval(call)
    except WellposedError as error:
        print(error)
""")
    starts = ["unknown mode 'outputs'", "unknown per 'step'", "unknown frequency 'last'", "seed must be a whole number"]
    starts += [
        "amplitude must be a number",
        "noise is added to a tensor, got list",
        "noise goes on an nn.Module, got list",
    ]
    for line, start in zip(printed.splitlines(), starts, strict=True):
        assert line.startswith(start)


def test_what_cannot_have_noise_is_refused():
    noise = fourier_noise("input", frequency=1.0)
    for x, match in ((torch.ones(4, 3, dtype=torch.int64), "tokens"), (torch.ones(3), r"got \(3,\)")):
        with pytest.raises((ArgumentError, ShapeError), match=match):
            noise(x)
    with pytest.raises(ArgumentError, match="no spikes: give frequency"):
        fourier_noise("input")(torch.ones(4, 3))
    with pytest.raises(ArgumentError, match=r"on\(model\)"):
        fourier_noise("layer")(torch.ones(4, 3))
    words = classifier("s4d", vocabulary=9)
    with pytest.raises(ArgumentError, match="for tokens use mode='layer'"), fourier_noise("input").on(words):
        words(torch.ones(2, 20, dtype=torch.int64))
    with pytest.raises(ArgumentError, match="no state-space layer"), fourier_noise("layer").on(classifier("attention")):
        pass
    with (
        pytest.raises(ArgumentError, match="both dt and frequency"),
        fourier_noise("input").on(classifier("attention")),
    ):
        pass
    layer = S4D(CHANNELS, 8)
    with pytest.raises(ShapeError, match="4 channels, the sequence 3"), fourier_noise().on(layer):
        layer(torch.ones(2, 20, 3))


@pytest.mark.parametrize("layer", ["s4d", "s4ptd", "s5"])
def test_noise_is_the_same_on_another_device(layer: str):
    """On the device that ``WELLPOSED_TEST_DEVICE`` names: the outputs differ by float32 rounding of the model alone."""
    device = os.environ.get("WELLPOSED_TEST_DEVICE", "cpu")
    model = SequenceClassifier(3, 10, layer=layer, d_model=16, n_layers=2, seed=0).eval()
    x = torch.randn(4, 200, 3, generator=torch.Generator().manual_seed(0))
    with torch.no_grad(), fourier_noise("layer", seed=1, amplitude=1.0).on(model):
        here = model(x)
    model.to(device)
    with torch.no_grad(), fourier_noise("layer", seed=1, amplitude=1.0).on(model):
        there = model(x.to(device)).cpu()
    torch.testing.assert_close(there, here, rtol=1e-4, atol=1e-4)
