"""``wellposed sweep``."""

from __future__ import annotations

from typing import Annotated

import tyro

from wellposed.cli._arguments import Folder, Number
from wellposed.cli._overrides import Settings


def sweep(
    preset: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="PRESET")],
    over: Annotated[tuple[str, ...], tyro.conf.arg(metavar="KEY=VALUE,VALUE,...")] = (),
    data: Folder = None,
    run: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None,
    at_once: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None,
    minutes: Number = None,
    device: str = "auto",
    fresh: bool = False,
    retry: bool = False,
    dry_run: bool = False,
    set: Settings = (),
) -> None:
    """Train every combination of values of some fields, several runs at once, or go on with those that were stopped.

    --over optimizer.lr=0.001,0.01 --over seed=0,1,2 makes six runs. Other fields are options, the same for all runs.

    Args:
        preset: A name such as scifar-s4ptd; 'wellposed train' lists them.
        over: A field and the values it takes, separated by commas.
        data: The data folder; $WELLPOSED_DATA or ~/.cache/wellposed/data if not given.
        run: Name of the sweep, which lies in runs/NAME, or a folder of your choice; sweep-PRESET if not given.
        at_once: Runs at once, which share a GPU or the cores; as many as fit if not given.
        minutes: Stop all after so long with checkpoints; the same command goes on from there.
        device: auto, cpu or cuda.
        fresh: Start all of them again.
        retry: Try again too what has stopped at numbers that were not finite.
        dry_run: Only show the runs, and the config and the cost of the first.
        set: Fields that are the same for all runs, as KEY=VALUE.
    """
    from wellposed import train
    from wellposed.presets.command import describe_sweep, sweep_folder, sweep_outcome, swept

    configs = swept(preset, set, over)
    if dry_run:
        print("\n".join(describe_sweep(configs)))
        return
    place = sweep_folder(run, preset)
    options = {"at_once": at_once, "data": data, "minutes": minutes, "device": device, "retry": retry}
    print("\n".join(sweep_outcome(train.sweep(configs, place, resume=not fresh, **options))))
