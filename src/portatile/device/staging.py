"""Large host arrays cross a link through pinned memory that is kept: several threads fill or empty it while the link moves the rest.

A driver that is given pageable memory does so too, by one thread: 10 GB/s, and 5 into pages that are new, of a link's 55. Each thread has a
stripe of the array for itself, whose blocks it copies and sends one after another: threads that met at every block would mostly wake up.
Blocks are large, because Python lets one thread at a time ask the driver for something.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile.device.base import Device, Memory, Queue
from portatile.device.copies import check_contiguous, check_fits
from portatile.device.event import Event
from portatile.device.page_locked import locked
from portatile.device.side_by_side import side_by_side, threads

_LARGE = 1 << 23  # bytes from which on it pays
_NOTED = 1 << 18  # bytes of what may be part of an array that is locked
_BLOCK = 1 << 23  # of those that are kept
_BLOCKS = 16  # at most: two for each thread of a copy
_SHARE = 1 << 21  # bytes for which another thread pays


@dataclass
class _Block:
    """Pinned memory, and the copy that is the last to use it."""

    memory: NDArray[np.uint8]
    used: Event | None = None


class _Staging:
    """The pinned memory of a device. A block belongs to who took it until it is given back."""

    def __init__(self, device: Device) -> None:
        self._device, self.generation = device, device.generation
        self._free: SimpleQueue[_Block] = SimpleQueue()
        self._lock = threading.Lock()
        self._made = 0

    def take(self, wait: bool = True) -> _Block | None:
        """The block that was given back first, which no copy uses any more; without ``wait`` None where others have all."""
        with self._lock:
            more = self._made < _BLOCKS and self._free.empty()
            self._made += more
        if more:
            try:
                return _Block(self._device.pinned(_BLOCK))
            except BaseException:
                with self._lock:
                    self._made -= 1
                raise
        try:
            block = self._free.get(wait)
        except Empty:
            return None
        if block.used is not None:
            try:
                block.used.wait()
            except BaseException:
                self.give(block)  # whoever asks next is told the same, instead of waiting for it
                raise
            block.used = None
        return block

    def give(self, block: _Block) -> None:
        """Let others have it."""
        self._free.put(block)


_kept: dict[Device, _Staging] = {}
_making = threading.Lock()


def upload(queue: Queue, target: Memory, array: NDArray[Any], offset: int = 0, blocking: bool = True, most: int = 0) -> None:
    """Copy a C-contiguous host array into device memory, ``offset`` bytes into it.

    The array may change when this returns; if it need not be ``blocking``, only when the queue has finished. ``most``: threads at most; as
    many as pay, where it is 0.
    """
    if _crosses(queue.device, array) or not worthwhile(queue.device, array):
        queue.upload(target, array, offset, blocking)
        return
    _through_blocks(queue, target, array, offset, most)


def send(queue: Queue, target: Memory, array: NDArray[Any], offset: int = 0) -> None:
    """As ``upload`` without blocking; the caller keeps the array until the queue has finished."""
    if _crosses(queue.device, array) or not worthwhile(queue.device, array):
        queue.send(target, array, offset)
    else:
        _through_blocks(queue, target, array, offset)


def _through_blocks(queue: Queue, target: Memory, array: NDArray[Any], offset: int, most: int = 0) -> None:
    check_contiguous(array)
    check_fits(target, offset, array.nbytes)
    staging, raw = _staging(queue.device), array.reshape(-1).view(np.uint8)

    def send(low: int, high: int) -> None:
        for first in range(low, high, _BLOCK):
            piece = raw[first : min(first + _BLOCK, high)]
            block = staging.take()
            assert block is not None
            try:
                np.copyto(block.memory[: piece.nbytes], piece)
                block.used = queue.upload(target, block.memory[: piece.nbytes], offset + first, blocking=False)
                queue.flush()
            finally:
                staging.give(block)

    _in_stripes(raw.nbytes, most, send)


def download(queue: Queue, array: NDArray[Any], source: Memory, offset: int = 0, most: int = 0) -> None:
    """Copy device memory, from byte ``offset`` on, into a C-contiguous host array; waits for what the queue holds.

    ``most``: threads at most, as of ``upload``.
    """
    if _crosses(queue.device, array, back=True) or not worthwhile(queue.device, array):
        queue.download(array, source, offset)
        return
    check_contiguous(array)
    check_fits(source, offset, array.nbytes)
    staging, raw = _staging(queue.device), array.reshape(-1).view(np.uint8)

    def fetch(low: int, high: int) -> None:
        crossing: deque[tuple[_Block, NDArray[np.uint8]]] = deque()
        try:
            for first in range(low, high, _BLOCK):
                if len(crossing) > 1:
                    _empty(staging, crossing)
                block = staging.take(wait=not crossing)
                if block is None:  # others have all, and may be waiting for these
                    _empty(staging, crossing)
                    block = staging.take()
                assert block is not None
                piece = raw[first : min(first + _BLOCK, high)]
                crossing.append((block, piece))
                block.used = queue.download(block.memory[: piece.nbytes], source, offset + first, blocking=False)
                queue.flush()
            while crossing:
                _empty(staging, crossing)
        finally:  # after a failure: others may have them once nobody writes there
            for block, _ in crossing:
                staging.give(block)

    _in_stripes(raw.nbytes, most, fetch)


def _empty(staging: _Staging, crossing: deque[tuple[_Block, NDArray[np.uint8]]]) -> None:
    """Copy the block that was sent first to where it belongs, once it is there, and give it back."""
    block, piece = crossing[0]
    if block.used is not None:
        block.used.wait()
        block.used = None
    np.copyto(piece, block.memory[: piece.nbytes])
    crossing.popleft()
    staging.give(block)


def worthwhile(device: Device, array: NDArray[Any]) -> bool:
    """Whether an array is so large, and the device's memory so far, that it goes through pinned memory."""
    return array.nbytes >= _LARGE and not device.info.unified_memory


def _crosses(device: Device, array: NDArray[Any], back: bool = False) -> bool:
    """Whether an array that crosses the link is locked; what is too small for that is not noted."""
    return array.nbytes >= _NOTED and locked.crosses(device, array, back)


def _staging(device: Device) -> _Staging:
    with _making:
        staging = _kept.get(device)
        if staging is None or staging.generation != device.generation:
            staging = _kept[device] = _Staging(device)
        return staging


def copied(target: NDArray[Any], source: NDArray[Any], most: int = 0) -> None:
    """Copy one host array into another of its shape, large ones by several threads, each some of the first axis.

    ``most``: threads at most; as many as there are cores, but not more than pay, where it is 0.
    """
    count = min(most or threads(), target.nbytes // _SHARE, len(target))
    if count < 2:
        target[...] = source
        return
    side_by_side(len(target), count, lambda low, high: np.copyto(target[low:high], source[low:high]))


def _in_stripes(nbytes: int, most: int, run: Callable[[int, int], None]) -> None:
    """``run(low, high)`` for the bytes of an array, by as many threads as pay, and ``most`` at most unless that is 0."""
    side_by_side(nbytes, max(min(most or threads(), nbytes // _SHARE), 1), run)
