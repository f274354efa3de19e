"""What the models share: how they are built, saved and compiled, and how they stream."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from wellposed.errors import ShapeError
from wellposed.kernels.layout import to_channels_last
from wellposed.nn._backbone import Backbone, States
from wellposed.nn._config import built_from
from wellposed.nn._graph_stepper import GraphStepper
from wellposed.nn._heads import dense_head
from wellposed.nn._lengths import Lengths
from wellposed.nn._luna_backbone import LunaBackbone
from wellposed.nn._model_config import ModelConfig
from wellposed.nn._pooling import CARRIED, Pooling, begin, carry_on, pool
from wellposed.nn._pretrained import Pretrained
from wellposed.nn._seeded import seeded
from wellposed.nn._weights import lecun_

Model = TypeVar("Model", bound="SequenceModel")


@dataclass(frozen=True, kw_only=True)
class ModelArguments(ModelConfig):
    """A config, and where to put the model."""

    device: Any = None


def _options(config: ModelConfig) -> dict[str, Any]:
    return {field.name: getattr(config, field.name) for field in fields(ModelConfig)}


class SequenceModel(Pretrained, nn.Module):
    """What the models share; their arguments are the fields of ``ModelConfig``, and ``device``.

    ``model.config`` holds them. ``from_config`` builds the same model again, with other random numbers unless it has a
    seed.
    """

    config: ModelConfig
    inputs: ClassVar[int] = 1
    """How many of the arguments of ``forward``, from the first on, are sequences."""

    @built_from(ModelArguments)
    def __init__(self, config: ModelArguments) -> None:
        super().__init__()
        self.config = ModelConfig(**_options(config))
        self.pooling: Pooling = config.pooling
        self._check_config(self.config)
        place = torch.get_default_device() if config.device is None else config.device
        with seeded(config.seed):
            self.backbone = make_backbone(self.config)
            self.head = self._make_head(self.config)
            self.backbone.start_head(self.head)
            if config.dense == "lecun":
                lecun_(self)
        self.to(place, config.dtype)
        self.register_forward_pre_hook(_open_batch, with_kwargs=True)

    @classmethod
    def from_config(cls: type[Model], config: ModelConfig, *, device: Any = None) -> Model:
        """The model a config describes."""
        return cls(**_options(config), device=device)

    @property
    def arguments(self) -> dict[str, Any]:
        """The config by name, as it is saved."""
        return _options(self.config)

    def _check_config(self, config: ModelConfig) -> None:
        """Refuse what this model cannot do; before anything is built."""

    def _make_head(self, config: ModelConfig) -> nn.Module:
        if config.d_head is None:
            return nn.Linear(config.d_model, config.d_output, dtype=config.dtype)
        return dense_head(config, config.d_model, pairs=False)


def make_backbone(config: ModelConfig) -> Backbone:
    """Luna's hands two sequences from block to block, all others one."""
    return LunaBackbone(config) if config.layer == "luna" and config.d_ffn is not None else Backbone(config)


