"""The watchdog's deadlines: how long each phase of an evaluation may take, learnt from earlier phases."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace

from portatile.errors import ArgumentError
from portatile.tuning.protocol import Phase
from portatile.tuning.search.worker_process import WorkerProcess

_COMPILING = 60.0  # least deadline of the first compilation, in seconds: the default is evaluated even if the budget is shorter
_ALWAYS = 20.0  # least deadline of a launch, in seconds: some drivers compile in it


@dataclass(frozen=True)
class PhaseLimits:
    """Limits of the deadlines, in seconds per phase.

    From the second trial on, a phase may take ``factor`` times as long as the longest so far, but not less than ``least``
    (compiling: three times that) and not more than its own limit.
    """

    open: float = 120.0
    compile: float = 120.0
    launch: float = 60.0
    run: float = 60.0
    least: float = 10.0
    factor: float = 20.0

    @classmethod
    def running(cls, seconds: float) -> PhaseLimits:
        """Limits of so many seconds for the first launch and for timing. Raises ArgumentError for what is no positive number."""
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
            raise ArgumentError(f"timeout={seconds!r} must be a positive number of seconds")
        return cls(launch=seconds, run=seconds)

    def within(self, budget: float | None) -> PhaseLimits:
        """The limits for a search of ``budget`` seconds: to launch or to compile may take twice the budget, and always a little.

        So an endless kernel is soon ended, and one that compiles slowly does not take many times the budget.
        """
        if budget is None:
            return self
        most, compiling = max(2 * budget, _ALWAYS), max(2 * budget, _COMPILING)
        return replace(self, launch=min(self.launch, most), run=min(self.run, most), compile=min(self.compile, compiling))


@dataclass
class Deadlines:
    """Deadlines from the longest duration of each phase so far."""

    limits: PhaseLimits
    longest: dict[str, float] = field(default_factory=dict)

    def limit(self, phase: Phase, expected: float = 0.0) -> float:
        """Seconds that a phase may take; ``expected`` is how long it should last."""
        most = float(getattr(self.limits, phase))
        if phase in self.longest:
            least = 3 * self.limits.least if phase == "compile" else self.limits.least
            most = min(most, max(least, self.limits.factor * self.longest[phase]))
        return max(most, 10 * expected)

    def learn(self, child: WorkerProcess) -> None:
        """Record how long a worker's phase lasted."""
        self.longest[child.phase] = max(self.longest.get(child.phase, 0.0), time.monotonic() - child.since)
