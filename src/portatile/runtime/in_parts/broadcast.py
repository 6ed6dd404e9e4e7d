"""Host arrays that several devices need whole: each takes a part from the host, and the others' parts from them where a driver copies.

The links share the array's way from the host; from GPU to GPU it is copied several times as fast.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from typing import Any, Self

from numpy.typing import NDArray

from portatile.device import staging
from portatile.device.base import Memory, Queue
from portatile.device.event import Event
from portatile.errors import PortatileError

_CHUNK = 1 << 25  # bytes that a device takes from the host at once
_FLYING = 3  # chunks that a device has under way, so that its link does not wait for the threads of others


class _SharedArray:
    """One array on its way to several devices: chunks that nobody took, and where those are that have arrived; by their first byte."""

    def __init__(self, nbytes: int) -> None:
        self.free = deque(range(0, nbytes, _CHUNK))
        self.there: dict[int, Memory] = {}
        self.changed = threading.Condition()

    def take(self, missing: set[int], flying: bool) -> tuple[int | None, dict[int, Memory]]:
        """A chunk to bring from the host, and chunks to take from other devices; neither if one should wait for its own.

        Waits while others may bring some, unless own ones are ``flying``.
        """
        with self.changed:
            while True:
                ready = {first: self.there[first] for first in missing if first in self.there}
                if self.free:
                    return self.free.popleft(), ready
                if ready or flying:
                    return None, ready
                self.changed.wait()

    def arrived(self, first: int, memory: Memory) -> None:
        """Record that a chunk has arrived on a device."""
        with self.changed:
            self.there[first] = memory
            self.changed.notify_all()

    def give_back(self, chunks: set[int]) -> None:
        """Return chunks that a device took and did not bring."""
        with self.changed:
            self.free.extend(chunks)
            self.changed.notify_all()


class Broadcast:
    """The arrays of one problem, by name. A context manager; what it gave out lasts until it ends. Safe to use from several threads."""

    def __init__(self) -> None:
        self._given: list[Memory] = []
        self._making = threading.Lock()
        self._commons: dict[str, _SharedArray] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for memory in self._given:
            with suppress(PortatileError):  # of a device that failed
                memory.release()

    def place(self, queue: Queue, name: str, array: NDArray[Any], receiving: Queue | None = None) -> Memory:
        """Memory of the queue's device that holds a C-contiguous array once the queue has come here; others must not write to it.

        What comes from other devices does so on the queue ``receiving``, beside what comes from the host; the array is there once that has
        come here, too.
        """
        memory = queue.device.allocate(max(array.nbytes, array.itemsize))
        with self._making:
            self._given.append(memory)
            common = self._commons.setdefault(name, _SharedArray(array.nbytes))
        _Arrival(queue, receiving or queue, memory, array.reshape(-1).view("u1"), common).run()
        return memory


class _Arrival:
    """An array on its way to one device."""

    def __init__(self, queue: Queue, receiving: Queue, memory: Memory, raw: NDArray[Any], common: _SharedArray) -> None:
        self._queue, self._receiving, self._memory, self._raw, self._common = queue, receiving, memory, raw, common
        self._missing = set(range(0, raw.nbytes, _CHUNK))
        self._in_flight: deque[tuple[int, Event]] = deque()

    def run(self) -> None:
        """Bring chunks until all have arrived or are queued."""
        try:
            while self._missing or self._in_flight:
                first, ready = self._common.take(self._missing, bool(self._in_flight))
                if first is not None:
                    self._in_flight.append((first, self._upload(first)))
                for there, memory in ready.items():
                    self._receive(there, memory)
                if len(self._in_flight) >= _FLYING or (first is None and self._in_flight):
                    self._offer_first_chunk()
        except BaseException:
            self._common.give_back({first for first, _ in self._in_flight})
            raise

    def _upload(self, first: int) -> Event:
        try:
            staging.upload(self._queue, self._memory, self._raw[first : first + _CHUNK], first, blocking=False)
            event = self._queue.marker()
            self._queue.flush()
        except BaseException:
            self._common.give_back({first})
            raise
        self._missing.discard(first)
        return event

    def _offer_first_chunk(self) -> None:
        """Wait for the chunk that was sent first, and offer it to the other devices."""
        first, event = self._in_flight[0]
        event.wait()
        self._in_flight.popleft()
        self._common.arrived(first, self._memory)

    def _receive(self, first: int, there: Memory) -> None:
        """Take a chunk from another device, or where that cannot be, or has failed meanwhile, from the host."""
        nbytes = min(_CHUNK, self._raw.nbytes - first)
        try:
            received = self._receiving.receive(self._memory, there, nbytes, first, first)
        except PortatileError:
            received = False
        if not received:
            staging.upload(self._queue, self._memory, self._raw[first : first + nbytes], first, blocking=False)
        self._missing.discard(first)
