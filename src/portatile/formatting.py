"""Formatting of numbers and names for people: times, rates, percentages, sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping


def spelled(values: Mapping[str, object]) -> str:
    """Names and values as people read and type them: ``m=512 n=512``."""
    return " ".join(f"{name}={value}" for name, value in values.items())


def duration(seconds: float) -> str:
    """A time with three digits: ``31.9 us``."""
    for limit, scale, unit in ((0.9995e-3, 1e6, "us"), (0.9995, 1e3, "ms")):  # above these limits three digits would round to 1e+03
        if seconds < limit:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds:.3g} s" if seconds < 999.5 else f"{seconds:.0f} s"


def rate(value: float, unit: str) -> str:
    """A rate with one decimal, or three digits below 10: ``123.6 Gflop/s``."""
    return f"{value:.1f} {unit}" if value >= 10 else f"{value:.3g} {unit}"


def percent(share: float | None, decimals: int = 0) -> str:
    """A fraction as a percentage: ``86 %``; ``?`` if it is unknown."""
    if share is None or math.isnan(share):
        return "?"
    return f"{round(100 * share, decimals) + 0.0:.{decimals}f} %"  # + 0.0 avoids "-0"
