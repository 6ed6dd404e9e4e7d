"""Checks of a device's memory after a run: poison, inputs and error bounds. Canaries are in ``guarded_memory``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile.workload import Expected

GUARD_BYTES = 4096  # bytes next to an operand that are inspected after each run
GUARD_WORD = 0x41C3F00D
"""A canary, 24.5 as a float32 and 6.7e8 as a float64: neither a NaN nor so large that what a kernel adds to it is lost in rounding."""
POISON_BYTE = 0xFF  # a NaN in any floating-point type
_POISON_NAN = 0xFFF3
"""Sixteen bits that, repeated, are a NaN of every floating-point type from float16 on, and one that no device computes."""

REDUCTIONS: Mapping[str, Callable[[NDArray[Any]], Any]] = {"sum": np.sum, "min": np.min, "max": np.max}
"""Reductions that may be compared in place of an output's elements, by name."""


@dataclass(frozen=True)
class Verdict:
    """Whether a result is right. ``error`` is the largest deviation in units of the allowed one (1 is the limit)."""

    ok: bool
    error: float = 0.0
    message: str = ""


def poison(dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    """Memory of ``count`` elements in which ``compare`` recognises floating-point elements that were never written."""
    if dtype.kind == "f" and dtype.itemsize % 2 == 0:
        return np.full(count * dtype.itemsize // 2, _POISON_NAN, np.uint16).view(dtype)
    return np.full(count * dtype.itemsize, POISON_BYTE, np.uint8).view(dtype)


def _poisoned(values: NDArray[Any]) -> NDArray[np.bool_]:
    """The elements that still hold the values of ``poison``."""
    if values.dtype.kind != "f" or values.dtype.itemsize % 2:
        return np.zeros(values.shape, bool)
    halves = np.ascontiguousarray(values).view(np.uint16).reshape(values.size, -1)
    return np.asarray((halves == _POISON_NAN).all(axis=1))


def zeros_verdict(name: str, left: NDArray[np.uint8]) -> Verdict:
    """Whether ``name``, which must be left as zeros, is; ``left`` is its present content."""
    wrong = np.flatnonzero(left)
    if wrong.size == 0:
        return Verdict(True)
    return Verdict(
        False, float("inf"), f"left {name} without the zeros that the next run counts on: {wrong.size} bytes, the first {wrong[0]}"
    )


def unchanged(name: str, before: NDArray[Any], after: NDArray[Any]) -> Verdict:
    """Whether an input is unchanged, bit for bit."""
    bytes_before, bytes_after = before.reshape(-1).view(np.uint8), after.reshape(-1).view(np.uint8)
    words = bytes_before.size // 8 * 8  # words are compared first, ten times faster than bytes
    if np.array_equal(bytes_before[:words].view(np.uint64), bytes_after[:words].view(np.uint64)):
        wrong = words + np.flatnonzero(bytes_before[words:] != bytes_after[words:])
    else:
        wrong = np.flatnonzero(bytes_before != bytes_after)
    if wrong.size == 0:
        return Verdict(True)
    return Verdict(
        False, float("inf"), f"changed its input {name}: {wrong.size} bytes, the first in element {int(wrong[0]) // before.itemsize}"
    )


def compare(actual: NDArray[Any], expected: Expected, bound: float, name: str = "output") -> Verdict:
    """Compare an output's whole memory (one-dimensional) with its expected content.

    An element is right if ``|got - value| <= bound * scale``; if ``scale`` is 0 it must be equal, NaN equalling NaN, but not the NaN of
    ``poison``. Infinities must agree in sign.
    """
    places = expected.indices
    written = actual if places is None else actual[places]
    values = written.astype(expected.values.dtype)
    if expected.reduction and values.size:
        values = np.atleast_1d(REDUCTIONS[expected.reduction](values))
    if values.shape != expected.values.shape:
        return Verdict(False, float("inf"), f"{name} has {values.size} elements, expected {expected.values.size}")
    nan = np.isnan(expected.values)
    same = (values == expected.values) | (np.isnan(values) & nan)
    untouched = _poisoned(written) if nan.any() and not expected.reduction else np.zeros(values.shape, bool)
    same &= ~untouched
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        error = np.abs(values - expected.values) / (bound * expected.scale)
    error = np.where(same, 0.0, np.where(np.isnan(error), np.inf, error))
    if error.size == 0:
        return Verdict(True)
    worst = int(np.argmax(error))
    largest = float(error[worst])
    if largest <= 1:
        return Verdict(True, largest)
    place = worst if places is None else int(places[worst])
    where = f"the {expected.reduction} of {name}" if expected.reduction else f"{name}[{place}]"
    found = "was not written" if untouched[worst] else f"is {values[worst].item()!r}"
    message = (
        f"{where} {found}, expected {expected.values[worst].item()!r}: {largest:.3g} times the allowed error;"
        f" {int(np.count_nonzero(error > 1))} of {error.size} elements are wrong"
    )
    return Verdict(False, largest, message)


def worst(verdicts: list[Verdict]) -> Verdict:
    """The first failure, or the largest error of all."""
    for verdict in verdicts:
        if not verdict.ok:
            return verdict
    return max(verdicts, key=lambda v: v.error, default=Verdict(True))
