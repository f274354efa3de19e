"""What the commands that train share: ``wellposed train`` and ``python -m wellposed.train``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from wellposed.errors import ArgumentError
from wellposed.presets._describe import describe, fields_of
from wellposed.presets._table import PRESETS, preset
from wellposed.train import RunConfig, RunResult, SweepResult, grid, with_overrides
from wellposed.train._progress import duration

__all__ = [
    "configured",
    "describe",
    "describe_sweep",
    "duration",
    "fields_of",
    "listing",
    "outcome",
    "run_folder",
    "shown",
    "sweep_folder",
    "sweep_outcome",
    "swept",
]

RUNS = Path("runs")
"""Where runs lie unless their place is given."""


def configured(name: str, settings: Iterable[str]) -> RunConfig:
    """The preset of a name with ``key=value`` settings; the last one counts where a key comes twice.

    >>> configured("scifar-s4d", ["optimizer.lr=0.003"]).optimizer.lr
    0.003
    """
    return with_overrides(preset(name), dict(map(_split, settings)))


def _split(setting: str) -> tuple[str, str]:
    key, equals, value = setting.partition("=")
    if not key or not equals:
        raise ArgumentError(f"a setting is written KEY=VALUE, such as optimizer.lr=0.003, got {setting!r}")
    return key, value


def swept(name: str, settings: Iterable[str], over: Iterable[str]) -> dict[str, RunConfig]:
    """Every combination of values of ``key=value,value,...``, by names; brackets hold values with commas together.

    >>> list(swept("scifar-s4d", ["epochs=3"], ["optimizer.betas=(0.9,0.99),(0.9,0.999)", "seed=0,1"]))[:2]
    ['betas=0.9+0.99,seed=0', 'betas=0.9+0.99,seed=1']
    """
    values = {}
    for key, text in map(_split, over):
        if key in values:
            raise ArgumentError(f"--over {key} comes twice: give all its values at once, {key}=VALUE,VALUE")
        values[key] = re.split(r",(?![^(\[]*[)\]])", text)
    if not values:
        raise ArgumentError("a sweep goes over something: --over optimizer.lr=0.001,0.01, for example")
    return grid(configured(name, settings), values)


def sweep_folder(name: str | None, preset: str) -> Path:
    """As ``run_folder``; ``runs/sweep-PRESET`` where no name is given."""
    return run_folder(name) or RUNS / f"sweep-{preset}"


def describe_sweep(configs: Mapping[str, RunConfig]) -> list[str]:
    """The runs by name, and one of them field by field."""
    return [f"{len(configs)} runs", *(f"  {name}" for name in configs), "", *describe(next(iter(configs.values())))]


def sweep_outcome(result: SweepResult) -> Iterator[str]:
    """What to say of a sweep when its slice of time is over."""
    done = sum(run.finished for run in result.values())
    failed = f", {len(result.failed)} failed" if result.failed else ""
    left = f", {len(result.left)} left; the same command goes on with them" if result.left else ""
    yield f"{result.folder}: {done} finished{failed}{left}"


def run_folder(name: str | None) -> Path | None:
    """``runs/NAME`` for a name, or the folder itself where it is a path; ``None`` leaves it to the run.

    >>> [str(run_folder(name)) for name in ("mine", "./mine", "/data/mine", "..")]
    ['runs/mine', 'mine', '/data/mine', '..']
    """
    if name is None:
        return None
    if not name:
        raise ArgumentError("a run needs a name, and '' is none: --run mine, or leave it out")
    return Path(name) if name == ".." or Path(name).name != name else RUNS / name


def listing() -> Iterator[str]:
    """Names of the presets, and the first sentence of what they are."""
    for name, one in PRESETS.items():
        yield f"{name:28} {one.about.splitlines()[0]}"
    yield ""
    yield "With 'tiny-' before its name each trains in seconds on a CPU."


def outcome(result: RunResult) -> Iterator[str]:
    """What to say of a run when its slice of time is over; by the first process where there are several."""
    if any(os.environ.get(rank, "0") != "0" for rank in ("RANK", "LOCAL_RANK", "NODE_RANK")):
        return
    best = ", ".join(f"{split} {_numbers(found)}" for split, found in result.metrics.items() if split != "train")
    state = "finished" if result.finished else "stopped; the same command goes on with it"
    yield f"{result.folder}: {state} after {result.epoch} of {result.config.epochs} epochs, {duration(result.seconds)}"
    if result.best_epoch is not None:
        yield f"  best epoch {result.best_epoch}: {best}"
    if result.test_metrics:
        yield f"  test: {_numbers(result.test_metrics)}"
    if (result.folder / "summary.html").exists():
        yield f"  summary: {result.folder / 'summary.html'}"


def _numbers(metrics: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {shown(name, value)}" for name, value in metrics.items())


def shown(name: str, value: float) -> str:
    """A metric to the digits that mean something."""
    return f"{value:.2%}" if name == "accuracy" else f"{value:.4g}"
