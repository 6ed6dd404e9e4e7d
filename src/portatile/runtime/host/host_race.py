"""A race: a product of arrays on the host, computed several times by the device and by NumPy's BLAS, to learn who takes less time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median_low
from typing import Any, NamedTuple, Protocol

import numpy as np

_RUNS = ((1e-3, 4, 12), (0.02, 4, 6), (0.1, 2, 3), (math.inf, 1, 1))  # for products of up to so many seconds: at first, and where close
_CLOSE = 1.5  # times of which one is less than so many of the other: a disturbed run could have decided
_CLEARLY, _CALL = 0.95, 3e-6  # a device is clearly faster if it takes less than this share of NumPy's time, and so many seconds less


class RecordedCall(Protocol):
    """A recorded call: ``repeat`` computes it once more, or gives None where the call has to be planned anew."""

    def repeat(self, library: Any, arrays: tuple[Any, ...], factors: tuple[Any, ...], out: Any, places: list[int]) -> Any:
        """The result of a call; the output is the last of ``arrays``, unless it is None."""

    def disjoint(self, places: Sequence[int]) -> bool:
        """Whether an output, the last, overlaps none of the arrays."""


class RaceResult(NamedTuple):
    """The result of a race: seconds of a run on the device and by NumPy, the median and the least of each, and NumPy's product."""

    on_device: float
    by_numpy: float
    least_on_device: float
    least_by_numpy: float
    numpy_result: Any = None

    def plausible(self, fastest: float) -> bool:
        """Whether the device was at most so many times as fast. On NumPy's own cores it cannot be more, unless BLAS lacked threads."""
        return self.by_numpy <= fastest * self.on_device

    @property
    def numpy_wins(self) -> bool:
        """Whether NumPy computes such products from now on: unless the device is clearly faster, in most runs and at best.

        Where processors are shared, a single quick launch says little of the next ones, and so do runs for which BLAS lacked a thread.
        """
        return not (clearly(self.on_device, self.by_numpy) and clearly(self.least_on_device, self.least_by_numpy))


def clearly(on_device: float, by_numpy: float) -> bool:
    """Whether seconds on a device are clearly fewer than NumPy's."""
    return on_device <= _CLEARLY * by_numpy - _CALL


class HostRace(NamedTuple):
    """Two ways to compute a product into the same memory; ``kept`` are the values of an output that is an operand too, else None."""

    device: Callable[[], Any]
    numpy: Callable[[], Any]
    out: Any = None
    kept: Any = None

    def run(self, way: Callable[[], Any], runs: int = 1) -> tuple[Any, list[float]]:
        """The last result of some runs, and the seconds of each."""
        result, seconds = None, []
        for _ in range(runs):
            if self.kept is not None:
                np.copyto(self.out, self.kept)
            start = time.perf_counter()
            result = way()
            seconds.append(time.perf_counter() - start)
        return result, seconds

    def compared(self, on_device: Sequence[float] = ()) -> RaceResult:
        """Both ways timed by turns; ``on_device`` are seconds on the device that are known already. What is close runs more often.

        The device runs before NumPy and after it, and the slower part counts: idle threads of a BLAS go on to spin, on the cores that a
        processor's kernels need, and programs that multiply with NumPy too are not to be slower for it. NumPy is last each time.
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
    """Seconds that it takes to find a recorded call by what its arrays say; NumPy's products are found in less."""
    find = partial(library.describe, arrays, [])
    return min(HostRace(find, find).run(find, 3)[1])
