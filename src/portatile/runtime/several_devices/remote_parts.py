"""Parts of a problem whose operands lie on devices, computed by one of several devices: operands that it holds stay in place, the others
are copied to it.

Operands that every part needs whole are copied once. The others are double-buffered: one part is copied while another is computed. Between
GPUs of one back end the driver copies where it can; otherwise the data goes through the host.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import cycle
from typing import NamedTuple

import numpy as np

from portatile import workloads
from portatile.arguments.matrices import Matrix, alignment
from portatile.device.base import Device, Memory, Queue
from portatile.device.buffer import Buffer
from portatile.device.strides import CopiedRows
from portatile.errors import PortatileError
from portatile.records import Layout
from portatile.runtime.in_parts import tasks
from portatile.runtime.one_device.engine import Engine, Prepared
from portatile.runtime.several_devices.pieces import Pieces
from portatile.workload import Cut

Collected = Callable[[int, int, float], None]
"""A callback for each part whose result has arrived: its steps, and the seconds since the part before it."""


def best_cut(task: tasks.Task) -> Cut | None:
    """The cut that takes rows or whole matrices of the most operands: columns would have to be gathered before they are copied."""
    cuts = [cut for cut in task.cuts if task.problem.sizes[cut.size] > 1]
    return min(cuts, key=lambda cut: sum(how == "columns" for how in cut.pieces.values()), default=None)


def resident(task: tasks.Task, cut: Cut) -> Cut:
    """The cut with only the operands in pieces that are copied in pieces: of operands that are only read, columns are copied as a whole."""
    return replace(cut, pieces={name: how for name, how in cut.pieces.items() if how != "columns" or name == task.output})


def is_local(task: tasks.Task, device: Device) -> bool:
    """Whether all operands lie on the device."""
    return all(stored.on_device and stored.array.memory.device is device for stored in task.matrices.values())


@dataclass
class _Lane:
    """A queue, the memory of the parts that are copied through it, and the part in progress."""

    queue: Queue
    memory: dict[str, Memory] = field(default_factory=dict)
    pending: tuple[tasks.Task, Matrix] | None = None  # the part and its output on this device
    steps: tuple[int, int] = (0, 0)

    def take(self, device: Device, name: str, nbytes: int) -> Memory:
        """Memory of at least ``nbytes`` for an operand; its previous content is no longer needed."""
        memory = self.memory.get(name)
        if memory is None or memory.nbytes < nbytes:
            if memory is not None:
                memory.release()
            memory = self.memory[name] = device.allocate(max(nbytes, 1))
        return memory

    def release(self) -> None:
        with suppress(PortatileError):  # the device may have failed
            self.queue.finish()
        for memory in self.memory.values():
            memory.release()
        with suppress(PortatileError):
            self.queue.release()


class RemoteParts:
    """One device that computes parts of a task, in a thread of its own. A context manager, which releases its memory and queues."""

    def __init__(self, engine: Engine, task: tasks.Task, cut: Cut | None) -> None:
        self._engine, self._device, self._task = engine, engine.device, task
        self._pieces = {} if cut is None else resident(task, cut).pieces
        self._cut = cut
        self._whole: dict[str, Matrix] = {}
        self._elsewhere: dict[Device, _Lane] = {}  # for each device that holds operands, a queue and memory to gather them in
        self._lanes: list[_Lane] = []
        self._since = 0.0

    def __enter__(self) -> RemoteParts:
        return self

    def __exit__(self, *exc: object) -> None:
        for lane in (*self._lanes, *self._elsewhere.values()):
            lane.release()
        for stored in self._whole.values():
            stored.array.memory.release()

    def run(self, pieces: Pieces, most: int, collected: Collected) -> None:
        """Take part after part, of at most ``most`` steps, until none is left. If it raises, uncollected parts are given back."""
        assert self._cut is not None
        name = self._device.info.id
        taken: list[tuple[int, int]] = []
        self._lanes = [_Lane(self._device.queue()) for _ in range(2)]
        self._since = time.perf_counter()
        try:
            for lane in cycle(self._lanes):
                if lane.pending is not None:
                    self._collect(lane, collected)
                    taken.remove(lane.steps)
                busy = any(other.pending is not None for other in self._lanes)
                piece = pieces.take(name, most, wait=not busy)
                if piece is None and not busy:
                    return
                if piece is not None:
                    taken.append(piece)
                    if not busy:
                        self._since = time.perf_counter()
                    lane.steps = piece
                    self._begin(lane, tasks.part(self._task, self._cut, *piece))
        except BaseException:
            output = self._task.matrices[self._task.output]
            if taken and output.read and output.array.memory.device is self._device:
                pieces.stop()  # the initial values of the part's output may be overwritten
            for piece in taken:
                pieces.give_back(*piece)
            raise

    def whole(self) -> None:
        """Compute the whole task here."""
        self._lanes = [_Lane(self._device.queue())]
        self._begin(self._lanes[0], self._task)
        self._collect(self._lanes[0], lambda low, high, seconds: None)

    def _begin(self, lane: _Lane, part: tasks.Task) -> None:
        """Copy the operands of a part here, and queue its kernels."""
        placed = {name: self._placed(lane, name, stored, part) for name, stored in part.matrices.items()}
        began = time.perf_counter()
        prepared = self._prepared(part, placed)
        self._since += time.perf_counter() - began
        kernels = self._device.default_queue()  # its workspace is kept from call to call
        with self._engine.lock:
            kernels.follow(lane.queue)
            prepared.run(kernels, {name: stored.array.memory for name, stored in placed.items()}, part.scalars)
            lane.queue.follow(kernels)
        lane.queue.flush()
        lane.pending = part, placed[part.output]

    def _prepared(self, part: tasks.Task, placed: dict[str, Matrix]) -> Prepared:
        workload = workloads.get(part.problem.workload)
        layout = {name: layout_of(stored, part.problem.layout[name]) for name, stored in placed.items()}
        return self._engine.prepare(workload.problem(part.problem.sizes, part.problem.dtype, part.problem.options, layout))

    def _collect(self, lane: _Lane, collected: Collected) -> None:
        """Wait for a part, and copy its result to where it belongs."""
        assert lane.pending is not None
        (part, result), lane.pending = lane.pending, None
        target = part.matrices[part.output]
        lane.queue.finish()
        if target.array.memory.device is not self._device:
            self._send(target, result, lane)
        now = time.perf_counter()
        collected(*lane.steps, now - self._since)
        self._since = now

    def _placed(self, lane: _Lane, name: str, stored: Matrix, part: tasks.Task) -> Matrix:
        """A part's operand on this device: in place, or a copy."""
        if stored.array.memory.device is self._device:
            return stored
        if name not in self._pieces and name != part.output:
            return self._shared(lane, name, stored)
        copy = _packed(stored, lane.take(self._device, name, _nbytes(stored)))
        if stored.read and _nbytes(stored):
            self._fetch(copy, stored, lane)
        return copy

    def _shared(self, lane: _Lane, name: str, stored: Matrix) -> Matrix:
        """A part's view of an operand that is copied once, with its memory layout unchanged."""
        matrix = self._task.matrices[name]
        if name not in self._whole:
            began, nbytes = time.perf_counter(), matrix.extent * matrix.array.dtype.itemsize
            memory = self._device.allocate(max(nbytes, 1))
            self._whole[name] = matrix._replace(array=_over(memory, matrix), offset=0, alignment=alignment(_over(memory, matrix)))
            if matrix.read and nbytes:
                self._carry(lane.queue, memory, 0, matrix, nbytes)
                lane.queue.finish()  # the other lane reads it too
            self._since += time.perf_counter() - began  # excluded from the part's time, which gives its rate
        whole = self._whole[name]
        return stored._replace(array=whole.array, offset=stored.offset - matrix.offset, alignment=whole.alignment)

    def _fetch(self, copy: Matrix, stored: Matrix, lane: _Lane) -> None:
        """Fill a packed copy; non-contiguous rows are gathered first."""
        if stored.packed:
            self._carry(lane.queue, copy.array.memory, 0, stored, _nbytes(stored))
            return
        other = self._at(stored)
        gathered = _packed(stored, other.take(stored.array.memory.device, "gathered", _nbytes(stored)))
        _copy(other.queue, gathered, stored)
        other.queue.finish()
        self._carry(lane.queue, copy.array.memory, 0, gathered, _nbytes(stored))
        lane.queue.finish()  # so that the gather buffer may be overwritten

    def _send(self, target: Matrix, result: Matrix, lane: _Lane) -> None:
        """Copy a completed result to the device that it belongs to; rows with gaps between them are scattered there."""
        other, nbytes = self._at(target), _nbytes(target)
        if not nbytes:
            return
        if target.packed:
            _between(_Place(other.queue, target.array.memory, _first(target)), _Place(lane.queue, result.array.memory), nbytes)
        else:
            gathered = _packed(target, other.take(target.array.memory.device, "spread", nbytes))
            _between(_Place(other.queue, gathered.array.memory), _Place(lane.queue, result.array.memory), nbytes)
            _copy(other.queue, target, gathered)
        other.queue.finish()

    def _carry(self, queue: Queue, memory: Memory, offset: int, stored: Matrix, nbytes: int) -> None:
        """Copy bytes from the beginning of a complete matrix on its device to this device; does not wait."""
        _between(_Place(queue, memory, offset), _Place(self._at(stored).queue, stored.array.memory, _first(stored)), nbytes)

    def _at(self, stored: Matrix) -> _Lane:
        device = stored.array.memory.device
        if device not in self._elsewhere:
            self._elsewhere[device] = _Lane(device.queue())
        return self._elsewhere[device]


