"""What is left of the paper's trained results, in the order of what tells most, in slices of time.

    python benchmarks/campaign.py --runs RUNS --data DIR --records results --minutes 27

goes through the steps until the time is up, and the same command goes on from there. Each is a full form of an
experiment, which trains what its record lacks, or a run that one begins with. A step whose data are missing is named
and left; names of steps choose among them. Without ``--runs`` it shows the plan.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wellposed._files import check_folder, make_folder
from wellposed.errors import RecordError, WellposedError
from wellposed.experiments import run_full
from wellposed.experiments._training import shortened
from wellposed.presets import preset, tiny
from wellposed.train import RunConfig, RunResult, load_run, run
from wellposed.train._machine import check_machine

LEAST_MINUTES = 0.3
"""What is worth beginning a step for."""
LEARNT = 0.6
"""Accuracy on medium pictures that is worth going on from: a model that guesses has learnt nothing."""


@dataclass(frozen=True)
class Slice:
    """Where everything lies, and when the time is up."""

    runs: Path
    data: Path | None
    records: Path
    end: float
    device: str = "auto"
    tiny: bool = False

    def minutes(self, most: float) -> float:
        """What a step may take now."""
        return min(most, (self.end - time.monotonic()) / 60)


@dataclass(frozen=True)
class Step:
    """Something to be done within so many minutes of each slice."""

    name: str
    about: str
    work: Callable[[Slice, float], object]
    most: float = float("inf")


class NotYetError(WellposedError):
    """What a step begins with is not there yet, or not good enough."""


def full(name: str, experiment: str, *, most: float = float("inf"), start: str | None = None, **options: Any) -> Step:
    """The full form of an experiment; ``start`` is a run of an earlier step, which has to have learnt something."""

    def work(now: Slice, minutes: float) -> None:
        begun = None if start is None else str(_finished(now.runs / start, least=0 if now.tiny else LEARNT).folder)
        places: dict[str, Any] = {"runs": now.runs, "data": now.data, "records": now.records, "device": now.device}
        run_full(experiment, minutes=minutes, start=begun, tiny=now.tiny, slim=True, say=print, **places, **options)

    given = {"start": start, **options}
    words = [f"--{key.replace('_', '-')} {_spelled(value)}" for key, value in given.items() if value is not None]
    return Step(name, " ".join(["reproduce", experiment, "--full", *words]), work, most)


def _spelled(value: Any) -> str:
    """As on a command line."""
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def single(name: str, folder: str, config: RunConfig, *, after: str | None = None, most: float = float("inf")) -> Step:
    """One run, which may begin with the one before it, and which a later step begins with or finds in the folder."""

    def work(now: Slice, minutes: float) -> None:
        start = None if after is None else str(_finished(now.runs / after).folder)
        wanted = (tiny(config) if now.tiny else config).replace(start=start)
        options: dict[str, Any] = {"data": now.data, "device": now.device, "progress": False, "summary": False}
        done = run(wanted, now.runs / folder, minutes=minutes, **options)
        print(f"{folder}: {done.epoch} of {done.config.epochs} epochs, {_accuracy(done):.2%} on validation")

    return Step(name, f"train {folder}", work, most)


def _finished(folder: Path, least: float = 0.0) -> RunResult:
    """The run of an earlier step: what goes on from it may not change under its feet."""
    try:
        done = load_run(folder)
    except RecordError:
        raise NotYetError(f"{folder} is not begun yet") from None
    if not done.finished:
        raise NotYetError(f"{folder} is not finished yet")
    if _accuracy(done) < least:
        raise NotYetError(
            f"{folder} tells {_accuracy(done):.1%} on validation, and {least:.0%} is the least that is worth going on "
            "from: give it more epochs in the plan, and remove the folder"
        )
    return done


def _accuracy(done: RunResult) -> float:
    """The best on validation so far."""
    return done.metrics.get("val", {}).get("accuracy", 0.0)


def easier(layer: str, folder: str, *, epochs: int, **pictures: Any) -> RunConfig:
    """The preset of Pathfinder on easier pictures, at a constant rate; as docs/howto/start-from.md has it."""
    config = preset(f"lra-pathfinder-{layer}")
    return config.replace(
        name=folder,
        epochs=epochs,
        precision="bf16",
        schedule=config.schedule.replace(name="constant", warmup_epochs=0.5),
        data=config.data.replace(options={"source": "generated", **pictures}),
    )


def padded(name: str, epochs: int) -> RunConfig:
    """A preset whose batch norm counts padding, as published code does, cut short as ``--epochs`` does."""
    config = shortened(preset(name), epochs)
    return config.replace(model={**config.model, "norm_padding": True}, precision="bf16", seed=0)


def pathfinder(layer: str, epochs: int) -> list[Step]:
    """Easier pictures first, then the preset with its schedule cut to these epochs."""
    names = [f"pathfinder-{layer}-{level}" for level in ("alone", "easy", "medium")]
    pictures: list[dict[str, Any]] = [
        {"epochs": 8, "level": "easy", "count": 50000, "distractors": 0},
        {"epochs": 4, "level": "easy", "count": 100000},
        {"epochs": 4, "level": "medium", "count": 100000},
    ]
    step = f"pathfinder-{layer}"
    stages = [
        single(step, name, easier(layer, name, **options), after=after, most=5)
        for name, after, options in zip(names, (None, *names), pictures, strict=False)
    ]
    return [*stages, lra(step, f"lra-pathfinder-{layer}", epochs=epochs, seeds=(0,), start=names[-1])]


def lra(name: str, preset_name: str, **options: Any) -> Step:
    """One line of the table."""
    return full(name, "lra", only=(preset_name,), precision="bf16", **options)


PLAN = (
    *pathfinder("s5ptd", 40),
    single("text", "lra-text-s4ptd-padding-seed0", padded("lra-text-s4ptd", 40)),
    lra("text", "lra-text-s4ptd", epochs=40, seeds=(0,)),
    full("robustness", "robustness", most=12, at_once=3),
    full("ablation", "ablation", epochs=12, precision="bf16", at_once=3),
    single("listops", "lra-listops-s5ptd-padding-seed0", padded("lra-listops-s5ptd", 35)),
    lra("image", "lra-image-s5ptd", epochs=80, seeds=(0,)),
    lra("listops", "lra-listops-s4ptd", epochs=40, seeds=(0,)),
    lra("image", "lra-image-s4ptd", epochs=300, seeds=(0,)),
    *pathfinder("s4ptd", 30),
    lra("seeds", "lra-text-s5ptd", seeds=(0, 1, 2)),
    lra("pathx", "lra-pathx-s5ptd", epochs=10, seeds=(0,)),
    full("certificates", "certificates"),
)
"""Epochs are fewer than the paper's where those take hours, schedules shrink with them, and rows of records say so."""


