"""Problems larger than the device's memory: cut into slabs that are uploaded, computed and downloaded side by side on two queues."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile import settings, workloads, workspaces
from portatile.arguments.matrices import Matrix
from portatile.device import staging
from portatile.device.base import Device, Memory, Queue
from portatile.device.event import Event
from portatile.device.page_locked import locked
from portatile.errors import DeviceError
from portatile.records import Layout, Problem
from portatile.runtime.broadcast import Broadcast
from portatile.runtime.engine import Engine, Prepared
from portatile.runtime.memory_limit import asked, limit_of
from portatile.runtime.scratch import scratch
from portatile.select import Choice
from portatile.workload import Cut

_LEAST_SLABS = 4  # where there are several, so that most of the transfers run beside computation
GRAIN = 64  # a slab's extent is a multiple of this where it can be, so that tiles are whole
_CROSSING = 1 << 26  # bytes of a slab that cross the link: they lie in pinned memory, which takes the system long to make
_LINE = 4096  # what each operand of a slab begins at a multiple of in pinned memory, in bytes
_REUSED = 1024  # steps of a product's slab all the same, each of which reads, and may convert, what stays on the device once more


@dataclass(frozen=True)
class Task:
    """A problem, packed as it will lie on the device, in a configuration, and the size along which it is cut.

    ``matrices`` are those of the host by operand, the output last. ``whole`` is the
    problem that this one is a part of. A task that ``adds`` has more terms of sums that the output holds already. ``common`` has what other
    devices need whole, too.
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
        """The ways to cut it between elements, none for a workload that cannot be cut; the one that leaves least whole first."""
        return tuple(sorted((cut for cut in self._all if not cut.sums), key=lambda cut: _resident(self, cut)))

    @property
    def sums(self) -> tuple[Cut, ...]:
        """The ways to cut it between the terms of its sums."""
        return tuple(cut for cut in self._all if cut.sums and self.problem.sizes[cut.size] > 1)

    @property
    def _all(self) -> tuple[Cut, ...]:
        return workloads.get(self.problem.workload).cuts(self.problem, self.choice.config)


def task(engine: Engine, problem: Problem, matrices: Mapping[str, Matrix], scalars: Mapping[str, float]) -> Task:
    """The task of a problem on host arrays, in the configuration that it would have in one piece."""
    shared = {name for name, stored in matrices.items() if stored.number > 1 and stored.step == 0}
    single = {name: stored._replace(array=stored.array[0], number=1) for name, stored in matrices.items() if name in shared}
    packed = _packed(problem, shared)
    return Task(packed, engine.settle(problem), {**matrices, **single}, scalars, list(matrices)[-1], problem)


