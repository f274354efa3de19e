"""Training: a config, a run that survives anything, and what it leaves."""

from wellposed.train._config import DataConfig, EvaluationConfig, OptimizerConfig, RunConfig, ScheduleConfig

__all__ = ["DataConfig", "EvaluationConfig", "OptimizerConfig", "RunConfig", "ScheduleConfig"]
