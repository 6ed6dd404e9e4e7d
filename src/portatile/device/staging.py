"""Large host arrays cross a link through pinned memory that is kept: several threads fill or empty it while the link moves the rest.

A driver that is given pageable memory does so too, by one thread: 10 GB/s, and 5 into pages that are new, of a link's 55.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile.device.base import Device, Memory, Queue
from portatile.device.copies import contiguous, fits
from portatile.device.event import Event

_LARGE = 1 << 23  # bytes from which on it pays
_BLOCK = 1 << 24  # of the two that are kept
_BLOCKS = 2
_COPIERS = 8  # threads at most that copy between host arrays: one moves 5 GB/s to new pages, the link 55
_SHARE = 1 << 21  # bytes for which another thread pays


class _Staging:
    """The pinned memory of a device, and the copy that is the last to read each block."""

    def __init__(self, device: Device) -> None:
        self.generation = device.generation
        self.lock = threading.Lock()
        self.blocks = [device.pinned(_BLOCK) for _ in range(_BLOCKS)]
        self.read: list[Event | None] = [None] * _BLOCKS
        self.turn = 0  # the block that the next piece takes: copies that follow one another do not wait for the same one


_kept: dict[Device, _Staging] = {}
_making = threading.Lock()


def upload(queue: Queue, target: Memory, array: NDArray[Any], offset: int = 0, blocking: bool = True) -> None:
    """Copy a C-contiguous host array into device memory, ``offset`` bytes into it.

    The array may change when this returns; if it need not be ``blocking``, only when the queue has finished.
    """
    if not _pays(queue.device, array):
        queue.upload(target, array, offset, blocking)
        return
    contiguous(array)
    fits(target, offset, array.nbytes)
    staging, raw = _staging(queue.device), array.reshape(-1).view(np.uint8)
    with staging.lock:
        for place, low, block in _pieces(staging, raw.nbytes):
            _free(staging, place)
            piece = raw[low : low + _BLOCK]
            copied(block[: piece.nbytes], piece)
            staging.read[place] = queue.upload(target, block[: piece.nbytes], offset + low, blocking=False)
            queue.flush()


def download(queue: Queue, array: NDArray[Any], source: Memory, offset: int = 0) -> None:
    """Copy device memory, from byte ``offset`` on, into a C-contiguous host array; waits for what the queue holds."""
    if not _pays(queue.device, array):
        queue.download(array, source, offset)
        return
    contiguous(array)
    fits(source, offset, array.nbytes)
    staging, raw = _staging(queue.device), array.reshape(-1).view(np.uint8)
    with staging.lock:
        crossing: list[tuple[Event, NDArray[np.uint8], NDArray[np.uint8]]] = []
        for place, low, block in _pieces(staging, raw.nbytes):
            if len(crossing) == _BLOCKS:
                _arrived(*crossing.pop(0))
            _free(staging, place)
            piece = raw[low : low + _BLOCK]
            done = queue.download(block[: piece.nbytes], source, offset + low, blocking=False)
            queue.flush()
            crossing.append((done, piece, block[: piece.nbytes]))
        for chunk in crossing:
            _arrived(*chunk)


def _pays(device: Device, array: NDArray[Any]) -> bool:
    return array.nbytes >= _LARGE and not device.info.unified_memory


def _staging(device: Device) -> _Staging:
    with _making:
        staging = _kept.get(device)
        if staging is None or staging.generation != device.generation:
            staging = _kept[device] = _Staging(device)
        return staging


def _pieces(staging: _Staging, nbytes: int) -> Iterator[tuple[int, int, NDArray[np.uint8]]]:
    """The pieces of a copy: each with its block's number, its first byte, and the block."""
    for low in range(0, nbytes, _BLOCK):
        place, staging.turn = staging.turn, (staging.turn + 1) % _BLOCKS
        yield place, low, staging.blocks[place]


def _free(staging: _Staging, place: int) -> None:
    """Wait until nobody reads a block."""
    event, staging.read[place] = staging.read[place], None
    if event is not None:
        event.wait()


def _arrived(done: Event, piece: NDArray[np.uint8], block: NDArray[np.uint8]) -> None:
    done.wait()
    copied(piece, block)


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


def _threads() -> int:
    return min(_COPIERS, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


@cache
def _copiers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_threads(), "portatile-copy")
