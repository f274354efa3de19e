"""``python -m wellposed.experiments NAME``: an experiment where the packages of the command line are missing."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from wellposed._files import check_folder
from wellposed.errors import WellposedError
from wellposed.experiments import NAMES, Record, get, run, run_full, save_record
from wellposed.experiments._registry import told
from wellposed.train._config import Precision


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point."""
    asked = _parser().parse_args(arguments)
    try:
        get(asked.name)
        check_folder(asked.records)  # before anything runs
        record = _made(asked)
    except WellposedError as error:
        raise SystemExit(f"wellposed: {error}") from None
    except BrokenPipeError:  # of ``| head``
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        kept = f"; {told(asked.records, asked.name)}; the same command goes on" if asked.full else ""
        raise SystemExit(f"wellposed: stopped{kept}") from None
    print(record.finding)  # noqa: T201
    for claim in record.claims:
        bound = claim.kind if claim.kind.startswith("at ") else "expected"
        print(f"{claim.text}: {claim.measured:.6g} ({bound} {claim.expected:.6g})")  # noqa: T201
    print(f"record: {asked.records / f'{record.experiment}.json'}")  # noqa: T201


def _made(asked: argparse.Namespace) -> Record:
    if not asked.full:
        record = run(asked.name)
        save_record(record, asked.records)
        return record
    return run_full(
        asked.name,
        runs=asked.runs,
        data=asked.data,
        minutes=asked.minutes,
        device=asked.device,
        seeds=asked.seeds,
        epochs=asked.epochs,
        precision=asked.precision,
        start=asked.start,
        only=asked.only,
        records=asked.records,
        at_once=asked.at_once,
        tiny=asked.tiny,
        slim=asked.slim,
        say=lambda line: print(line, flush=True),  # noqa: T201
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m wellposed.experiments", description="Run one experiment.")
    parser.add_argument("name", metavar="NAME", help=f"one of {', '.join(NAMES)}")
    parser.add_argument("--records", type=Path, default=Path("records"), metavar="DIR", help="where its record goes")
    parser.add_argument("--full", action="store_true", help="at full size: trains models, best on a GPU")
    parser.add_argument("--runs", type=Path, metavar="DIR", help="of --full: where the models are kept")
    parser.add_argument("--data", type=Path, metavar="DIR", help="of --full: the data folder")
    parser.add_argument("--minutes", type=float, help="of --full: stop after so long; the same command goes on")
    parser.add_argument("--device", default="auto", help="of --full: auto, cpu or cuda")
    parser.add_argument("--seeds", type=int, nargs="+", help="of --full: those of the experiment unless given")
    parser.add_argument(
        "--epochs", type=int, metavar="N", help="of --full: cut longer runs short, their schedules too but for warm-ups"
    )
    words = get_args(Precision)
    parser.add_argument("--precision", choices=words, help="of --full: another one than that of the presets")
    parser.add_argument("--start", metavar="RUN", help="of --full: begin with the weights of a run or a saved model")
    parser.add_argument("--only", nargs="+", default=[], metavar="PRESET", help="of --full: train no others now")
    parser.add_argument("--at-once", type=int, default=1, metavar="K", help="of --full: train K runs side by side")
    parser.add_argument("--slim", action="store_true", help="of --full: keep only what going on needs")
    parser.add_argument("--tiny", action="store_true", help="of --full: everything small, to try the program")
    return parser


if __name__ == "__main__":
    main()
