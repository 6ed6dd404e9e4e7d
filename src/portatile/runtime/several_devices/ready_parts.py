"""One device's part of a short problem on host arrays, prepared: a call only slices, copies and launches.

The memory layout of the operands is fixed once. Small operands lie at the beginning and are sent together, as one copy from pinned memory:
copies from pageable memory would be staged by the driver one after another, and each would wait for all earlier work.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from portatile.device import staging
from portatile.device.base import PART_ALIGNMENT, Memory, Queue
from portatile.device.event import Event
from portatile.device.page_locked import locked
from portatile.runtime.in_parts.tasks import Task, nbytes, part, prepared
from portatile.runtime.one_device.engine import Engine, Prepared
from portatile.runtime.one_device.in_flight import InFlight
from portatile.runtime.one_device.scratch import Scratch, scratch
from portatile.runtime.request import NO_SCALARS
from portatile.workload import Cut

_BLOCK = 128  # the scratch block that holds the operands; lower numbers belong to other routines
_SMALL = 1 << 18  # bytes, below which an operand is sent from pinned memory together with the other small ones
_ROWS = 8  # rows of a non-contiguous array that are copied one by one, at most


class PartOperand(NamedTuple):
    """An operand of a part: elements ``low`` to ``high`` of the problem's array number ``at``, along ``how`` (rows, columns or matrices),
    or all of it if ``how`` is empty. It begins at byte ``offset`` of the part's memory. ``read`` operands are sent, ``small`` ones in one
    copy.
    """

    at: int
    how: str
    low: int
    high: int
    offset: int
    nbytes: int
    read: bool
    small: bool

    def of(self, arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """The operand's elements in the arrays of a call."""
        array = arrays[self.at]
        if not self.how:
            return array
        return array[:, self.low : self.high] if self.how == "columns" else array[self.low : self.high]


class _Memories(NamedTuple):
    """The memory of a part: of each operand, of all small ones, and their pinned memory on the host. Valid until ``blocks`` changes."""

    blocks: Scratch
    changes: int
    operands: Mapping[str, Memory]
    first: Memory
    pinned: NDArray[np.uint8]


