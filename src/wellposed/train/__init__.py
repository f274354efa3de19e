"""Training: a config, a run that survives anything, and what it leaves."""

from wellposed.train._config import DataConfig, EvaluationConfig, OptimizerConfig, RunConfig, ScheduleConfig
from wellposed.train._evaluate import evaluate
from wellposed.train._overrides import override_names, with_overrides
from wellposed.train._result import RunResult, list_runs, load_run
from wellposed.train._run import run
from wellposed.train._summary import summarize

__all__ = [
    "DataConfig",
    "EvaluationConfig",
    "OptimizerConfig",
    "RunConfig",
    "RunResult",
    "ScheduleConfig",
    "evaluate",
    "list_runs",
    "load_run",
    "override_names",
    "run",
    "summarize",
    "with_overrides",
]
