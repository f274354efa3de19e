"""``wellposed train``."""

from __future__ import annotations

from typing import Annotated, Any

import tyro

from wellposed.cli._arguments import Folder, Number
from wellposed.cli._overrides import Settings


def train(
    preset: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="PRESET")] = None,
    data: Folder = None,
    run: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None,
    minutes: Number = None,
    device: str = "auto",
    devices: int = 1,
    nodes: int = 1,
    strategy: str = "auto",
    fresh: bool = False,
    dry_run: bool = False,
    set: Settings = (),
) -> None:
    """Train a preset, or go on with a run that was stopped. Without a name, list the presets.

    Every field of the config is an option: --optimizer.lr 0.003, --model.d_model 64, --epochs 10. --dry-run shows them.

    Args:
        preset: A name such as lra-text-s5ptd; with tiny- before it, in seconds on a CPU.
        data: The data folder; $WELLPOSED_DATA or ~/.cache/wellposed/data if not given.
        run: Name of the run, which lies in runs/NAME, or a folder of your choice; the name of the preset if not given.
        minutes: Stop after so long with a checkpoint; the same command goes on from there.
        device: auto, cpu or cuda.
        devices: How many GPUs or processes of this machine.
        nodes: How many machines.
        strategy: auto, ddp or fsdp.
        fresh: Start again where there is a run of this name.
        dry_run: Only show the config, the number of parameters, and roughly memory and time.
        set: The same as options, as KEY=VALUE.
    """
    from wellposed import train
    from wellposed.presets.command import configured, describe, listing, outcome, run_folder

    if preset is None:
        print("\n".join(listing()))
        return
    config = configured(preset, set)
    if dry_run:
        print("\n".join(describe(config)))
        return
    place: dict[str, Any] = {"device": device, "devices": devices, "num_nodes": nodes, "strategy": strategy}
    done = train.run(config, run_folder(run), data=data, minutes=minutes, resume=not fresh, **place)
    print("\n".join(outcome(done)))
