"""``python -m wellposed.train PRESET``: ``wellposed train`` where the packages of the command line are missing."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from wellposed.errors import WellposedError
from wellposed.train import run


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point."""
    asked = _parser().parse_args(arguments)
    try:
        for line in _answer(asked):
            print(line)  # noqa: T201
    except WellposedError as error:
        raise SystemExit(f"wellposed: {error}") from None
    except KeyboardInterrupt:
        raise SystemExit("wellposed: stopped") from None


def _answer(asked: argparse.Namespace) -> list[str]:
    """What to print at the end."""
    from wellposed.presets import command

    if asked.preset is None:
        return list(command.listing())
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
