"""Convolutions of the lines of NumPy arrays by NumPy where no device is named: small ones from the first call on, others after a race.

Kernels process neighbouring lines in parallel, so they are underused where there are few lines.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile.runtime.host import numpy_products
from portatile.runtime.host.host_calls import Compute, Forms, HostCall

_FEW = 8  # up to this many lines are convolved one at a time
_SECONDS = 1.5e-9  # seconds that NumPy takes per multiply-add when it processes all lines together, on a slow core
_EACH = 4e-6  # seconds of overhead per line when lines are convolved one at a time
_TYPES = frozenset(map(np.dtype, ("float32", "float64")))

_Array = NDArray[Any]


class Lines:
    """The convolution of lines, which are the columns of a matrix, with one filter."""

    def on_host(self, call: Any, result: Any, forms: Forms) -> HostCall | None:
        """The call as computed by NumPy; None for banks of two filters."""
        kind, shape, taps, lower, _, boundary, bank = call.options
        lines = call.arrays[0]
        if bank != "single" or type(lines) is not np.ndarray or lines.dtype not in _TYPES or not lines.size or not result.size:
            return None
        weights = np.frombuffer(taps, kind).reshape(shape)[0].astype(lines.dtype)
        return HostCall(_prepared(weights, lower, boundary), call, result, forms, math.inf)

    def small(self, call: Any) -> bool:
        """Whether a call is so small that a kernel launch would take longer."""
        lines, (_, count), seconds = call.arrays[0], call.options[1], numpy_products.LEAST_LAUNCH
        few = lines.shape[1] < _FEW
        return bool(_SECONDS * lines.size * count + (_EACH * lines.shape[1] if few else _EACH) <= seconds)

    def operations(self, call: Any) -> int:
        """The floating-point operations of a call; a multiply-add counts as two."""
        return 2 * int(call.arrays[0].size) * int(call.options[1][1])


def _prepared(weights: _Array, lower: int, boundary: str) -> Compute:
    count = len(weights)

    def compute(arrays: Any, factors: tuple[Any, ...]) -> None:
        lines, out = arrays
        numpy_products.silently(_convolve, _extended(lines, count, lower, boundary), weights, out)

    return compute


def _convolve(extended: _Array, weights: _Array, out: _Array) -> None:
    """Apply the filter at every position inside the ``extended`` lines, which are columns, and write the sums to the rows of ``out``."""
    if len(out) < _FEW:
        for line, row in zip(extended.T, out, strict=True):
            row[...] = np.correlate(line, weights, "valid")
        return
    step, across = extended.strides
    places = np.ndarray((*out.shape, len(weights)), extended.dtype, extended, 0, (across, step, step))
    np.matmul(places, weights, out=out)


def _extended(lines: _Array, count: int, lower: int, boundary: str) -> _Array:
    """The lines, extended at both ends as far as a filter of ``count`` taps reaches."""
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
    first, last = max(0, before), min(len(extended), before + n)  # the range of rows that are not zero
    if first < last:
        extended[first:last] = lines[first - before : last - before]
    return extended


@lru_cache(maxsize=64)
def _places(n: int, start: int, ends: int) -> _Array:
    return (np.arange(n + ends) + start) % n
