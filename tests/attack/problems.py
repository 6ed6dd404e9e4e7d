"""Random problems of every routine against float64, within the bounds of a rounding analysis."""

from __future__ import annotations

import random

import numpy as np

from attack import AttackError, Place, calls


def attempt(rng: random.Random, place: Place) -> str:
    """One call; wrong where an element is farther from the exact result than its bound."""
    return checked(calls.draw(rng, place.device))


def checked(call: calls.Call) -> str:
    """Run a call; its routine. Raises AttackError where the result is wrong."""
    out = call.empty.copy()
    call.run(out)
    with np.errstate(invalid="ignore"):
        wrong = ~(np.abs(out.astype(np.float64) - call.exact) <= call.allowed)
    if wrong.any():
        at = tuple(map(int, np.argwhere(wrong)[0]))
        raise AttackError(f"{call.name} {out.shape} {out.dtype}: {int(wrong.sum())} wrong, {at} is {out[at]!r}, not {call.exact[at]!r}")
    return call.name
