"""A race: the device and NumPy's BLAS compute the same product of host arrays several times, to learn which takes less time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median_low
from typing import Any, NamedTuple, Protocol

import numpy as np

# (limit of a product's seconds, runs at first, runs where the result is close)
_RUNS = ((1e-3, 4, 12), (0.02, 4, 6), (0.1, 2, 3), (math.inf, 1, 1))
_CLOSE = 1.5  # a race is close if one time is less than this multiple of the other: a disturbed run could have decided it
_CLEARLY, _CALL = 0.95, 3e-6  # a device is clearly faster below this share of NumPy's time and at least this many seconds below it


class RecordedCall(Protocol):
    """A recorded call: ``repeat`` computes it once more, or returns None where the call has to be planned again."""

    def repeat(self, library: Any, arrays: tuple[Any, ...], factors: tuple[Any, ...], out: Any, places: list[int]) -> Any:
        """The result of a call; the output is the last of ``arrays`` unless it is None."""

    def disjoint(self, places: Sequence[int]) -> bool:
        """Whether the output, the last array, overlaps none of the others."""


class RaceResult(NamedTuple):
    """The result of a race: the median and minimum seconds of a run on each side, and NumPy's product."""

    on_device: float
    by_numpy: float
    least_on_device: float
    least_by_numpy: float
    numpy_result: Any = None

    def plausible(self, fastest: float) -> bool:
        """Whether the device's speedup is at most ``fastest``. A larger one on NumPy's own cores means that BLAS lacked threads."""
        return self.by_numpy <= fastest * self.on_device

    @property
    def numpy_wins(self) -> bool:
        """Whether NumPy computes such products from now on: unless the device is clearly faster by both the median and the minimum.

        On shared processors a single quick launch does not predict the next ones, and neither do runs for which BLAS lacked a thread.
        """
        return not (clearly(self.on_device, self.by_numpy) and clearly(self.least_on_device, self.least_by_numpy))


def clearly(on_device: float, by_numpy: float) -> bool:
    """Whether ``on_device`` seconds are clearly less than NumPy's."""
    return on_device <= _CLEARLY * by_numpy - _CALL


class HostRace(NamedTuple):
    """Two functions that compute a product into the same memory. ``kept`` is a copy of an output that is also an operand, else None."""

    device: Callable[[], Any]
    numpy: Callable[[], Any]
    out: Any = None
    kept: Any = None

    def run(self, way: Callable[[], Any], runs: int = 1) -> tuple[Any, list[float]]:
        """The last result of ``runs`` calls of ``way``, and the seconds of each."""
        result, seconds = None, []
        for _ in range(runs):
            if self.kept is not None:
                np.copyto(self.out, self.kept)
            start = time.perf_counter()
            result = way()
            seconds.append(time.perf_counter() - start)
        return result, seconds

    def compared(self, on_device: Sequence[float] = ()) -> RaceResult:
        """Time both sides by turns; close results get more runs. ``on_device`` are seconds on the device that were measured before.

        The device runs both before and after NumPy, and the slower part counts: a BLAS's idle threads keep spinning on the cores that a
        processor's kernels need, and a program that also multiplies with NumPy should not get slower. NumPy runs last each time.
        """
        before = list(on_device) or self.run(self.device)[1]
        runs, more = next(counts for seconds, *counts in _RUNS if min(before) <= seconds)
        before += self.run(self.device, runs - len(before))[1]
        result, numpy = self.run(self.numpy, runs)
        after = self.run(self.device, runs)[1] if runs > 1 else before
        first, other = sorted((max(median_low(before), median_low(after)), median_low(numpy)))
        if other < _CLOSE * first:
            after = after + self.run(self.device, more)[1]
            result, again = self.run(self.numpy, more)
            numpy += again
        elif after is not before:
            result = self.run(self.numpy)[0]
        on_device = max(median_low(before), median_low(after)), max(min(before), min(after))
        return RaceResult(on_device[0], median_low(numpy), on_device[1], min(numpy), result)


def seconds_to_find(library: Any, arrays: tuple[Any, ...]) -> float:
    """Seconds to find a recorded call by the description of its arrays; NumPy's products are found faster."""
    find = partial(library.describe, arrays, [])
    return min(HostRace(find, find).run(find, 3)[1])
