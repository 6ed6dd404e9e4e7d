"""The multiply-adds per second of NumPy's BLAS on this machine: measured once for each dtype, on a small product."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

_SIDE = 64  # rows and columns of the matrices: they fit the smallest caches, and BLAS on one thread is nearly as fast as for large ones
_RUNS = 9

_per_second: dict[np.dtype[Any], float] = {}


def multiply_adds_per_second(dtype: np.dtype[Any]) -> float:
    """The multiply-adds per second of a dtype (complex ones for complex dtypes), from the fastest run."""
    known = _per_second.get(dtype)
    if known is None:
        (a, b), out, least = np.ones((2, _SIDE, _SIDE), dtype), np.empty((_SIDE, _SIDE), dtype), math.inf
        for _ in range(_RUNS):
            start = time.perf_counter()
            np.matmul(a, b, out)
            least = min(least, time.perf_counter() - start)
        known = _per_second[dtype] = _SIDE**3 / least
    return known
