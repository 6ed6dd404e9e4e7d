"""What a race costs: how much of a budget is kept back for it, and how many can take part."""

from __future__ import annotations

from collections.abc import Sequence

from portatile.tuning.final.ranking import FIELD, LEAST_ROUNDS, LOOKS, NEAR

SHARE = 0.08
"""Of a budget of seconds, kept back for a race of fast kernels."""
MOST = 0.25
"""The same where runs are long: what is kept back grows with them up to this share."""
_BESIDE = 4  # runs of each: when it is checked and first timed, and at the end timed and looked at once more


def near(fastest: Sequence[float], best: float) -> tuple[float, ...]:
    """Of the fastest samples of all valid trials those that race if the search ends now, the default not counted."""
    return tuple(sorted(seconds for seconds in fastest if seconds <= NEAR * best)[:FIELD])


def rounds(took: Sequence[float], turns: int) -> float:
    """Seconds of so many rounds of entrants whose runs take so long, and of what stands before and after the rounds."""
    return sum(took) * (turns + _BESIDE)


def wanted(took: Sequence[float], most: float) -> float:
    """Seconds that a race should have: ``most``, or until those whose runs are long can be told apart. None where ``most`` is 0."""
    return max(most, rounds(took, LOOKS[0])) if most > 0 else 0.0


def kept(budget: float, took: Sequence[float], most: float) -> float:
    """Seconds of a budget that the search leaves to the race of those who took so long."""
    usual = min(most, SHARE * budget)
    return max(usual, min(wanted(took, usual), MOST * budget))


def affordable(took: Sequence[float], seconds: float) -> int:
    """How many of the entrants, from the first on, can run enough rounds in the time; 0 where not even two can."""
    counts = range(len(took), 1, -1)
    return next((count for count in counts if rounds(took[:count], LEAST_ROUNDS) <= seconds), 0)
