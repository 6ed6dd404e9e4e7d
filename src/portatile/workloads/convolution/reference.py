"""The float64 reference of a convolution with transposition, computed by definition."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from portatile.records import Problem
from portatile.workload import Expected, Inputs
from portatile.workloads import operands
from portatile.workloads.axis import Axis

SAMPLES = 64  # lines along either axis of a sampled reference


def filtered(problem: Problem) -> Axis:
    """The axis that is filtered."""
    options = problem.options
    return Axis(problem.sizes["n"], str(options["boundary"]), str(options["bank"]), int(options["taps"]), int(options["lower"]))


def solution(problem: Problem, shapes: dict[str, tuple[int, ...]], inputs: Inputs, sample: np.random.Generator | None) -> Expected:
    """The output, and the sum of |filter| |psi| as the scale of its error; with ``sample`` only at some places."""
    layout, axis = problem.layout, filtered(problem)
    psi, filters = (operands.view(inputs.operands[name], layout[name], shapes[name]).astype(np.float64) for name in ("psi", "filter"))
    ndat, count = problem.sizes["ndat"], axis.length
    if sample is None or ndat == 0 or count == 0:
        outputs = np.arange(count)
        values, scale = (part[:, axis.places(outputs).argsort()] for part in _sums(axis, psi, filters, outputs))
        return operands.whole(inputs.operands["out"], layout["out"], values, scale)
    outputs, columns = operands.lines(sample, count, SAMPLES), operands.lines(sample, ndat, SAMPLES)
    values, scale = _sums(axis, psi[:, columns], filters, outputs)
    where = operands.places(layout["out"], columns[:, None], axis.places(outputs)[None, :])
    return Expected(values.ravel(), scale.ravel(), where.ravel())


def _sums(
    axis: Axis, psi: NDArray[np.float64], filters: NDArray[np.float64], outputs: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Values and scale, with a row for each column of psi and a column for each of ``outputs``."""
    values, scale = np.zeros((outputs.size, psi.shape[1])), np.zeros((outputs.size, psi.shape[1]))
    for row, weight in axis.terms(filters, outputs):
        product = weight[:, None] * psi[row]
        values += product
        scale += np.abs(product)
    return values.T, scale.T
