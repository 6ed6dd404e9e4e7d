"""The results of a search on a fleet so far, the rest of its budget, and its progress."""

from __future__ import annotations

import math
import time

from portatile.fleet.session import Decision
from portatile.records import Config, DeviceInfo
from portatile.trials import Trial
from portatile.tuning.search.outcomes import Outcomes
from portatile.tuning.search.request import Progress, Stopped, TuningRequest, TuningResult

_FINAL = 0.2  # share of the budget that is reserved for the final comparison, if that needs it


class FleetOutcomes(Outcomes):
    """The trials of a search that ``started`` then, by ``time.monotonic``, and what is left of its budget."""

    def __init__(self, request: TuningRequest, info: DeviceInfo, started: float) -> None:
        super().__init__(request.problem, info, lambda trial: trial.median)
        self.budget, self.started = request.budget, started
        self._reserved = 0.0 if self.budget.seconds is None else min(request.timing.race, _FINAL * self.budget.seconds)

    def seconds_left(self) -> float:
        """Seconds until the final comparison begins."""
        seconds = self.budget.seconds
        return math.inf if seconds is None else self.started + seconds - self._reserved - time.monotonic()

    def spent(self, busy: int = 0) -> bool:
        """Whether the budget is spent when ``busy`` more trials are done."""
        most = self.budget.evaluations
        return self.seconds_left() <= 0 or (most is not None and len(self.trials) + busy >= most)

    def progress_after(self, last: Trial) -> Progress:
        """The progress after the ``last`` trial, for a listener."""
        left = None if self.budget.seconds is None else self.seconds_left()
        most = self.budget.evaluations
        return self.progress(last, time.monotonic() - self.started, left, None if most is None else most - len(self.trials))

    def result(self, default: Config, stopped: Stopped, decision: Decision | None) -> TuningResult:
        """The trials so far, the default's first, after the final comparison's ``decision``, None if the search was interrupted.

        Raises NoValidVariantError if all trials failed.
        """
        trials = self.default_first(default)
        best = min((trial for trial in trials if trial.status == "ok"), key=lambda trial: (not trial.fully_checked, trial.rank))
        return TuningResult(
            problem=self.problem,
            device=self.device,
            trials=trials,
            best=best,
            default=trials[0],
            stopped=stopped,
            seconds=time.monotonic() - self.started,
            finalists=decision.finalists if decision is not None else (),
            unraced=decision.unraced if decision is not None else "the search was interrupted",
        )
