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
    for number in range(len(form)):
        form.run(number, form.outputs.views[number])
    check_results(form, form.outputs, before)


def check_results(form: calls.Problems, target: calls.Block, before: list[calls.Array]) -> None:
    """Compare the results, in ``target``, and what lies around them; ``before`` is what the inputs' memory held.

    Raises AttackError where a result is wrong, or anything but the results was written.
    """
    outs = target.views
    with np.errstate(invalid="ignore"):
        wrong = ~(np.abs(calls.wide(outs) - form.exact) <= form.allowed)
    if wrong.any():
        at = tuple(map(int, np.argwhere(wrong)[0]))
        which = len(set(np.argwhere(wrong)[:, 0].tolist()))
        told = f"{which} of {len(form)} problems are wrong, in number {at[0]} {int(wrong[at[0]].sum())} elements"
        raise AttackError(f"{form.name} {outs.shape[1:]} {outs.dtype}: {told}; {at[1:]} is {outs[at]!r}, not {form.exact[at]!r}")
    if target is form.outputs and not target.intact():
        raise AttackError(f"{form.name} {outs.shape[1:]} {outs.dtype}: memory around the output was written")
    if not all(block is target or np.array_equal(block.raw, was) for block, was in zip(form.inputs, before, strict=True)):
        raise AttackError(f"{form.name} {outs.shape[1:]} {outs.dtype}: an operand was written, or memory around it")
