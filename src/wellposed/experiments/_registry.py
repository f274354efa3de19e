"""From a name on the command line to an experiment and its record."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

from wellposed.errors import UnknownNameError
from wellposed.experiments._experiment import Experiment
from wellposed.records import Record, provenance

T = TypeVar("T")
Track = Callable[[Iterable[T]], Iterable[T]]

NAMES = (
    "transfer-function",
    "cosine-response",
    "decay-convergence",
    "impulse-divergence",
    "resolvent-bound",
    "pseudospectrum",
    "transfer-perturbation",
    "gamma-tables",
    "condition-vs-size",
    "pareto",
    "default-perturbation",
)
"""The experiments, in the order of the paper."""


def get(name: str) -> Experiment:
    """The experiment called ``name``; a file ``experiments/a_b.py`` holds the experiment ``a-b``."""
    if name not in NAMES:
        raise UnknownNameError("experiment", name, NAMES)
    return importlib.import_module(f"wellposed.experiments.{name.replace('-', '_')}").EXPERIMENT


def run(name: str, *, track: Track = lambda steps: steps) -> Record:
    """Run one experiment; ``track`` wraps its steps, for a progress bar."""
    experiment = get(name)
    start = time.perf_counter()
    # The seed that is recorded is the one that is used.
    result = experiment.run(track) if experiment.seed is None else experiment.run(track, experiment.seed)
    seconds = time.perf_counter() - start
    return Record(
        experiment=name,
        title=experiment.title,
        source=experiment.source,
        paper=experiment.paper,
        finding=result.finding,
        claims=result.claims,
        data=result.data,
        provenance=provenance(f"wellposed reproduce {name}", seconds, experiment.seed),
    )
