"""Ratios of a user's measure that may be zero or negative: they are taken above a floor."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

_LEAST = 1e-9  # distance of the floor below the least value, relative to it: less would be lost in rounding
_TINY = 1e-300


def floor(values: Collection[float]) -> float:
    """The floor to subtract from finite values so that their ratios and logarithms mean something; all values are above it.

    0 where all are positive, as times are. Else it is so far below the least that the median is three times the least: that does
    not depend on what the measure is multiplied with, nor on what was added to it.
    """
    lowest = min(values, default=1.0)
    if lowest > 0:
        return 0.0
    above = (float(np.median(list(values))) - lowest) / 2 or max(values) - lowest
    return lowest - max(above, _LEAST * abs(lowest), _TINY)
