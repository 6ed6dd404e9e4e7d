"""Ratios of a user's measure that may be zero or negative: they are computed above a floor."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

_LEAST = 1e-9  # the least distance of the floor below the least value, relative to it; a smaller one would be lost in rounding
_TINY = 1e-300


def floor(values: Collection[float]) -> float:
    """The floor to subtract from finite values so that their ratios and logarithms are meaningful; all values are above it.

    It is 0 if all values are positive, as times are. Otherwise it lies so far below the least value that the median is three times the
    least above it: then scaling the measure, or adding a constant, changes no ratio.
    """
    lowest = min(values, default=1.0)
    if lowest > 0:
        return 0.0
    above = (float(np.median(list(values))) - lowest) / 2 or max(values) - lowest
    return lowest - max(above, _LEAST * abs(lowest), _TINY)
