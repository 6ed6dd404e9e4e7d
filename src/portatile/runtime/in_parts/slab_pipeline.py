"""Slabs of a problem through a device's memory: two sets of buffers in turn, so that what crosses the link does so beside kernels.

Each set has a queue for its copies. Kernels of both run on the device's default queue, whose workspace is kept from call to call: to map
gigabytes anew takes milliseconds, in which the device would have nothing to do.
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
_LINE = 4096  # what each operand of a slab begins at a multiple of in pinned memory, in bytes


@dataclass
class _Lane:
    """One of the two sets of buffers, the queue of its copies, and the slab that it holds.

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
        raw = self.host[name][: nbytes(slab, name)]
        like = slab.matrices[name].array
        matrix: NDArray[Any] = raw.view(like.dtype).reshape(like.shape)
        return matrix


def _lines(nbytes: int) -> int:
    """``nbytes`` rounded up to the beginning of the next operand in pinned memory."""
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
        kernels = device.default_queue()
        widest = part(task, cut, 0, min(width, task.problem.sizes[cut.size]))
        try:
            memories = [_memories(device, widest, cut, own) for _ in range(2)]  # before there are queues: that of the last call is taken
            for which, memory in enumerate(memories):
                lanes.append(_Lane(device.queue(), memory, which, _crossing(widest, cut)))
            queues = [lane.queue for lane in lanes]
            shared = _place(queues, task, cut, own)
            for queue, other in permutations(queues):
                queue.wait_for(other.marker())
            stream = _Stream(engine, cut, shared, collected)
            stream.run(task, lanes, ranges)
            for queue in queues:
                queue.finish()
            if stream.workspace > device.info.global_memory // _KEPT:
                engine.free_workspaces()
        finally:
            for queue in (*(lane.queue for lane in lanes), kernels):
                drain(queue)  # whatever ended it: the caller's arrays may be in use
            for lane in lanes:
                lane.queue.release()
            for each in own:
                each.release()


class _Stream:
    """The slabs of one task on their way through the lanes; ``shared`` are the operands that stay on the device for all of them."""

    def __init__(self, engine: Engine, cut: Cut, shared: Mapping[str, Memory], collected: Callable[[int, int, float], None]) -> None:
        self._engine, self._cut, self._shared, self._collected = engine, cut, shared, collected
        self._kernels = engine.device.default_queue()
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
            self._kernels.follow(lane.queue)
            prepared.run(self._kernels, {**self._shared, **lane.device}, slab.scalars)
            lane.queue.follow(self._kernels)
            lane.pending, lane.steps = _fetch(lane, slab), steps
            lane.queue.flush()
            busy.append(lane)
        for lane in busy:
            self._collect(lane)

    @property
    def workspace(self) -> int:
        """Bytes of the workspace of all slabs so far."""
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
    """Memory for each operand of the widest slab; ``own`` takes it, to be given back."""
    memories: dict[str, Memory] = {}
    for name in cut.pieces:
        memories[name] = device.allocate(_nbytes(widest, name))
        own.append(memories[name])
    return memories


def _crossing(widest: Task, cut: Cut) -> Mapping[str, int]:
    """Bytes of each operand of the widest slab that crosses the link."""
    return {name: _nbytes(widest, name) for name in cut.pieces if widest.matrices[name].read or name == widest.output}


def _nbytes(slab: Task, name: str) -> int:
    """Bytes of an operand's memory, which is never none."""
    return max(nbytes(slab, name), slab.problem.itemsize)


def _place(queues: Sequence[Queue], task: Task, cut: Cut, own: list[Memory]) -> Mapping[str, Memory]:
    """Queue the upload of what every slab needs, on both queues; ``own`` takes the memory that nobody else gives back."""
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
    """Queue the upload of the slab's own parts of what is read."""
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


def _fetch(lane: _Lane, slab: Task) -> tuple[Task, Event, NDArray[Any] | None]:
    """Queue the download of the result: to its place where the device reaches that, but not over values that it was computed from."""
    target = slab.matrices[slab.output]
    if slab.adds or target.read or not locked.crosses(lane.queue.device, target.array, back=True, rows=True):
        result = lane.staged(slab, slab.output)
        return slab, lane.queue.download(result, lane.device[slab.output], blocking=False), result
    if target.array.flags.c_contiguous:
        return slab, lane.queue.download(target.array, lane.device[slab.output], blocking=False), None
    lane.queue.fetch_rows(target.array, lane.device[slab.output])
    return slab, lane.queue.marker(), None


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