def described(stored: Matrix) -> Matrix:
    """The matrix with the actual stride of its array: the rows of a piece may lie further apart than the packed rows of the whole."""
    array = stored.array
    if array.size == 0 or stored.number > 1:
        return stored
    down = array.strides[0] // array.itemsize if array.shape[0] > 1 else max(stored.columns, 1)
    pointer = array.__array_interface__["data"][0]
    return stored._replace(stride=down, alignment=min(pointer & -pointer, stored.alignment) or stored.alignment)


def layout_of(stored: Matrix, packed: Layout) -> Layout:
    """The memory layout of a part of an operand; a single matrix of a stack counts as a stack, too."""
    strides = (stored.step, stored.stride, 1) if len(packed.strides) > len(stored.layout.strides) else stored.layout.strides
    return Layout(strides, stored.offset, stored.alignment)


class _Place(NamedTuple):
    """A place in a device's memory, from byte ``offset`` on, and a queue of that device."""

    queue: Queue
    memory: Memory
    offset: int = 0


def _between(target: _Place, source: _Place, nbytes: int) -> None:
    """Copy between devices, by the driver or through the host. Does not wait for the last copy."""
    if target.queue.receive(target.memory, source.memory, nbytes, target.offset, source.offset):
        return
    crossing = np.empty(nbytes, np.uint8)
    source.queue.download(crossing, source.memory, source.offset)
    target.queue.upload(target.memory, crossing, target.offset, blocking=False)


