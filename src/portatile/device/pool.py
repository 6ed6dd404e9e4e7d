"""Memory of one device that was given back and is handed out again: drivers take long to find, to map and to order new memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from operator import methodcaller
from sys import is_finalizing
from typing import Any

KEEPS = 1 << 30  # bytes at most
SHARE = 16  # of the device's memory one part of so many at most


class Pool:
    """Buffers by their size; ``release`` gives one back to the driver.

    Commands of the default queue may still be using them: what is queued there next comes after them.

    That holds for no other queue, so nothing is handed on while there are any (``enter``, ``leave``).
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
        self._free: OrderedDict[int, list[Any]] = OrderedDict()  # the size given back last at the end
        self.handed = False  # whether anything was handed on
        self._queues = 0
        self._release = release
        self._lock = lock or threading.RLock()  # memory that is dropped comes back at any moment, in the middle of a method too

    def take(self, nbytes: int) -> Any:
        """A block of that size that was given back, or None; blocks of no bytes are not kept."""
        with self._lock:
            kept = self._free.get(nbytes)
            if not kept or self._queues:
                return None
            self.held -= nbytes
            self.handed = True
            return kept.pop()

    def give(self, buffer: Any, nbytes: int) -> None:
        """Keep a buffer, or release it."""
        if is_finalizing is None or is_finalizing():  # a thread that ended inside may have the lock; None: this module is gone already
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
        """Note a queue beside the default one."""
        with self._lock:
            self._queues += 1

    def leave(self) -> None:
        """Note that a queue beside the default one has finished and is gone."""
        with self._lock:
            self._queues -= 1

    def clear(self) -> bool:
        """Release everything; whether there was anything."""
        with self._lock:
            had = self.held > 0
            self._trim(0)
            return had

    def close(self) -> None:
        """Release everything and keep nothing from here on."""
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