def run(engine: Engine, task: Task) -> None:
    """Compute slab by slab; returns when the output is in the caller's array.

    Every element is computed as it is in one piece: the configuration is the whole problem's where it is legal for a slab; only where
    less than a period of the cut fits, an element may take another of the configuration's ways. Sums are cut only where what they
    are over leaves too little memory for the thinnest slab: then what its parts give is added up on the host, in the output's type.
    Raises DeviceError where even the thinnest slab does not fit.
    """
    limit = limit_of(engine.device) or engine.device.info.global_memory
    for cut in task.cuts:
        width = widest(engine, task, cut, limit)
        if width:
            pipeline(engine, task, cut, width, _even(task.problem.sizes[cut.size], width))
            return
    if task.sums and not _thin_fits(engine, task, limit):
        for term in _terms(engine, task, limit):
            run(engine, term)
        return
    for cut in reversed(task.cuts):  # cut what would have stayed whole, until the rest fits
        size = task.problem.sizes[cut.size]
        if size > 1:
            half = _whole_periods(size // 2, cut)
            for low, high in ((0, half), (half, size)):
                run(engine, part(task, cut, low, high))
            return
    info = engine.device.info
    need = 2 * sum(_bytes(task, name) for name in task.matrices) + 2 * _prepared(engine, task).executable.plan.workspace
    sizes = " ".join(f"{name}={size}" for name, size in task.problem.sizes.items())
    advice = "; allow more by portatile.memory_limit or PORTATILE_MEMORY_LIMIT" if asked() or settings.memory_limit() else ""
    raise DeviceError(
        f"{task.problem.workload} with {sizes} takes {need} bytes on {info.id}, two slabs and their workspace, where {limit} may be used "
        f"({info.max_allocation} in one piece), and cannot be cut further{advice}"
    )


def _thin_fits(engine: Engine, task: Task, limit: int) -> bool:
    """Whether a slab does that is cut between elements wherever it can be."""
    if any(widest(engine, task, cut, limit) for cut in task.cuts):
        return True
    cuttable = [cut for cut in task.cuts if task.problem.sizes[cut.size] > 1]
    return bool(cuttable) and _thin_fits(engine, part(task, cuttable[-1], 0, 1), limit)


def _terms(engine: Engine, task: Task, limit: int) -> Iterator[Task]:
    """Parts of the sums, as many as leave half of the memory to slabs of the rest, two at least; all but the first add to the output."""
    cut, most = task.sums[0], engine.device.info.max_allocation
    size, terms = task.problem.sizes[cut.size], [_bytes(task, name) for name in cut.pieces]
    parts = max(2, -(-2 * sum(terms) // limit), -(-max(terms) // most))
    width = _whole_periods(max(size // parts, 1), cut)
    for low in range(0, size, width):
        yield replace(part(task, cut, low, min(low + width, size)), adds=task.adds or low > 0)


def _bytes(task: Task, name: str) -> int:
    stored = task.matrices[name]
    return stored.number * stored.rows * stored.columns * int(stored.array.dtype.itemsize)


def _resident(task: Task, cut: Cut) -> int:
    """Bytes of the operands that a cut leaves whole."""
    return sum(_bytes(task, name) for name in task.matrices if name not in cut.pieces)


def _whole_periods(width: int, cut: Cut) -> int:
    """``width`` less what is past the last multiple of the cut's period, and of the grain; less than one of them stays as it is."""
    for unit in (lcm(cut.period, GRAIN), cut.period):
        if width >= unit:
            return width - width % unit
    return width


def _piece(stored: Matrix, how: str, low: int, high: int) -> Matrix:
    """Rows, columns or matrices ``low`` to ``high`` of a matrix or a stack in the host's memory or on a device."""
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
    pieces = {name: _piece(task.matrices[name], how, low * cut.unit, high * cut.unit) for name, how in cut.pieces.items()}
    scalars = {**task.scalars, cut.first: task.scalars[cut.first] + low} if cut.first else task.scalars
    problem = replace(task.problem, sizes={**task.problem.sizes, cut.size: high - low})
    shared = {name for name, layout in problem.layout.items() if layout.strides[0] == 0}
    return replace(task, problem=_packed(problem, shared), matrices={**task.matrices, **pieces}, scalars=scalars)


def _packed(problem: Problem, shared: Collection[str]) -> Problem:
    """The problem with packed operands, those that are ``shared`` one matrix for the whole stack: what lies on the device."""
    packed = workloads.get(problem.workload).problem(problem.sizes, problem.dtype, problem.options)
    if not shared:
        return packed
    single = {name: Layout((0, *packed.layout[name].strides[1:])) for name in shared}
    return replace(packed, layout={**packed.layout, **single})


def _prepared(engine: Engine, slab: Task) -> Prepared:
    """A slab made ready, with the whole problem's configuration where it is legal: then every element is summed in the same order."""
    if engine.is_legal(slab.choice, slab.problem):
        return engine.prepare(slab.problem, slab.choice, slab.whole)
    return engine.prepare(slab.problem)


def widest(engine: Engine, task: Task, cut: Cut, limit: int) -> int:
    """How many steps of the size a slab may have, 0 for none: two of them are on the device at once, beside what stays whole."""
    size, most = task.problem.sizes[cut.size], engine.device.info.max_allocation
    fixed = _resident(task, cut)
    if fixed >= limit or any(_bytes(task, name) > most for name in task.matrices if name not in cut.pieces):
        return 0
    step = [_bytes(task, name) // max(size, 1) for name in cut.pieces]
    enough = max(min(-(-size // _LEAST_SLABS), size if _in_place(task, cut) else _crossing(task, step)), min(cut.period, size))
    width = min((limit - fixed) // (2 * max(sum(step), 1)), most // max(*step, 1), enough)
    while width >= 1:
        width = _whole_periods(width, cut)
        widths = {width, size % width or width}  # the last slab is thinner, and may be computed in another way
        plans = [_prepared(engine, part(task, cut, 0, extent)).executable.plan for extent in widths]
        if fixed + 2 * (width * sum(step) + workspaces.workspace(plans)) <= limit:
            return int(width)
        width //= 2
    return 0


def _crossing(task: Task, step: Sequence[int]) -> int:
    """How many steps, of so many bytes of each operand, may cross the link through pinned memory at once."""
    return max(_CROSSING // max(sum(step), 1), _REUSED if workloads.get(task.problem.workload).products else 1)


def _in_place(task: Task, cut: Cut) -> bool:
    """Whether slabs cross the link without being staged."""
    return all(how != "columns" and locked.holds(task.matrices[name].array) for name, how in cut.pieces.items())


@dataclass
class _Lane:
    """One of the two sets of buffers, its queue, and the slab that it holds.

    ``pending`` waits to be collected: where it was staged, its result in pinned memory stands last. ``steps`` are its. ``crossing``: bytes
    of each operand that crosses the link.
    """

    queue: Queue
    device: Mapping[str, Memory]
    which: int
    crossing: Mapping[str, int]
    pending: tuple[Task, Event, NDArray[Any] | None] | None = None
    steps: tuple[int, int] = (0, 0)
    host: dict[str, NDArray[Any]] = field(default_factory=dict)

    def staged(self, slab: Task, name: str) -> NDArray[Any]:
        """Pinned memory as the slab's packed matrix: without it copies would not run beside kernels."""
        if not self.host:
            pinned, start = scratch(self.queue.device).pinned(self.which, sum(map(_lines, self.crossing.values()))), 0
            for each, size in self.crossing.items():
                self.host[each] = pinned[start : start + size]
                start += _lines(size)
        raw = self.host[name][: _bytes(slab, name)]
        like = slab.matrices[name].array
        matrix: NDArray[Any] = raw.view(like.dtype).reshape(like.shape)
        return matrix

    def release(self) -> None:
        self.queue.release()
        for memory in self.device.values():
            memory.release()


def _lines(nbytes: int) -> int:
    """Bytes of so many, up to where the next operand begins."""
    return _LINE * -(-nbytes // _LINE)


def pipeline(
    engine: Engine,
    task: Task,
    cut: Cut,
    width: int,
    ranges: Iterable[tuple[int, int] | None],
    collected: Callable[[int, int, float], None] = lambda low, high, seconds: None,
) -> None:
    """Slab after slab through two lanes in turn: while one computes, the other's result is collected and its next slab uploaded.

    ``ranges`` are the steps of each slab, ``width`` of them at most; at None the oldest result is collected. ``collected`` is told of each
    slab whose result is in the caller's array, and of the seconds since the one before it, without those that making kernels ready took.
    """
    device = engine.device
    own: list[Memory] = []
    lanes: list[_Lane] = []
    with engine.lock:
        try:
            for which in range(2):
                lanes.append(_lane(device, part(task, cut, 0, min(width, task.problem.sizes[cut.size])), cut, which))
            shared = _place(lanes[0].queue, task, cut, own)
            lanes[1].queue.wait_for(lanes[0].queue.marker())
            _Stream(engine, cut, shared, collected).run(task, lanes, ranges)
        finally:
            for lane in lanes:
                lane.queue.finish()
                lane.release()
            for memory in own:
                memory.release()


class _Stream:
    """The slabs of one task on their way through the lanes; ``shared`` are the operands that stay on the device for all of them."""

    def __init__(self, engine: Engine, cut: Cut, shared: Mapping[str, Memory], collected: Callable[[int, int, float], None]) -> None:
        self._engine, self._cut, self._shared, self._collected = engine, cut, shared, collected
        self._prepared: dict[int, Prepared] = {}  # by extent: the last slab may be thinner
        self._since = time.perf_counter()  # when the latest result was collected, later by what making kernels ready took

    def run(self, task: Task, lanes: Sequence[_Lane], ranges: Iterable[tuple[int, int] | None]) -> None:
        """Compute the steps in ``ranges``, a slab each, collect at None; returns when all results are in the caller's array."""
        idle, busy = list(lanes), deque[_Lane]()
        for steps in ranges:
            if busy and (steps is None or not idle):
                self._collect(busy[0])
                idle.append(busy.popleft())
            if steps is None:
                continue
            if not busy:
                self._since = time.perf_counter()  # the piece may have been waited for
            lane, slab = idle.pop(), part(task, self._cut, *steps)
            prepared = self._prepare(slab)
            _send(lane, slab, self._cut)
            prepared.run(lane.queue, {**self._shared, **lane.device}, slab.scalars)
            lane.pending, lane.steps = _fetch(lane, slab), steps
            lane.queue.flush()
            busy.append(lane)
        for lane in busy:
            self._collect(lane)

    def _prepare(self, slab: Task) -> Prepared:
        extent = slab.problem.sizes[self._cut.size]
        if extent not in self._prepared:
            began = time.perf_counter()
            self._prepared[extent] = _prepared(self._engine, slab)
            self._since += time.perf_counter() - began
        return self._prepared[extent]

    def _collect(self, lane: _Lane) -> None:
        if lane.pending is not None:
            _collect(lane)
            now = time.perf_counter()
            self._collected(*lane.steps, now - self._since)
            self._since = now


def _even(size: int, width: int) -> Iterator[tuple[int, int]]:
    """All steps of a size, in ranges of ``width``."""
    for low in range(0, size, width):
        yield low, min(low + width, size)


def _lane(device: Device, widest: Task, cut: Cut, which: int) -> _Lane:
    """Buffers for the widest slab."""
    sizes = {name: max(_bytes(widest, name), widest.problem.itemsize) for name in cut.pieces}
    crossing = {name: size for name, size in sizes.items() if widest.matrices[name].read or name == widest.output}
    return _Lane(device.queue(), {name: device.allocate(size) for name, size in sizes.items()}, which, crossing)


def _place(queue: Queue, task: Task, cut: Cut, own: list[Memory]) -> Mapping[str, Memory]:
    """Queue the upload of what every slab needs; ``own`` takes the memory that nobody else gives back."""
    shared: dict[str, Memory] = {}
    for name, stored in task.matrices.items():
        if name in cut.pieces:
            continue
        array = np.ascontiguousarray(stored.array) if stored.read and stored.array.size else None
        if array is not None and task.common is not None and staging.pays(queue.device, array):
            shared[name] = task.common.place(queue, name, array)
            continue
        shared[name] = queue.device.allocate(max(_bytes(task, name), task.problem.itemsize))
        own.append(shared[name])
        if array is not None:
            staging.upload(queue, shared[name], array)
    return shared


def _send(lane: _Lane, slab: Task, cut: Cut) -> None:
    """Queue the upload of the slab's own parts of what is read."""
    for name in cut.pieces:
        stored = slab.matrices[name]
        if stored.read:
            array = stored.array
            if not locked.crosses(lane.queue.device, array):
                array = lane.staged(slab, name)
                staging.copied(array, stored.array)
            lane.queue.upload(lane.device[name], array, blocking=False)


def _fetch(lane: _Lane, slab: Task) -> tuple[Task, Event, NDArray[Any] | None]:
    """Queue the download of the result: to its place where the device reaches that, but not over values that it was computed from."""
    target = slab.matrices[slab.output]
    if not slab.adds and not target.read and locked.crosses(lane.queue.device, target.array, back=True):
        return slab, lane.queue.download(target.array, lane.device[slab.output], blocking=False), None
    result = lane.staged(slab, slab.output)
    return slab, lane.queue.download(result, lane.device[slab.output], blocking=False), result


def _collect(lane: _Lane) -> None:
    """Bring the lane's result, if it has one, to the caller's array; waits for it."""
    if lane.pending is not None:
        slab, done, result = lane.pending
        done.wait()
        target = slab.matrices[slab.output].array
        if slab.adds:
            with np.errstate(invalid="ignore", over="ignore"):  # infinities meet as they do in one piece
                target += result
        elif result is not None:
            staging.copied(target, result)
        lane.pending = None
