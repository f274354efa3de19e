"""The smallest sequence layer there can be, to show what one has to supply."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from wellposed.nn import SequenceLayer
from wellposed.nn._config import built_from
from wellposed.nn._lengths import Lengths


@dataclass(frozen=True)
class AverageConfig:
    """Options, written down once."""

    d_model: int
    _: KW_ONLY
    memory: float = 10.0
    """Steps that an average remembers at the start."""
    seed: int | None = None
    device: Any = None
    dtype: torch.dtype | None = None


class Average(SequenceLayer):
    """A running average for every channel: ``x_t = a x_{t-1} + (1 - a) u_t``, with ``a = exp(-exp(log_rate))``."""

    @built_from(AverageConfig)
    def __init__(self, config: AverageConfig) -> None:
        super().__init__(config.d_model)
        rate = torch.full((config.d_model,), 1 / config.memory, device=config.device, dtype=config.dtype)
        self.log_rate = nn.Parameter(rate.log())

    def ssm_parameters(self) -> tuple[str, ...]:
        """A pole, if only one: it learns slowly and does not decay."""
        return ("log_rate",)

    @property
    def state_shape(self) -> tuple[int, ...]:
        """The average so far."""
        return (self.d_model,)

    def _one_step(self, u: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        a = torch.exp(-self.log_rate.exp())
        y = a * state + (1 - a) * u
        return y, y

    def _sequence(
        self, u: Tensor, lengths: Lengths | None, state: Tensor | None, want_state: bool
    ) -> tuple[Tensor, Tensor | None]:
        x = u.new_zeros(len(u), self.d_model) if state is None else state
        outputs = []
        for t in range(u.shape[1]):
            y, after = self._one_step(u[:, t], x)
            # Behind its end a sequence keeps the state it had there.
            x = after if lengths is None else torch.where(t < lengths.values[:, None], after, x)
            outputs.append(y)
        return torch.stack(outputs, 1), x if want_state else None

    def extra_repr(self) -> str:
        """Sizes, as the constructor takes them."""
        return f"d_model={self.d_model}"
