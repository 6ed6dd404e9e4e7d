"""Fits the estimate's constants to timings, by least squares of logarithms (Levenberg-Marquardt), and judges the choices that result.

Residuals beyond ``_SOFT`` count linearly, not by their squares (the soft L1 loss), so that configurations which the estimate cannot
describe do not distort the rest. Every constant is tied weakly to its start, so that one on which no timing depends stays there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from portatile.workloads.gemm.forms.gpu.costs import NAMES, Costs
from portatile.workloads.gemm.forms.gpu.estimate import microseconds
from portatile.workloads.gemm.forms.gpu.timings import TimedCase, joined

_HELD = 0.1, 0.15  # the weight of a cost, and of a rate, that is a factor e away from its start
_POWER = 2.0  # the weight of a timing is (best / timing) to this power: slow configurations need not be judged well
_SOFT = 0.1  # the residual, a difference of logarithms, from which the loss is linear
_ROUNDS = 20
_STEP = 1e-4  # the step in a logarithm for difference quotients
_ENOUGH = 1e-4  # a round that reduces the loss by a smaller share is the last

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Judgement:
    """The quality of an estimate's choices among timed configurations: the best time over the chosen one's, for each shape."""

    shapes: int
    mean: float
    worst: float


def fit(timed: Sequence[TimedCase], start: Costs, advance: Callable[[], None] = lambda: None) -> Costs:
    """The constants with the least weighted loss, starting from ``start``; ``advance`` is called in each round,
    ``_ROUNDS`` times at most.
    """
    shape, columns = joined(timed)
    weights = np.concatenate([(case.best / case.took) ** _POWER for case in timed])
    took = np.log(np.concatenate([case.took for case in timed]))
    first = _logs(start)
    hold = np.array([_HELD[0]] * len(NAMES) + [_HELD[1]] * len(start.rates))

    def misses(logs: Array) -> Array:
        now = _costs(logs, start)
        return np.asarray(weights * (np.log(microseconds(shape, columns, now)) - took))

    def loss(missed: Array, logs: Array) -> float:
        return float(2 * _SOFT**2 * (np.sqrt(1 + (missed / _SOFT) ** 2) - 1).sum() + ((hold * (logs - first)) ** 2).sum())

    logs, damping = first.copy(), 1e-2
    missed = misses(logs)
    best = loss(missed, logs)
    for _ in range(_ROUNDS):
        advance()
        slopes = np.stack([(misses(_moved(logs, place)) - missed) / _STEP for place in range(len(logs))], axis=1)
        robust = 1 / np.sqrt(1 + (missed / _SOFT) ** 2)
        normal = slopes.T @ (slopes * robust[:, None]) + np.diag(hold**2)
        downhill = slopes.T @ (robust * missed) + hold**2 * (logs - first)
        gained = 0.0
        for _ in range(8):
            tried = logs - np.linalg.solve(normal + damping * np.diag(np.diag(normal)), downhill)
            there = misses(tried)
            if (now := loss(there, tried)) < best:
                gained, logs, missed, best, damping = best - now, tried, there, now, damping / 3
                break
            damping *= 4
        if gained <= _ENOUGH * best:
            break
    return _costs(logs, start)


def judge(timed: Sequence[TimedCase], costs: Costs) -> Judgement:
    """The quality of the choices that ``costs`` make for these shapes."""
    shares = [case.best / float(case.took[np.argmin(case.estimated(costs))]) for case in timed]
    return Judgement(len(shares), fmean(shares), min(shares)) if shares else Judgement(0, math.nan, math.nan)


def held_out(timed: Sequence[TimedCase], start: Costs) -> Judgement:
    """The quality of choices on held-out shapes: each half is judged with the constants that were fitted to the other half."""
    halves = timed[::2], timed[1::2]
    if not all(halves):
        return Judgement(0, math.nan, math.nan)
    one, other = (judge(mine, fit(theirs, start)) for mine, theirs in (halves, halves[::-1]))
    count = one.shapes + other.shapes
    return Judgement(count, (one.mean * one.shapes + other.mean * other.shapes) / count, min(one.worst, other.worst))


def _logs(costs: Costs) -> Array:
    return np.log([*(getattr(costs, name) for name in NAMES), *costs.rates])


def _costs(logs: Array, like: Costs) -> Costs:
    values = [float(value) for value in np.exp(logs)]
    return replace(like, **dict(zip(NAMES, values, strict=False)), rates=tuple(values[len(NAMES) :]))


def _moved(logs: Array, place: int) -> Array:
    moved = logs.copy()
    moved[place] += _STEP
    return moved
