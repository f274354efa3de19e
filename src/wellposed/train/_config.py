"""Everything a run depends on, in frozen dataclasses that Python, presets and the command line all speak."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from wellposed import data as _data
from wellposed.errors import ArgumentError
from wellposed.train._config_base import Config, at_least
from wellposed.train._model_fields import check_model

ScheduleName = Literal["cosine", "plateau", "constant", "rsqrt"]
Precision = Literal["float32", "tf32", "bf16"]
Selection = Literal["val", "test"]


@dataclass(frozen=True, kw_only=True)
class DataConfig(Config):
    """Which sequences, and how they are put into batches."""

    task: str
    """A name of ``wellposed.data.TASKS``, or your own where ``run`` is given the data sets."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of the task, such as ``{"colour": "grey"}``."""
    normalize: tuple[float | int, float | int] | None = None
    """Mean and deviation of pixels between 0 and 1, in place of the task's: ``(0.5, 0.5)`` makes -1 to 1 of them."""
    batch_size: int = 64
    """Sequences a step, of all processes together."""
    eval_batch_size: int | None = None
    """Where nothing is learnt; the same unless given."""
    bucket: bool | None = None
    """Sequences of similar length together, which saves padding; unless given where the model has no batch norm, as
    statistics of one length are not those of all."""
    multiple: int = 1
    """Padded lengths are rounded up to it: fewer lengths to compile or to record for."""
    drop_last: bool = True
    """Whether the remainder of an epoch, which fills no batch, is left out (another one each epoch)."""

    def _check(self) -> None:
        if not self.task:
            raise ArgumentError(f"data.task is empty: name a task ({', '.join(_data.TASKS)}) or your own data")
        at_least("data", self, batch_size=1, eval_batch_size=1, multiple=1)
        if self.normalize is not None and not self.normalize[1] > 0:
            raise ArgumentError(f"data.normalize is a mean and a deviation above 0, got {self.normalize}")
        if self.task in _data.TASKS:
            _data.task(self.task, **self.options)  # which knows its options


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig(Config):
    """AdamW over ``wellposed.nn.parameter_groups``."""

    lr: float | int = 0.004
    """Of all that is not a state-space parameter, after the warm-up."""
    ssm_lr: float | int | None = None
    """Of the state-space parameters; unless given ``lr``, but at most 0.001."""
    ssm: tuple[str, ...] | None = None
    """Names of the state-space parameters that learn at ``ssm_lr``; those the layers name, unless given."""
    frozen: tuple[str, ...] = ()
    """Parameters that do not learn."""
    weight_decay: float | int = 0.05
    decay: Literal["weights", "all"] = "weights"
    """What decays: ``"weights"``, neither norms nor biases nor skips, or ``"all"`` but the state-space parameters."""
    betas: tuple[float | int, float | int] = (0.9, 0.999)
    clip: float | int | None = None
    """Largest norm of all gradients together."""

    def _check(self) -> None:
        at_least("optimizer", self, lr=0, ssm_lr=0, weight_decay=0)
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ArgumentError(f"optimizer.betas are from 0 to below 1, got {self.betas}")
        if self.clip is not None and not self.clip > 0:
            raise ArgumentError(f"optimizer.clip is a norm above 0, got {self.clip}; leave it out not to clip")


