"""A triangle in host memory shared by several devices: its rows in parts of equal area, each a product and a smaller triangle."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from portatile import workloads
from portatile.arguments.matrices import MAX_ALIGNMENT, Matrix
from portatile.device.buffer import Buffer
from portatile.records import Problem
from portatile.runtime.in_parts.tasks import GRAIN, Task
from portatile.runtime.one_device import memory_limit
from portatile.runtime.one_device.engine import Engine, Prepared
from portatile.runtime.several_devices.pieces import Pieces
from portatile.workload import CONJUGATE, Cut, Member

Start = Callable[[Engine, Prepared, Mapping[str, Matrix], Mapping[str, Any]], None]
PARTS = 32
"""The number of parts of a triangle, at most."""
_OPERANDS = 3  # copies of a part's rows that a device may hold at once


def cut(task: Task) -> Cut | None:
    """The size along which a triangle is shared, in steps of equal area; None for an output that is no triangle or lies on a device."""
    return None if any(stored.on_device for stored in task.matrices.values()) else cut_of(task.problem)


def cut_of(problem: Problem) -> Cut | None:
    """The size along which a problem is shared if its output is a triangle whose rows can be computed independently; else None."""
    workload = workloads.get(problem.workload)
    size = workload.triangle
    if not size or problem.sizes[size] < 2 or not workload.members(problem, 0, 1):
        return None
    return Cut(size, {}, period=period(problem.sizes[size]))


def period(n: int) -> int:
    """The least steps of a part: every part is a problem of its own shape, which has to be prepared."""
    return -(-n // PARTS)


def most(engine: Engine, task: Task, cut: Cut) -> int:
    """The steps of the largest part that fits into a device's own memory, beside the operands that are only read."""
    n, limit = task.problem.sizes[cut.size], memory_limit.limit_of(engine.device) or engine.device.info.global_memory
    nbytes = {name: stored.extent * stored.array.itemsize for name, stored in task.matrices.items()}
    row = max(nbytes.pop(task.output) // n, 1)
    if any(size > engine.device.info.max_allocation for size in nbytes.values()):
        return 0
    rows = min((limit - sum(nbytes.values())) // (_OPERANDS * row), engine.device.info.max_allocation // row, n)
    return int(rows * rows // n) if rows > 0 else 0


def rows(n: int, low: int, high: int, upper: bool) -> tuple[int, int]:
    """The rows of a triangle of order ``n`` for steps ``low`` to ``high`` of ``n`` equal areas, in whole tiles where there are many."""
    grain = GRAIN if n > GRAIN * GRAIN else 1

    def row(step: int) -> int:
        if step in (0, n):
            return step
        exact = n - n * sqrt(1 - step / n) if upper else n * sqrt(step / n)
        return min(round(exact / grain) * grain, n)

    return row(low), row(high)


@dataclass
class TriangleParts:
    """One device that computes parts of a triangle. A context manager, which releases its copies of operands."""

    engine: Engine
    task: Task
    start: Start

    def __enter__(self) -> TriangleParts:
        device, self._own = self.engine.device, {}
        if not device.info.unified_memory:
            read = {name: stored for name, stored in self.task.matrices.items() if name != self.task.output and stored.read}
            self._own = {name: Buffer.from_numpy(np.ascontiguousarray(stored.array), device) for name, stored in read.items()}
        return self

    def __exit__(self, *exc: object) -> None:
        for buffer in self._own.values():
            buffer.release()

    def run(self, pieces: Pieces, most: int, collected: Callable[[int, int, float], None]) -> None:
        """Take part after part until none is left; an unfinished part is given back, with its output's initial values restored."""
        n, upper = len(self.task.matrices[self.task.output].array), self.task.problem.options["uplo"] == "U"
        output = self.task.matrices[self.task.output].array
        while (piece := pieces.take(self.engine.device.info.id, most)) is not None:
            first, past = rows(n, *piece, upper)
            mine = output[first:past, first:] if upper else output[first:past, :past]
            before, began = np.array(mine), time.perf_counter()
            try:
                for member in workloads.get(self.task.problem.workload).members(self.task.problem, first, past):
                    began += self._compute(member)
            except BaseException:
                mine[...] = before
                pieces.give_back(*piece)
                raise
            collected(*piece, time.perf_counter() - began)

    def _compute(self, member: Member) -> float:
        """Compute one of a part's problems; returns the seconds that preparing it took."""
        matrices = {name: self._part(*what) for name, what in member.operands.items()}
        began = time.perf_counter()
        layout = {name: stored.layout for name, stored in matrices.items()}
        problem = workloads.get(member.workload).problem(member.sizes, member.dtype, member.options, layout)
        prepared = self.engine.prepare(problem)
        ready = time.perf_counter() - began
        self.start(self.engine, prepared, matrices, {name: self._scalar(value) for name, value in member.scalars.items()})
        return ready

    def _scalar(self, value: float | str) -> Any:
        if not isinstance(value, str):
            return value
        factor: Any = self.task.scalars[value.removesuffix(CONJUGATE)]
        return factor.conjugate() if value.endswith(CONJUGATE) else factor

    def _part(self, name: str, down: tuple[int, int], along: tuple[int, int]) -> Matrix:
        """Some rows and columns of a stored operand, in the device's own copy where there is one."""
        stored = self.task.matrices[name]
        height, width = down[1] - down[0], along[1] - along[0]
        if name in self._own:
            own = self._own[name]
            offset = down[0] * own.shape[1] + along[0]
            return stored._replace(array=own, rows=height, columns=width, stride=own.shape[1], offset=offset, alignment=MAX_ALIGNMENT)
        array = stored.array[slice(*down), slice(*along)]
        pointer = array.__array_interface__["data"][0]
        alignment = min(pointer & -pointer, MAX_ALIGNMENT) or 1
        return stored._replace(array=array, rows=height, columns=width, alignment=alignment)
