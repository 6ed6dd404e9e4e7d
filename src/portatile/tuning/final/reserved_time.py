"""The time of the final comparison: how much of a budget is reserved for it, and for how many finalists it suffices."""

from __future__ import annotations

from collections.abc import Sequence

from portatile.tuning.final.ranking import FIELD, LEAST_ROUNDS, LOOKS, NEAR

SHARE = 0.08
"""The share of a budget in seconds that is reserved for fast kernels."""
MOST = 0.25
"""The largest share: with long runs the reserved time grows up to it."""
_BESIDE = 4  # runs of each finalist outside the rounds: its check, its first timing, and the last timing and check


def near(fastest: Sequence[float], best: float) -> tuple[float, ...]:
    """The fastest samples of those valid trials that would be finalists if the search ended now, without the default."""
    return tuple(sorted(seconds for seconds in fastest if seconds <= NEAR * best)[:FIELD])


def rounds(took: Sequence[float], turns: int) -> float:
    """Seconds of ``turns`` rounds of finalists whose runs take ``took``, with the runs before and after the rounds."""
    return sum(took) * (turns + _BESIDE)


def entering(finalists: int, each: float) -> float:
    """Seconds to load and check all of them and the default again, if ``each`` takes so long."""
    return (finalists + 1) * each


def race_seconds(took: Sequence[float], most: float, each: float = 0.0) -> float:
    """Seconds for the final comparison: ``most``, or longer if runs are long or ``each`` finalist takes long to load.

    0 where ``most`` is 0.
    """
    return max(most, rounds(took, LOOKS[0]) + entering(len(took), each)) if most > 0 else 0.0


def reserved(budget: float, took: Sequence[float], most: float, each: float = 0.0) -> float:
    """Seconds of a budget that are reserved for finalists whose runs take ``took``, of which each takes ``each`` to enter."""
    usual = min(most, SHARE * budget)
    return max(usual, min(race_seconds(took, usual, each), MOST * budget))


def affordable(took: Sequence[float], seconds: float, each: float = 0.0) -> int:
    """The number of finalists that can be loaded and run enough rounds in the time; 0 if not even two can.

    Two are always loaded, so that there is a comparison even if the time is short.
    """
    counts = range(len(took), 1, -1)
    most = next((count for count in counts if count * each + rounds(took[:count], LEAST_ROUNDS) <= seconds), 0)
    return most or (2 if len(took) > 1 and rounds(took[:2], LEAST_ROUNDS) <= seconds else 0)
