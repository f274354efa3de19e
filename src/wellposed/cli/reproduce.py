"""``wellposed reproduce``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from wellposed._files import check_folder, make_folder
from wellposed.cli._arguments import Folder, Number
from wellposed.cli._progress import track_steps
from wellposed.cli._verdicts import show_verdicts
from wellposed.cli._words import keeping
from wellposed.errors import ArgumentError


def reproduce(
    names: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[NAME ...]")] = (),
    out: Path = Path("report"),
    records: Folder = None,
    full: bool = False,
    runs: Folder = None,
    data: Folder = None,
    minutes: Number = None,
    device: str = "auto",
    seeds: tuple[int, ...] = (),
    epochs: int | None = None,
    precision: Literal["float32", "tf32", "bf16"] | None = None,
    start: str | None = None,
    only: tuple[str, ...] = (),
    at_once: int = 1,
    tiny: bool = False,
    slim: bool = False,
) -> None:
    """Run the paper's experiments, compare with the paper, and write the report.

    Args:
        names: Experiments to run; if none is named all of them, without what takes minutes. 'wellposed list' shows
            their names.
        out: Folder for index.html and, in records/, one JSON file an experiment.
        records: Another folder for the records. With --full, what a record there tells of runs stays, and is not done
            again.
        full: Train the models of the experiments named, at full size; best on a GPU. Their records end in -full.
        runs: With --full, the folder that keeps the models; what is finished there is not trained again.
        data: With --full, the data folder; $WELLPOSED_DATA or ~/.cache/wellposed/data if not given.
        minutes: With --full, stop after so long; the same command goes on from there.
        device: With --full, auto, cpu or cuda.
        seeds: With --full, seeds of the runs; those of the experiment if not given.
        epochs: With --full, cut longer runs short, their schedules too but for warm-ups; names of these runs say so.
        precision: With --full, another one than that of the presets; names of these runs say so.
        start: With --full, begin with the weights of this run or saved model; names of these runs say so.
        only: With --full, presets: no others are trained now.
        at_once: With --full, how many models to train side by side, each in a process of its own.
        tiny: With --full, make everything small, to try the program.
        slim: With --full, keep only what going on needs: a tenth of the space.
    """
    from wellposed.experiments import NAMES, get, run, run_full
    from wellposed.experiments._registry import check_full
    from wellposed.records import save_record
    from wellposed.report import read_records

    for name in names:
        get(name)  # an unknown name is found before anything runs
    if full and len(names) != 1:
        raise ArgumentError(
            f"--full trains for long, and {len(names)} experiments are named: name the experiment, one, as in "
            "'wellposed reproduce robustness --full --runs DIR'"
        )
    if full:
        check_full(names[0], runs)
    check_folder(records or out)  # as is a folder that cannot be made
    make_folder(out)
    folder = make_folder(records or out / "records")
    options: dict[str, Any] = {"runs": runs, "data": data, "minutes": minutes, "device": device}
    options |= {"seeds": seeds or None, "epochs": epochs, "precision": precision, "only": only, "records": folder}
    options |= {"start": start, "at_once": at_once, "tiny": tiny, "slim": slim}
    done: list[str] = []
    with keeping(lambda: _kept_runs(names[0], folder, runs) if full else _kept(done, folder)):
        for name in names or NAMES:
            if full:
                run_full(name, say=print, **options)
            else:
                save_record(run(name, track=track_steps(name), brief=not names), folder)
            done.append(name)
    print(f"report: {show_verdicts(read_records(folder), out)}")


def _kept_runs(name: str, folder: Path, runs: Path | None) -> str:
    """What an interruption of a full form leaves on disk."""
    from wellposed.experiments._registry import told

    return f"what was trained is in {runs}, {told(folder, name)}; the same command goes on from there"


def _kept(done: list[str], folder: Path) -> str:
    """What an interruption leaves on disk."""
    if not done:
        return "no record was written"
    return f"kept in {folder}: {', '.join(done)}; 'wellposed report --records {folder}' draws them"
