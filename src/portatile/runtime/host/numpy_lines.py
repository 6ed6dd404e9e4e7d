"""Convolutions of the lines of NumPy arrays by NumPy, where no device is named: small ones at once, others after a race.

Kernels work on neighbouring lines side by side, and have little to do where there are few.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile.runtime.host import numpy_products
from portatile.runtime.host.host_calls import Compute, Forms, HostCall

_FEW = 8  # lines that are convolved one by one
_SECONDS = 1.5e-9  # that NumPy takes for a multiply-add of lines together, on a slow core
_EACH = 4e-6  # the same for what it does beside them for one of few lines
_TYPES = frozenset(map(np.dtype, ("float32", "float64")))

_Array = NDArray[Any]


class Lines:
    """The convolution of lines, the columns of a matrix, with one filter."""

    def on_host(self, call: Any, result: Any, forms: Forms) -> HostCall | None:
        """The call by NumPy; None for banks of two filters."""
        kind, shape, taps, lower, _, boundary, bank = call.options
        lines = call.arrays[0]
        if bank != "single" or type(lines) is not np.ndarray or lines.dtype not in _TYPES or not lines.size or not result.size:
            return None
        weights = np.frombuffer(taps, kind).reshape(shape)[0].astype(lines.dtype)
        return HostCall(_prepared(weights, lower, boundary), call, result, forms, math.inf)

    def small(self, call: Any) -> bool:
        """Whether a call has so little to do that no launch is worth it."""
        lines, (_, count), seconds = call.arrays[0], call.options[1], numpy_products.LEAST_LAUNCH
        few = lines.shape[1] < _FEW
        return bool(_SECONDS * lines.size * count + (_EACH * lines.shape[1] if few else _EACH) <= seconds)

    def operations(self, call: Any) -> int:
        """The floating-point operations of a call, of which a multiply-add has two."""
        return 2 * int(call.arrays[0].size) * int(call.options[1][1])


def _prepared(weights: _Array, lower: int, boundary: str) -> Compute:
    count = len(weights)

    def compute(arrays: Any, factors: tuple[Any, ...]) -> None:
        lines, out = arrays
        numpy_products.silently(_convolve, _extended(lines, count, lower, boundary), weights, out)

    return compute


def _convolve(extended: _Array, weights: _Array, out: _Array) -> None:
    """The sums of all places at which the filter lies inside the ``extended`` lines, which are columns, into the rows of ``out``."""
    if len(out) < _FEW:
        for line, row in zip(extended.T, out, strict=True):
            row[...] = np.correlate(line, weights, "valid")
        return
    step, across = extended.strides
    places = np.ndarray((*out.shape, len(weights)), extended.dtype, extended, 0, (across, step, step))
    np.matmul(places, weights, out=out)


def _extended(lines: _Array, count: int, lower: int, boundary: str) -> _Array:
    """The lines with what lies before and behind them as far as a filter of so many taps reaches."""
    n, ends = len(lines), count - 1
    if boundary == "shrink":
        return np.ascontiguousarray(lines)
    if boundary == "periodic":
        start = lower % n
        if start + ends <= n:
            return np.concatenate([lines[start:], lines[: start + ends]])
        return lines.take(_places(n, start, ends), axis=0)
    before = ends if boundary == "grow" else -lower
    extended = np.zeros((n + ends + (ends if boundary == "grow" else 0), lines.shape[1]), lines.dtype)
    first, last = max(0, before), min(len(extended), before + n)  # of the rows that are not zero
    if first < last:
        extended[first:last] = lines[first - before : last - before]
    return extended


@lru_cache(maxsize=64)
def _places(n: int, start: int, ends: int) -> _Array:
    return (np.arange(n + ends) + start) % n
