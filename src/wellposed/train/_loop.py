"""The loop: steps, now and then a look at what they did, an evaluation an epoch, checkpoints, and the end."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from wellposed.errors import NotFiniteError, RecordError
from wellposed.train._checkpoint import Checkpoint, to_bytes, write_checkpoint
from wellposed.train._logs import Metrics
from wellposed.train._nonfinite import first_not_finite
from wellposed.train._progress import Silence, describe
from wellposed.train._schedule import factor, factors, warmup_steps
from wellposed.train._session import Session
from wellposed.train._settle import settle
from wellposed.train._state import checkpoint_of, whole
from wellposed.train._step import Reading, evaluating
from wellposed.train._stop import Stop

LOG_EVERY = 50
"""Steps between rows of the metrics. Each waits for the device once: at 2 ms a step that is a thousandth."""
_LOOK_SECONDS = 0.5
"""Between looks at what slow steps are doing."""


class Loop:
    """Runs a session until it is done, its time is up, or it is asked to stop."""

    def __init__(
        self, session: Session, folder: Path, metrics: Metrics | None, show: Silence, stop: Stop | None = None
    ) -> None:
        self._stop = Stop() if stop is None else stop
        self.session, self.course, self.config = session, session.course, session.config
        self._folder, self._metrics, self._show = folder, metrics, show
        self._total = self.config.epochs * session.steps_an_epoch
        self._warmup = warmup_steps(self.config.schedule, session.steps_an_epoch)
        self._clock = self._saved = self._looked = self._logged = time.monotonic()
        self._last: Reading | None = None
        self.on_best: Callable[[], object] = lambda: None
        """Called after a checkpoint that holds a better model than the one before it."""
        self.on_kept: Callable[[int], object] = lambda epoch: None
        """Called after an epoch that is to be kept, with the weights it is judged by."""
        self._better = False

    def run(self, deadline: float | None) -> bool:
        """All epochs, or as many as there is time for; whether they are all done."""
        while self.course.epoch < self.config.epochs and not self.course.stopped:
            if not self._epoch(deadline):
                return False
            done = self.course.epoch == self.config.epochs or bool(self.course.stopped)
            time_is_up = not done and self._is_over(deadline)
            if done or time_is_up or self._is_time(self.config.checkpoint_minutes / 10):
                self.save()
            if time_is_up:
                return False
        return True

    # --- an epoch

    def _epoch(self, deadline: float | None) -> bool:
        session, course = self.session, self.course
        per_epoch, number = session.steps_an_epoch, course.epoch
        done = course.step - number * per_epoch
        self._show.begin(number + 1, self.config.epochs, per_epoch, done)
        self._last = None if done else Reading((0.0,) * (1 + len(session.objective.names)), False)
        self._looked = self._logged = time.monotonic()
        for size in session.source.steps(self._factors(number * per_epoch, per_epoch)):
            course.step, done = course.step + 1, done + 1
            session.tally.count += size
            if course.step % LOG_EVERY == 0:
                self._log(done)
            elif session.alone and time.monotonic() - self._looked > _LOOK_SECONDS:
                self._look(done)
            if done < per_epoch and self._interrupted(deadline):
                return False
        self._end_epoch()
        return True

    def _factors(self, first: int, count: int) -> Any:
        table = factors(first, count, self.config.schedule, self._total, self._warmup)
        return table * table.dtype.type(self.course.plateau.scale)

    def _interrupted(self, deadline: float | None) -> bool:
        """Whether the time is up; then, and where it is time for one, there is a checkpoint."""
        # Processes must agree, and asking takes them time.
        if not self.session.alone and self.course.step % LOG_EVERY:
            return False
        time_is_up = self._is_over(deadline)
        if time_is_up or self._is_time(self.config.checkpoint_minutes):
            self.save()  # here, as the order knows where it is only as long as its loop is not left
        return time_is_up

    def _is_over(self, deadline: float | None) -> bool:
        return self._agreed(bool(self._stop) or _passed(deadline))

    def _is_time(self, minutes: float | int) -> bool:
        return self._agreed(time.monotonic() - self._saved >= 60 * minutes)

    def _agreed(self, answer: bool) -> bool:
        """What the first process says."""
        return answer if self.session.alone else self.session.fabric.broadcast(answer)

    # --- looking

    def _read(self) -> Reading:
        reading = self.session.tally.read(self.session.fabric)
        self._looked = time.monotonic()
        if reading.broken or not all(map(math.isfinite, reading.sums)):
            self._refuse()
        return reading

    def _look(self, done: int) -> Reading:
        before, then = self._last, self._looked
        reading = self._read()
        if before is not None:
            seen, seconds = reading.since(before.sums), max(self._looked - then, 1e-9)
            self._show.step(done, self.session.objective.metrics(seen), seen[0] / seconds)
        self._last = reading
        return reading

    def _log(self, done: int) -> None:
        """A row on the steps since the last one."""
        reading = self._look(done)
        before = self.course.logged or [0.0] * len(reading.sums)
        seen = reading.since(before)
        self.course.logged = list(reading.sums)
        rate, self._logged = seen[0] / max(self._looked - self._logged, 1e-9), self._looked
        self._row("step", {"train": self.session.objective.metrics(seen)}, samples_per_second=rate)

    def _row(self, kind: str, splits: dict[str, dict[str, float]], **more: float) -> None:
        course, schedule = self.course, self.config.schedule
        if self._metrics is None:
            return
        named = {f"{split}_{name}": value for split, some in splits.items() for name, value in some.items()}
        share = factor(max(course.step - 1, 0), schedule, self._total, self._warmup) * course.plateau.scale
        self._metrics.add(
            {"kind": kind, "step": course.step, "epoch": course.epoch + (kind == "step")}
            | named
            | {"lr": self.config.optimizer.lr * share, **more, "seconds": round(self._seconds(), 2)}
        )

    def _seconds(self) -> float:
        return self.course.seconds + time.monotonic() - self._clock

    # --- the end of an epoch

    def _end_epoch(self) -> None:
        course, evaluation, session = self.course, self.config.evaluation, self.session
        trained = session.objective.metrics(self._read().sums)
        course.epoch += 1
        last = course.epoch == self.config.epochs
        splits = {"train": trained}
        with evaluating(session.model, session.average):
            due = self._due(last)
            if evaluation.settle and (due or course.epoch in evaluation.keep):
                settle(session.model, session.source.some(course.epoch, evaluation.settle), session.fabric)
            for split in due:
                splits[split] = session.evaluators[split]()
            if evaluation.select_on in splits:
                self._judge(splits)
            if course.epoch in evaluation.keep:
                self.on_kept(course.epoch)
        session.tally.clear()
        course.logged = []
        self._row("epoch", splits)
        words = "  ".join(f"{split} {describe(found)}" for split, found in splits.items())
        best = "  best" if course.best_epoch == course.epoch else ""
        self._show.say(f"epoch {course.epoch}/{self.config.epochs}  {words}  {self._seconds():.0f} s{best}")

    def _due(self, last: bool) -> list[str]:
        """The splits that are evaluated after this epoch."""
        evaluation, epoch = self.config.evaluation, self.course.epoch
        due = {"val": last or epoch % evaluation.every == 0}
        due["test"] = evaluation.test_every is not None and epoch % evaluation.test_every == 0
        due[evaluation.select_on] |= due["val"]
        return [split for split, wanted in due.items() if wanted and split in self.session.evaluators]

    def _judge(self, splits: dict[str, dict[str, float]]) -> None:
        session, course = self.session, self.course
        score = session.objective.score(splits[self.config.evaluation.select_on])
        if self.config.schedule.name == "plateau":
            course.plateau = course.plateau.after(score, self.config.schedule)
        if course.evaluated(score, splits, self.config.evaluation):
            session.best = {name: t.detach().clone() for name, t in whole(session.net.state_dict()).items()}
            self._better = True

    # --- keeping

    def save(self) -> None:
        """A checkpoint, after all that has been begun on the device."""
        self.course.seconds, self._clock = self._seconds(), time.monotonic()
        checkpoint = checkpoint_of(self.session)
        self._write(lambda: write_checkpoint(self._folder / "checkpoints", checkpoint))
        self._saved = time.monotonic()
        if self._better and self.session.fabric.is_global_zero:
            self.on_best()
        self._better = False

    def _write(self, write: Callable[[], int]) -> None:
        """By the first process; where it cannot, all stop, rather than wait for it."""
        fabric, problem = self.session.fabric, None
        if fabric.is_global_zero:
            try:
                size = write()
                self._show.say(f"checkpoint at step {self.course.step}: {size / 1e6:.1f} MB")
            except RecordError as error:
                problem = str(error)
        problem = problem if self.session.alone else fabric.broadcast(problem)
        if problem:
            raise RecordError(problem)

    def _refuse(self) -> None:
        """A loss or a gradient was not finite; no step has been taken since, so that the optimiser knows at which.

        Statistics of batch norm and averages of weights have gone on, for nothing on the device waits to be asked.
        """
        session, epoch = self.session, self.course.epoch
        step = max(int(state["step"]) for state in session.plain_optimizer.state.values())
        number = min(max(step - epoch * session.steps_an_epoch, 0), session.steps_an_epoch - 1)
        where = "not looked for, as there are several processes"
        if session.alone:
            with session.fabric.autocast():
                where = first_not_finite(session.net, session.source.batch(epoch, number), session.objective)
        checkpoint = checkpoint_of(session)
        items = session.source.order.batches(epoch)[number].tolist()
        found = {"step": step, "epoch": epoch, "batch": number, "items": items, "first": where}
        path = self._folder / "checkpoints" / f"not-finite-step-{step}.safetensors"
        kept = f"are in {path}"
        if session.fabric.is_global_zero:
            try:
                path.write_bytes(to_bytes(Checkpoint(checkpoint.tensors, checkpoint.state | {"not_finite": found})))
            except OSError as error:
                path.unlink(missing_ok=True)
                kept = f"could not be kept, {error.strerror or error}"
        raise NotFiniteError(
            f"the loss or a gradient is not finite at step {step} (epoch {epoch + 1}, batch {number + 1}). First: "
            f"{where}. Weights and optimiser as before that step {kept}. Try a lower optimizer.lr, optimizer.clip = 1, "
            "a longer warm-up, or precision = 'float32'"
        )


def _passed(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline


def load_best(session: Session) -> None:
    """The weights of the best epoch into the model, in place."""
    if not session.best:
        return
    from wellposed.train._optimizer import placed_as

    with torch.no_grad():
        for name, tensor in session.net.state_dict().items():
            tensor.copy_(placed_as(session.best[name], tensor))
