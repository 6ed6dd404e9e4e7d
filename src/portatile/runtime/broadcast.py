"""Host arrays that several devices need whole: one takes an array from the host, and the others from that one where a driver copies.

Host memory is copied into pinned memory on its way, which several devices share; between GPUs it is not.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from contextlib import suppress
from typing import Any, Self

from numpy.typing import NDArray

from portatile.device import staging
from portatile.device.base import Memory, Queue
from portatile.errors import PortatileError


class Broadcast:
    """The arrays of one problem, by name. A context manager; what it gave out lasts until it ends. Safe to use from several threads."""

    def __init__(self) -> None:
        self._there: dict[str, Memory] = {}
        self._given: list[Memory] = []
        self._making = threading.Lock()
        self._locks: defaultdict[str, Any] = defaultdict(threading.Lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for memory in self._given:
            with suppress(PortatileError):  # of a device that failed
                memory.release()

    def place(self, queue: Queue, name: str, array: NDArray[Any]) -> Memory:
        """Memory of the queue's device that holds a C-contiguous array once the queue has come here; others must not write to it."""
        with self._making:
            lock = self._locks[name]
        with lock:  # who comes second waits for the first, and takes it from there
            memory = queue.device.allocate(max(array.nbytes, array.itemsize))
            self._given.append(memory)
            there = self._there.get(name)
            if there is None or not _received(queue, memory, there, array.nbytes):
                staging.upload(queue, memory, array)
            if there is None:
                queue.finish()
                self._there[name] = memory
        return memory


def _received(queue: Queue, memory: Memory, there: Memory, nbytes: int) -> bool:
    """Whether the driver copies from another device; not from one that has failed meanwhile."""
    try:
        return queue.receive(memory, there, nbytes)
    except PortatileError:
        return False
