"""Random problems of every routine against float64, within the bounds of a rounding analysis."""

from __future__ import annotations

import random

import numpy as np

from attack import AttackError, Place, calls


def attempt(rng: random.Random, place: Place) -> str:
    """One call; wrong where an element is farther from the exact result than its bound."""
    form = calls.draw(rng, place.device)
    check(form)
    return form.name


def check(form: calls.Problems) -> None:
    """Compute all problems of a form. Raises AttackError where one is wrong, or anything but the results was written."""
    before = [block.raw.copy() for block in form.inputs]
    outs = form.outputs.views
    for number in range(len(form)):
        form.run(number, outs[number])
    with np.errstate(invalid="ignore"):
        wrong = ~(np.abs(calls.wide(outs) - form.exact) <= form.allowed)
    if wrong.any():
        at = tuple(map(int, np.argwhere(wrong)[0]))
        which = len(set(np.argwhere(wrong)[:, 0].tolist()))
        told = f"{which} of {len(form)} problems are wrong, in number {at[0]} {int(wrong[at[0]].sum())} elements"
        raise AttackError(f"{form.name} {outs.shape[1:]} {outs.dtype}: {told}; {at[1:]} is {outs[at]!r}, not {form.exact[at]!r}")
    if not form.outputs.intact():
        raise AttackError(f"{form.name} {outs.shape[1:]} {outs.dtype}: memory around the output was written")
    if not all(np.array_equal(block.raw, was) for block, was in zip(form.inputs, before, strict=True)):
        raise AttackError(f"{form.name} {outs.shape[1:]} {outs.dtype}: an operand was written, or memory around it")
