"""Steps from a recording: whose states are whose, when one is made, what runs without. The graph itself on a GPU."""

from __future__ import annotations

import copy
import operator
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook
from torch.utils import _pytree

from wellposed.errors import ArgumentError, ShapeError
from wellposed.nn import SequenceClassifier, SequenceRegressor, fourier_noise
from wellposed.nn._graph_stepper import _RECORDINGS, GraphStepper
from wellposed.nn._stream_state import StreamState

OPTIONS: dict[str, Any] = {"s4ptd": {"d_state": 6}, "s5": {"d_state": 6}, "liquid-s4": {"d_state": 6}}
OPTIONS |= {"attention": {"n_heads": 2, "causal": True}}


class Rehearsal:
    """Records on a CPU: runs the function again, and writes the output where it was, as a graph does."""

    def __init__(self) -> None:
        self.recorded = self.replayed = 0

    def __call__(self, function: Callable[[], Tensor]) -> Callable[[], Tensor]:
        self.recorded += 1
        y = function()

        def replay() -> Tensor:
            self.replayed += 1
            return y.copy_(function())

        return replay


def classifier(layer: str = "s4ptd", kind: Any = SequenceClassifier, **options: Any) -> Any:
    sizes = {"d_model": 8, "n_layers": 2, "seed": 1, "layer_options": OPTIONS[layer], "dtype": torch.float64}
    return kind(None if "vocabulary" in options else 2, 3, layer=layer, **sizes | options).eval()


def recorded(model: Any) -> tuple[GraphStepper, Rehearsal]:
    record = Rehearsal()
    return GraphStepper(model, model.stepper(), record), record


