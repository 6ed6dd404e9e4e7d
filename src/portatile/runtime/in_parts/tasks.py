"""A problem that is computed in parts: its operands wherever they lie, and the ways to cut it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from math import lcm
from typing import Any

from portatile import workloads
from portatile.arguments.matrices import Matrix
from portatile.records import Layout, Problem
from portatile.runtime.in_parts.broadcast import Broadcast
from portatile.runtime.one_device.engine import Engine, Prepared
from portatile.select import Choice
from portatile.workload import Cut

GRAIN = 64  # a part's extent is a multiple of this where possible, so that tiles are whole


@dataclass(frozen=True)
class Task:
    """A problem with packed operands, as they will lie on the device, its configuration, and the matrices that hold its operands now.

    ``matrices`` are the operands by name, the output last. ``whole`` is the problem that this one is a part of. A task that ``adds`` holds
    further terms of sums whose first terms the output has already. ``common`` holds the operands that other devices need whole, too.
    """

    problem: Problem
    choice: Choice
    matrices: Mapping[str, Matrix]
    scalars: Mapping[str, float]
    output: str
    whole: Problem
    adds: bool = False
    common: Broadcast | None = None

    @property
    def cuts(self) -> tuple[Cut, ...]:
        """The ways to cut the task between output elements, none or more; the first one leaves the fewest bytes whole."""
        return tuple(sorted((cut for cut in self._all if not cut.sums), key=lambda cut: left_whole(self, cut)))

    @property
    def sums(self) -> tuple[Cut, ...]:
        """The ways to cut the task between the terms of its sums."""
        return tuple(cut for cut in self._all if cut.sums and self.problem.sizes[cut.size] > 1)

    @property
    def _all(self) -> tuple[Cut, ...]:
        return workloads.get(self.problem.workload).cuts(self.problem, self.choice.config)


def task(engine: Engine, problem: Problem, matrices: Mapping[str, Matrix], scalars: Mapping[str, float]) -> Task:
    """The task of a problem on host arrays, in the configuration that the problem would have in one piece."""
    single = _shared_by_stack(matrices)
    return Task(_packed(problem, single), engine.settle(problem), {**matrices, **single}, scalars, list(matrices)[-1], problem)


def _shared_by_stack(matrices: Mapping[str, Matrix]) -> dict[str, Matrix]:
    """Operands that are one matrix for a whole stack."""
    shared = {name: stored for name, stored in matrices.items() if stored.number > 1 and stored.step == 0}
    return {name: stored._replace(array=stored.array[0], number=1) for name, stored in shared.items()}


def nbytes(task: Task, name: str) -> int:
    stored = task.matrices[name]
    return stored.number * stored.rows * stored.columns * int(stored.array.dtype.itemsize)


def crossing(task: Task, cut: Cut, part: float, copies: int = 1) -> int:
    """Bytes transferred between the host and devices with their own memory when these compute this ``part`` of a task on host arrays.

    Operands that all devices need whole are transferred ``copies`` times.
    """
    if task.matrices[task.output].on_device or not part:
        return 0
    moved = {name: nbytes(task, name) for name, stored in task.matrices.items() if stored.read}
    back = nbytes(task, task.output)
    return round(sum(size * (part if name in cut.pieces else copies) for name, size in moved.items()) + back * part)


def left_whole(task: Task, cut: Cut) -> int:
    """Bytes of the operands that a cut leaves whole."""
    return sum(nbytes(task, name) for name in task.matrices if name not in cut.pieces)


def whole_periods(width: int, cut: Cut) -> int:
    """``width`` rounded down to a multiple of the cut's period and of the grain; a smaller width stays as it is."""
    for unit in (lcm(cut.period, GRAIN), cut.period):
        if width >= unit:
            return width - width % unit
    return width


def _piece(stored: Matrix, how: str, low: int, high: int) -> Matrix:
    """Rows, columns or matrices ``low`` to ``high`` of a matrix or stack, on the host or on a device."""
    array: Any = stored.array
    if how == "matrices":
        view, apart = stored._replace(number=high - low), stored.step
    elif how == "rows":
        view, apart = stored._replace(rows=high - low), stored.stride
    else:
        view, apart = stored._replace(columns=high - low), 1
    if stored.on_device:
        return view._replace(offset=stored.offset + low * apart)
    return view._replace(array=array[:, low:high] if how == "columns" else array[low:high])


def part(task: Task, cut: Cut, low: int, high: int) -> Task:
    """The task of the steps ``low`` to ``high``."""
    problem = replace(task.problem, sizes={**task.problem.sizes, cut.size: high - low})
    shared = {name for name, layout in problem.layout.items() if layout.strides[0] == 0}
    pieces = {name: _piece(task.matrices[name], how, low * cut.unit, high * cut.unit) for name, how in cut.pieces.items()}
    scalars = {**task.scalars, cut.first: task.scalars[cut.first] + low} if cut.first else task.scalars
    return replace(task, problem=_packed(problem, shared), matrices={**task.matrices, **pieces}, scalars=scalars)


def _packed(problem: Problem, shared: Collection[str]) -> Problem:
    """The problem with packed operands, as they lie on the device; those that are ``shared`` are one matrix for the whole stack."""
    packed = workloads.get(problem.workload).problem(problem.sizes, problem.dtype, problem.options)
    if not shared:
        return packed
    single = {name: Layout((0, *packed.layout[name].strides[1:])) for name in shared}
    return replace(packed, layout={**packed.layout, **single})


def prepared(engine: Engine, slab: Task) -> Prepared:
    """A slab, compiled and loaded with the whole problem's configuration where legal, so that all sums run in the same order."""
    if engine.is_legal(slab.choice, slab.problem):
        return engine.prepare(slab.problem, slab.choice, slab.whole)
    return engine.prepare(slab.problem)
