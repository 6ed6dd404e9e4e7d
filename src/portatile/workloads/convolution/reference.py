"""What a convolution with transposition must give, by definition, and the positions that its boundaries speak of."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from portatile.records import Problem
from portatile.workload import Expected, Inputs
from portatile.workloads import operands

SAMPLES = 64  # lines along either axis of a reference that is sampled


def phases(problem: Problem) -> int:
    """The filters that outputs take in turn: one, or two for a filter bank."""
    return 1 if problem.options["bank"] == "single" else 2


def taps(problem: Problem) -> int:
    """The length of each filter."""
    return int(problem.options["taps"])


def ends(problem: Problem) -> int:
    """By how much the longer side of ``grow`` and ``shrink`` exceeds n."""
    return max(taps(problem) - phases(problem), 0)


def rows(problem: Problem) -> int:
    """The rows of psi."""
    return problem.sizes["n"] + (ends(problem) if problem.options["boundary"] == "shrink" else 0)


def length(problem: Problem) -> int:
    """The columns of the output."""
    return problem.sizes["n"] + (ends(problem) if problem.options["boundary"] == "grow" else 0)


def first(problem: Problem) -> int:
    """The position that the first tap of output 0 meets."""
    boundary = problem.options["boundary"]
    return {"grow": -ends(problem), "shrink": 0}.get(str(boundary), int(problem.options["lower"]))


def solution(problem: Problem, shapes: dict[str, tuple[int, ...]], inputs: Inputs, sample: np.random.Generator | None) -> Expected:
    """The output and the sum of |filter| |psi| as its scale; with ``sample`` at some places only."""
    layout = problem.layout
    psi, filters = (operands.view(inputs.operands[name], layout[name], shapes[name]).astype(np.float64) for name in ("psi", "filter"))
    ndat, count = problem.sizes["ndat"], length(problem)
    if sample is None or ndat == 0 or count == 0:
        outputs = np.arange(count)
        values, scale = (part[:, _places(problem, outputs).argsort()] for part in _sums(problem, psi, filters, outputs))
        return operands.whole(inputs.operands["out"], layout["out"], values, scale)
    outputs, columns = operands.lines(sample, count, SAMPLES), operands.lines(sample, ndat, SAMPLES)
    values, scale = _sums(problem, psi[:, columns], filters, outputs)
    where = operands.places(layout["out"], columns[:, None], _places(problem, outputs)[None, :])
    return Expected(values.ravel(), scale.ravel(), where.ravel())


def _places(problem: Problem, outputs: NDArray[np.int64]) -> NDArray[np.int64]:
    """The columns that hold the outputs: analysis puts the even ones, then the odd ones."""
    if problem.options["bank"] != "analysis":
        return outputs
    return np.where(outputs % 2, outputs // 2 + (length(problem) + 1) // 2, outputs // 2)


def _sums(
    problem: Problem, psi: NDArray[np.float64], filters: NDArray[np.float64], outputs: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Values and scale, a row for each column of psi and a column for each of ``outputs``."""
    count = rows(problem)
    values, scale = np.zeros((outputs.size, psi.shape[1])), np.zeros((outputs.size, psi.shape[1]))
    phase = outputs % phases(problem)
    for tap in range(taps(problem)) if count else ():
        position = outputs - phase + first(problem) + tap
        weight = filters[phase, tap]
        if problem.options["boundary"] != "periodic":
            weight = np.where((position >= 0) & (position < count), weight, 0.0)
        row = position % count
        if problem.options["bank"] == "synthesis":
            row = np.where(row % 2, row // 2 + (count + 1) // 2, row // 2)
        product = weight[:, None] * psi[row]
        values += product
        scale += np.abs(product)
    return values.T, scale.T
