"""Scales of charts, linear or logarithmic, with ticks at round numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

_WIDE = 3.0  # ratio of the largest to the smallest value from which a logarithmic scale is used


@dataclass(frozen=True)
class Scale:
    """A map from ``low`` .. ``high`` of a quantity to ``start`` .. ``end`` in the picture."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        """The place of a value."""
        low, high, here = (math.log(x) if self.log else x for x in (self.low, self.high, value))
        return self.start + (self.end - self.start) * (here - low) / (high - low)

    def ticks(self, most: int = 6) -> list[float]:
        """Round values in the range, at most about ``most``."""
        return _log_ticks(self.low, self.high, most) if self.log else _linear_ticks(self.low, self.high, most)


def ratio(values: Iterable[float], start: float, end: float) -> Scale:
    """A scale for positive quantities that are compared by their ratio: logarithmic where they differ much, with a little air."""
    known = [value for value in values if 0 < value < math.inf] or [1.0]
    low, high = min(known), max(known)
    if high / low >= _WIDE:
        air = (high / low) ** 0.04
        return Scale(low / air, high * air, start, end, log=True)
    air = (high - low) * 0.06 or high * 0.1
    return Scale(low - air, high + air, start, end)


def from_zero(values: Iterable[float], start: float, end: float) -> Scale:
    """A linear scale from 0 to the largest value."""
    return Scale(0.0, max(values, default=0.0) or 1.0, start, end)


def _linear_ticks(low: float, high: float, most: int) -> list[float]:
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * nice for nice in (1, 2, 5, 10) if power * nice >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def _log_ticks(low: float, high: float, most: int) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for nice in ((1, 2, 5), (1, 3), (1,)):
        ticks = [mantissa * 10.0**power for power in decades for mantissa in nice if low <= mantissa * 10.0**power <= high]
        if len(ticks) <= most:
            break
    if len(ticks) < 2:  # less than a decade: round figures are further apart than the ends
        ticks = [value for value in _linear_ticks(low, high, most) if value > 0]
    return ticks[:: -(-len(ticks) // most)] if ticks else [low, high]
