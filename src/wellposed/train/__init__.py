"""Training: a config, a run that survives anything, and what it leaves."""

from wellposed.train._config import DataConfig, EvaluationConfig, OptimizerConfig, RunConfig, ScheduleConfig
from wellposed.train._evaluate import evaluate
from wellposed.train._grid import grid
from wellposed.train._overrides import override_names, with_overrides
from wellposed.train._result import RunResult, list_runs, load_run
from wellposed.train._run import run
from wellposed.train._summary import summarize
from wellposed.train._sweep import sweep
from wellposed.train._sweep_result import SweepResult, list_sweeps, load_sweep

__all__ = [
    "DataConfig",
    "EvaluationConfig",
    "OptimizerConfig",
    "RunConfig",
    "RunResult",
    "ScheduleConfig",
    "SweepResult",
    "evaluate",
    "grid",
    "list_runs",
    "list_sweeps",
    "load_run",
    "load_sweep",
    "override_names",
    "run",
    "summarize",
    "sweep",
    "with_overrides",
]
