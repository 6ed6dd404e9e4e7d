"""Upload of host arrays that several devices need whole: each device uploads some chunks, and copies the rest from the other devices.

The host links share the upload of one copy; copies from GPU to GPU are several times as fast. Where no driver copies between the devices,
each chunk is uploaded to each of them.
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

_CHUNK = 1 << 25  # bytes of a chunk, which one device uploads in one copy
_FLYING = 3  # chunks that a device uploads concurrently, so that its link does not idle while the threads of other devices run


class _SharedArray:
    """One array on its way to several devices: chunks that no device has taken, and the memory of arrived ones, by first byte."""

    def __init__(self, nbytes: int) -> None:
        self.free = deque(range(0, nbytes, _CHUNK))
        self.there: dict[int, Memory] = {}
        self.changed = threading.Condition()

    def take(self, missing: set[int], flying: bool) -> tuple[int | None, dict[int, Memory]]:
        """A chunk to upload from the host (or None), and chunks to copy from other devices; neither if the device should wait for its own
        uploads.

        Waits while other devices may still bring chunks, unless the caller has uploads in flight (``flying``).
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
        """Return chunks that a device took but did not upload."""
        with self.changed:
            self.free.extend(chunks)
            self.changed.notify_all()


class Broadcast:
    """The shared arrays of one problem, by name. A context manager, which releases their memory. Safe to use from several threads."""

    def __init__(self) -> None:
        self._given: list[Memory] = []
        self._making = threading.Lock()
        self._commons: dict[str, _SharedArray] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for memory in self._given:
            with suppress(PortatileError):  # the device may have failed
                memory.release()

    def place(self, queue: Queue, name: str, array: NDArray[Any], receiving: Queue | None = None) -> Memory:
        """Memory on the queue's device that holds a C-contiguous array once ``queue`` has reached this point; others must not write to it.

        Copies from other devices run on ``receiving``, concurrently with uploads on ``queue``; the array is complete when both queues have
        reached this point.
        """
        memory = queue.device.allocate(max(array.nbytes, array.itemsize))
        with self._making:
            self._given.append(memory)
            common = self._commons.setdefault(name, _SharedArray(array.nbytes))
        _Arrival(queue, receiving or queue, memory, array.reshape(-1).view("u1"), common).run()
        return memory


class _Arrival:
    """The transfer of an array to one device."""

    def __init__(self, queue: Queue, receiving: Queue, memory: Memory, raw: NDArray[Any], common: _SharedArray) -> None:
        self._queue, self._receiving, self._memory, self._raw, self._common = queue, receiving, memory, raw, common
        self._missing = set(range(0, raw.nbytes, _CHUNK))
        self._in_flight: deque[tuple[int, Event]] = deque()

    def run(self) -> None:
        """Upload or copy chunks until all have arrived or are queued."""
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
        """Wait for the oldest upload in flight, and offer its chunk to the other devices."""
        first, event = self._in_flight[0]
        event.wait()
        self._in_flight.popleft()
        self._common.arrived(first, self._memory)

    def _receive(self, first: int, there: Memory) -> None:
        """Queue the copy of a chunk from another device; where that is impossible or fails, its upload from the host."""
        nbytes = min(_CHUNK, self._raw.nbytes - first)
        try:
            received = self._receiving.receive(self._memory, there, nbytes, first, first)
        except PortatileError:
            received = False
        if not received:
            staging.upload(self._queue, self._memory, self._raw[first : first + nbytes], first, blocking=False)
        self._missing.discard(first)
