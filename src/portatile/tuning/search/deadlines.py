"""The watchdog's patience: how long each phase of an evaluation may take, learnt from those before."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

from portatile.tuning.protocol import Phase
from portatile.tuning.search.worker_process import WorkerProcess

_ALWAYS = 20.0  # seconds that a launch has in the shortest search: some drivers compile in it


@dataclass(frozen=True)
class PhaseLimits:
    """The watchdog's patience, in seconds per phase.

    From the second trial on, a phase may take ``factor`` times as long as the longest so far, but not less than ``least``
    (compiling: three times that) and not more than its own limit.
    """

    open: float = 120.0
    compile: float = 120.0
    launch: float = 60.0
    run: float = 60.0
    least: float = 10.0
    factor: float = 20.0

    def within(self, budget: float | None) -> PhaseLimits:
        """Those of a search of ``budget`` seconds: a launch may take twice as long, so that a kernel without an end is soon told."""
        if budget is None:
            return self
        most = max(2 * budget, _ALWAYS)
        return replace(self, launch=min(self.launch, most), run=min(self.run, most))


@dataclass
class Deadlines:
    """The longest that each phase took so far."""

    limits: PhaseLimits
    longest: dict[str, float] = field(default_factory=dict)

    def limit(self, phase: Phase, expected: float = 0.0) -> float:
        """Seconds that a phase may take which is expected to last ``expected`` seconds."""
        most = float(getattr(self.limits, phase))
        if phase in self.longest:
            least = 3 * self.limits.least if phase == "compile" else self.limits.least
            most = min(most, max(least, self.limits.factor * self.longest[phase]))
        return max(most, 10 * expected)

    def learn(self, child: WorkerProcess) -> None:
        """Take in how long a worker's phase lasted."""
        self.longest[child.phase] = max(self.longest.get(child.phase, 0.0), time.monotonic() - child.since)