class PartPlan:
    """The steps from ``low`` to ``high`` of a task on a device: the prepared problem, and the memory layout of its operands."""

    def __init__(self, engine: Engine, whole: Task, cut: Cut, low: int, high: int) -> None:
        self.engine, self.low, self.high = engine, low, high
        task = part(whole, cut, low, high)
        self.ready: Prepared = prepared(engine, task)
        self.output = task.output
        self._first = cut.first  # the scalar that receives the first step of the part
        sizes = {name: nbytes(task, name) for name in task.matrices}
        small = {name for name, stored in task.matrices.items() if stored.read and 0 < sizes[name] < _SMALL}
        places = {name: at for at, name in enumerate(task.matrices)}
        self.operands: dict[str, PartOperand] = {}
        self.sent = self.nbytes = 0
        for name in sorted(task.matrices, key=lambda name: name not in small):
            how, read = cut.pieces.get(name, ""), task.matrices[name].read and sizes[name] > 0
            steps = (low * cut.unit, high * cut.unit) if how else (0, 0)
            self.operands[name] = PartOperand(places[name], how, *steps, self.nbytes, sizes[name], read, name in small)
            if name in small:
                self.sent = self.nbytes + sizes[name]
            self.nbytes += -(-max(sizes[name], task.problem.itemsize) // PART_ALIGNMENT) * PART_ALIGNMENT
        self._memories: _Memories | None = None

    def scalars(self, given: Mapping[str, float]) -> Mapping[str, float]:
        """The scalars of the part, from those of the whole."""
        return {**given, self._first: given[self._first] + self.low} if self._first else given

    def memories(self) -> _Memories:
        """The memory for a call's operands, reused from the last call where possible. The caller holds the engine's lock."""
        device = self.engine.device
        blocks, known = scratch(device), self._memories
        if known is not None and known.blocks is blocks and known.changes == blocks.changes:
            return known
        block = blocks.block(_BLOCK, self.nbytes)
        pinned = blocks.pinned(_BLOCK, max(self.sent, 1))
        places = {name: device.part(block, one.offset, max(one.nbytes, 1)) for name, one in self.operands.items()}
        self._memories = _Memories(blocks, blocks.changes, places, device.part(block, 0, max(self.sent, 1)), pinned)
        return self._memories


class ReadyPart(NamedTuple):
    """A prepared part, with the ``arrays`` and ``scalars`` of the whole during a call; without them between calls."""

    plan: PartPlan
    arrays: tuple[NDArray[Any], ...] = ()
    scalars: Mapping[str, float] = NO_SCALARS

    @property
    def steps(self) -> int:
        """The number of steps that the device computes."""
        return self.plan.high - self.plan.low


class BegunPart:
    """A part whose operands are being sent. ``compute`` queues its kernels, and the download of the result where that is page-locked.

    ``stack`` releases what the call holds. The caller holds the engine's lock, and the device's context is current.
    """

    def __init__(self, stack: ExitStack, taking: ReadyPart) -> None:
        self.began = time.perf_counter()
        self._plan, self._arrays, self._given = taking.plan, taking.arrays, taking.scalars
        device = taking.plan.engine.device
        self._queue: Queue = device.default_queue()
        self._packed: list[NDArray[Any]] = []  # copies of operands, which must live until the call ends
        stack.enter_context(InFlight(taking.plan.engine.in_flight, self._queue, (taking.arrays, self._packed)))
        self._memories = taking.plan.memories()
        if taking.plan.sent:
            self._send_small()
        for name, operand in taking.plan.operands.items():
            if operand.read and not operand.small:
                self._send(self._memories.operands[name], operand.of(self._arrays))
        self._queue.flush()
        self.end: Event
        self.seconds = 0.0

    def _send_small(self) -> None:
        pinned, sent = self._memories.pinned, self._plan.sent
        for operand in self._plan.operands.values():
            if operand.small:
                array = operand.of(self._arrays)
                pinned[operand.offset : operand.offset + operand.nbytes].view(array.dtype).reshape(array.shape)[...] = array
        self._queue.send(self._memories.first, pinned[:sent])

    def _send(self, memory: Memory, array: NDArray[Any]) -> None:
        if not array.flags.c_contiguous and locked.crosses(self._queue.device, array, rows=True):
            self._queue.send_rows(memory, array)
            return
        rows = _rows(array)
        if not rows:
            rows = (np.ascontiguousarray(array),)
            self._packed.append(rows[0])
        for place, row in enumerate(rows):
            staging.send(self._queue, memory, row, place * row.nbytes)

    def compute(self) -> None:
        """Queue the kernels; called after the operands of all parts were queued."""
        plan = self._plan
        plan.ready.run(self._queue, self._memories.operands, plan.scalars(self._given))
        self._target = plan.operands[plan.output].of(self._arrays)
        self._memory = self._memories.operands[plan.output]
        self._coming = self._fetch()
        self.end = self._queue.marker()
        self._queue.flush()

    def _fetch(self) -> bool:
        """Queue the download of the result into the caller's array if that is page-locked; returns whether it is."""
        target, device = self._target, self._queue.device
        if not target.flags.c_contiguous and locked.crosses(device, target, back=True, rows=True):
            self._queue.fetch_rows(target, self._memory)
            return True
        rows = _rows(target)
        crossing = [locked.crosses(device, row, back=True) for row in rows]  # no short-circuit: each call counts a transfer
        if not rows or not all(crossing):
            return False
        for place, row in enumerate(rows):
            self._queue.fetch(row, self._memory, place * row.nbytes)
        return True

    def finish(self) -> None:
        """Store the result of a completed part in the caller's array, unless it was downloaded there directly."""
        ended = time.perf_counter()
        self.seconds = ended - self.began
        if self._coming:
            self._queue.finish()
            return
        array = self._target if self._target.flags.c_contiguous else np.empty(self._target.shape, self._target.dtype)
        staging.download(self._queue, array, self._memory)
        if array is not self._target:
            staging.copied(self._target, array)
        self.seconds += time.perf_counter() - ended


def _rows(array: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """The contiguous pieces of an array: the array itself, or a few rows; empty where there are many rows or they are not contiguous."""
    if array.flags.c_contiguous:
        return (array,)
    return tuple(array) if array.ndim == 2 and len(array) <= _ROWS and array[0].flags.c_contiguous else ()
