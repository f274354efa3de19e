"""Training: a config, a run that survives anything, and what it leaves."""

from wellposed.train._config import DataConfig, EvaluationConfig, OptimizerConfig, RunConfig, ScheduleConfig
from wellposed.train._overrides import with_overrides

__all__ = ["DataConfig", "EvaluationConfig", "OptimizerConfig", "RunConfig", "ScheduleConfig", "with_overrides"]
