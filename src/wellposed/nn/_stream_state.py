"""The states a graph leaves behind, handed out without a copy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor
from torch.utils import _pytree

from wellposed.errors import ArgumentError


class StreamState(tuple[Tensor, ...]):
    """States after a step, still lying where the graph put them; a tuple of tensors for whoever reads them.

    Handed on to the next step they cost nothing. Read, they are copied once, and the copies are the reader's own. A
    state that was handed on and not read before is gone: to read it raises.
    """

    _buffers: list[Tensor]
    _copies: tuple[Tensor, ...] | None
    _overwritten: bool

    def __new__(cls, buffers: list[Tensor]) -> StreamState:
        """Empty for code in C, which passes over the methods below: better nothing than numbers of a later step."""
        state = super().__new__(cls)
        state._buffers, state._copies, state._overwritten = buffers, None, False
        return state

    def read(self) -> tuple[Tensor, ...]:
        """Copies, the same at each call."""
        if self._copies is None:
            if self._overwritten:
                raise ArgumentError(
                    "this state was handed on to the step after it, which has overwritten it: to come back to a state, "
                    "copy it before the next step, kept = tuple(state)"
                )
            self._copies = tuple(buffer.clone() for buffer in self._buffers)
        return self._copies

    @property
    def in_place(self) -> bool:
        """Whether the buffers hold all there is to it: copies may have been changed by their reader."""
        return self._copies is None and not self._overwritten

    def give_up(self) -> None:
        """The next step writes over it."""
        self._overwritten = True

    def __len__(self) -> int:
        return len(self._buffers)

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.read())

    def __getitem__(self, index: Any) -> Any:
        return self.read()[index]

    def __add__(self, other: tuple[Any, ...]) -> tuple[Any, ...]:
        return self.read() + tuple(other)

    def __radd__(self, other: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(other) + self.read()

    def __contains__(self, item: object) -> bool:
        return any(item is tensor for tensor in self.read())

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (self.read(),)

    def __repr__(self) -> str:
        return "StreamState(overwritten)" if self._copies is None and self._overwritten else repr(self.read())


# For whoever maps a function over nested tensors it is a tuple: what comes back is one.
_pytree.register_pytree_node(StreamState, lambda state: (list(state.read()), None), lambda tensors, _: tuple(tensors))
