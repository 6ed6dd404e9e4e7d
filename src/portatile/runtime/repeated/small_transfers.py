"""Recorded calls on small packed host arrays, for a device with its own memory: copied there and back by prepared commands.

Device memory and pinned staging memory are kept between calls. For pageable memory a driver would stage the copy itself, in small pieces,
and wait for each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from numpy.typing import NDArray

from portatile.device.base import Memory, Queue
from portatile.runtime.one_device.in_flight import InFlight
from portatile.runtime.one_device.scratch import Scratch, scratch
from portatile.runtime.repeated.steps import HostLaunches, HostProblem, Operand

_FIRST = 64  # the first scratch block that ``CopiedLaunches`` uses; lower numbers belong to other routines
_SMALL = 1 << 22  # bytes; calls with a larger operand are not copied by ``CopiedLaunches``
_SENT = 1 << 18  # bytes of the largest operand that is staged in pinned memory: beyond it a driver overlaps its own staging with the copies
_FETCHED = 1 << 20  # the same for an output: a driver's own downloads are slower


class _Transfer(NamedTuple):
    """The transfer of an operand. If it is staged, ``staged`` is the pinned memory in the operand's shape and ``copy`` a prepared copy
    between it and the device; otherwise both are None.
    """

    source: Operand
    memory: Memory
    staged: NDArray[Any] | None = None
    copy: Callable[[], object] | None = None


class _Allocated(NamedTuple):
    """The transfers of one call: the operands that are sent, and the output. Valid until ``blocks`` changes."""

    blocks: Scratch
    changes: int
    queue: Queue
    sent: Sequence[_Transfer]
    memories: Mapping[str, Memory]
    handles: tuple[Any, ...]
    output: _Transfer


class CopiedLaunches:
    """Launches on small packed host arrays, which are copied."""

    def __init__(self, call: HostProblem) -> None:
        self._call = call
        self._executable = call.prepared.executable
        names = (*call.operands, *call.factors, *call.fixed)
        self._numbers = tuple(call.fixed.values())
        self._ready = self._executable.ready(dict(zip(names, range(len(names)), strict=True)), len(names))
        self._allocated: _Allocated | None = None

    def run(self, queue: Queue, factors: tuple[Any, ...], arrays: Sequence[Any], places: Sequence[int]) -> None:
        """Compute; returns when the output is complete. The caller holds the engine's lock."""
        blocks, allocated = scratch(queue.device), self._allocated
        with InFlight(self._call.engine.in_flight, queue, arrays):
            if allocated is None or allocated.blocks is not blocks or allocated.changes != blocks.changes or allocated.queue is not queue:
                allocated = self._allocated = self._allocate(queue, blocks, arrays)
            for source, memory, staged, copy in allocated.sent:
                array = source.array(arrays)
                if staged is None or copy is None:
                    queue.send(memory, array)
                else:
                    staged[...] = array
                    copy()
            if self._ready is not None:
                self._executable.rerun(self._ready, queue, (*allocated.handles, *factors, *self._numbers), True)
            else:
                scalars = dict(zip(self._call.factors, factors, strict=True))
                self._call.prepared.run(queue, allocated.memories, {**scalars, **self._call.fixed})
            source, memory, staged, copy = allocated.output
            array = source.array(arrays)
            if staged is None or copy is None:
                queue.download(array, memory)
            else:
                copy()
                array[...] = staged

    def _allocate(self, queue: Queue, blocks: Scratch, arrays: Sequence[Any]) -> _Allocated:
        """Allocate the memory that the transfers of a call with such ``arrays`` need."""
        memories: dict[str, Memory] = {}
        sent: list[_Transfer] = []
        for at, (name, (source, model)) in enumerate(self._call.operands.items()):
            memory = memories[name] = blocks.block(_FIRST + at, source.nbytes)
            if model.read:
                staged = _staged(blocks, _FIRST + at, source.array(arrays), _SENT)
                sent.append(_Transfer(source, memory, staged, None if staged is None else queue.sending(memory, staged)))
        staged = _staged(blocks, _FIRST + at, source.array(arrays), _FETCHED)
        output = _Transfer(source, memory, staged, None if staged is None else queue.fetching(staged, memory))
        handles = tuple([memory.handle for memory in memories.values()])
        return _Allocated(blocks, blocks.changes, queue, sent, memories, handles, output)


def _staged(blocks: Scratch, place: int, array: NDArray[Any], most: int) -> NDArray[Any] | None:
    """Pinned memory in the shape of an array; None if the array is larger than ``most`` bytes, and therefore not staged."""
    if array.nbytes > most:
        return None
    pinned = blocks.pinned(place, array.nbytes)
    return pinned[: array.nbytes].view(array.dtype).reshape(array.shape)


def host_launches(call: HostProblem) -> HostLaunches | CopiedLaunches:
    """The launches of a problem on host arrays: copied ones if the operands are small and packed and the device has its own memory."""
    if call.engine.device.info.unified_memory:
        return HostLaunches(call)
    small = all(model.packed and 0 < source.nbytes <= _SMALL for source, model in call.operands.values())
    return CopiedLaunches(call) if small else HostLaunches(call)