def work(steps: list[Step], now: Slice) -> bool:
    """One step after the other, until the time is up; whether anything could be done."""
    done = 0
    for step in steps:
        minutes = now.minutes(step.most)
        if minutes < LEAST_MINUTES:
            print(f"the time is up before {step.name}, {step.about}")
            return True
        print(f"{step.name}, {step.about}: {minutes:.1f} minutes at most", flush=True)
        try:
            step.work(now, minutes)
            done += 1
        except WellposedError as error:  # data that are not there, as a rule: the others need not wait for them
            print(f"{step.name} is left: {error}")
    return done > 0


def main() -> None:
    """Show the plan, or go on with it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = list(dict.fromkeys(step.name for step in PLAN))
    parser.add_argument("steps", nargs="*", metavar="STEP", help=f"some of {', '.join(names)}; all without it")
    parser.add_argument("--runs", type=Path, help="where the runs go")
    parser.add_argument("--data", type=Path, help="the data folder")
    parser.add_argument(
        "--records", type=Path, default=Path("results"), help="folder of the records (default: results)"
    )
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--tiny", action="store_true", help="make everything small, to try the plan")
    options = parser.parse_args()
    if unknown := [name for name in options.steps if name not in names]:
        parser.error(f"{unknown[0]} is no step of the plan: {', '.join(names)}")
    if not options.minutes > 0:
        parser.error(f"--minutes {options.minutes} leaves no time: it is a number above 0")
    steps = [step for step in PLAN if not options.steps or step.name in options.steps]
    try:
        if options.runs is None:
            print("\n".join(f"{step.name:18} {step.about}" for step in steps))
        else:
            _go_on(steps, options)
    except BrokenPipeError:
        raise SystemExit(1) from None
    except (WellposedError, OSError) as error:
        raise SystemExit(f"campaign: {error}") from None
    except KeyboardInterrupt:
        raise SystemExit("campaign: stopped; the same command goes on") from None


def _go_on(steps: list[Step], options: argparse.Namespace) -> None:
    check_machine(options.device)  # what is wrong with the call is no reason to try every step
    make_folder(check_folder(options.runs))
    make_folder(check_folder(options.records))
    end = time.monotonic() + 60 * options.minutes
    if not work(steps, Slice(options.runs, options.data, options.records, end, options.device, options.tiny)):
        raise SystemExit("campaign: no step could be worked on")


if __name__ == "__main__":
    main()
