"""A pipeline of slabs through a device's memory: double-buffered, so that transfers overlap with kernels.

Each set of buffers has a queue for its copies. The kernels of both sets run on the device's default queue, whose workspace is kept from
call to call: mapping gigabytes anew takes milliseconds, during which the device would idle.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile import workspaces
from portatile.device import staging
from portatile.device.base import Device, Memory, Queue
from portatile.device.event import Event
from portatile.device.page_locked import locked
from portatile.runtime.in_parts.tasks import Task, nbytes, part, prepared
from portatile.runtime.one_device.engine import Engine, Prepared
from portatile.runtime.one_device.in_flight import drain
from portatile.runtime.one_device.scratch import scratch
from portatile.workload import Cut

_KEPT = 8  # a workspace of up to 1/8 of the device's memory is kept for the next call
_LINE = 4096  # bytes; each operand of a slab begins at a multiple of this in pinned memory


@dataclass
class _Lane:
    """One of the two sets of buffers: the queue of its copies, and the slab that it holds.

    ``pending`` is the slab whose result is not yet collected, the event of its download and, where the result is staged, its pinned memory.
    ``steps`` is the slab's range. ``crossing`` gives the bytes of each operand that is transferred.
    """

    queue: Queue
    device: Mapping[str, Memory]
    which: int
    crossing: Mapping[str, int]
    pending: tuple[Task, Event, NDArray[Any] | None] | None = None
    steps: tuple[int, int] = (0, 0)
    host: dict[str, NDArray[Any]] = field(default_factory=dict)

    def staged(self, slab: Task, name: str) -> NDArray[Any]:
        """Pinned memory for a packed operand of the slab: copies of pageable memory would not overlap with kernels."""
        if not self.host:
            pinned, start = scratch(self.queue.device).pinned(self.which, sum(map(_lines, self.crossing.values()))), 0
            for each, size in self.crossing.items():
                self.host[each] = pinned[start : start + size]
                start += _lines(size)
        raw = self.host[name][: nbytes(slab, name)]
        like = slab.matrices[name].array
        matrix: NDArray[Any] = raw.view(like.dtype).reshape(like.shape)
        return matrix


def _lines(nbytes: int) -> int:
    """``nbytes`` rounded up to the alignment of operands in pinned memory."""
    return _LINE * -(-nbytes // _LINE)


def pipeline(
    engine: Engine,
    task: Task,
    cut: Cut,
    width: int,
    ranges: Iterable[tuple[int, int] | None],
    collected: Callable[[int, int, float], None] = lambda low, high, seconds: None,
) -> None:
    """Compute slab after slab on two lanes in turn: while one computes, the other's result is collected and its next slab is uploaded.

    ``ranges`` are the steps of each slab, at most ``width`` of them; at None the oldest result is collected. ``collected`` is called for
    each slab whose result has arrived in the caller's array, with its steps and the seconds since the previous one, without the time in
    which kernels were compiled and loaded.
    """
    device = engine.device
    own: list[Memory] = []
    lanes: list[_Lane] = []
    with engine.lock:
        kernels = device.default_queue()
        widest = part(task, cut, 0, min(width, task.problem.sizes[cut.size]))
        try:
            # allocated before the queues are made: the memory of the last call is reused
            memories = [_memories(device, widest, cut, own) for _ in range(2)]
            for which, memory in enumerate(memories):
                lanes.append(_Lane(device.queue(), memory, which, _crossing(widest, cut)))
            queues = [lane.queue for lane in lanes]
            shared = _place(queues, task, cut, own)
            for queue, other in permutations(queues):
                queue.wait_for(other.marker())
            stream = _SlabPipeline(engine, cut, shared, collected)
            stream.run(task, lanes, ranges)
            for queue in queues:
                queue.finish()
            if stream.workspace > device.info.global_memory // _KEPT:
                engine.free_workspaces()
        finally:
            for queue in (*(lane.queue for lane in lanes), kernels):
                drain(queue)  # whatever ended the pipeline: the caller's arrays may be in use
            for lane in lanes:
                lane.queue.release()
            for each in own:
                each.release()


class _SlabPipeline:
    """The slabs of one task on their way through the lanes. ``shared`` are the operands that stay on the device for all slabs."""

    def __init__(self, engine: Engine, cut: Cut, shared: Mapping[str, Memory], collected: Callable[[int, int, float], None]) -> None:
        self._engine, self._cut, self._shared, self._collected = engine, cut, shared, collected
        self._kernels = engine.device.default_queue()
        self._prepared: dict[int, Prepared] = {}  # by extent: the last slab may be thinner
        # when the latest result was collected, plus the seconds in which kernels were compiled since then
        self._since = time.perf_counter()

    def run(self, task: Task, lanes: Sequence[_Lane], ranges: Iterable[tuple[int, int] | None]) -> None:
        """Compute each range of steps as one slab; at None collect a result. Returns when all results are in the caller's array."""
        idle, busy = list(lanes), deque[_Lane]()
        for steps in ranges:
            if busy and (steps is None or not idle):
                self._collect(busy[0])
                idle.append(busy.popleft())
            if steps is None:
                continue
            if not busy:
                self._since = time.perf_counter()  # excludes the time that ``ranges`` waited for a piece
            lane, slab = idle.pop(), part(task, self._cut, *steps)
            prepared = self._prepare(slab)
            _send(lane, slab, self._cut)
            self._kernels.follow(lane.queue)
            prepared.run(self._kernels, {**self._shared, **lane.device}, slab.scalars)
            lane.queue.follow(self._kernels)
            lane.pending, lane.steps = _download_result(lane, slab), steps
            lane.queue.flush()
            busy.append(lane)
        for lane in busy:
            self._collect(lane)

    @property
    def workspace(self) -> int:
        """Bytes of the workspace that all slabs so far share."""
        return workspaces.workspace(one.executable.plan for one in self._prepared.values())

    def _prepare(self, slab: Task) -> Prepared:
        extent = slab.problem.sizes[self._cut.size]
        if extent not in self._prepared:
            began = time.perf_counter()
            self._prepared[extent] = prepared(self._engine, slab)
            self._since += time.perf_counter() - began
        return self._prepared[extent]

    def _collect(self, lane: _Lane) -> None:
        if lane.pending is not None:
            _collect(lane)
            now = time.perf_counter()
            self._collected(*lane.steps, now - self._since)
            self._since = now