@dataclass(frozen=True, kw_only=True)
class ScheduleConfig(Config):
    """How learning rates go over the steps; all groups by the same factor."""

    name: ScheduleName = "cosine"
    """``"cosine"`` to ``floor`` at the last step, ``"plateau"`` (less when validation stalls), ``"constant"``, or
    ``"rsqrt"``: after the warm-up by the square root of the steps, as Transformers are trained."""
    warmup_epochs: float | int = 1.0
    """From zero up to the full rate, step by step."""
    warmup_steps: int | None = None
    """The same in steps, which goes first where given."""
    steps: int | None = None
    """The length of the cosine where it is not that of the run; beyond it the rate stays at the floor."""
    floor: float | int = 0.0
    """The last rate as a share of the full one."""
    factor: float | int = 0.2
    """Of plateau: what rates are multiplied by ..."""
    patience: int = 10
    """... after so many evaluations without a better one."""

    def _check(self) -> None:
        at_least("schedule", self, warmup_epochs=0, warmup_steps=0, steps=1, patience=0)
        if not 0 <= self.floor <= 1:
            raise ArgumentError(f"schedule.floor is a share of the full rate, from 0 to 1, got {self.floor}")
        if not 0 < self.factor < 1:
            raise ArgumentError(f"schedule.factor makes rates smaller: between 0 and 1, got {self.factor}")


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig(Config):
    """What is measured when, and by what the best epoch is chosen."""

    every: int = 1
    """Epochs between evaluations on the validation split."""
    test_every: int | None = None
    """Epochs between evaluations on the test split; ``None``: only at the end, of the best epoch."""
    select_on: Selection = "val"
    """The split whose result chooses the best epoch, of equals that of the least loss. ``"test"`` is what some
    publications did: the record says so."""
    patience: int | None = None
    """Stop after so many evaluations without a better one."""
    settle: int = 0
    """Batches of training data from which statistics of batch norm are taken anew before each evaluation, for the
    weights that are evaluated; 0: as training has left them, an average over steps in which weights were others."""
    keep: tuple[int, ...] = ()
    """Epochs, counted from 1, whose weights stay in ``epochs/``: to measure later what nobody measured then."""

    def _check(self) -> None:
        at_least("evaluation", self, every=1, test_every=1, patience=1, settle=0)
        if any(epoch < 1 for epoch in self.keep):
            raise ArgumentError(f"evaluation.keep counts epochs from 1, got {self.keep}")


@dataclass(frozen=True, kw_only=True)
class RunConfig(Config):
    """One training run.

    >>> config = RunConfig(data=DataConfig(task="sinusoids"), model={"layer": "s4d", "d_model": 16}, epochs=2)
    >>> config.optimizer.lr
    0.004
    """

    data: DataConfig
    model: Mapping[str, Any] = field(default_factory=dict)
    """Fields of ``wellposed.nn.ModelConfig``; what the data decides (inputs, classes, tokens) is left out."""
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    epochs: int = 20
    seed: int = 0
    """Of weights, order and dropout."""
    start: str | None = None
    """A run, a saved model, or one that travels with the library: whose weights training begins with.

    Drawn ones unless given.
    """
    start_except: tuple[str, ...] = ()
    """Parts of the model that are drawn all the same, such as ``("head",)`` where the classes are others."""
    precision: Precision = "tf32"
    """Of matrix products; ``"bf16"`` is autocast. On a CPU both of the others are float32."""
    label_smoothing: float | int = 0.0
    ema: float | int | None = None
    """Decay a step of an average of the weights, which is then what is evaluated and published."""
    graph: bool = True
    """Whether a training step is recorded once and replayed, where there is one GPU."""
    compile: bool = False
    """Whether the model goes through ``torch.compile``."""
    checkpoint_minutes: float | int = 5.0
    """Between checkpoints inside an epoch; each epoch ends with one besides, unless that would be within a tenth."""
    name: str = ""
    """Of the preset, or your own: a run's folder is called so unless you say where it goes."""
    note: str = ""
    """Printed in records and lists: where it differs from its paper, for example."""

    @property
    def buckets(self) -> bool:
        """Whether sequences of similar length are put together, should lengths differ."""
        # A model that is normalised over sequences of one length learns to rely on it, and is evaluated over all.
        return self.model.get("norm") != "batch" if self.data.bucket is None else self.data.bucket

    def _check(self) -> None:
        at_least("", self, epochs=1, seed=0, checkpoint_minutes=0)
        if not 0 <= self.label_smoothing < 1:
            raise ArgumentError(f"label_smoothing is a share from 0 to below 1, got {self.label_smoothing}")
        if self.start_except and self.start is None:
            raise ArgumentError(f"start_except = {self.start_except} is of weights to start from: give start, too")
        if self.ema is not None and not 0 < self.ema < 1:
            raise ArgumentError(f"ema is a decay between 0 and 1, such as 0.999, got {self.ema}; leave it out for none")
        if self.name.startswith(".") or any(c in "/\\" or not c.isprintable() for c in self.name):
            raise ArgumentError(
                f"name = {self.name!r} is to be a folder's: letters without '/' or '\\', and not hidden by a '.'"
            )
        check_model(self.model)
