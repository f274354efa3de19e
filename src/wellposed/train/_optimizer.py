"""AdamW over the groups of ``parameter_groups``, with rates that a recorded step can change."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Float32
from torch import Tensor, nn

from wellposed.errors import ArgumentError
from wellposed.nn import parameter_groups
from wellposed.train._config import OptimizerConfig


def learning_groups(model: nn.Module, config: OptimizerConfig) -> list[dict[str, Any]]:
    """The groups of parameters that learn; all others are told that they need no gradient.

    To be called before a model is wrapped for several processes, which then do not wait for gradients of the others.
    """
    rates = {"lr": config.lr, "ssm_lr": config.ssm_lr, "weight_decay": config.weight_decay}
    groups = parameter_groups(model, **rates, decay=config.decay, frozen=config.frozen, ssm=config.ssm)
    if not groups:
        raise ArgumentError(f"optimizer.frozen = {config.frozen} leaves nothing to learn: name fewer parameters")
    learning = {id(parameter) for group in groups for parameter in group["params"]}
    for parameter in model.parameters():
        parameter.requires_grad_(id(parameter) in learning)
    return groups


def make_optimizer(model: nn.Module, config: OptimizerConfig, *, capturable: bool = False) -> torch.optim.AdamW:
    """Fused, at the full rates."""
    groups = learning_groups(model, config)
    return torch.optim.AdamW(groups, betas=_betas(config), fused=True, capturable=capturable)


def _betas(config: OptimizerConfig) -> tuple[float, float]:
    first, second = config.betas
    return float(first), float(second)


class Rates:
    """The learning rates of an optimiser as tensors: a CUDA graph reads them where they lie, and sees the schedule."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        groups = optimizer.param_groups
        self._full = torch.tensor([float(group["lr"]) for group in groups], device=groups[0]["params"][0].device)
        self._now = self._full.clone()
        for group, rate in zip(groups, self._now.unbind(), strict=True):
            group["lr"] = rate

    def set(self, factor: Float32[Tensor, ""]) -> None:
        """All at this share of the full ones, by one kernel; nothing is sent to the device or read from it."""
        torch.mul(self._full, factor, out=self._now)


def named_states(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """What the optimiser remembers of every parameter, by the parameter's name: ``backbone.norm.weight.exp_avg``."""
    found = {}
    for name, parameter in model.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            found[f"{name}.{key}"] = value
    return found


def load_states(optimizer: torch.optim.Optimizer, model: nn.Module, states: dict[str, Tensor]) -> None:
    """Put back what ``named_states`` found; the rest of the optimiser is as its config makes it."""
    parameters = dict(model.named_parameters())
    for full, value in states.items():
        name, _, key = full.rpartition(".")
        if name not in parameters:
            raise ArgumentError(f"the checkpoint remembers {name!r}, which this model does not have")
        # With a parameter lie its moments; the count of steps lies there too, as fused and captured steps want it.
        parameter = parameters[name]
        like = torch.zeros((), device=parameter.device) if key == "step" else parameter.data
        optimizer.state[parameter][key] = placed_as(value, like).clone()


def placed_as(value: Tensor, like: Tensor) -> Tensor:
    """The same numbers where and as ``like`` lies, in parts on several processes if need be."""
    value = value.to(like.device, like.dtype)
    if not is_sharded(like):
        return value
    from torch.distributed.tensor import DTensor, distribute_tensor

    assert isinstance(like, DTensor)
    return distribute_tensor(value, like.device_mesh, like.placements)


class Average:
    """An average of the weights over the steps, kept beside them: ``a <- decay a + (1 - decay) w``."""

    def __init__(self, model: nn.Module, decay: float | int) -> None:
        self.decay = float(decay)
        learning = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.names = list(learning)
        self._all = [p.data.clone() for p in learning.values()]
        # Of weights that lie in parts on several processes each takes care of its own.
        self._weights, self._averages = [own(p.data) for p in learning.values()], [own(a) for a in self._all]

    @property
    def values(self) -> dict[str, Float[Tensor, "..."]]:
        """The averages by the names of the parameters."""
        return dict(zip(self.names, self._all, strict=True))

    def update(self) -> None:
        """After a step; a handful of kernels for all weights."""
        torch._foreach_lerp_(self._averages, self._weights, 1 - self.decay)  # pyright: ignore[reportPrivateImportUsage]

    def load(self, values: dict[str, Tensor]) -> None:
        """Put back what ``values`` gave."""
        for name, average in self.values.items():
            average.copy_(placed_as(values[name], average))

    def swap(self) -> None:
        """Exchange weights and averages, in place: a recorded step or evaluation finds them where they were."""
        kept = [weight.clone() for weight in self._weights]
        torch._foreach_copy_(self._weights, self._averages)  # pyright: ignore[reportPrivateImportUsage]
        torch._foreach_copy_(self._averages, kept)  # pyright: ignore[reportPrivateImportUsage]


def is_sharded(tensor: Tensor) -> bool:
    """Whether it lies in parts on several processes."""
    return hasattr(tensor, "to_local")


def own(tensor: Tensor) -> Tensor:
    """The part that lies here, in place."""
    return tensor.to_local() if is_sharded(tensor) else tensor  # pyright: ignore[reportAttributeAccessIssue]
