"""The trials of a search so far: the best of them, the failures by kind, the progress, and the result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from portatile.errors import NoValidVariantError
from portatile.records import Config, DeviceInfo, Problem, canonical
from portatile.trials import Status, Trial
from portatile.tuning.search.request import Progress, no_valid_message


@dataclass
class Outcomes:
    """Trials of one problem on one device, by canonical configuration, in the order in which they finished.

    ``score`` is what the search minimises. ``known`` of the trials came from the store. ``warm``: the configurations that other problems'
    results suggested, as canonical text.
    """

    problem: Problem
    device: DeviceInfo
    score: Callable[[Trial], float]
    trials: dict[str, Trial] = field(default_factory=dict)
    best: Trial | None = None
    known: int = 0
    failures: Counter[Status] = field(default_factory=Counter)
    warm: frozenset[str] = frozenset()

    def add(self, trial: Trial) -> bool:
        """Add a trial; returns whether it is the best so far. What the model rejected is no failure."""
        self.trials[canonical(trial.config)] = trial
        if trial.status == "ok":
            if self.best is None or self.score(trial) < self.score(self.best):
                self.best = trial
                return True
        elif trial.status != "skipped":
            self.failures[trial.status] += 1
        return False

    def replace(self, trial: Trial) -> None:
        """Put a trial of the final comparison in place of the earlier one; it does not count as an evaluation."""
        self.trials[canonical(trial.config)] = trial

    def default_first(self, default: Config) -> tuple[Trial, ...]:
        """All trials, the default's first: rejections on paper may finish sooner. Raises NoValidVariantError if every trial failed."""
        first = self.trials[canonical(default)]
        trials = (first, *(trial for trial in self.trials.values() if trial is not first))
        if not any(trial.status == "ok" for trial in trials):
            raise NoValidVariantError(no_valid_message(trials, self.known))
        return trials

    def progress(
        self, last: Trial, seconds: float, seconds_left: float | None, evaluations_left: int | None = None, racing: int = 0
    ) -> Progress:
        """The progress after the ``last`` trial, for a listener: after so many ``seconds``, with so much left (None: without limit)."""
        count = len(self.trials)
        return Progress(
            problem=self.problem,
            device=self.device,
            best=self.best,
            last=last,
            evaluations=count,
            known=self.known,
            seconds=seconds,
            seconds_left=None if seconds_left is None else max(seconds_left, 0.0),
            failures=dict(self.failures),
            rate=(count - self.known) / seconds if seconds > 0 else 0.0,
            racing=racing,
            warm=len(self.warm & self.trials.keys()),
            evaluations_left=None if evaluations_left is None else max(evaluations_left, 0),
        )
