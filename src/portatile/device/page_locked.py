"""Host arrays whose pages are locked in memory: a device copies them where they lie, as fast as its link and beside its kernels.

Locking takes longer than a copy through pinned memory. So it is done for what comes again: an array that has crossed a link several times
stays locked until it is gone, and the memory of a result that was dropped is kept, locked, for the next result of that size.
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

_LEAST = 1 << 22  # bytes of an array for which it pays
_OFTEN = 2  # times that an array crosses before it is locked: about as long as locking takes, over what it saves each time
_DROPPED = 2  # results of a size that were dropped for each one whose memory is locked and kept
_PAGE = 4096  # bytes
_CONTAINER = Path("/sys/fs/cgroup/memory.max")
_SIZES = 64  # of results, of which memory is kept
_IDLE = 60.0  # seconds after which memory that no result took is given back, when another is asked for
_ROW, _PITCH = (
    1 << 8,
    (1 << 31) - 1,
)  # bytes: of the rows of a matrix at least, and from row to row at most, that a device copies itself: 256 bytes at 20 GB/s
_SHARE = 8  # of the host's memory one part of so many may be locked


@dataclass
class _Block:
    """Locked bytes from ``start`` on, to ``end``. ``memory`` keeps those that are kept for results, ``since`` when they are free."""

    start: int
    end: int
    lock: PageLock
    memory: NDArray[np.uint8] | None = None
    since: float = 0.0


@dataclass
class _SeenArray:
    """An array that owns its memory: how many bytes of it have crossed, and what was locked of it. ``tried``: it is not tried again."""

    array: weakref.ref[NDArray[Any]]
    nbytes: int = 0
    tried: bool = False
    block: _Block | None = None


@dataclass
class _Results:
    """Results of one size that come from ``device``: blocks that are free, and ordinary results, of which so many were ``dropped``."""

    device: Device
    free: list[_Block] = field(default_factory=list)
    ordinary: dict[int, weakref.ref[NDArray[Any]]] = field(default_factory=dict)
    dropped: int = 0


class _Lease:
    """A block that a result lies in; the result is the last to know of it."""

    def __init__(self, locked: PageLocked, block: _Block) -> None:
        self._locked, self._block = locked, block
        self.__array_interface__ = {"shape": (block.end - block.start,), "typestr": "|u1", "data": (block.start, False), "version": 3}

    def __del__(self) -> None:
        if sys is not None and not sys.is_finalizing():
            self._locked.take_back(self._block)


class PageLocked:
    """The locked memory of a process. Safe to use from several threads; arrays may be dropped at any moment, in its methods too."""

    def __init__(self) -> None:
        self._mutex = threading.RLock()
        self._starts: list[int] = []
        self._blocks: dict[int, _Block] = {}
        self._seen: dict[int, _SeenArray] = {}
        self._results: dict[int, _Results] = {}
        self._nbytes = 0

    def holds(self, array: NDArray[Any], rows: bool = False) -> bool:
        """Whether all of a C-contiguous array is locked; with ``rows`` also a matrix whose rows lie apart, as ``Queue.send_rows`` takes."""
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
        """Whether all of those arrays are locked that are large, of which there are some."""
        large = [array for array in arrays if array.nbytes >= _LEAST]
        return bool(self._starts and large) and all(map(self.holds, large))

    def crosses(self, device: Device, array: NDArray[Any], back: bool = False, rows: bool = False) -> bool:
        """Note that a host array crosses a device's link; whether it is locked, from now on or before.

        ``back``: it comes from the device. ``rows``: as of ``holds``.
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
                seen = self._seen[id(owner)] = _SeenArray(weakref.ref(owner, partial(self._gone, id(owner))))
            if seen.block is not None and not seen.block.lock.alive:  # its device was released, and the lock with it
                self._unlock(seen.block)
                seen.block, seen.tried = None, False
            seen.nbytes += array.nbytes
            if seen.tried or seen.nbytes <= _OFTEN * owner.nbytes:
                return False
            seen.tried = True  # other threads go on without
        block = self._locked(device, owner)
        if block is not None:
            seen.block = block
        return block is not None and self.holds(array, rows)

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """An uninitialised array for a result: in locked memory, where results of its size come from a device and are dropped often."""
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
            side_by_side(nbytes, threads(), lambda low, high: memory[low:high:_PAGE].fill(0))  # one thread takes four times longer
            block = self._locked(results.device, memory, keep=True)
        if block is not None:
            return np.ndarray(shape, kind, np.asarray(_Lease(self, block)))
        array = np.empty(shape, kind)
        if results is not None:
            with self._mutex:
                results.ordinary[id(array)] = weakref.ref(array, partial(self._dropped, results, id(array)))
        return array

    def take_back(self, block: _Block) -> None:
        """A result that lay in a block is gone."""
        with self._mutex:
            results = self._results.get(block.end - block.start)
            if results is not None and block.lock.alive and self._blocks.get(block.start) is block:
                block.since = time.monotonic()
                results.free.append(block)
                return
        self._unlock(block)

    def forget(self) -> None:
        """Unlock everything, results that are in use too, and forget what was seen. The arrays stay as they are."""
        with self._mutex:
            blocks = list(self._blocks.values())
            self._results.clear()
            self._seen.clear()
        for block in blocks:
            block.lock.wait()
        for block in blocks:
            self._unlock(block)

    def _locked(self, device: Device, array: NDArray[Any], keep: bool = False) -> _Block | None:
        """Lock an array; None where there is too much locked already, or the system refuses."""
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
            if (stale := self._blocks.get(start)) is not None:  # of a device that was released
                self._unlock(stale)
            block = _Block(start, start + array.nbytes, lock, array.reshape(-1).view(np.uint8) if keep else None)
            insort(self._starts, start)
            self._blocks[start] = block
            return block

    def _drop(self, results: _Results, before: float = inf) -> None:
        """Unlock blocks that are free since ``before``; the one that was given back first comes first."""
        while results.free and results.free[0].since < before:
            self._unlock(results.free.pop(0))

    def _make_room(self, nbytes: int) -> bool:
        """Unlock memory that is kept for results and free, until so many bytes more may be locked; whether they may."""
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

    def _gone(self, key: int, _: object) -> None:
        """An array is about to free its memory."""
        with self._mutex:
            seen = self._seen.pop(key, None)
        if seen is not None and seen.block is not None and not sys.is_finalizing():
            self._unlock(seen.block)

    def _dropped(self, results: _Results, key: int, _: object) -> None:
        """An ordinary result was dropped."""
        with self._mutex:
            results.ordinary.pop(key, None)
            results.dropped = min(results.dropped + 1, _DROPPED)


