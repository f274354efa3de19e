"""What every sequence layer must do, against its slow twin and among PyTorch's tools.

A new layer is proved by a class that inherits ``LayerSuite`` and says how to make one:

    class TestMine(LayerSuite):
        layer = Mine
        options = {"d_state": 6}

``twin`` has to be written for a layer whose parameters ``nn_twin`` does not know: the equations, one step after
another, in float64, without any code of the layer. ``tests/nn/test_toy_layer.py`` does all of it for the smallest
layer there can be.
"""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import nn_twin
from subprocesses import run_python
from wellposed.errors import ArgumentError
from wellposed.nn import SequenceClassifier, SequenceLayer, parameter_groups

DEVICE = os.environ.get("WELLPOSED_TEST_DEVICE", "cpu")
"""Where the layers run; their twins always run on the CPU."""


def signal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(DEVICE, dtype)


def off(found: Tensor, right: Tensor) -> float:
    """Largest deviation in terms of the largest entry."""
    found, right = found.cpu().double(), right.cpu()
    return ((found - right).abs().max() / right.abs().max().clamp(min=1e-300)).item()


def differing(found: dict[str, Tensor], right: dict[str, Tensor], tolerance: float) -> dict[str, float]:
    """What misses the tolerance, relative to the largest entry of each.

    A gradient that nearly vanishes is a difference of large numbers, and rounding is relative to those: below a
    ten-thousandth of the largest gradient it is measured by that.
    """
    floor = 1e-4 * max(t.abs().max().item() for t in right.values())
    errors = {
        name: (found[name].cpu().double() - t).abs().max().item() / max(t.abs().max().item(), floor)
        for name, t in right.items()
    }
    return {name: error for name, error in errors.items() if not error < tolerance}


def values_and_gradients(layer: Any, u: Tensor, weights: Tensor) -> dict[str, Tensor]:
    u = u.clone().requires_grad_()
    y = layer(u)
    names, parameters = zip(*layer.named_parameters(), strict=True)
    gradients = torch.autograd.grad((y * weights).sum(), [u, *parameters])
    return dict(zip(("y", "u", *names), (y.detach(), *gradients), strict=True))


