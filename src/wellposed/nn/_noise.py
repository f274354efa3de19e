"""Fourier noise: a cosine at the frequency where S4D departs most from S4, in sequences or inside models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from inspect import Parameter, signature
from math import isfinite
from threading import Lock
from typing import Any, Literal, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

from wellposed._checks import number
from wellposed._checks import seed as checked_seed
from wellposed.errors import ArgumentError, ShapeError, UnknownNameError
from wellposed.nn._layer import SequenceLayer
from wellposed.nn._resonance import Angles, Frequencies, angles, column
from wellposed.nn._sequence_model import SequenceModel

Mode = Literal["layer", "input"]
Per = Literal["channel", "call"]
Frequency = float | int | Sequence[float | int] | Tensor | Literal["all"] | None
Model = TypeVar("Model", bound=nn.Module)
Hook = Callable[[nn.Module, tuple[Any, ...], dict[str, Any]], tuple[Any, dict[str, Any]] | None]


def fourier_noise(
    mode: Mode = "layer",
    *,
    amplitude: float | int = 0.1,
    frequency: Frequency = None,
    dt: float | int | None = None,
    per: Per = "channel",
    seed: int = 0,
) -> FourierNoise:
    """``amplitude * U * cos(frequency * dt * k)`` at step ``k = 0, 1, ...``, with ``U`` uniform in [0, 1).

    - ``mode="layer"`` adds it to the input of every state-space layer, in each channel with the channel's own ``dt``.
      In S5, where modes have steps and channels none, it is the step of a mode in resonance. Attention is left alone.
      ``mode="input"`` adds it to the input of a model, with one ``dt``, or to a tensor.
    - ``frequency``: by default the last spike of S4D, ``systems.spikes(n, last=1)``, n the size of the layer's matrix:
      325.43 at n = 32. This is S4D as HiPPO-LegS starts it, whatever the layer is and has learned. Layers with
      ``disc="bilinear"`` have it where that rule moves it. Numbers are taken as they are. Of several, or of ``"all"``
      spikes, every draw takes one at random.
    - ``dt`` for ``mode="input"``: by default the median of the first layer's steps; for a tensor ``1 / length``.
    - ``per="channel"`` draws ``U`` for every sequence and channel, ``"call"`` once for a call. Layers draw separately.

    >>> from wellposed.nn import SequenceClassifier
    >>> model, x = SequenceClassifier(3, 10, d_model=8, n_layers=2), torch.randn(4, 100, 3)
    >>> clean = model(x)
    >>> with fourier_noise("layer", seed=1).on(model):
    ...     noisy = model(x)
    >>> torch.equal(clean, noisy), torch.equal(clean, model(x))
    (False, True)
    """
    return FourierNoise(mode, amplitude=amplitude, frequency=frequency, dt=dt, per=per, seed=seed)


class FourierNoise:
    """What ``fourier_noise`` returns: ``on(model)`` is a context, a call on a tensor a transform.

    Its numbers come from generators of its own on the CPU. They depend neither on device nor precision, nor, with
    ``per="channel"``, on how a data set is cut into batches.
    """

    def __init__(
        self, mode: Mode, *, amplitude: float | int, frequency: Frequency, dt: float | int | None, per: Per, seed: int
    ) -> None:
        for kind, name, known in (("mode", mode, ("layer", "input")), ("per", per, ("channel", "call"))):
            if name not in known:
                raise UnknownNameError(kind, name, known)
        if mode == "layer" and dt is not None:
            raise ArgumentError(f"dt = {dt!r}, but layers have steps of their own: dt goes with mode='input'")
        self.mode: Mode = mode
        self.amplitude = _size(amplitude, "amplitude")
        self.frequency: Frequencies = _frequency(frequency)
        self.dt = None if dt is None else _size(dt, "dt")
        self.per: Per = per
        self.seed = checked_seed(seed)
        self.reset()

    def reset(self) -> None:
        """Let the transform begin again; contexts always do."""
        (self._stream,) = self._streams(1)

    def __call__(self, x: Tensor) -> Float[Tensor, "*batch length channel"]:
        """``(length, channel)`` or ``(batch, length, channel)`` with noise; the next call draws on.

        >>> noise = fourier_noise("input", frequency=325.4)
        >>> first, second = noise(torch.zeros(100, 3)), noise(torch.zeros(100, 3))
        >>> noise.reset()
        >>> torch.equal(torch.stack([first, second]), noise(torch.zeros(2, 100, 3)))
        True
        """
        if self.mode == "layer":
            raise ArgumentError("mode='layer' is noise inside a model: on(model), or mode='input' for tensors")
        if not isinstance(self.frequency, tuple):
            raise ArgumentError("a tensor has no spikes: give frequency, such as systems.spikes(32)[-1].frequency")
        _check_sequence(x)
        dt = 1 / max(x.shape[-2], 1) if self.dt is None else self.dt
        return self._added(x, column(self.frequency) * dt, self._stream)

    @contextmanager
    def on(self, model: Model) -> Iterator[Model]:
        """In this context the model has noise, the same in every context; afterwards it is as it was.

        Noise in the padding of shorter sequences is without effect, as they end where ``lengths`` says. A step does
        not know its number, so ``step``, ``stepper`` and calls that continue a ``state`` are refused. Contexts add up,
        and may end in any order. A copy of the model made inside has no noise.

        Nothing runs compiled inside: code that was compiled before would go on without the noise. (Who sets the stance
        of ``torch.compiler`` inside the context takes that into their own hands.)
        """
        if not isinstance(model, nn.Module):
            raise ArgumentError(f"noise goes on an nn.Module, got {type(model).__name__}; for a tensor call noise(x)")
        inner = _unwrapped(model)
        _check_calls_reach(inner)
        layers = [m for m in inner.modules() if isinstance(m, SequenceLayer) and m.resonates]
        hooks = self._on_layers(layers) if self.mode == "layer" else self._on_input(inner, layers)
        with ExitStack() as undo:
            undo.enter_context(_eager())
            for module, hook in hooks.items():
                undo.callback(module.register_forward_pre_hook(hook, with_kwargs=True).remove)
            for module in inner.modules():
                if isinstance(module, SequenceLayer):
                    undo.enter_context(_without_steps(module))
            yield model

    def _on_layers(self, layers: list[SequenceLayer]) -> dict[nn.Module, Hook]:
        if not layers:
            raise ArgumentError("this model has no state-space layer to add noise to; mode='input' needs none")
        streams = self._streams(len(layers))
        each = ((m, partial(angles, m, self.frequency)) for m in layers)
        return {m: self._hook(m, 1, find, stream) for (m, find), stream in zip(each, streams, strict=True)}

    def _on_input(self, model: nn.Module, layers: list[SequenceLayer]) -> dict[nn.Module, Hook]:
        def find() -> Angles:
            if layers:  # the lower median is the step of a channel, so one of them is in resonance
                return angles(layers[0], self.frequency, self.dt).median(-1, keepdim=True).values
            if self.dt is None or not isinstance(self.frequency, tuple):
                raise ArgumentError("this model has no state-space layer to start from: give both dt and frequency")
            return column(self.frequency) * self.dt

        find()  # now rather than at the first call
        (stream,) = self._streams(1)
        count = model.inputs if isinstance(model, SequenceModel) else 1
        return {model: self._hook(model, count, find, stream)}

    def _hook(self, owner: nn.Module, count: int, find: Callable[[], Angles], stream: torch.Generator) -> Hook:
        """Adds noise to the first ``count`` arguments of ``forward``."""
        parameters = signature(owner.forward).parameters.values()
        named = [p.name for p in parameters if p.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)]
        one_at_a_time = Lock()  # DataParallel calls its replicas from several threads

        def noisy(x: Any) -> Tensor:
            _check_sequence(x)
            with one_at_a_time:
                return self._added(x, find(), stream)

        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any] | None:
            # Copies carry hooks along: a replica of DataParallel is meant to, any other copy is a model of its own.
            if module is not owner and not getattr(module, "_is_replica", False):
                return None
            if kwargs.get("state") is not None:
                raise ArgumentError("noise counts steps from the beginning: pass the whole sequence, without state")
            by_name = [name for name in named[:count] if name in kwargs]
            if not args and not by_name:
                raise ArgumentError("noise goes on the first argument, and this call has none by place: model(x, ...)")
            args = (*(noisy(x) for x in args[:count]), *args[count:])
            return args, kwargs | {name: noisy(kwargs[name]) for name in by_name}

        return hook

    def _added(self, x: Tensor, angle: Angles, stream: torch.Generator) -> Tensor:
        channels, device = x.shape[-1], x.device
        if angle.shape[-1] not in (1, channels):
            raise ShapeError(f"this layer has {angle.shape[-1]} channels, the sequence {channels}")
        draws = (*x.shape[:-2], channels) if self.per == "channel" else (1,) * (x.ndim - 1)
        U, pick = torch.rand(*draws, 2, dtype=torch.float64, generator=stream, device="cpu").to(device).unbind(-1)
        angle, row = angle.to(device).expand(-1, channels), (pick * len(angle)).long()
        angle = angle[0] if len(angle) == 1 else angle[row, torch.arange(channels, device=device)]
        # In float64: a phase reaches 1e5 radians.
        k = torch.arange(x.shape[-2], dtype=torch.float64, device=device)[:, None]
        return x + (self.amplitude * U[..., None, :] * torch.cos(angle[..., None, :] * k)).to(x.dtype)

    def _streams(self, count: int) -> list[torch.Generator]:
        """A generator for each layer, so that none depends on what others draw."""
        root = torch.Generator("cpu").manual_seed(self.seed)
        seeds = torch.randint(2**62, (count,), generator=root, device="cpu").tolist()
        return [torch.Generator("cpu").manual_seed(seed) for seed in seeds]


def _unwrapped(model: nn.Module) -> nn.Module:
    """The module that the wrappers of PyTorch call in the end."""
    while True:
        if isinstance(model, DataParallel | DistributedDataParallel):
            model = model.module
        elif isinstance(compiled := getattr(model, "_orig_mod", None), nn.Module):
            model = compiled
        else:
            return model


def _check_calls_reach(model: nn.Module) -> None:
    """Refuse a model whose layers are not called when it is: its graph was recorded before."""
    if isinstance(model, torch.jit.ScriptModule | torch.fx.GraphModule):
        raise ArgumentError(
            f"this {type(model).__name__} was recorded from a model, and noise would not reach its layers: put it on "
            "the model itself"
        )
    for module in model.modules():
        # A forward of its own, as torch.cuda.make_graphed_callables leaves it; compiled ones run eagerly here.
        if "forward" in vars(module) and not hasattr(module, "_orig_mod"):
            raise ArgumentError(
                f"forward of {type(module).__name__} was replaced, by a recorded graph perhaps, which noise would not "
                "reach: put it on the model before that"
            )


class _Eager:
    """Compiled code remembers a model without its hooks, so that none of it may run while there is noise anywhere.

    PyTorch's own context would put back, at its end, what it found at its beginning: contexts that do not end in order
    would switch the compiler on too early, or off for good.
    """

    def __init__(self) -> None:
        self._lock, self._users, self._stance = Lock(), 0, ExitStack()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            if not self._users:
                self._stance.enter_context(torch.compiler.set_stance("force_eager"))
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    self._stance.close()


_eager = _Eager()


@contextmanager
def _without_steps(layer: SequenceLayer) -> Iterator[None]:
    """No hook sees a single step, so the layer refuses them as long as somebody asks it to."""
    layer._disturbances += 1
    try:
        yield
    finally:
        layer._disturbances -= 1
        if not layer._disturbances:
            del layer._disturbances


def _frequency(value: Frequency) -> Frequencies:
    if value is None:
        return None
    if isinstance(value, str):
        if value == "all":
            return "all"
        raise UnknownNameError("frequency", value, ("all",))
    several = value if isinstance(value, Sequence) or (isinstance(value, Tensor) and value.ndim) else [value]
    if not len(several):
        raise ArgumentError("frequency is empty: give one or more numbers, 'all', or nothing")
    return tuple(_size(each, "frequency") for each in several)


def _size(value: Any, name: str) -> float:
    plain = number(value, name)
    if plain < 0 or not isfinite(plain):
        raise ArgumentError(f"{name} must be finite and not negative, got {plain}")
    return plain


def _check_sequence(x: Any) -> None:
    if not isinstance(x, Tensor):
        raise ArgumentError(f"noise is added to a tensor, got {type(x).__name__}: torch.as_tensor(...)")
    if not x.dtype.is_floating_point:
        raise ArgumentError(f"noise is added to real numbers, got {x.dtype}; for tokens use mode='layer'")
    if x.ndim not in (2, 3):
        raise ShapeError(f"noise takes (length, channel) or (batch, length, channel), got {tuple(x.shape)}")
