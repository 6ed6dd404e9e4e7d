"""Problems larger than the device's memory: cut into slabs that are uploaded, computed and downloaded side by side on two queues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import cycle
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile import settings, workloads
from portatile.device.base import Device, Event, Memory, Queue
from portatile.errors import DeviceError
from portatile.records import Problem, Value
from portatile.routines.arrays import Matrix
from portatile.routines.engine import Engine, Prepared
from portatile.select import Choice

_SHARE = 0.9  # of a device's memory: the rest is the driver's
_LEAST_SLABS = 4  # where there are several, so that most of the transfers run beside computation
_GRAIN = 64  # a slab's extent is a multiple of this where it can be, so that tiles are whole
_ALIGNMENT = 128


@dataclass(frozen=True)
class Axis:
    """A size that a problem may be cut along, and what a piece of each operand is; operands not named are taken whole.

    ``pieces`` tells whether the piece is ``rows`` or ``columns`` of the stored matrix, ``unit`` how many of them belong to one step
    of the size. ``first`` names the scalar that takes the index of a slab's first step, where there is one.
    """

    size: str
    pieces: Mapping[str, str]
    unit: int = 1
    first: str = ""


@dataclass(frozen=True)
class Task:
    """What to compute: matrices in the host's memory by operand, the output last; ``read`` names those whose content matters."""

    workload: str
    sizes: Mapping[str, int]
    options: Mapping[str, Value]
    dtype: str
    matrices: Mapping[str, Matrix]
    scalars: Mapping[str, float]
    read: frozenset[str]
    output: str

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return np.dtype(self.dtype).itemsize


def axes(workload: str, sizes: Mapping[str, int], options: Mapping[str, Value]) -> tuple[Axis, ...]:
    """The sizes that the problems of a workload may be cut along without changing a sum; none for a workload that cannot be cut."""
    if workload == "gemm":
        a = "columns" if options["trans_a"] == "T" else "rows"
        b = "rows" if options["trans_b"] == "T" else "columns"
        return Axis("m", {"a": a, "c": "rows"}), Axis("n", {"b": b, "c": "columns"})
    if workload == "triangular":
        return (Axis("n", {"b": "columns"}) if options["side"] == "L" else Axis("m", {"b": "rows"}),)
    if workload == "convolution":
        return (Axis("ndat", {"psi": "columns", "out": "rows"}),)
    if workload == "coulomb":
        planes = Axis("nz", {"potential": "rows"}, max(sizes["ny"], 1), "z_first")
        return (planes,) if sizes["nz"] > 1 else (Axis("ny", {"potential": "rows"}, 1, "y_first"),)
    if workload == "mri":
        return (Axis("voxels", {"x": "rows", "y": "rows", "z": "rows", "image": "columns"}),)
    return ()


def limit_of(chip: Device) -> int | None:
    """Bytes that a computation on host arrays may take on the device; None for a device that computes in the host's own memory."""
    said = settings.memory_limit()
    if said is not None:
        return said
    return None if chip.info.unified_memory else int(_SHARE * chip.info.global_memory)


def too_large(chip: Device, nbytes: tuple[int, ...]) -> bool:
    """Whether operands of so many bytes cannot all lie on the device at once."""
    limit = limit_of(chip)
    return max(nbytes, default=0) > chip.info.max_allocation or (limit is not None and sum(nbytes) > limit)