def _extent(array: NDArray[Any]) -> int:
    """Bytes from the first to the last element of a matrix with long contiguous rows that lie apart; 0 for other arrays."""
    if array.ndim != 2 or array.strides[1] != array.itemsize:
        return 0
    row, pitch = array.shape[1] * array.itemsize, array.strides[0]
    return (array.shape[0] - 1) * pitch + row if _ROW <= row <= pitch <= _PITCH else 0


def limit() -> int:
    """Bytes that may be locked: what the user says, else a part of the memory that this process may use."""
    asked = settings.page_locked()
    return _memory() // _SHARE if asked is None else asked


@cache
def _memory() -> int:
    """Bytes of the host's memory, or of the container's if it has less; 0 where the system does not say."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 0
    try:
        return min(memory, int(_CONTAINER.read_text(encoding="ascii")))
    except (OSError, ValueError):  # no container, or one without a limit: "max"
        return memory


def _owner(array: NDArray[Any]) -> NDArray[Any] | None:
    """The NumPy array that frees the memory of ``array``; None where that is another object."""
    base = array.base
    while base is not None:
        if isinstance(base, np.ndarray):
            array = base
        elif not isinstance(getattr(base, "base", None), np.ndarray):  # those of as_strided stand between two arrays
            return None
        base = base.base
    return array if array.flags.owndata and array.flags.forc else None


locked = PageLocked()
"""The process's own."""

if hasattr(os, "register_at_fork"):  # a page that both processes have is another one once it is written to, of which devices do not know
    os.register_at_fork(before=locked.forget)
