"""Operands of the battery as bytes: poisoned, guarded, compared."""

from __future__ import annotations

import numpy as np

from support.battery.case import Array, Case, In, Out

POISON, GUARD = 0xCB, 64


def host(arg: In | Out) -> Array:
    """The bytes that a buffer holds at first: its data or poison, and a guard behind."""
    array = arg.array if isinstance(arg, In) else arg.expected
    raw = np.full(array.nbytes + GUARD, POISON, np.uint8)
    before = array if isinstance(arg, In) else arg.before
    if before is not None:
        raw[: array.nbytes] = np.ascontiguousarray(before).view(np.uint8).reshape(-1)
    return raw


def check(case: Case, out: Out, raw: Array) -> None:
    """Fail unless the buffer holds what is expected and the guard is untouched."""
    size = out.expected.nbytes
    assert (raw[size:] == POISON).all(), f"{case.name} writes past the end of an output"
    compare(case, out, raw[:size].view(out.expected.dtype))


def compare(case: Case, out: Out, got: Array) -> None:
    """Fail unless ``got`` is what is expected."""
    if out.tolerance or out.floor:
        allowed = out.tolerance * np.abs(out.expected.astype(np.float64)) + out.floor
        with np.errstate(invalid="ignore"):
            wrong = ~(np.abs(got.astype(np.float64) - out.expected.astype(np.float64)) <= allowed)
    else:
        wrong = ~((got == out.expected) | ((got != got) & (out.expected != out.expected)))
    places = np.flatnonzero(wrong)
    assert not places.size, (
        f"{case.name}: {places.size} wrong, first at {places[:4]}: {got[places[:4]]} not {out.expected[places[:4]]}\n{case.text}"
    )