def stepped(layer: Any, u: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    outputs = []
    for t in range(u.shape[1]):
        y, state = layer.step(u[:, t], state)
        outputs.append(y)
    return torch.stack(outputs, 1), state


class LayerSuite:
    """Inherit and set ``layer`` and ``options``."""

    layer: ClassVar[Any]
    options: ClassVar[dict[str, Any]] = {}
    modes: ClassVar[tuple[str | None, ...]] = ("scan", "conv")
    """Values of ``mode=`` that must agree; ``None`` for a layer that has no such option."""
    bidirectional: ClassVar[bool] = True
    """Whether it takes ``bidirectional=True``."""
    sizes: ClassVar[tuple[int, ...]] = (1, 2, 3, 4, 5, 6)
    """Values of ``d_state`` to try; none for a layer that has no such option."""
    multiple: ClassVar[int] = 1
    """Channels come in multiples of this."""
    carries_state_behind_padding: ClassVar[bool] = True
    """Whether sequences of different lengths can return their states together."""
    core_is_float32: ClassVar[bool] = True
    """Whether it computes in float32 under autocast."""
    streams: ClassVar[bool] = True
    """Whether it has steps and states; one that has not must refuse them."""
    ssm: ClassVar[set[str]] = set()
    """Parameters that belong to the state-space group of the optimiser."""

    def make(self, d_model: int = 3, *, mode: str | None = None, **options: Any) -> Any:
        arguments: dict[str, Any] = {"seed": 0, "dtype": torch.float64, "device": DEVICE} | self.options | options
        if mode is not None:
            arguments["mode"] = mode
        return type(self).layer(d_model * self.multiple, **arguments)

    def twin(self, layer: Any, p: dict[str, Tensor], u: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Outputs and last state from the equations."""
        return nn_twin.simulate(layer, p, u, state)

    def twin_values_and_gradients(self, layer: Any, u: Tensor, weights: Tensor) -> dict[str, Tensor]:
        p, u = nn_twin.parameters_of(layer), u.cpu().double().requires_grad_()
        y, _ = self.twin(layer, p, u)
        names = [name for name, _ in layer.named_parameters()]
        gradients = torch.autograd.grad((y * weights.cpu().double()).sum(), [u, *(p[name] for name in names)])
        return dict(zip(("y", "u", *names), (y.detach(), *gradients), strict=True))

    # --- one answer

    @given(data=st.data())
    @settings(max_examples=5)
    def test_every_way_to_compute_equals_the_twin(self, data: st.DataObject):
        """Any sizes, primes and length 1 among them; float64, relative to the largest entry."""
        length = data.draw(st.sampled_from([1, 2, 3, 7, 31, 127, 128, 129, 257]), label="length")
        batch, d_model = (data.draw(st.integers(1, 3), label=s) for s in ("batch", "d_model"))
        options: dict[str, Any] = {}
        if self.sizes:
            options["d_state"] = data.draw(st.sampled_from(self.sizes), label="d_state")
        if self.bidirectional:
            options["bidirectional"] = data.draw(st.booleans(), label="bidirectional")
        width = d_model * self.multiple
        u, w = signal(batch, length, width, seed=1), signal(batch, length, width, seed=2)
        made = [self.make(d_model, mode=mode, **options) for mode in self.modes]
        right = self.twin_values_and_gradients(made[0], u, w)
        for layer in made:
            assert differing(values_and_gradients(layer, u, w), right, 1e-10) == {}
        if self.streams and not made[0].bidirectional:
            y, _ = stepped(made[0], u, made[0].initial_state(batch))
            assert off(y, right["y"]) < 1e-10

    @given(cuts=st.lists(st.integers(1, 150), min_size=1, max_size=5))
    @settings(max_examples=3)
    def test_streaming_in_chunks_of_any_size_equals_one_pass(self, cuts: list[int]):
        if not self.streams:
            return
        for mode in self.modes:
            layer = self.make(mode=mode)
            u = signal(2, sum(cuts), layer.d_model)
            state = 0.3 * signal(*layer.initial_state(2).shape, seed=5)
            right, last = self.twin(layer, nn_twin.parameters_of(layer), u, state)
            parts = []
            for part in u.split(cuts, 1):
                y, state = layer(part, state=state, return_state=True)
                parts.append(y)
            assert off(torch.cat(parts, 1), right.detach()) < 1e-10
            assert off(state, last.detach()) < 1e-10

    def test_the_stepper_is_step(self):
        if not self.streams:
            return
        layer = self.make(2)
        step, state = layer.stepper(), signal(3, *layer.state_shape, seed=3)
        u = signal(3, layer.d_model, seed=4)
        for a, b in zip(step(u, state), layer.step(u, state), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)

    def test_what_does_not_stream_says_so(self):
        if self.streams:
            return
        layer = self.make(2)
        u = signal(2, 9, layer.d_model)
        calls = (
            lambda: layer.initial_state(2),
            lambda: layer.step(u[:, 0], u),
            lambda: layer.stepper(),
            lambda: layer(u, state=u),
            lambda: layer(u, return_state=True),
            lambda: layer.state_shape,
        )
        for call in calls:
            with pytest.raises(ArgumentError, match=f"{type(layer).__name__}, which does not stream: .* use a layer"):
                call()

    @pytest.mark.parametrize("both", [False, True])
    def test_padding_does_not_enter(self, both: bool):
        """Outputs, gradients and states of a padded batch are those of every sequence alone; NaN may stand there."""
        if both and not self.bidirectional:
            return
        options: dict[str, Any] = {"bidirectional": True} if both else {}
        layer = self.make(2, **options)
        lengths, size = [1, 40, 133, 200], 200
        u, w = signal(4, size, layer.d_model), signal(4, size, layer.d_model, seed=4)
        padded = u.clone()
        for row, length in enumerate(lengths):
            padded[row, length:] = float("nan")
            w[row, length:] = 0
        padded.requires_grad_()
        more = (
            {}
            if both or not (self.streams and self.carries_state_behind_padding)
            else {"state": signal(4, *layer.state_shape, seed=7), "return_state": True}
        )
        result = layer(padded, lengths=torch.tensor(lengths, device=DEVICE), **more)
        y, state = result if more else (result, None)
        together = torch.autograd.grad((y * w).sum(), [padded, *layer.parameters()])
        alone = [torch.zeros_like(t) for t in layer.parameters()]
        for row, length in enumerate(lengths):
            one = u[row : row + 1, :length].clone().requires_grad_()
            own = {k: v[row : row + 1] if isinstance(v, Tensor) else v for k, v in more.items()}
            found = layer(one, **own)
            out, last = found if more else (found, None)
            assert off(y[row, :length], out[0]) < 1e-12
            assert (y[row, length:] == 0).all()
            if last is not None and state is not None:
                assert off(state[row], last[0]) < 1e-12
            gradients = torch.autograd.grad((out * w[row : row + 1, :length]).sum(), [one, *layer.parameters()])
            assert off(together[0][row, :length], gradients[0][0]) < 1e-12
            assert (together[0][row, length:] == 0).all()
            alone = [a + g for a, g in zip(alone, gradients[1:], strict=True)]
        for a, b in zip(together[1:], alone, strict=True):
            assert off(a, b) < 1e-11

    def test_odd_inputs(self):
        """Non-contiguous sequences, a batch of one, one state."""
        options: dict[str, Any] = {"d_state": self.sizes[0]} if self.sizes else {}
        layer = self.make(3, **options)
        u = signal(layer.d_model, 40, 1).transpose(0, 2)[:, ::2]
        assert not u.is_contiguous()
        right, _ = self.twin(layer, nn_twin.parameters_of(layer), u)
        assert off(layer(u), right.detach()) < 1e-10

    def test_states_may_lie_anywhere_in_memory(self):
        if not self.streams:
            return
        layer = self.make(2)
        u, state = signal(2, 40, layer.d_model), signal(2, *layer.state_shape)
        odd = torch.zeros(state.numel() + 1, dtype=state.dtype, device=DEVICE)[1:].view(state.shape).copy_(state)
        strided = torch.stack([state, state], -1)[..., 0]
        for other in (odd, strided):
            torch.testing.assert_close(layer(u, state=other), layer(u, state=state))

    # --- among PyTorch's own

    def test_copies_and_state_dicts(self):
        layer = self.make()
        u = signal(2, 50, layer.d_model)
        right = layer(u)
        torch.testing.assert_close(copy.deepcopy(layer)(u), right)
        other = self.make(seed=1)
        with torch.no_grad():
            for p in other.parameters():
                p.zero_()
        other.load_state_dict(layer.state_dict())
        torch.testing.assert_close(other(u), right)
        assert all(not t.is_complex() for t in layer.state_dict().values())

    def test_autocast_keeps_the_core_in_float32(self):
        """In bfloat16 only the input and the output are rounded; the recurrence is not. A GPU rounds tables too."""
        if not self.core_is_float32:
            return
        layer = self.make(dtype=torch.float32)
        u = signal(2, 50, layer.d_model, dtype=torch.bfloat16)
        with torch.autocast(DEVICE, torch.bfloat16):
            y = layer(u)
        assert y.dtype == torch.bfloat16
        right = layer(u.float())
        if DEVICE == "cpu":
            torch.testing.assert_close(y, right.bfloat16())
        else:
            assert off(y.float(), right) < 4 * 2**-9  # the output, and three tables that are multiplied by each other

    def test_functional_transforms(self):
        """Gradients of every sequence of a batch at once equal those taken one by one."""
        layer = self.make()
        u = signal(2, 40, layer.d_model)
        parameters = {name: p.detach() for name, p in layer.named_parameters()}

        def loss(parameters: dict[str, Tensor], one: Tensor) -> Tensor:
            return torch.func.functional_call(layer, parameters, (one[None],)).pow(2).sum()

        found = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, u)
        for k, one in enumerate(u):
            right = torch.autograd.grad(layer(one[None]).pow(2).sum(), list(layer.parameters()))
            for name, gradient in zip(parameters, right, strict=True):
                assert off(found[name][k], gradient) < 1e-9

    @pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # by PyTorch itself
    def test_forward_mode(self):
        """Tangents of input and parameters: the transpose of what reverse mode computes, entry by entry."""
        for mode in self.modes:
            layer = self.make(2, mode=mode)
            u = signal(2, 70, layer.d_model)
            names = [name for name, _ in layer.named_parameters()]
            primals = (u, *(p.detach() for p in layer.parameters()))
            tangents = tuple(torch.randn_like(p) for p in primals)
            weights = signal(2, 70, layer.d_model, seed=3)

            def outputs(u: Tensor, *parameters: Tensor, layer: Any = layer, names: list[str] = names) -> Tensor:
                return torch.func.functional_call(layer, dict(zip(names, parameters, strict=True)), (u,))

            tangent = torch.func.jvp(outputs, primals, tangents)[1]
            pullback: Any = torch.func.vjp(outputs, *primals)[1]
            forward = (tangent * weights).sum().item()
            backward = sum((g * t).sum().item() for g, t in zip(pullback(weights), tangents, strict=True))
            assert forward == pytest.approx(backward, rel=1e-9)

    def test_parameter_groups(self):
        """Its own slow parameters, and no others, learn slowly; a subclass, and a parametrised one, likewise."""
        kind = type("Derived", (type(self).layer,), {})
        plain, derived = self.make(), kind(3 * self.multiple, **{"seed": 0, "device": DEVICE} | self.options)
        names = {f"layer.{name}" for name in self.ssm}
        for layer in (plain, derived):
            net = torch.nn.ModuleDict({"layer": layer})
            groups = {group["name"]: group["params"] for group in parameter_groups(net, lr=0.01)}
            slow = {id(p) for p in groups.get("ssm", [])}
            assert {name for name, p in net.named_parameters() if id(p) in slow} == names
        assert set(plain.ssm_parameters()) == self.ssm

    def test_saving(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        """A model made of it comes back from its folder, by the name of its layer."""
        from wellposed.nn import LAYERS

        monkeypatch.setitem(LAYERS, "under-test", type(self).layer)
        model = SequenceClassifier(
            2, 3, layer="under-test", layer_options=self.options, d_model=4, n_layers=1, dtype=torch.float64, seed=0
        ).eval()
        loaded = SequenceClassifier.from_pretrained(model.save_pretrained(tmp_path / "model"))
        x = torch.randn(2, 30, 2, dtype=torch.float64)
        assert torch.equal(loaded(x), model(x))

    def test_says_what_it_is(self):
        layer = self.make()
        assert isinstance(layer, SequenceLayer)
        assert f"d_model={layer.d_model}" in repr(layer)
        assert type(self).layer.__doc__

    @pytest.mark.slow
    def test_compiles_and_exports(self):
        """In one graph, without complex numbers, values and gradients; and through ``torch.export``."""
        kind = type(self).layer
        code = f"""
import sys, warnings
sys.path.insert(0, {str(Path(__file__).parent)!r})
for category in (DeprecationWarning, FutureWarning, ImportWarning, ResourceWarning):
    warnings.simplefilter("ignore", category)
import torch
from {kind.__module__} import {kind.__name__}
layer = {kind.__name__}({3 * self.multiple}, **{self.options!r})
u, lengths = torch.randn(2, 150, layer.d_model), torch.tensor([150, 70])
parameters = list(layer.parameters())
y = layer(u, lengths=lengths)
right = torch.autograd.grad(y.pow(2).sum(), parameters)
z = torch.compile(layer, fullgraph=True, backend="aot_eager")(u, lengths=lengths)
found = torch.autograd.grad(z.pow(2).sum(), parameters)
worst = max(((a - b).abs().max() / b.abs().max()).item() for a, b in zip((z, *found), (y, *right)))
exported = torch.export.export(layer, (u,)).module()(u)
print(max(worst, ((exported - layer(u)).abs().max() / exported.abs().max()).item()))
"""
        assert float(run_python(code)) < 1e-4
