"""The float64 reference of two filters along two axes, computed by definition, one axis after the other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from portatile.records import Problem
from portatile.workload import Expected, Inputs
from portatile.workloads import operands
from portatile.workloads.axis import Axis

SAMPLES = 24  # places along each axis of a sampled reference


def axes(problem: Problem) -> tuple[Axis, Axis]:
    """The two axes in order."""
    options = problem.options
    common = str(options["bank"]), int(options["taps"]), int(options["lower"])
    return Axis(problem.sizes["n1"], str(options["boundary"]), *common), Axis(problem.sizes["n2"], str(options["across"]), *common)


def solution(problem: Problem, shapes: dict[str, tuple[int, ...]], inputs: Inputs, sample: np.random.Generator | None) -> Expected:
    """The output, and the sum of |filter| |filter| |psi| as the scale of its error; with ``sample`` only at some places."""
    layout, (first, second) = problem.layout, axes(problem)
    psi, filters = (operands.view(inputs.operands[name], layout[name], shapes[name]) for name in ("psi", "filter"))
    ndat = problem.sizes["ndat"]
    chosen = [
        np.arange(count) if sample is None else operands.lines(sample, count, SAMPLES) for count in (ndat, first.length, second.length)
    ]
    lines, outputs, across = chosen
    points, weights = psi[:, :, lines].astype(np.float64), filters.astype(np.float64)

    def both(points: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """The filter along both axes, indexed by line, output of the first axis, and output of the second."""
        halfway = _sums(first, points, weights, outputs)
        return _sums(second, halfway.transpose(1, 0, 2), weights, across).transpose(2, 1, 0)

    values, scale = both(points, weights), both(np.abs(points), np.abs(weights))
    if sample is None:
        at = first.places(outputs).argsort()[:, None], second.places(across).argsort()[None, :]
        return operands.whole(inputs.operands["out"], layout["out"], values[:, at[0], at[1]], scale[:, at[0], at[1]])
    where = operands.places(layout["out"], lines[:, None, None], first.places(outputs)[None, :, None], second.places(across)[None, None, :])
    return Expected(values.ravel(), scale.ravel(), where.ravel())


def _sums(axis: Axis, values: NDArray[np.float64], filters: NDArray[np.float64], outputs: NDArray[np.int64]) -> NDArray[np.float64]:
    """``values`` filtered along their first axis, at ``outputs``."""
    sums = np.zeros((outputs.size, *values.shape[1:]))
    for row, weight in axis.terms(filters, outputs):
        sums += weight[:, None, None] * values[row]
    return sums
