"""``python -m wellposed.train PRESET``: ``wellposed train`` where the packages of the command line are missing.

With ``--over KEY=VALUE,VALUE`` it is ``wellposed sweep``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from wellposed.errors import ArgumentError, WellposedError
from wellposed.train import run, sweep


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point."""
    asked = _parser().parse_args(arguments)
    try:
        for line in _answer(asked):
            print(line)  # noqa: T201
    except WellposedError as error:
        raise SystemExit(f"wellposed: {error}") from None
    except BrokenPipeError:  # of ``| head``
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        print("wellposed: stopped", file=sys.stderr)  # noqa: T201
        raise SystemExit(130) from None  # as shells report it


def _answer(asked: argparse.Namespace) -> list[str]:
    """What to print at the end."""
    from wellposed.presets import command

    if asked.preset is None:
        return list(command.listing())
    if asked.over:
        return _sweep(asked)
    config = command.configured(asked.preset, asked.set)
    if asked.dry_run:
        return command.describe(config)
    done = run(
        config,
        command.run_folder(asked.run),
        data=asked.data,
        minutes=asked.minutes,
        device=asked.device,
        devices=asked.devices,
        num_nodes=asked.nodes,
        strategy=asked.strategy,
        resume=not asked.fresh,
    )
    return list(command.outcome(done))


def _sweep(asked: argparse.Namespace) -> list[str]:
    from wellposed.presets import command

    if (asked.devices, asked.nodes, asked.strategy) != (1, 1, "auto"):
        raise ArgumentError("runs of a sweep have a process each: leave --devices, --nodes and --strategy out")
    configs = command.swept(asked.preset, asked.set, asked.over)
    if asked.dry_run:
        return command.describe_sweep(configs)
    result = sweep(
        configs,
        command.sweep_folder(asked.run, asked.preset),
        at_once=asked.at_once,
        data=asked.data,
        minutes=asked.minutes,
        device=asked.device,
        resume=not asked.fresh,
        retry=asked.retry,
    )
    return list(command.sweep_outcome(result))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m wellposed.train", description="Train a preset, or go on with it.")
    parser.add_argument(
        "preset", nargs="?", metavar="PRESET", help="such as lra-text-s5ptd; all are listed without one"
    )
    parser.add_argument(
        "--set",
        action="extend",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="fields of the config, such as optimizer.lr=0.003; --dry-run shows them",
    )
    parser.add_argument(
        "--over",
        action="extend",
        nargs="+",
        default=[],
        metavar="KEY=VALUE,VALUE",
        help="fields and the values they take: a run for every combination",
    )
    parser.add_argument("--at-once", type=int, help="runs of a sweep at once; as many as fit if not given")
    parser.add_argument("--retry", action="store_true", help="of a sweep: try again what was not finite")
    parser.add_argument("--data", type=Path, metavar="DIR", help="the data folder")
    parser.add_argument("--run", metavar="NAME", help="name of the run, which lies in runs/NAME, or a folder")
    parser.add_argument("--minutes", type=float, help="stop after so long; the same command goes on from there")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--devices", type=int, default=1, help="GPUs or processes of this machine")
    parser.add_argument("--nodes", type=int, default=1, help="machines")
    parser.add_argument("--strategy", default="auto", help="auto, ddp or fsdp")
    parser.add_argument("--fresh", action="store_true", help="start again where there is a run of this name")
    parser.add_argument("--dry-run", action="store_true", help="only show the config and what it costs")
    return parser


if __name__ == "__main__":
    main()