def numbers(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


def close(found: Any, right: Any) -> None:
    for a, b in zip(found, right, strict=True) if isinstance(right, tuple) else [(found, right)]:
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("pooling", ["mean", "max", "last", "none"])
@pytest.mark.parametrize("layer", ["s4ptd", "s5", "liquid-s4"])
@torch.no_grad()
def test_a_stream_is_that_of_step(layer: str, pooling: Any):
    model, x = classifier(layer, SequenceRegressor, pooling=pooling), numbers(3, 7, 2)
    (step, record), state = recorded(model), model.initial_state(3)
    other, outputs, right = state, [], []
    for t in range(7):
        y, state = step(x[:, t], state)
        again, other = model.step(x[:, t], other)
        outputs.append(y)
        right.append(again)
    close(torch.stack(outputs), torch.stack(right))  # also the early ones: nothing was written over
    close(tuple(state), other)
    assert (record.recorded, record.replayed) == (1, 6)


@torch.no_grad()
def test_a_state_handed_on_is_not_copied(monkeypatch: pytest.MonkeyPatch):
    model, x = classifier(), numbers(2, 2)
    step, _ = recorded(model)
    _, state = step(x, model.initial_state(2))
    _, state = step(x, state)
    monkeypatch.setattr(StreamState, "read", lambda state: pytest.fail("copied"))
    for _ in range(3):
        _, state = step(x, state)


@torch.no_grad()
def test_states_that_were_read_stay():
    model, x = classifier(), numbers(5, 2, 2)
    (step, _), state, other = recorded(model), model.initial_state(2), model.initial_state(2)
    kept = []
    for one in x:
        _, state = step(one, state)
        _, other = model.step(one, other)
        kept.append((state, other))
        assert len(state) == len(other)
        close(state[0], other[0])  # read, so that the next step finds it copied
    for state, other in kept:
        close(tuple(state), other)
        close(step(x[0], state)[0], model.step(x[0], other)[0])  # and any of them can be gone on from


@torch.no_grad()
def test_a_state_that_was_written_over_says_so():
    model, x = classifier(), numbers(2, 2)
    step, _ = recorded(model)
    _, first = step(x, model.initial_state(2))
    _, second = step(x, first)
    _, third = step(x, second)
    for use in (lambda: second[0], lambda: tuple(second), lambda: step(x, second)):
        with pytest.raises(ArgumentError, match=r"kept = tuple\(state\)"):
            use()
    assert repr(second) == "StreamState(overwritten)"
    kept = tuple(third)
    ways = [step(way, kept)[0] for way in (x, -x, x)]
    close(ways[0], ways[2])
    close(ways[1], model.step(-x, kept)[0])


@torch.no_grad()
def test_streams_side_by_side():
    """One stepper, two streams in turn: each goes on where it was."""
    model, x = classifier(), numbers(2, 6, 2, 2)
    step, record = recorded(model)
    states, rights = [model.initial_state(2)] * 2, [model.initial_state(2)] * 2
    for t in range(6):
        for k in range(2):
            y, states[k] = step(x[k, t], states[k])
            right, rights[k] = model.step(x[k, t], rights[k])
            close(y, right)
    assert (record.recorded, record.replayed) == (1, 11)


@torch.no_grad()
def test_changes_made_by_a_reader_count():
    model, x = classifier(), numbers(2, 2)
    step, _ = recorded(model)
    _, state = step(x, model.initial_state(2))
    _, state = step(x, state)
    for tensor in state:
        tensor[0] = 0  # a new sequence begins in the first place
    right, _ = model.step(x, tuple(tensor.clone() for tensor in state))
    close(step(x, state)[0], right)


@torch.no_grad()
def test_a_recording_for_each_batch_size_and_not_too_many():
    model = classifier()
    step, record = recorded(model)
    for batch in (1, 2, 1, 2, *range(3, _RECORDINGS + 3), 1):
        x, state = numbers(batch, 2), model.initial_state(batch)
        close(step(x, state), model.step(x, state))
        close(step(-x, step(x, state)[1])[0], model.step(-x, model.step(x, state)[1])[0])
    assert record.recorded == _RECORDINGS + 3  # the first was forgotten, and made again
    assert len(step._recordings) == _RECORDINGS


def test_gradients_run_without_a_recording():
    model, x = classifier(), numbers(2, 2)
    step, record = recorded(model)
    y, state = step(x, model.initial_state(2))
    y, state = step(x, state)
    gradient = torch.autograd.grad(y.sum(), model.head.weight)[0]
    right = torch.autograd.grad(model.step(x, model.step(x, model.initial_state(2))[1])[0].sum(), model.head.weight)[0]
    close(gradient, right)
    assert record.recorded == 0
    assert type(state) is tuple


@torch.no_grad()
def test_what_a_graph_cannot_follow_runs_as_always():
    model, x = classifier(norm="batch"), numbers(2, 2)
    step, record = recorded(model)
    _, state = step(x, model.initial_state(2))
    _, state = step(x, state)
    kept = tuple(state)
    model.train()
    with pytest.raises(ArgumentError, match=r"use eval\(\)"):
        step(x, kept)
    model.eval()
    with fourier_noise().on(model), pytest.raises(ArgumentError, match="single step does not know its number"):
        step(x, kept)
    calls: list[int] = []
    handle = model.head.register_forward_hook(lambda *_: calls.append(1))
    step(x, kept)
    handle.remove()
    assert (calls, record.replayed) == ([1], 1)
    with pytest.raises(ShapeError, match="state is of 3 sequences"):  # as ever
        step(x, model.initial_state(3))
    assert torch.func.vmap(lambda one: step(one, kept)[0])(x.expand(3, -1, -1)).shape == (3, 2, 3)


@torch.no_grad()
def test_states_that_grow_are_not_recorded():
    model, x = classifier("attention"), numbers(2, 5, 2)
    (step, record), state, y = recorded(model), model.initial_state(2), x
    for t in range(5):
        y, state = step(x[:, t], state)
    close(y, model(x))
    assert record.recorded == 0


@torch.no_grad()
def test_parameters_put_elsewhere_are_recorded_anew():
    model, x = classifier(), numbers(2, 2)
    step, record = recorded(model)
    _, state = step(x, model.initial_state(2))
    _, state = step(x, state)
    kept = tuple(state)
    model.head.weight.mul_(2)  # in place: the graph sees it
    close(step(x, kept)[0], model.step(x, kept)[0])
    assert record.recorded == 1
    model.head.weight = nn.Parameter(3 * model.head.weight)
    for _ in range(2):
        close(step(x, kept)[0], model.step(x, kept)[0])
    model.head.bias.data = model.head.bias.data + 1
    for _ in range(2):
        close(step(x, kept)[0], model.step(x, kept)[0])
    assert record.recorded == 3


@torch.no_grad()
def test_modules_put_in_the_place_of_others_are_seen():
    model, x = classifier(), numbers(2, 2)
    step, record = recorded(model)
    _, state = step(x, model.initial_state(2))
    _, state = step(x, state)
    kept = tuple(state)
    squashed = nn.Tanh()
    model.head = nn.Sequential(model.head, squashed)
    model.eval()
    for _ in range(2):
        close(step(x, kept)[0], model.step(x, kept)[0])
    squashed.register_forward_hook(lambda module, args, output: output + 1)  # pyright: ignore[reportOperatorIssue]
    close(step(x, kept)[0], model.step(x, kept)[0])
    assert record.recorded == 2


@torch.no_grad()
def test_hooks_of_all_modules_are_called():
    model, x = classifier(), numbers(2, 2)
    step, record = recorded(model)
    _, state = step(x, model.initial_state(2))
    _, state = step(x, state)
    calls: list[nn.Module] = []
    handle = register_module_forward_hook(lambda module, *_: calls.append(module))
    step(x, tuple(state))
    handle.remove()
    assert calls
    assert record.replayed == 1


@torch.no_grad()
def test_a_recording_that_fails_is_told_once():
    model, x = classifier(), numbers(2, 2)

    def fail(function: Callable[[], Tensor]) -> Callable[[], Tensor]:
        raise RuntimeError("operation not permitted when stream is capturing")

    step, state = GraphStepper(model, model.stepper(), fail), model.initial_state(2)
    with pytest.warns(UserWarning, match="runs without a graph: operation not permitted"):
        close(step(x, state), model.step(x, state))
    close(step(x, state), model.step(x, state))


@torch.no_grad()
def test_tokens_are_looked_at_before_a_replay():
    model, x = classifier(vocabulary=5), torch.tensor([1, 4])
    step, record = recorded(model)
    _, state = step(x, model.initial_state(2))
    _, state = step(x, state)
    with pytest.raises(ArgumentError, match="token 5 is not in the vocabulary"):
        step(torch.tensor([1, 5]), state)
    step(x, state)
    assert record.replayed == 2


@torch.no_grad()
def test_autocast_and_inference_mode_have_their_own():
    model, x = classifier(dtype=torch.float32), numbers(2, 2).float()
    step, record = recorded(model)
    state = model.initial_state(2)
    for _ in range(2):
        _, state = step(x, state)
        with torch.autocast("cpu", torch.bfloat16):
            y, state = step(x, state)
            assert y.dtype == torch.bfloat16
        with torch.inference_mode():
            _, state = step(x, state)
    assert record.recorded == 2
    assert state[0].shape == (2, 8, 6)


@torch.no_grad()
def test_a_state_is_a_tuple_of_tensors_to_everyone():
    model, x = classifier(), numbers(2, 2)
    step, _ = recorded(model)
    _, state = step(x, model.initial_state(2))
    _, state = step(x, state)
    assert isinstance(state, tuple)
    assert (len(state), bool(state), len(state[:2]), len([*state])) == (4, True, 2, 4)
    a, *rest = state
    assert a in state
    assert len(rest) == 3
    assert len(operator.add(state, (a,))) == len(operator.add((a,), state)) == 5
    for twin in (copy.deepcopy(state), pickle.loads(pickle.dumps(state))):
        assert type(twin) is tuple
        close(twin, tuple(state))
    close(model.step(x, state), model.step(x, tuple(state)))
    close(model(x[:, None], state=state), model(x[:, None], state=tuple(state)))
    with pytest.raises((RuntimeError, ValueError, TypeError)):  # code in C sees no tensor rather than a later one
        torch.cat(state)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("layer", ["s4ptd", "s5", "liquid-s4", "attention"])
@pytest.mark.parametrize("batch", [1, 5])
def test_a_graph_on_the_gpu(layer: str, batch: int):
    model = classifier(layer, dtype=torch.float32).cuda()
    x, step = numbers(batch, 40, 2).float().cuda(), model.stepper()
    assert isinstance(step, GraphStepper)
    for context in (torch.no_grad(), torch.inference_mode()):
        with context:
            state, other, outputs, right = model.initial_state(batch), model.initial_state(batch), [], []
            for t in range(40):
                y, state = step(x[:, t], state)
                again, other = model.step(x[:, t], other)
                outputs.append(y)
                right.append(again)
            torch.testing.assert_close(torch.stack(outputs), torch.stack(right), rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(tuple(state), tuple(other), rtol=1e-5, atol=1e-5)
            assert isinstance(state, StreamState) == (layer != "attention")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_tokens_and_autocast_on_the_gpu():
    model = classifier(vocabulary=5, dtype=torch.float32).cuda()
    step, x = model.stepper(), torch.tensor([1, 4], device="cuda")
    for enabled in (False, True):
        with torch.no_grad():
            state = other = model.initial_state(2)
            for _ in range(4):
                with torch.autocast("cuda", torch.bfloat16, enabled=enabled):  # left after each step
                    y, state = step(x, state)
                    right, other = model.step(x, other)
                torch.testing.assert_close(y, right, rtol=1e-2, atol=1e-2)
            with pytest.raises(ArgumentError, match="token 7"):
                step(torch.tensor([1, 7], device="cuda"), state)


def test_a_state_is_a_tuple_for_those_who_map_over_tensors():
    state = StreamState([torch.ones(2), torch.zeros(3)])
    found = _pytree.tree_map(lambda t: t + 1, {"kept": state})["kept"]
    assert type(found) is tuple
    torch.testing.assert_close(found, (torch.full((2,), 2.0), torch.ones(3)))
