"""Host arrays whose pages are locked: a device copies them in place, at the full rate of its link and concurrently with its kernels.

Locking takes longer than a copy through pinned staging memory, so only reused memory is locked: an array that has been transferred several
times stays locked until it is freed, and the memory of a dropped result is kept, locked, for the next result of that size.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from math import inf, prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from portatile import settings
from portatile.device.base import Device
from portatile.device.copies import address
from portatile.device.resources import PageLock
from portatile.device.side_by_side import side_by_side, threads

_LEAST = 1 << 22  # bytes of the smallest array for which locking pays
_OFTEN = 2  # transfers of an array before it is locked: what they could have saved is then about the cost of locking
_DROPPED = 2  # dropped results of a size for each one whose memory is locked and kept
_PAGE = 4096  # bytes
_CONTAINER = Path("/sys/fs/cgroup/memory.max")
_SIZES = 64  # sizes of results for which memory is kept
_IDLE = 60.0  # seconds after which unused memory for results is released, checked when memory is requested
_ROW = 1 << 8  # bytes of the shortest rows that a device copies from a strided matrix; rows of 256 bytes reach 20 GB/s
_PITCH = (1 << 31) - 1  # bytes from row to row that a strided copy allows
_SHARE = 8  # up to 1/8 of the host's memory may be locked


@dataclass
class _Block:
    """Locked bytes from address ``start`` to ``end``. ``memory`` is set for blocks that are kept for results, free ``since`` a time."""

    start: int
    end: int
    lock: PageLock
    memory: NDArray[np.uint8] | None = None
    since: float = 0.0


@dataclass
class _SeenArray:
    """An array that owns its memory: how many of its bytes were transferred, and its locked block. ``tried``: it is not locked again."""

    array: weakref.ref[NDArray[Any]]
    nbytes: int = 0
    tried: bool = False
    block: _Block | None = None


@dataclass
class _Results:
    """Results of one size that come from ``device``: free blocks, ordinary results in use, and the number of ``dropped`` ones."""

    device: Device
    free: list[_Block] = field(default_factory=list)
    ordinary: dict[int, weakref.ref[NDArray[Any]]] = field(default_factory=dict)
    dropped: int = 0


class _Lease:
    """Holds the block of a result, and returns it when the result is freed."""

    def __init__(self, locked: PageLocked, block: _Block) -> None:
        self._locked, self._block = locked, block
        self.__array_interface__ = {"shape": (block.end - block.start,), "typestr": "|u1", "data": (block.start, False), "version": 3}

    def __del__(self) -> None:
        if sys is not None and not sys.is_finalizing():
            self._locked.take_back(self._block)


class PageLocked:
    """The locked memory of a process. Thread-safe; arrays may be freed at any moment, even while its methods run."""

    def __init__(self) -> None:
        self._mutex = threading.RLock()
        self._starts: list[int] = []
        self._blocks: dict[int, _Block] = {}
        self._seen: dict[int, _SeenArray] = {}
        self._results: dict[int, _Results] = {}
        self._nbytes = 0

    def holds(self, array: NDArray[Any], rows: bool = False) -> bool:
        """Whether a C-contiguous array is locked entirely; with ``rows`` a strided matrix of contiguous rows, for ``Queue.send_rows``."""
        if not self._starts or not array.nbytes:
            return False
        extent = array.nbytes if array.flags.c_contiguous else _extent(array) if rows else 0
        if not extent:
            return False
        first = address(array)
        with self._mutex:
            at = bisect_right(self._starts, first)
            block = self._blocks[self._starts[at - 1]] if at else None
            return block is not None and first + extent <= block.end and block.lock.alive

    def hold_all(self, arrays: Sequence[NDArray[Any]]) -> bool:
        """Whether there are large arrays, and all of them are locked."""
        large = [array for array in arrays if array.nbytes >= _LEAST]
        return bool(self._starts and large) and all(map(self.holds, large))

    def crosses(self, device: Device, array: NDArray[Any], back: bool = False, rows: bool = False) -> bool:
        """Count a transfer of a host array, and lock the array if it was transferred often; returns whether it is locked.

        ``back``: the transfer is from the device to the host. ``rows``: as in ``holds``.
        """
        if not device.locks_pages:
            return False
        if self.holds(array, rows):
            return True
        owner = _owner(array)
        if owner is None or owner.nbytes < _LEAST:
            return False
        with self._mutex:
            if back and owner.nbytes not in self._results:
                self._results[owner.nbytes] = _Results(device)
                if len(self._results) > _SIZES:
                    self._drop(self._results.pop(next(iter(self._results))))
            seen = self._seen.get(id(owner))
            if seen is None:
                seen = self._seen[id(owner)] = _SeenArray(weakref.ref(owner, partial(self._array_freed, id(owner))))
            if seen.block is not None and not seen.block.lock.alive:  # its device was released, which ended the lock
                self._unlock(seen.block)
                seen.block, seen.tried = None, False
            seen.nbytes += array.nbytes
            if seen.tried or seen.nbytes <= _OFTEN * owner.nbytes:
                return False
            seen.tried = True  # prevents other threads from trying
        block = self._locked(device, owner)
        if block is not None:
            seen.block = block
        return block is not None and self.holds(array, rows)

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """An uninitialised array for a result: locked if results of its size come from a device and are dropped often."""
        if not self._results:
            return np.empty(shape, dtype)
        kind = np.dtype(dtype)
        nbytes = prod(shape) * kind.itemsize
        if nbytes < _LEAST:
            return np.empty(shape, kind)
        now = time.monotonic()
        with self._mutex:
            for each in self._results.values():
                self._drop(each, now - _IDLE)
            results = self._results.get(nbytes)
            block = results.free.pop() if results is not None and results.free else None
            makes = results is not None and block is None and results.dropped >= _DROPPED
            if makes and results is not None:
                results.dropped -= _DROPPED
        if makes and results is not None:
            memory = np.empty(nbytes, np.uint8)
            # touching the pages with one thread takes four times longer
            side_by_side(nbytes, threads(), lambda low, high: memory[low:high:_PAGE].fill(0))
            block = self._locked(results.device, memory, keep=True)
        if block is not None:
            return np.ndarray(shape, kind, np.asarray(_Lease(self, block)))
        array = np.empty(shape, kind)
        if results is not None:
            with self._mutex:
                results.ordinary[id(array)] = weakref.ref(array, partial(self._result_freed, results, id(array)))
        return array

    def take_back(self, block: _Block) -> None:
        """Take back the block of a result that was freed."""
        with self._mutex:
            results = self._results.get(block.end - block.start)
            if results is not None and block.lock.alive and self._blocks.get(block.start) is block:
                block.since = time.monotonic()
                results.free.append(block)
                return
        self._unlock(block)

    def forget(self) -> None:
        """Unlock everything, even results in use, and forget all counts. The arrays stay valid."""
        with self._mutex:
            blocks = list(self._blocks.values())
            self._results.clear()
            self._seen.clear()
        for block in blocks:
            block.lock.wait()
        for block in blocks:
            self._unlock(block)

    def _locked(self, device: Device, array: NDArray[Any], keep: bool = False) -> _Block | None:
        """Lock an array; None if too much memory is locked already, or the system refuses."""
        with self._mutex:
            if self._nbytes + array.nbytes > limit() and not self._make_room(array.nbytes):
                return None
            self._nbytes += array.nbytes
        lock = device.lock(array)
        start = address(array)
        with self._mutex:
            if lock is None:
                self._nbytes -= array.nbytes
                return None
            if (stale := self._blocks.get(start)) is not None:  # from a device that was released
                self._unlock(stale)
            block = _Block(start, start + array.nbytes, lock, array.reshape(-1).view(np.uint8) if keep else None)
            insort(self._starts, start)
            self._blocks[start] = block
            return block

    def _drop(self, results: _Results, before: float = inf) -> None:
        """Unlock blocks that have been free since before ``before``, the oldest first."""
        while results.free and results.free[0].since < before:
            self._unlock(results.free.pop(0))

    def _make_room(self, nbytes: int) -> bool:
        """Unlock free memory that is kept for results until ``nbytes`` more may be locked; returns whether they may."""
        for results in self._results.values():
            while results.free and self._nbytes + nbytes > limit():
                self._unlock(results.free.pop())
        return self._nbytes + nbytes <= limit()

    def _unlock(self, block: _Block) -> None:
        with self._mutex:
            if self._blocks.get(block.start) is not block:
                return
            del self._blocks[block.start]
            self._starts.remove(block.start)
            self._nbytes -= block.end - block.start
        block.lock.release()

    def _array_freed(self, key: int, _: object) -> None:
        """Called when an array is about to free its memory."""
        with self._mutex:
            seen = self._seen.pop(key, None)
        if seen is not None and seen.block is not None and not sys.is_finalizing():
            self._unlock(seen.block)

    def _result_freed(self, results: _Results, key: int, _: object) -> None:
        """Called when an ordinary result was dropped."""
        with self._mutex:
            results.ordinary.pop(key, None)
            results.dropped = min(results.dropped + 1, _DROPPED)


def _extent(array: NDArray[Any]) -> int:
    """Bytes from the first to the last element of a strided matrix whose rows are contiguous and long enough; 0 for other arrays."""
    if array.ndim != 2 or array.strides[1] != array.itemsize:
        return 0
    row, pitch = array.shape[1] * array.itemsize, array.strides[0]
    return (array.shape[0] - 1) * pitch + row if _ROW <= row <= pitch <= _PITCH else 0


def limit() -> int:
    """Bytes that may be locked: the user's setting, else a part of the memory that this process may use."""
    asked = settings.page_locked()
    return _memory() // _SHARE if asked is None else asked


@cache
def _memory() -> int:
    """Bytes of the host's memory, or of the container's if that is less; 0 if unknown."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 0
    try:
        return min(memory, int(_CONTAINER.read_text(encoding="ascii")))
    except (OSError, ValueError):  # no container, or one without a limit: "max"
        return memory


def _owner(array: NDArray[Any]) -> NDArray[Any] | None:
    """The NumPy array that frees the memory of ``array``; None if another object does."""
    base = array.base
    while base is not None:
        if isinstance(base, np.ndarray):
            array = base
        elif not isinstance(getattr(base, "base", None), np.ndarray):  # as_strided puts an object between two arrays
            return None
        base = base.base
    return array if array.flags.owndata and array.flags.forc else None


locked = PageLocked()
"""The locked memory of this process."""

if hasattr(os, "register_at_fork"):  # after a fork, a page that is written to is replaced by a copy, which devices do not know
    os.register_at_fork(before=locked.forget)
