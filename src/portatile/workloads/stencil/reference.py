"""The float64 reference of a sum of filters along the axes of a volume, computed by definition."""

from __future__ import annotations

import numpy as np

from portatile.records import Problem
from portatile.workload import Expected, Inputs
from portatile.workloads import operands
from portatile.workloads.axis import Axis

SAMPLES = 24  # places along each axis of a sampled reference


def axes(problem: Problem) -> tuple[Axis, Axis, Axis]:
    """The three axes in order."""
    options, sizes = problem.options, problem.sizes
    common = "single", int(options["taps"]), int(options["lower"])
    kinds = (options[name] for name in ("boundary1", "boundary2", "boundary3"))
    first, second, third = (Axis(n, str(kind), *common) for n, kind in zip(sizes.values(), kinds, strict=True))
    return first, second, third


def solution(problem: Problem, shapes: dict[str, tuple[int, ...]], inputs: Inputs, sample: np.random.Generator | None) -> Expected:
    """The output, and the sum of |filter| |psi| as the scale of its error; with ``sample`` only at some places."""
    layout, points = problem.layout, tuple(problem.sizes.values())
    psi, filters = (operands.view(inputs.operands[name], layout[name], shapes[name]).astype(np.float64) for name in ("psi", "filter"))
    psi = psi.reshape(points)
    chosen = [np.arange(n) if sample is None else operands.lines(sample, n, SAMPLES) for n in points]
    values, scale = np.zeros([places.size for places in chosen]), np.zeros([places.size for places in chosen])
    first = psi.ndim - len(filters)
    for number, axis in enumerate(axes(problem)[first:]):
        along = first + number
        for shifted, weights in axis.terms(filters[number : number + 1], chosen[along]):
            places = [shifted if at == along else there for at, there in enumerate(chosen)]
            product = weights.reshape([-1 if at == along else 1 for at in range(psi.ndim)]) * psi[np.ix_(*places)]
            values += product
            scale += np.abs(product)
    if sample is None:
        return operands.whole(inputs.operands["out"], layout["out"], values.reshape(shapes["out"]), scale.reshape(shapes["out"]))
    plane, row, column = np.ix_(*chosen)
    where = operands.places(layout["out"], plane * points[1] + row, column)
    return Expected(values.ravel(), scale.ravel(), where.ravel())
