"""The budget of a search: how much is spent, and how much is left for the search and for the final comparison."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from portatile.trials import Budget
from portatile.tuning.final import ranking, reserved_time

_SHORTEST_RACE = 0.5  # seconds, where the budget counts evaluations
_PAPER = 100  # configurations rejected on paper that count as one evaluation, so that a search of nothing else ends too


@dataclass
class Spending:
    """A budget, and what one search has spent of it since ``started``, a time of the monotonic clock in seconds.

    ``race`` is the seconds that a final comparison gets at most unless runs are long. ``near`` has the seconds of the runs that would take
    part in it; for more than one, a part of the budget is reserved. ``entering``: seconds in which one of them is loaded and checked again.
    ``on_paper`` counts the trials that the model rejected.
    """

    budget: Budget
    race: float
    started: float
    near: tuple[float, ...] = ()
    on_paper: int = 0
    entering: float = 0.0

    @property
    def elapsed(self) -> float:
        """Seconds since the search started."""
        return time.monotonic() - self.started

    def seconds_left(self, race: bool = False) -> float:
        """Seconds that are left, infinite if the budget has no time; for the search, without the time reserved for the final comparison."""
        seconds = self.budget.seconds
        if seconds is None:
            return math.inf
        reserved = reserved_time.reserved(seconds, self.near, self.race, self.entering) if len(self.near) > 1 and not race else 0.0
        return seconds - reserved - self.elapsed

    def evaluations_left(self, trials: int) -> int | None:
        """Evaluations that are left after so many trials; None if the budget does not count them."""
        if self.budget.evaluations is None:
            return None
        return self.budget.evaluations - (trials - self.on_paper + self.on_paper // _PAPER)

    def spent(self, trials: int, under_way: int = 0) -> bool:
        """Whether nothing is left after so many trials and ``under_way`` that have not finished."""
        evaluations = self.evaluations_left(trials)
        return self.seconds_left() <= 0 or (evaluations is not None and evaluations <= under_way)

    def race_seconds(self) -> float:
        """Seconds for the final comparison: what the budget reserves, or a tenth of the search's."""
        longest = reserved_time.race_seconds(self.near, self.race, self.entering)
        if self.budget.seconds is not None:
            return min(longest, self.seconds_left(race=True))
        elapsed = self.elapsed
        rounds = reserved_time.rounds(self.near, ranking.LOOKS[0]) + reserved_time.entering(len(self.near), self.entering)
        return min(longest, max(_SHORTEST_RACE, 0.1 * elapsed, min(rounds, reserved_time.MOST * elapsed)))