def _copy(queue: Queue, target: Matrix, source: Matrix) -> None:
    """Copy a matrix or stack to one with another layout on the same device."""
    size = target.array.dtype.itemsize
    for number in range(target.number):
        target_start, source_start = (_first(matrix) + number * matrix.step * size for matrix in (target, source))
        rows = CopiedRows(target.rows, target.columns * size, target_start, target.stride * size, source_start, source.stride * size)
        queue.copy_rows(target.array.memory, source.array.memory, rows)


def _nbytes(stored: Matrix) -> int:
    return int(stored.number * stored.rows * stored.columns * stored.array.dtype.itemsize)


def _first(stored: Matrix) -> int:
    """The byte offset of a matrix in its memory."""
    return int(stored.offset * stored.array.dtype.itemsize)


def _over(memory: Memory, like: Matrix) -> Buffer:
    return Buffer(memory, (memory.nbytes // like.array.dtype.itemsize,), like.array.dtype)


def _packed(like: Matrix, memory: Memory) -> Matrix:
    """A matrix or stack of the same shape, packed at the beginning of ``memory``."""
    array = _over(memory, like)
    step = like.rows * like.columns if like.number > 1 or like.step else 0
    return like._replace(array=array, stride=max(like.columns, 1), offset=0, alignment=alignment(array), step=step)
