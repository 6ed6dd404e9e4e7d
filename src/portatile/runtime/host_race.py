"""A race: a product of arrays on the host, computed several times by the device and by NumPy's BLAS, to learn who takes less time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

_RUNS = ((1e-3, 4, 12), (0.02, 4, 6), (0.1, 2, 3), (math.inf, 1, 1))  # for products of up to so many seconds: at first, and where close
_CLOSE = 1.5  # times of which one is less than so many of the other: a disturbed run could have decided


class Again(Protocol):
    """A recorded call: ``again`` computes it once more, or gives None where the call has to be planned anew."""

    def again(self, library: Any, arrays: tuple[Any, ...], factors: tuple[Any, ...], out: Any, places: list[int]) -> Any:
        """The result of a call; the output is the last of ``arrays``, unless it is None."""

    def apart_from(self, places: Sequence[int]) -> bool:
        """Whether an output, the last, overlaps none of the arrays."""


class Race(NamedTuple):
    """Two ways to compute a product into the same memory; ``kept`` are the values of an output that is an operand too, else None."""

    device: Callable[[], Any]
    numpy: Callable[[], Any]
    out: Any = None
    kept: Any = None

    def run(self, way: Callable[[], Any], runs: int = 1) -> tuple[Any, float]:
        """The last result of some runs, and the least seconds."""
        result, least = None, math.inf
        for _ in range(runs):
            if self.kept is not None:
                np.copyto(self.out, self.kept)
            start = time.perf_counter()
            result = way()
            least = min(least, time.perf_counter() - start)
        return result, least

    def held(self, on_device: float = math.inf) -> tuple[float, float, Any]:
        """Seconds on the device, of which ``on_device`` are known, and by NumPy, and NumPy's result. What is close runs more often.

        NumPy is last each time, because idle threads of a BLAS go on to spin.
        """
        if math.isinf(on_device):
            on_device = self.run(self.device)[1]
        runs, more = next(counts for seconds, *counts in _RUNS if on_device <= seconds)
        on_device = min(on_device, self.run(self.device, runs - 1)[1])
        result, by_numpy = self.run(self.numpy, runs)
        if max(on_device, by_numpy) < _CLOSE * min(on_device, by_numpy):
            on_device = min(on_device, self.run(self.device, more)[1])
            result, again = self.run(self.numpy, more)
            by_numpy = min(by_numpy, again)
        return on_device, by_numpy, result


def seconds_to_find(library: Any, arrays: tuple[Any, ...]) -> float:
    """Seconds that it takes to find a recorded call by what its arrays say; NumPy's products are found in less."""
    find = partial(library.describe, arrays, [])
    return Race(find, find).run(find, 3)[1]