class StreamingModel(SequenceModel):
    """A model of single sequences: whole ones, or step by step with the same result.

    With ``pooling`` the output at a step is that of the sequence so far: the mean and the maximum run along.
    """

    def forward(
        self,
        x: Tensor,
        *,
        lengths: Tensor | Lengths | None = None,
        state: States | None = None,
        return_state: bool = False,
    ) -> Tensor | tuple[Tensor, States]:
        """Tokens ``(batch, length)`` or numbers ``(batch, length, d_input)``; ``state`` continues an earlier call."""
        lengths = self.backbone.true_lengths(x, lengths)
        if state is None and not return_state:
            return self._finished(pool(self.backbone(x, lengths=lengths), lengths, self.pooling), lengths)
        layers, running = self._split(state, x.shape[0])
        h, layers = self.backbone.with_state(x, lengths=lengths, state=layers)
        pooled, running = carry_on(h, lengths, self.pooling, running)
        y = self._finished(pooled, lengths)
        return (y, layers + running) if return_state else y

    def _finished(self, pooled: Tensor, lengths: Lengths | None) -> Tensor:
        """The head; steps in the padding come out as zero."""
        # On a GPU steps come channels first; PyTorch's linear map would copy them so, and slowly.
        y = self.head(to_channels_last(pooled) if self.pooling == "none" and pooled.is_cuda else pooled)
        return lengths.zero(y) if lengths is not None and self.pooling == "none" else y

    def initial_state(self, batch: int) -> States:
        """The states of the layers before the first step, and of the pooling."""
        return self.backbone.initial_state(batch) + self._pooling_state(batch)

    def step(self, x: Tensor, state: States) -> tuple[Float[Tensor, "batch d_output"], States]:
        """The next ``(batch,)`` tokens or ``(batch, d_input)`` numbers: output here, and the states after it."""
        self.backbone.check_streams("step")
        return self._step_with(self.backbone.step, x, state)

    def stepper(self) -> Callable[[Tensor, States], tuple[Tensor, States]]:
        """``step`` for long streams: what depends on the parameters of the layers is computed once, little checked.

        On a GPU, in eval mode and without gradients (``torch.no_grad()``), the whole step is recorded in a CUDA graph
        at its first call for each batch size, and replayed from then on. The state it returns then lies where the graph
        keeps it: handing it on costs nothing, reading it copies it, and it can be read until the step after it. To come
        back to a state later, copy it in time: ``kept = tuple(state)``. Outputs are yours to keep.
        """
        step = self.backbone.stepper()

        def one(x: Tensor, state: States) -> tuple[Tensor, States]:
            return self._step_with(step, x, state)

        return GraphStepper(self, one) if next(self.parameters()).is_cuda else one

    def _step_with(
        self, step: Callable[[Tensor, States], tuple[Tensor, States]], x: Tensor, state: States
    ) -> tuple[Tensor, States]:
        layers, running = self._split(state, x.shape[0])
        h, layers = step(x, layers)
        pooled, running = carry_on(h[:, None], None, self.pooling, running)
        return self.head(pooled[:, 0] if self.pooling == "none" else pooled), layers + running

    def _pooling_state(self, batch: int) -> States:
        return begin(self.pooling, batch, self.config.d_model, next(self.head.parameters()))

    def _split(self, state: Any, batch: int) -> tuple[Any, States]:
        """States of the layers, and of the pooling; anything else is the backbone's to refuse."""
        extra = CARRIED[self.pooling]
        if state is None or not extra or isinstance(state, Tensor):
            return state, self._pooling_state(batch) if state is None else ()
        expected = self.config.n_layers + extra
        if len(state) != expected:
            raise ShapeError(
                f"state holds {len(state)} tensors; this model has {self.config.n_layers} layers, one for each, and "
                f"{extra} of its pooling={self.pooling!r}"
            )
        for tensor in state[-extra:]:
            if tensor.shape[0] != batch:
                raise ShapeError(f"the state is of {tensor.shape[0]} sequences, this batch has {batch}")
        return state[:-extra], state[-extra:]


def _open_batch(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Tell a compiler that batches come in all sizes, so that it does not compile anew for the second one.

    The hooks of the module that was compiled run before the compiler looks at anything.
    """
    dynamo = sys.modules.get("torch._dynamo")  # where nothing is compiled it is not even imported
    if dynamo is None or torch.compiler.is_compiling():
        return
    for value in (*args, *kwargs.values()):
        for tensor in value if isinstance(value, tuple) else (value,):  # states come as a tuple
            if isinstance(tensor, Tensor) and tensor.ndim:
                dynamo.maybe_mark_dynamic(tensor, 0)


def _hide_from_compiler(function: Callable[..., Any]) -> None:
    """Let a compiler pass over a function that it meets alone, outside of what it compiles.

    It would look into the hook, be found compiling, and nothing would be marked. ``torch.compiler.disable`` does the
    same, but imports the compiler into every program, which takes a second.
    """
    with suppress(AttributeError):  # names of PyTorch's own: where they are missing, a second size compiles once more
        frames = torch._C._dynamo.eval_frame  # pyright: ignore[reportAttributeAccessIssue]
        skip = frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.DEFAULT)
        frames.set_code_exec_strategy(function.__code__, skip)


_hide_from_compiler(_open_batch)
