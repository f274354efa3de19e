"""Devices, precision and processes, by Lightning Fabric."""

from __future__ import annotations

import importlib.util
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from wellposed._checks import positive_int
from wellposed.errors import ArgumentError, MissingExtraError, UnknownNameError
from wellposed.train._config import Precision

if TYPE_CHECKING:
    from lightning_fabric import Fabric

_DEVICES = ("auto", "cpu", "cuda", "gpu", "mps")
_MATMUL = {"float32": "highest", "tf32": "high", "bf16": "high"}


def make_fabric(
    device: str, devices: int | str | list[int], num_nodes: int, strategy: Any, precision: Precision
) -> Fabric:
    """The machine: processes are started, or found where ``torchrun`` has started them."""
    check_machine(device)
    if isinstance(devices, int) and devices != -1:  # which is all of them
        positive_int(devices, "devices")
    positive_int(num_nodes, "num_nodes")
    from lightning_fabric import Fabric

    asked = {"accelerator": device, "devices": devices, "num_nodes": num_nodes, "strategy": strategy}
    with _quiet():
        try:
            fabric = Fabric(
                **asked | ({"strategy": _sharding()} if strategy == "fsdp" else {}),
                precision="bf16-mixed" if precision == "bf16" else "32-true",
            )
        except (ValueError, TypeError, RuntimeError, ImportError) as error:  # more GPUs than there are, for example
            raise ArgumentError(f"Lightning Fabric cannot work with {asked}: {error}") from None
        fabric.launch()
    return fabric


def check_machine(device: str) -> str:
    """``"cuda"`` or ``"cpu"``, whichever a device means here; or why it cannot be trained on."""
    if importlib.util.find_spec("lightning_fabric") is None:
        raise MissingExtraError("lightning-fabric", "train")
    check_device(device)
    return "cuda" if device in ("cuda", "gpu", "auto") and torch.cuda.is_available() else "cpu"


def check_device(device: str) -> None:
    """Refuse one that is not known, or not here."""
    if device not in _DEVICES:
        raise UnknownNameError("device", device, _DEVICES)
    if device in ("cuda", "gpu") and not torch.cuda.is_available():
        raise ArgumentError(f"device = {device!r}, but PyTorch finds no GPU here: device='cpu', or 'auto'")


def _sharding() -> Any:
    """FSDP of PyTorch 2: parameters of a block lie in parts on all processes, on GPUs or CPUs."""
    from lightning_fabric.strategies.model_parallel import ModelParallelStrategy

    class Sharded(ModelParallelStrategy):
        """All processes share the data; none of them a single product."""

        def setup_environment(self) -> None:
            self._data_parallel_size, self._tensor_parallel_size = self.num_nodes * self.num_processes, 1
            super().setup_environment()

    return Sharded(_shard)


def _shard(model: Any, mesh: Any) -> nn.Module:
    from torch.distributed.fsdp import fully_shard

    # The outermost module too gives up its whole weights after a forward pass: after an evaluation, which has no
    # backward pass, the next step would otherwise go on with the averages that were evaluated.
    for module in (*model.backbone.blocks, model):
        fully_shard(module, mesh=mesh["data_parallel"], reshard_after_forward=True)
    return model


@contextmanager
def _quiet() -> Iterator[None]:
    """Without Fabric's advice on what else one could use, and its news about what was asked for."""
    logger = logging.getLogger("lightning_fabric")
    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="lightning_fabric.*")
            yield
    finally:
        logger.setLevel(before)


@contextmanager
def arithmetic(precision: Precision) -> Iterator[None]:
    """In this context float32 products are done as ``precision`` says; afterwards as before."""
    switches: Any = torch.backends.cuda.matmul, torch.backends.mkldnn.matmul  # pyright: ignore[reportAttributeAccessIssue]
    before, by_name = _older_switch(), [switch.fp32_precision for switch in switches]
    torch.set_float32_matmul_precision(_MATMUL[precision])
    try:
        yield
    finally:
        if before is not None:
            torch.set_float32_matmul_precision(before)
        for switch, value in zip(switches, by_name, strict=True):
            switch.fp32_precision = value


def _older_switch() -> str | None:
    """PyTorch's older one of two; nothing where the newer one, ``torch.backends``, was set to what it cannot say."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return None


def share_of(batch_size: int, world: int) -> int:
    """Sequences of a batch that each process takes."""
    if batch_size % world:
        near = max(batch_size // world, 1) * world
        raise ArgumentError(
            f"data.batch_size = {batch_size} cannot be shared evenly by {world} processes: take {near} or "
            f"{near + world}"
        )
    return batch_size // world
