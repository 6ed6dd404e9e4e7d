"""The records of a tuning run: its request, its progress, and its result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from portatile import model, notebooks, output_files, strategies
from portatile.errors import UsageError
from portatile.formatting import duration, spelled
from portatile.records import Config, DeviceInfo, Problem, canonical
from portatile.space import ParameterSpace
from portatile.strategies import Strategy
from portatile.trials import Budget, Status, Trial
from portatile.tuning.protocol import Timing
from portatile.tuning.search import result_table
from portatile.tuning.search.deadlines import PhaseLimits
from portatile.tuning.search.objective import Objective, check_name
from portatile.workload import Workload
from portatile.workloads import speeds

_SHOWN = 10  # trials in a notebook
Stopped = Literal["budget", "exhausted", "interrupted"]


@dataclass(frozen=True)
class TuningRequest:
    """The problem to tune, the device, the budget and the options of the search.

    - ``device``: a selector as in ``portatile.device.get``. ``strategy``: a name or the strategy itself.
    - ``workload``: for a computation without a folder in ``workloads``. ``space``: replaces the workload's own, as to sweep one parameter.
    - ``start``: configurations to try right after the default. ``suggested``: those that are tried by turns with the strategy's own, the
      later ones only while they pay; see ``strategies.with_suggestions``.
    - ``warm``: the most configurations to try next, of those that were good for similar problems or on similar devices. ``ranked``: the
      most to try after these, of random ones that the model expects to be fast.
    - ``resume``: trials in the store of this problem, device, driver and kernel text count as evaluated, and are not evaluated again.
      ``again``: kinds of failures to evaluate again all the same.
    - ``jobs``: compile workers; None for as many as the machine can spare, 0 to compile in the timing worker.
    - ``model``: reject variants that cannot run or cannot be fast before they are compiled or run. The default is never rejected.
    - ``objective``: what to minimise: ``time`` (seconds per run), ``energy`` (joules per run, where the device reports its power) or a
      function of a valid trial.
    """

    problem: Problem
    device: str | None = None
    budget: Budget = field(default_factory=lambda: Budget(seconds=60.0))
    strategy: str | Strategy = "auto"
    seed: int = 0
    workload: Workload | None = None
    space: ParameterSpace | None = None
    start: tuple[Config, ...] = ()
    resume: bool = True
    jobs: int | None = None
    limits: PhaseLimits = field(default_factory=PhaseLimits)
    timing: Timing = field(default_factory=Timing)
    model: bool = True
    objective: Objective = "time"
    again: frozenset[Status] = frozenset()
    warm: int = 5
    ranked: int = 6
    suggested: tuple[Config, ...] = ()

    def __post_init__(self) -> None:
        """Raise UsageError for a seed that no generator takes, UnknownNameError for a strategy or an objective that there is not."""
        if not callable(self.strategy):
            strategies.check(self.strategy)
        check_name(self.objective)
        if not isinstance(self.seed, int | np.integer) or self.seed < 0:
            raise UsageError(f"seed {self.seed!r} must be a whole number of 0 or more")


@dataclass(frozen=True)
class Progress:
    """The progress of a tuning run. ``known`` of the ``evaluations`` came from the store; ``rate`` is trials per second.

    ``racing``: how many finalists enter the final comparison now; ``last`` is an earlier trial then. ``warm``: how many trials were
    warm starts.
    """

    problem: Problem
    device: DeviceInfo
    best: Trial | None
    last: Trial
    evaluations: int
    known: int
    seconds: float
    seconds_left: float | None
    failures: Mapping[Status, int]
    rate: float
    racing: int = 0
    warm: int = 0
    evaluations_left: int | None = None

    def __str__(self) -> str:
        """Elapsed time, the best, what was tried and what is left, so that ``listen=print`` shows a search."""
        best = "nothing valid yet" if self.best is None else f"best {duration(self.best.comparable)}"
        return ", ".join(filter(None, (f"{self.seconds:6.1f} s  {best}  {self.tried}", self.left)))

    @property
    def left(self) -> str:
        """``23 s left``, ``177 trials left``, or nothing without a budget; without the time reserved for the final comparison."""
        seconds = None if self.seconds_left is None else f"{self.seconds_left:.0f} s left"
        trials = None if self.evaluations_left is None else f"{self.evaluations_left} trial{'s' * (self.evaluations_left != 1)} left"
        return ", ".join(filter(None, (seconds, trials)))

    @property
    def tried(self) -> str:
        """``12 tried (1.3/s), 4 warm starts``, and so on: what has been evaluated so far."""
        counts = [(self.warm, f"warm start{'s' * (self.warm != 1)}"), (self.known, "from the store"), (self.racing, "finalists race")]
        parts = [f"{self.evaluations} tried ({self.rate:.1f}/s)", *(f"{count} {what}" for count, what in counts if count)]
        if self.failures:
            parts.append("failed: " + ", ".join(f"{count} {kind}" for kind, count in sorted(self.failures.items())))
        return ", ".join(parts)


@dataclass(frozen=True)
class TuningResult:
    """The result of a tuning run; ``trials`` in the order in which they finished, the default's first.

    ``warm``: the warm starts as canonical text, without the default and the request's own. ``finalists``: the trials of the final
    comparison in the order of their places; empty if there was none. ``unraced``: why there was none although several were nearly
    as fast; empty if none was needed. ``others``: how many other searches timed on the device meanwhile, at most.
    """

    problem: Problem
    device: DeviceInfo
    trials: tuple[Trial, ...]
    best: Trial
    default: Trial
    stopped: Stopped
    seconds: float
    finalists: tuple[Trial, ...] = ()
    warm: frozenset[str] = frozenset()
    unraced: str = ""
    others: int = 0

    def __repr__(self) -> str:
        """The result in one line for an interactive session; the fields hold the rest."""
        sizes = spelled({**self.problem.sizes, **self.problem.options})
        text = f"{self.problem.workload} {sizes} {self.problem.dtype} on {self.device.id}"
        gained = (
            f", {self.default.comparable / self.best.comparable:.2f} times as fast as the default" if self.default.status == "ok" else ""
        )
        count = f"{len(self.trials)} trial{'s' * (len(self.trials) != 1)}"
        raced = ", not raced" if self.unraced else ""
        return f"<{text}: {self.best.comparable:.3g} s a run{gained}{raced}; {count}, stopped by {self.stopped}>"

    def __str__(self) -> str:
        """A few lines: winner and default, how many trials there were, and what failed."""
        sizes = spelled({**self.problem.sizes, **self.problem.options})
        count = f"{len(self.trials)} configuration{'s' if len(self.trials) != 1 else ''}"
        failed = ", ".join(f"{count} {kind}" for kind, count in sorted(self.failures.items())) or "none"
        lines = [f"{self.problem.workload} {sizes} {self.problem.dtype} on {self.device.name} ({self.device.id})"]
        for name, trial in (("winner", self.best), ("default", self.default)):
            time = duration(trial.comparable) if trial.status == "ok" else f"failed ({trial.status})"
            faster = f"{self.default.comparable / trial.comparable:.2f} x" if "ok" == trial.status == self.default.status else ""
            speed = speeds.speed(trial, speeds.known(self.problem)) if trial.status == "ok" else ""
            lines.append("  ".join(filter(None, (f"{name:8} {time}", speed, faster, spelled(trial.config)))))
        return "\n".join((*lines, f"{count} in {self.seconds:.1f} s, failed: {failed}", *self.failure_lines))

    def _repr_html_(self) -> str:
        """The result and the fastest trials as tables, for notebooks."""
        return notebooks.table(*result_table.short(self.trials, self.best, self.default, _SHOWN), str(self))

    def to_csv(self, path: str | Path | None = None) -> str:
        """All trials as comma-separated values, the fastest first; written to ``path`` if it is given.

        Columns: status, seconds a run (a finalist's by the clock of the search), their median as measured, the number of samples,
        metrics, the error in units of its bound, the parameters, and the message of a failure.
        """
        text = notebooks.comma_separated(*result_table.full(self.trials, self.best, self.metrics_of))
        if path is not None:
            output_files.write(Path(path), text)
        return text

    def metrics_of(self, trial: Trial) -> dict[str, float]:
        """The metrics of a valid trial beside its time, by name; empty but for a ``Kernel`` with metrics."""
        return {}

    @property
    def failure_lines(self) -> list[str]:
        """Two lines for each kind of failure: its most frequent message, and the configurations that fail."""
        lines = []
        for kind in sorted(self.failures):
            failed = [trial for trial in self.trials if trial.status == kind]
            counted = Counter(filter(None, (_gist(trial.message) for trial in failed)))
            if counted:
                message = counted.most_common(1)[0][0]
                lines.append(f"  {kind}: {message}")
                lines.append(f"    {self._where(failed, next(trial for trial in failed if _gist(trial.message) == message))}")
        return lines

    def _where(self, failed: Sequence[Trial], first: Trial) -> str:
        """The values that all ``failed`` trials have and no valid one has; where there are none, the configuration of ``first``."""
        valid = [trial.config for trial in self.trials if trial.status == "ok"]
        common = {
            name: value
            for name, value in first.config.items()
            if all(trial.config.get(name) == value for trial in failed) and all(config.get(name) != value for config in valid)
        }
        if common and len(failed) > 1:
            return f"all {len(failed)} have {spelled(common)}, which no valid one has"
        changed = {name: value for name, value in first.config.items() if self.default.config.get(name) != value}
        return f"the first: {spelled(changed) or 'the default'}"

    @property
    def warm_trials(self) -> int:
        """The number of trials that were warm starts."""
        return sum(canonical(trial.config) in self.warm for trial in self.trials)

    @property
    def warm_best(self) -> Trial | None:
        """The fastest warm start; None if there was none, or no valid one."""
        valid = [trial for trial in self.trials if trial.status == "ok" and canonical(trial.config) in self.warm]
        return min(valid, key=lambda trial: trial.comparable, default=None)

    @property
    def own_trials(self) -> tuple[Trial, ...]:
        """The trials that are neither the default nor warm starts, in order."""
        foreign = self.warm | {canonical(self.default.config)}
        return tuple(trial for trial in self.trials if trial.status != "skipped" and canonical(trial.config) not in foreign)

    @property
    def matched_at(self) -> int | None:
        """The number, from 1, of the first of ``own_trials`` that is as fast as ``warm_best``; None if none was."""
        best = self.warm_best
        if best is None:
            return None
        return next((place for place, trial in enumerate(self.own_trials, 1) if trial.comparable <= best.comparable), None)

    @property
    def found_at(self) -> int:
        """The winner's number among the trials, from 1, which is the default's."""
        winner = canonical(self.best.config)
        return next(place for place, trial in enumerate(self.trials, 1) if canonical(trial.config) == winner)

    @property
    def found_by(self) -> Literal["default", "warm start", "search"]:
        """The way in which the winner was found."""
        winner = canonical(self.best.config)
        return "default" if winner == canonical(self.default.config) else "warm start" if winner in self.warm else "search"

    @property
    def failures(self) -> dict[Status, int]:
        """The number of failed trials by status; those that the model rejected do not count."""
        return dict(Counter(trial.status for trial in self.trials if trial.status not in ("ok", "skipped")))

    @property
    def saved(self) -> dict[str, int]:
        """The numbers of configurations that were rejected ``on paper`` or ``once compiled``, or stopped early (``early stop``)."""
        counts = {
            stage: sum(trial.message.startswith(stage) for trial in self.trials) for stage in (model.ON_PAPER, model.COMPILED, model.SLOW)
        }
        return {stage: count for stage, count in counts.items() if count}


def _gist(message: str) -> str:
    """The first line of a failure's message, and the first line behind it that has the word error."""
    first, *rest = message.splitlines() or [""]
    reason = next((line.strip() for line in rest if "error" in line.lower()), "")
    return f"{first[:160]} {reason[:160]}".rstrip()


Listener = Callable[[Progress], None]


def no_valid_message(trials: Sequence[Trial], known: int) -> str:
    """The message where every trial failed: counts by status and the first message of each."""
    lines = [f"all {len(trials)} variants failed" if len(trials) != 1 else "the only variant that was tried failed"]
    for status, count in Counter(trial.status for trial in trials).items():
        first = next(trial for trial in trials if trial.status == status)
        lines.append(f"{status}: {count}, the first ({spelled(first.config)}): {first.message}")
    if known:
        lines.append(f"{known} of them failed before and were not tried again; --fresh (resume=False) tries them again")
    return "\n".join(lines)
