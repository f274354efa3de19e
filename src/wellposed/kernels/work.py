"""What a layer asks for, and the two directions it may ask for at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from wellposed.kernels.dense import DenseRecurrence
from wellposed.kernels.diagonal import DiagonalParameters
from wellposed.kernels.low_rank import LowRankParameters, LowRankRecurrence
from wellposed.kernels.padding import reverse
from wellposed.kernels.shared import SharedParameters

Sequences = Float[Tensor, "batch length channel"]
Inputs = Float[Tensor, "batch length input_channel"]
State = Float[Tensor, "batch *state"]
Output = tuple[Sequences, State | None]
"""The sequences that come out, and the last state where it was asked for."""


@dataclass(frozen=True)
class Work:
    """Sequences to be sent through systems. Padding behind ``lengths`` is zero; what comes out there is not
    looked at, nor is the gradient that goes back there.

    ``state`` continues an earlier call and belongs to the forward direction, as does the skip ``D``. Of
    several inputs a channel the first of all channels come first in ``u``, then the second; ``D`` is the first's.
    """

    system: DiagonalParameters | LowRankParameters | LowRankRecurrence | DenseRecurrence | SharedParameters
    u: Inputs
    D: Float[Tensor, " channel"] | None = None
    state: State | None = None
    lengths: Int[Tensor, " batch"] | None = None
    want_state: bool = False


def in_both_directions(work: Work, directions: int, forward: Callable[[Inputs, int], Output]) -> Output:
    """``forward(u, 0)``, and where there are two directions ``forward(reversed u, 1)``, reversed again, added to it.

    For backends that know one direction only.
    """
    y, state = forward(work.u, 0)
    if directions == 2:
        y = y + reverse(forward(reverse(work.u, work.lengths), 1)[0], work.lengths)
    return y, state
