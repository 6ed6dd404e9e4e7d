"""Transfers of large host arrays through pinned staging buffers: several threads fill or empty the buffers while the link moves the rest.

For pageable memory a driver does the same with one thread: at 10 GB/s, or 5 into new pages, where the link has 55. Each thread gets a
contiguous stripe of the array and copies and sends its blocks one after another; threads that synchronised at every block would mostly be
waking up. Blocks are large because the GIL lets only one thread at a time call the driver.
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

_LARGE = 1 << 23  # bytes from which on staging pays
_NOTED = 1 << 18  # bytes of the smallest piece that is counted as a transfer of a locked array
_BLOCK = 1 << 23  # bytes of a staging buffer
_BLOCKS = 16  # staging buffers at most: two for each thread of a copy
_SHARE = 1 << 21  # bytes for which another thread pays


@dataclass
class _Block:
    """A staging buffer in pinned memory, and the last copy that uses it."""

    memory: NDArray[np.uint8]
    used: Event | None = None


class _Staging:
    """The staging buffers of a device. A buffer belongs to whoever took it until it is given back."""

    def __init__(self, device: Device) -> None:
        self._device, self.generation = device, device.generation
        self._free: SimpleQueue[_Block] = SimpleQueue()
        self._lock = threading.Lock()
        self._made = 0

    def take(self, wait: bool = True) -> _Block | None:
        """The buffer that was given back first, once no copy uses it; without ``wait``, None if all are taken."""
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
                self.give(block)  # the next caller gets the same error instead of waiting for the buffer
                raise
            block.used = None
        return block

    def give(self, block: _Block) -> None:
        """Return a buffer."""
        self._free.put(block)


_kept: dict[Device, _Staging] = {}
_making = threading.Lock()


def upload(queue: Queue, target: Memory, array: NDArray[Any], offset: int = 0, blocking: bool = True, most: int = 0) -> None:
    """Copy a C-contiguous host array into device memory, ``offset`` bytes into it.

    When this returns, the array may be changed; without ``blocking``, only when the queue has finished. ``most``: the number of threads at
    most; 0 for as many as pay.
    """
    if _is_locked(queue.device, array) or not worthwhile(queue.device, array):
        queue.upload(target, array, offset, blocking)
        return
    _through_blocks(queue, target, array, offset, most)


def send(queue: Queue, target: Memory, array: NDArray[Any], offset: int = 0) -> None:
    """As ``upload`` without blocking; the caller keeps the array until the queue has finished."""
    if _is_locked(queue.device, array) or not worthwhile(queue.device, array):
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
    """Copy device memory, from byte ``offset`` on, into a C-contiguous host array; waits for the queue.

    ``most``: the number of threads at most, as for ``upload``.
    """
    if _is_locked(queue.device, array, back=True) or not worthwhile(queue.device, array):
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
                    _store_oldest(staging, crossing)
                block = staging.take(wait=not crossing)
                if block is None:  # other threads have all buffers, and may be waiting for ours
                    _store_oldest(staging, crossing)
                    block = staging.take()
                assert block is not None
                piece = raw[first : min(first + _BLOCK, high)]
                crossing.append((block, piece))
                block.used = queue.download(block.memory[: piece.nbytes], source, offset + first, blocking=False)
                queue.flush()
            while crossing:
                _store_oldest(staging, crossing)
        finally:  # also after a failure: a buffer may be reused once no copy writes to it
            for block, _ in crossing:
                staging.give(block)

    _in_stripes(raw.nbytes, most, fetch)


def _store_oldest(staging: _Staging, crossing: deque[tuple[_Block, NDArray[np.uint8]]]) -> None:
    """Wait for the oldest copy, copy its staging buffer to the destination, and give the buffer back."""
    block, piece = crossing[0]
    if block.used is not None:
        block.used.wait()
        block.used = None
    np.copyto(piece, block.memory[: piece.nbytes])
    crossing.popleft()
    staging.give(block)


def worthwhile(device: Device, array: NDArray[Any]) -> bool:
    """Whether an array is large enough to be staged, and the device has its own memory."""
    return array.nbytes >= _LARGE and not device.info.unified_memory


def _is_locked(device: Device, array: NDArray[Any], back: bool = False) -> bool:
    """Whether an array that is transferred is locked; small arrays are not counted."""
    return array.nbytes >= _NOTED and locked.crosses(device, array, back)


def _staging(device: Device) -> _Staging:
    with _making:
        staging = _kept.get(device)
        if staging is None or staging.generation != device.generation:
            staging = _kept[device] = _Staging(device)
        return staging


def copied(target: NDArray[Any], source: NDArray[Any], most: int = 0) -> None:
    """Copy one host array into another of the same shape; large ones by several threads, which divide the first axis.

    ``most``: the number of threads at most; 0 for as many as there are cores and as pay.
    """
    count = min(most or threads(), target.nbytes // _SHARE, len(target))
    if count < 2:
        target[...] = source
        return
    side_by_side(len(target), count, lambda low, high: np.copyto(target[low:high], source[low:high]))


def _in_stripes(nbytes: int, most: int, run: Callable[[int, int], None]) -> None:
    """Call ``run(low, high)`` for the bytes of an array, in as many threads as pay, and at most ``most`` unless that is 0."""
    side_by_side(nbytes, max(min(most or threads(), nbytes // _SHARE), 1), run)
