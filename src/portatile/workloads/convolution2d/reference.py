"""What two filters along two axes must give, by definition: one axis after the other, in float64."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from portatile.records import Problem
from portatile.workload import Expected, Inputs
from portatile.workloads import operands

SAMPLES = 24  # places along each axis of a reference that is sampled


@dataclass(frozen=True)
class Axis:
    """One filtered axis of n points, and the positions that its boundary speaks of."""

    n: int
    boundary: str
    bank: str
    taps: int
    lower: int

    @property
    def phases(self) -> int:
        """The filters that outputs take in turn: one, or two for a filter bank."""
        return 1 if self.bank == "single" else 2

    @property
    def ends(self) -> int:
        """By how much the longer side of ``grow`` and ``shrink`` exceeds n."""
        return max(self.taps - self.phases, 0)

    @property
    def rows(self) -> int:
        """Points that are read."""
        return self.n + (self.ends if self.boundary == "shrink" else 0)

    @property
    def length(self) -> int:
        """Points that are written."""
        return self.n + (self.ends if self.boundary == "grow" else 0)

    @property
    def first(self) -> int:
        """The position that the first tap of output 0 meets."""
        return {"grow": -self.ends, "shrink": 0}.get(self.boundary, self.lower)

    def places(self, outputs: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where the outputs are stored: analysis puts the even ones before the odd ones."""
        if self.bank != "analysis":
            return outputs
        return np.where(outputs % 2, outputs // 2 + (self.length + 1) // 2, outputs // 2)

    def sums(self, values: NDArray[np.float64], filters: NDArray[np.float64], outputs: NDArray[np.int64]) -> NDArray[np.float64]:
        """The filter along the first axis of ``values``, at ``outputs``."""
        found = np.zeros((outputs.size, *values.shape[1:]))
        phase = outputs % self.phases
        for tap in range(self.taps):
            position = outputs - phase + self.first + tap
            weight = filters[phase, tap]
            if self.boundary != "periodic":
                weight = np.where((position >= 0) & (position < self.rows), weight, 0.0)
            row = position % self.rows
            if self.bank == "synthesis":
                row = np.where(row % 2, row // 2 + (self.rows + 1) // 2, row // 2)
            found += weight[:, None, None] * values[row]
        return found


def axes(problem: Problem) -> tuple[Axis, Axis]:
    """The two axes in order."""
    options = problem.options
    common = str(options["bank"]), int(options["taps"]), int(options["lower"])
    return Axis(problem.sizes["n1"], str(options["boundary"]), *common), Axis(problem.sizes["n2"], str(options["across"]), *common)


def solution(problem: Problem, shapes: dict[str, tuple[int, ...]], inputs: Inputs, sample: np.random.Generator | None) -> Expected:
    """The output and the sum of |filter| |filter| |psi| as its scale; with ``sample`` at some places only."""
    layout, (one, two) = problem.layout, axes(problem)
    psi, filters = (operands.view(inputs.operands[name], layout[name], shapes[name]) for name in ("psi", "filter"))
    ndat = problem.sizes["ndat"]
    chosen = [np.arange(count) if sample is None else operands.lines(sample, count, SAMPLES) for count in (ndat, one.length, two.length)]
    lines, outputs, across = chosen
    points, weights = psi[:, :, lines].astype(np.float64), filters.astype(np.float64)

    def both(points: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Indices line, output of the first axis, output of the second."""
        halfway = one.sums(points, weights, outputs)
        return two.sums(halfway.transpose(1, 0, 2), weights, across).transpose(2, 1, 0)

    values, scale = both(points, weights), both(np.abs(points), np.abs(weights))
    if sample is None:
        at = one.places(outputs).argsort()[:, None], two.places(across).argsort()[None, :]
        return operands.whole(inputs.operands["out"], layout["out"], values[:, at[0], at[1]], scale[:, at[0], at[1]])
    where = operands.places(layout["out"], lines[:, None, None], one.places(outputs)[None, :, None], two.places(across)[None, None, :])
    return Expected(values.ravel(), scale.ravel(), where.ravel())
