"""Large host arrays cross a link through pinned memory that is kept: several threads fill or empty it while the link moves the rest.

A driver that is given pageable memory does so too, by one thread: 10 GB/s, and 5 into pages that are new, of a link's 55.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from portatile.device.base import Device, Memory, Queue
from portatile.device.copies import contiguous, fits
from portatile.device.event import Event

_LARGE = 1 << 23  # bytes from which on it pays
_BLOCK = 1 << 24  # of those that are kept
_BLOCKS = 4  # two for either way
_COPIERS = 8  # threads at most that copy between two host arrays: one moves 5 GB/s to new pages, the link 55
_SHARE = 1 << 21  # bytes for which another thread pays
_LINKS = 4  # such copies for whose threads there is room: of several devices, either way


@dataclass
class _Block:
    """Pinned memory, and the copy that is the last to read it."""

    memory: NDArray[np.uint8]
    read: Event | None = None


class _Staging:
    """The pinned memory of a device. A block belongs to who took it until it is given back."""

    def __init__(self, device: Device) -> None:
        self.generation = device.generation
        self._free: SimpleQueue[_Block] = SimpleQueue()
        for _ in range(_BLOCKS):
            self._free.put(_Block(device.pinned(_BLOCK)))

    def take(self, wait: bool = True) -> _Block | None:
        """The block that was given back first, which nobody reads any more; without ``wait`` None where others have all."""
        try:
            block = self._free.get(wait)
        except Empty:
            return None
        event, block.read = block.read, None
        if event is not None:
            event.wait()
        return block

    def give(self, block: _Block) -> None:
        """Let others have it."""
        self._free.put(block)


_kept: dict[Device, _Staging] = {}
_making = threading.Lock()


def upload(queue: Queue, target: Memory, array: NDArray[Any], offset: int = 0, blocking: bool = True) -> None:
    """Copy a C-contiguous host array into device memory, ``offset`` bytes into it.

    The array may change when this returns; if it need not be ``blocking``, only when the queue has finished.
    """
    if not pays(queue.device, array):
        queue.upload(target, array, offset, blocking)
        return
    contiguous(array)
    fits(target, offset, array.nbytes)
    staging, raw = _staging(queue.device), array.reshape(-1).view(np.uint8)
    for low, piece in _pieces(raw):
        block = staging.take()
        assert block is not None
        try:
            copied(block.memory[: piece.nbytes], piece)
            block.read = queue.upload(target, block.memory[: piece.nbytes], offset + low, blocking=False)
            queue.flush()
        finally:
            staging.give(block)


def download(queue: Queue, array: NDArray[Any], source: Memory, offset: int = 0) -> None:
    """Copy device memory, from byte ``offset`` on, into a C-contiguous host array; waits for what the queue holds."""
    with Downloads(queue) as downloads:
        downloads.add(array, source, offset)


class _Crossing(NamedTuple):
    """A piece of an array that is on its way from ``source`` to a block."""

    done: Event
    piece: NDArray[np.uint8]
    block: _Block
    staging: _Staging
    source: Memory


class Downloads:
    """Arrays that come from a device through a queue one after another: while one is emptied out of pinned memory the next one crosses.

    A context manager: what was added is there when it ends.
    """

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._crossing: deque[_Crossing] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        try:
            if kind is None:
                self.finish()
        finally:
            for one in self._crossing:  # after a failure: others may have them once nobody writes there
                one.block.read = one.done
                one.staging.give(one.block)
            self._crossing.clear()

    def add(self, array: NDArray[Any], source: Memory, offset: int = 0) -> None:
        """Copy device memory, from byte ``offset`` on, into a C-contiguous host array, after what the queue holds.

        Until ``finish`` the array belongs to this; ``source`` is kept. Who waits for anything else meanwhile calls ``finish`` before:
        this holds pinned memory that others may need.
        """
        device = self._queue.device
        if not pays(device, array):
            self._queue.download(array, source, offset)
            return
        contiguous(array)
        fits(source, offset, array.nbytes)
        staging, raw = _staging(device), array.reshape(-1).view(np.uint8)
        for low, piece in _pieces(raw):
            while len(self._crossing) >= _BLOCKS // 2:
                self._arrive()
            block = staging.take(wait=not self._crossing)
            if block is None:  # others have all, and may be waiting for these
                self._arrive()
                block = staging.take()
            assert block is not None
            try:
                done = self._queue.download(block.memory[: piece.nbytes], source, offset + low, blocking=False)
                self._queue.flush()
            except BaseException:
                staging.give(block)
                raise
            self._crossing.append(_Crossing(done, piece, block, staging, source))

    def finish(self) -> None:
        """Wait until all that was added is there."""
        while self._crossing:
            self._arrive()

    def _arrive(self) -> None:
        """Empty the block that was sent first."""
        first = self._crossing[0]
        first.done.wait()
        copied(first.piece, first.block.memory[: first.piece.nbytes])
        self._crossing.popleft()
        first.staging.give(first.block)


def pays(device: Device, array: NDArray[Any]) -> bool:
    """Whether an array is so large, and the device's memory so far, that it goes through pinned memory."""
    return array.nbytes >= _LARGE and not device.info.unified_memory


def _staging(device: Device) -> _Staging:
    with _making:
        staging = _kept.get(device)
        if staging is None or staging.generation != device.generation:
            staging = _kept[device] = _Staging(device)
        return staging


def _pieces(raw: NDArray[np.uint8]) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """The pieces of a copy, each with its first byte."""
    for low in range(0, raw.nbytes, _BLOCK):
        yield low, raw[low : low + _BLOCK]


def copied(target: NDArray[Any], source: NDArray[Any], most: int = 0) -> None:
    """Copy one host array into another of its shape, large ones by several threads, each some of the first axis.

    ``most``: threads at most; as many as there are cores, but not more than pay, where it is 0.
    """
    threads = min(most or _threads(), target.nbytes // _SHARE, len(target))
    if threads < 2:
        target[...] = source
        return
    bounds = [len(target) * each // threads for each in range(threads + 1)]
    parts = [slice(low, high) for low, high in pairwise(bounds)]
    list(_copiers().map(lambda part: np.copyto(target[part], source[part]), parts))


def _threads(copies: int = 1) -> int:
    """Threads at most for so many copies at once."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(_COPIERS * copies, cores)


@cache
def _copiers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_threads(_LINKS), "portatile-copy")
