"""The time of the final comparison: how much of a budget is reserved for it, and how many finalists that allows."""

from __future__ import annotations

from collections.abc import Sequence

from portatile.tuning.final.ranking import FIELD, LEAST_ROUNDS, LOOKS, NEAR

SHARE = 0.08
"""The share of a budget in seconds that is reserved for fast kernels."""
MOST = 0.25
"""The same where runs are long: the reserved time grows with them up to this share."""
_BESIDE = 4  # runs of each finalist outside the rounds: its check, its first timing, and the last timing and check


def near(fastest: Sequence[float], best: float) -> tuple[float, ...]:
    """The fastest samples of those valid trials that would be finalists if the search ended now, without the default."""
    return tuple(sorted(seconds for seconds in fastest if seconds <= NEAR * best)[:FIELD])


def rounds(took: Sequence[float], turns: int) -> float:
    """Seconds of ``turns`` rounds of finalists whose runs take ``took``, with what comes before and after the rounds."""
    return sum(took) * (turns + _BESIDE)


def wanted(took: Sequence[float], most: float) -> float:
    """Seconds that the final comparison should get: ``most``, or longer where runs are long; 0 where ``most`` is 0."""
    return max(most, rounds(took, LOOKS[0])) if most > 0 else 0.0


def kept(budget: float, took: Sequence[float], most: float) -> float:
    """Seconds of a budget that are reserved for finalists whose runs take ``took``."""
    usual = min(most, SHARE * budget)
    return max(usual, min(wanted(took, usual), MOST * budget))


def affordable(took: Sequence[float], seconds: float) -> int:
    """The number of finalists, from the first, that can run enough rounds in the time; 0 where not even two can."""
    counts = range(len(took), 1, -1)
    return next((count for count in counts if rounds(took[:count], LEAST_ROUNDS) <= seconds), 0)