def _memories(device: Device, widest: Task, cut: Cut, own: list[Memory]) -> Mapping[str, Memory]:
    """Memory for each operand of the widest slab, appended to ``own``, whose owner releases it."""
    memories: dict[str, Memory] = {}
    for name in cut.pieces:
        memories[name] = device.allocate(_nbytes(widest, name))
        own.append(memories[name])
    return memories


def _crossing(widest: Task, cut: Cut) -> Mapping[str, int]:
    """Bytes of each operand of the widest slab that crosses the link."""
    return {name: _nbytes(widest, name) for name in cut.pieces if widest.matrices[name].read or name == widest.output}


def _nbytes(slab: Task, name: str) -> int:
    """Bytes of an operand's memory, at least one element."""
    return max(nbytes(slab, name), slab.problem.itemsize)


def _place(queues: Sequence[Queue], task: Task, cut: Cut, own: list[Memory]) -> Mapping[str, Memory]:
    """Queue the upload of the operands that every slab needs, on both queues. Memory that the caller must release is added to ``own``."""
    shared: dict[str, Memory] = {}
    queue, beside = queues
    for name, stored in task.matrices.items():
        if name in cut.pieces:
            continue
        array = np.ascontiguousarray(stored.array) if stored.read and stored.array.size else None
        if array is not None and task.common is not None and staging.worthwhile(queue.device, array):
            shared[name] = task.common.place(queue, name, array, beside)
            continue
        shared[name] = queue.device.allocate(max(nbytes(task, name), task.problem.itemsize))
        own.append(shared[name])
        if array is not None:
            staging.upload(queue, shared[name], array)
    return shared


def _send(lane: _Lane, slab: Task, cut: Cut) -> None:
    """Queue the upload of the slab's parts of the operands that are read."""
    for name in cut.pieces:
        stored = slab.matrices[name]
        if stored.read:
            array = stored.array
            if not locked.crosses(lane.queue.device, array, rows=True):
                array = lane.staged(slab, name)
                staging.copied(array, stored.array)
            if array.flags.c_contiguous:
                lane.queue.send(lane.device[name], array)
            else:
                lane.queue.send_rows(lane.device[name], array)


def _download_result(lane: _Lane, slab: Task) -> tuple[Task, Event, NDArray[Any] | None]:
    """Queue the download of the result: directly into the caller's array where that is page-locked and its old values are not needed."""
    target = slab.matrices[slab.output]
    if slab.adds or target.read or not locked.crosses(lane.queue.device, target.array, back=True, rows=True):
        result = lane.staged(slab, slab.output)
        return slab, lane.queue.download(result, lane.device[slab.output], blocking=False), result
    if target.array.flags.c_contiguous:
        return slab, lane.queue.download(target.array, lane.device[slab.output], blocking=False), None
    lane.queue.fetch_rows(target.array, lane.device[slab.output])
    return slab, lane.queue.marker(), None


def _collect(lane: _Lane) -> None:
    """Wait for the lane's result, if it has one, and store it in the caller's array."""
    if lane.pending is not None:
        slab, done, result = lane.pending
        done.wait()
        target = slab.matrices[slab.output].array
        if slab.adds:
            with np.errstate(invalid="ignore", over="ignore"):  # infinities and NaN add up without warnings, as in kernels
                target += result
        elif result is not None:
            staging.copied(target, result)
        lane.pending = None
