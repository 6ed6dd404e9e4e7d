"""A pool of released device memory for reuse, because drivers take long to allocate and map new memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from operator import methodcaller
from sys import is_finalizing
from typing import Any

KEEPS = 1 << 30  # bytes that a pool keeps at most
SHARE = 16  # and at most 1/16 of the device's memory


class Pool:
    """Released buffers by their size; ``release`` frees one for good.

    Commands of the default queue may still use a buffer when it is reused. Later commands of that queue run after them, so its reuse there
    is safe; on other queues it would not be. So nothing is reused while other queues exist (``enter``, ``leave``).
    """

    def __init__(
        self,
        memory: int,
        keeps: int = KEEPS,
        lock: threading.RLock | None = None,
        release: Callable[[Any], object] = methodcaller("release"),
    ) -> None:
        self.limit = min(keeps, memory // SHARE)
        self.held = 0  # bytes
        self._free: OrderedDict[int, list[Any]] = OrderedDict()  # by size, the most recently returned size last
        self.handed = False  # whether anything was ever reused
        self._queues = 0
        self._release = release
        self._lock = lock or threading.RLock()  # reentrant: garbage collection may call ``give`` in the middle of a method

    def take(self, nbytes: int) -> Any:
        """A buffer of exactly this size, or None."""
        with self._lock:
            kept = self._free.get(nbytes)
            if not kept or self._queues:
                return None
            self.held -= nbytes
            self.handed = True
            return kept.pop()

    def give(self, buffer: Any, nbytes: int) -> None:
        """Keep a buffer that was released, or free it."""
        if is_finalizing is None or is_finalizing():  # a terminated thread may hold the lock; None: this module was cleared already
            self._release(buffer)
            return
        with self._lock:
            if self._queues or not 0 < nbytes <= self.limit:
                self._release(buffer)
                return
            kept = self._free.get(nbytes)
            if kept is None:
                self._free[nbytes] = [buffer]
            else:
                kept.append(buffer)
                self._free.move_to_end(nbytes)
            self.held += nbytes
            if self.held > self.limit:
                self._trim(self.limit)

    def enter(self) -> None:
        """Count a queue other than the default one."""
        with self._lock:
            self._queues += 1

    def leave(self) -> None:
        """Discount a queue other than the default one, which has finished."""
        with self._lock:
            self._queues -= 1

    def clear(self) -> bool:
        """Free everything; returns whether there was anything."""
        with self._lock:
            had = self.held > 0
            self._trim(0)
            return had

    def close(self) -> None:
        """Free everything, and keep nothing from now on."""
        with self._lock:
            self.limit = 0
            self._trim(0)

    def _trim(self, limit: int) -> None:
        while self.held > limit:
            nbytes, kept = next(iter(self._free.items()))
            if kept:
                self.held -= nbytes
                self._release(kept.pop(0))
            else:
                self._free.pop(nbytes)
