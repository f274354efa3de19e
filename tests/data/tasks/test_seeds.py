"""Seeds of tasks are checked as all seeds of the library are, without the tests' run-time checks of types."""

from __future__ import annotations

from subprocesses import run_python


def test_every_seed_is_checked_in_one_way():
    run_python("""
from dataclasses import dataclass
from typing import ClassVar
import numpy as np
from wellposed.data import ListOps, Pathfinder, PathX, PeerRead, Sinusoids, Task, held_out
from wellposed.data.tasks._pathfinder import PATHFINDER32, generate
from wellposed.errors import ArgumentError

@dataclass(frozen=True)
class Own(Task):
    name: ClassVar[str] = "own"
    seed: int = 0
    def build(self, out):
        raise NotImplementedError

tasks = (ListOps, Pathfinder, PathX, PeerRead, Sinusoids, Own)
others = (lambda seed: held_out(10, 0.2, seed=seed), lambda seed: generate(1, PATHFINDER32, seed))
for make in (*tasks, *others):
    for wrong in (-1, 2**63, True, 1.5, "1"):
        try:
            make(seed=wrong)
        except ArgumentError as error:
            assert f"seed must be a whole number from 0 to 2^63 - 1, got {wrong!r}" == str(error), error
        else:
            raise AssertionError((make, wrong))
for task in tasks:
    assert type(task(seed=np.int64(3)).seed) is int
    assert task(seed=np.int64(3)).key == task(seed=3).key != task(seed=2**63 - 1).key
assert held_out(10, 0.2, seed=np.int64(3)) == held_out(10, 0.2, seed=3)
""")
