"""``wellposed runs``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from wellposed.train import RunResult


def runs(
    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="[FOLDER]")] = Path("runs"),
    compare: bool = False,
) -> None:
    """List the runs in a folder, by task and the best first, or compare their configs.

    Args:
        folder: Where they lie; or the name of a sweep in runs/, whose runs are listed in its own order.
        compare: Show every field in which their configs differ.
    """
    from wellposed.presets.command import RUNS
    from wellposed.train import list_sweeps, load_sweep
    from wellposed.train._result import runs_and_problems
    from wellposed.train._sweep_result import is_sweep

    if not folder.exists() and folder.name == str(folder) and (RUNS / folder).exists():
        folder = RUNS / folder
    if is_sweep(folder):
        sweep = load_sweep(folder)
        _print(sweep.rows())
        found, problems, sweeps = list(sweep.values()), [], []
    else:
        (found, problems), sweeps = runs_and_problems(folder), list_sweeps(folder)
        found.sort(key=_order)
        if found:
            _print([_HEAD, *map(_row, found)])
    for problem in problems:
        print(f"not listed: {problem}")
    if not found and not problems and not sweeps:
        print(f"no runs in {folder}: 'wellposed train PRESET' makes one")
        return
    for sweep in sweeps:
        done = sum(run.finished for run in sweep.values())
        print(f"{sweep.folder.name}: a sweep, {done} finished, {len(sweep.left)} left")
    if compare and found:
        print()
        _print(_differences(found))


_HEAD = ["run", "task", "epochs", "best", "val", "test", "time", ""]


def _order(run: RunResult) -> tuple[str, float]:
    best = run.metrics.get(run.config.evaluation.select_on, {})
    return run.config.data.task, -best["accuracy"] if "accuracy" in best else best.get("loss", float("inf"))


def _row(run: RunResult) -> list[str]:
    from wellposed.presets.command import duration
    from wellposed.train._sweep_result import score

    chosen = "" if run.config.evaluation.select_on == "val" else "chosen on test"
    return [
        run.folder.name,
        run.config.data.task,
        f"{run.epoch}/{run.config.epochs}",
        "-" if run.best_epoch is None else str(run.best_epoch),
        score(run.metrics.get("val", {})),
        score(run.test_metrics),
        duration(run.seconds),
        ", ".join(filter(None, ("" if run.finished else "to be continued", chosen))),
    ]


def _differences(found: list[RunResult]) -> list[list[str]]:
    """A row for every field that is not the same in all configs, a column for every run."""
    from wellposed.presets.command import fields_of

    configs = [dict(fields_of(run.config)) for run in found]
    names = dict.fromkeys(name for config in configs for name in config if name not in ("name", "note"))
    rows = [[name, *(config.get(name, "-") for config in configs)] for name in names]
    other = [row for row in rows if len(set(row[1:])) > 1]
    return [["differs in", *(run.folder.name for run in found)], *other] if other else [["nothing differs"]]


def _print(rows: list[list[str]]) -> None:
    """A table on a terminal, elsewhere plain columns that are never cut."""
    console = Console()
    if console.is_terminal:
        table = Table(*rows[0], box=None, pad_edge=False)
        for row in rows[1:]:
            table.add_row(*row)
        console.print(table)
        return
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
