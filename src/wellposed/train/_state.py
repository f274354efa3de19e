"""A session to a checkpoint and back: model, optimiser, averages, order, counts and random numbers, to the bit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from wellposed.errors import ArgumentError, RecordError
from wellposed.nn import SequenceModel
from wellposed.nn._pretrained import fit_modes
from wellposed.train._checkpoint import Checkpoint
from wellposed.train._course import Course
from wellposed.train._optimizer import is_sharded, load_states, named_states
from wellposed.train._session import Session


def checkpoint_of(session: Session) -> Checkpoint:
    """All that the rest of the run depends on; called by every process, as each holds a part of it."""
    tensors = prefixed("model", whole(session.net.state_dict()))
    tensors |= prefixed("optimizer", whole(named_states(session.plain_optimizer, session.net)))
    if session.average is not None:
        tensors |= prefixed("average", whole(session.average.values))
    tensors |= prefixed("best", session.best)
    tensors |= prefixed("random", _random_states(session))
    tensors["tally"] = session.tally.state(session.fabric)
    from wellposed import __version__

    state = {
        "config": session.config.to_dict(),
        "course": session.course.to_dict(),
        "order": session.source.order.state_dict(),
        "processes": session.fabric.world_size,
        "version": __version__,
    }
    return Checkpoint(tensors, state)


def prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same under longer names."""
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def whole(tensors: Mapping[str, Any]) -> dict[str, Tensor]:
    """Tensors whose parts lie on several processes are put together, by all of these."""
    return {name: t.full_tensor() if is_sharded(t) else t for name, t in tensors.items()}


def load_weights(net: SequenceModel, checkpoint: Checkpoint) -> None:
    """Before the model is set up for its machine, so that a part of the weights goes to each process."""
    weights = checkpoint.part("model")
    fit_modes(net, weights)
    try:
        net.load_state_dict(weights)
    except RuntimeError as error:
        raise RecordError(f"the checkpoint does not fit the model of its config: {error}") from None


def restore(session: Session, checkpoint: Checkpoint) -> None:
    """Everything but the weights of the model, which ``load_weights`` has put back."""
    state, device = checkpoint.state, session.fabric.device
    session.course = Course.from_dict(state["course"])
    try:
        session.source.order.load_state_dict(state["order"])
    except ArgumentError as error:
        raise RecordError(
            f"the checkpoint was made with other data: {error}; begin anew in another folder, or in this one with "
            "resume=False (--fresh on the command line)"
        ) from None
    load_states(session.plain_optimizer, session.net, checkpoint.part("optimizer"))
    if session.average is not None:
        session.average.load(checkpoint.part("average"))
    session.best = {name: t.to(device) for name, t in checkpoint.part("best").items()}
    session.tally.load(checkpoint.tensors["tally"], first=session.fabric.is_global_zero)
    _set_random_states(session, checkpoint.part("random"))


def _random_states(session: Session) -> dict[str, Tensor]:
    """Of PyTorch's generators, on the CPU and on the GPU, of every process."""
    own = {"cpu": torch.random.get_rng_state()}
    if session.fabric.device.type == "cuda":
        own["cuda"] = torch.cuda.get_rng_state(session.fabric.device)
    every: list[Any] = [own]
    if not session.alone:
        every = [None] * session.fabric.world_size
        torch.distributed.all_gather_object(every, own)
    return {f"{kind}.{rank}": value for rank, states in enumerate(every) for kind, value in states.items()}


def _set_random_states(session: Session, states: dict[str, Tensor]) -> None:
    """A process that was not there before goes on with the numbers it has been seeded with."""
    rank = session.fabric.global_rank
    if f"cpu.{rank}" in states:
        torch.random.set_rng_state(states[f"cpu.{rank}"])
    if session.fabric.device.type == "cuda" and f"cuda.{rank}" in states:
        torch.cuda.set_rng_state(states[f"cuda.{rank}"], session.fabric.device)