def run(home: Engine, task: Task) -> None:
    """Compute slab by slab; returns when the output is in the caller's array.

    Every element is computed as it is in one piece: sums are never cut, and the configuration is the whole problem's where it is
    legal for a slab. Raises DeviceError where even the thinnest slab does not fit.
    """
    limit = limit_of(home.device) or home.device.info.global_memory
    choices = sorted(axes(task.workload, task.sizes, task.options), key=lambda axis: _resident(task, axis))
    for axis in choices:
        width = _width(home, task, axis, limit)
        if width:
            _pipeline(home, task, axis, width)
            return
    for axis in reversed(choices):  # cut what would have stayed whole, until the rest fits
        size = task.sizes[axis.size]
        if size > 1:
            for low, high in ((0, size // 2), (size // 2, size)):
                run(home, _part(task, axis, low, high))
            return
    need, info = sum(_bytes(task, name) for name in task.matrices), home.device.info
    sizes = " ".join(f"{name}={size}" for name, size in task.sizes.items())
    raise DeviceError(
        f"{task.workload} with {sizes} needs {need} bytes on {info.id}, where {limit} may be used "
        f"({info.max_allocation} in one piece), and cannot be cut further"
    )


def _bytes(task: Task, name: str) -> int:
    stored = task.matrices[name]
    return stored.rows * stored.columns * task.itemsize


def _resident(task: Task, axis: Axis) -> int:
    """Bytes of the operands that a cut leaves whole."""
    return sum(_bytes(task, name) for name in task.matrices if name not in axis.pieces)


def _piece(stored: Matrix, how: str, low: int, high: int) -> Matrix:
    """Rows or columns ``low`` to ``high`` of a matrix in the host's memory."""
    array: NDArray[Any] = stored.array
    if how == "rows":
        return stored._replace(array=array[low:high], rows=high - low)
    return stored._replace(array=array[:, low:high], columns=high - low)


def _part(task: Task, axis: Axis, low: int, high: int) -> Task:
    """The task of the steps ``low`` to ``high``."""
    pieces = {name: _piece(task.matrices[name], how, low * axis.unit, high * axis.unit) for name, how in axis.pieces.items()}
    scalars = {**task.scalars, axis.first: task.scalars[axis.first] + low} if axis.first else task.scalars
    return replace(task, sizes={**task.sizes, axis.size: high - low}, matrices={**task.matrices, **pieces}, scalars=scalars)


def _problem(task: Task) -> Problem:
    """The problem with packed operands: what lies on the device."""
    return workloads.get(task.workload).problem(task.sizes, task.dtype, task.options)


def _prepared(home: Engine, task: Task, choice: Choice) -> Prepared:
    """A slab made ready, with the whole problem's ``choice`` where it is legal: then every element is summed in the same order."""
    problem = _problem(task)
    space = workloads.get(task.workload).space(problem, home.device.info)
    return home.prepare(problem, choice if space.violated(choice.config) is None else None)


def _width(home: Engine, task: Task, axis: Axis, limit: int) -> int:
    """How many steps of the axis a slab may have, 0 for none: two of them are on the device at once, beside what stays whole."""
    size, most = task.sizes[axis.size], home.device.info.max_allocation
    fixed = _resident(task, axis)
    if fixed >= limit or any(_bytes(task, name) > most for name in task.matrices if name not in axis.pieces):
        return 0
    step = [_bytes(task, name) // max(size, 1) for name in axis.pieces]
    choice = home.choose(_problem(task))
    width = min((limit - fixed) // (2 * max(sum(step), 1)), most // max(*step, 1), -(-size // _LEAST_SLABS))
    while width >= 1:
        if width > _GRAIN:
            width -= width % _GRAIN
        workspace = _prepared(home, _part(task, axis, 0, width), choice).executable.plan.workspace
        if fixed + 2 * width * sum(step) + 3 * workspace <= limit:  # one for each lane, one more for a last slab that is thinner
            return int(width)
        width //= 2
    return 0


@dataclass
class _Lane:
    """One of the two sets of buffers, its queue, and the slab that it holds: ``pending`` waits to be collected."""

    queue: Queue
    device: Mapping[str, Memory]
    host: Mapping[str, NDArray[Any]]
    pending: tuple[Task, Event] | None = None

    def release(self) -> None:
        self.queue.release()
        for memory in self.device.values():
            memory.release()


@dataclass
class _Shared:
    """The operands that stay on the device for all slabs."""

    memory: dict[str, Memory] = field(default_factory=dict)

    def release(self) -> None:
        for memory in self.memory.values():
            memory.release()


def _pipeline(home: Engine, task: Task, axis: Axis, width: int) -> None:
    """Slab after slab through two lanes in turn: while one computes, the other's result is collected and its next slab uploaded."""
    chip, size, choice = home.device, task.sizes[axis.size], home.choose(_problem(task))
    prepared: dict[int, Prepared] = {}  # by extent: the last slab may be thinner
    shared, lanes = _Shared(), []
    with home.lock:
        try:
            for _ in range(2):
                lanes.append(_lane(chip, _part(task, axis, 0, min(width, size)), axis))
            ready = _place(chip, lanes[0].queue, task, axis, shared)
            lanes[1].queue.wait_for(ready)
            for low, lane in zip(range(0, size, width), cycle(lanes), strict=False):
                _collect(lane)
                part = _part(task, axis, low, min(low + width, size))
                extent = part.sizes[axis.size]
                if extent not in prepared:
                    prepared[extent] = _prepared(home, part, choice)
                for name in axis.pieces:
                    if name in task.read:
                        stage = _staged(lane, part, name)
                        stage[...] = part.matrices[name].array
                        lane.queue.upload(lane.device[name], stage, blocking=False)
                prepared[extent].run(lane.queue, {**shared.memory, **lane.device}, part.scalars)
                done = lane.queue.download(_staged(lane, part, task.output), lane.device[task.output], blocking=False)
                lane.queue.flush()
                lane.pending = part, done
            for lane in lanes:
                _collect(lane)
        finally:
            for lane in lanes:
                lane.queue.finish()
                lane.release()
            shared.release()


def _lane(chip: Device, widest: Task, axis: Axis) -> _Lane:
    """Buffers for the widest slab; what crosses the link lies in pinned memory, without which copies would not run beside kernels."""
    sizes = {name: max(_bytes(widest, name), widest.itemsize) for name in axis.pieces}
    crossing = {name for name in axis.pieces if name in widest.read} | {widest.output}
    return _Lane(
        chip.queue(),
        {name: chip.allocate(size) for name, size in sizes.items()},
        {name: chip.pinned(sizes[name]) for name in crossing},
    )


def _place(chip: Device, queue: Queue, task: Task, axis: Axis, shared: _Shared) -> Event:
    """Upload what every slab needs; gives the event after which it is there."""
    for name, stored in task.matrices.items():
        if name not in axis.pieces:
            shared.memory[name] = chip.allocate(max(_bytes(task, name), task.itemsize))
            if name in task.read and stored.rows and stored.columns:
                queue.upload(shared.memory[name], np.ascontiguousarray(stored.array))
    return queue.marker()


def _staged(lane: _Lane, part: Task, name: str) -> NDArray[Any]:
    """The lane's host memory as the slab's packed matrix."""
    stored = part.matrices[name]
    raw = lane.host[name][: _bytes(part, name)]
    return raw.view(part.dtype).reshape(stored.rows, stored.columns)


def _collect(lane: _Lane) -> None:
    """Bring the lane's result, if it has one, to the caller's array; waits for it."""
    if lane.pending is not None:
        part, done = lane.pending
        done.wait()
        part.matrices[part.output].array[...] = _staged(lane, part, part.output)
        lane.pending = None
