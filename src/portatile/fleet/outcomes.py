"""The results of a search on a fleet so far, the rest of its budget, and its progress."""

from __future__ import annotations

import math
import time
from collections import Counter
from dataclasses import dataclass, field

from portatile.errors import NoValidVariantError
from portatile.fleet.session import Decision
from portatile.records import Config, DeviceInfo, canonical
from portatile.trials import Status, Trial
from portatile.tuning.search.request import Progress, Stopped, TuningRequest, TuningResult, no_valid_message

_FINAL = 0.2  # share of the budget that is reserved for the final comparison, if that needs it


@dataclass
class Outcomes:
    """Trials by configuration, the fastest of them, how many of them were ``known`` before, and failures by their kind."""

    request: TuningRequest
    info: DeviceInfo
    started: float  # by ``time.monotonic``
    trials: dict[str, Trial] = field(default_factory=dict)
    best: Trial | None = None
    known: int = 0
    failures: Counter[Status] = field(default_factory=Counter)

    def keep(self, trial: Trial) -> None:
        """Add one trial."""
        self.trials[canonical(trial.config)] = trial
        if trial.status == "ok" and (self.best is None or trial.median < self.best.median):
            self.best = trial
        elif trial.status not in ("ok", "skipped"):
            self.failures[trial.status] += 1

    def seconds_left(self) -> float:
        """Seconds until the final comparison begins."""
        seconds = self.request.budget.seconds
        if seconds is None:
            return math.inf
        reserved = min(self.request.timing.race, _FINAL * seconds)
        return self.started + seconds - reserved - time.monotonic()

    def spent(self, busy: int = 0) -> bool:
        """Whether the budget is spent, once ``busy`` more trials are done."""
        evaluations = self.request.budget.evaluations
        return self.seconds_left() <= 0 or (evaluations is not None and len(self.trials) + busy >= evaluations)

    def progress(self, last: Trial) -> Progress:
        """The progress after the ``last`` trial, for a listener."""
        seconds, count = time.monotonic() - self.started, len(self.trials)
        left = None if self.request.budget.seconds is None else max(self.seconds_left(), 0.0)
        most = self.request.budget.evaluations
        trials, rate = None if most is None else max(most - count, 0), (count - self.known) / seconds if seconds > 0 else 0.0
        problem, failures = self.request.problem, dict(self.failures)
        return Progress(problem, self.info, self.best, last, count, self.known, seconds, left, failures, rate, evaluations_left=trials)

    def result(self, default: Config, stopped: Stopped, decision: Decision | None) -> TuningResult:
        """The trials so far, the default's first, after the final comparison's ``decision``, None where the search was interrupted.

        Raises NoValidVariantError where all trials failed.
        """
        first = self.trials[canonical(default)]
        trials = (first, *(trial for trial in self.trials.values() if trial is not first))
        valid = [trial for trial in trials if trial.status == "ok"]
        if not valid:
            raise NoValidVariantError(no_valid_message(trials, self.known))
        finalists = decision.finalists if decision is not None else ()
        unraced = decision.unraced if decision is not None else "the search was interrupted"
        best = min(valid, key=lambda trial: (not trial.fully_checked, trial.rank))
        seconds = time.monotonic() - self.started
        return TuningResult(self.request.problem, self.info, trials, best, first, stopped, seconds, finalists, unraced=unraced)
