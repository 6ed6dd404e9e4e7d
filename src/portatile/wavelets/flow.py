"""Orbitals on their way through a device's memory, where it copies them from their place: to it, through kernels, and back, all at once.

Nothing here waits for the device until ``finish``, so the links carry some orbitals each way while kernels take others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

from numpy.typing import NDArray

from portatile.arguments.matrices import is_packed
from portatile.device import staging
from portatile.device.base import Device, Memory
from portatile.device.buffer import Buffer
from portatile.device.event import Event
from portatile.device.page_locked import locked
from portatile.errors import PortatileError
from portatile.runtime import memory_limit

Into = Callable[[tuple[int, ...], Any], NDArray[Any]]
"""Gives the host memory of a shape and dtype that a batch's result is written to, such as ``np.empty``."""

_LANES = 6  # groups of orbitals that are on the device at once
_AHEAD = 3  # groups that are sent before the first one is waited for, where a copy of the host's is at the end
_SHARE = 16  # one part of the device's memory in so many is what results take before those that have been fetched are dropped


class Flow:
    """Queues and memory of one device, of so many ``beside`` each other. A context manager, which finishes. For one thread."""

    def __init__(self, device: Device, beside: int = 1) -> None:
        self.beside, self.sent = beside, 0  # orbitals so far
        self._device, self._default = device, device.default_queue()
        self._there, self._back = device.queue(), device.queue()
        self._lanes: deque[tuple[Memory, Event]] = deque()
        self._most = min(device.info.global_memory, memory_limit.limit_of(device) or device.info.global_memory) // _SHARE
        self._held: list[Buffer] = []  # memory that is given back makes all queues wait for each other
        self._waiting: deque[tuple[Any, Event, NDArray[Any]]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for queue in (self._there, self._default, self._back):
            with suppress(PortatileError):  # of a device that failed
                queue.finish()
        self._held.clear()
        for memory, _ in self._lanes:
            memory.release()
        for queue in (self._there, self._back):
            with suppress(PortatileError):
                queue.release()

    def through(self, orbitals: NDArray[Any], compute: Callable[[Buffer], Any], place: Callable[[Any], NDArray[Any]]) -> None:
        """Send locked orbitals, compute them, and bring the result to the array that ``place`` gives for it."""
        self.sent += len(orbitals)
        memory = self._lane(orbitals.nbytes)
        self._there.upload(memory, orbitals, blocking=False)
        self._default.wait_for(self._there.marker())
        self._there.flush()
        done = compute(Buffer(memory, orbitals.shape, orbitals.dtype))
        computed = self._default.marker()
        self._default.flush()
        self._lanes.append((memory, computed))
        target = place(done)
        if is_packed(done) and locked.crosses(self._device, target, back=True):
            self._back.wait_for(computed)
            self._back.download(target, done.memory, done.offset, blocking=False)
            self._back.flush()
        else:
            self._waiting.append((done, computed, target))
        self._hold(done)
        self.collect(_AHEAD)

    def collect(self, left: int = 0) -> None:
        """Fetch results that the host copies, until so many are ``left``."""
        while len(self._waiting) > left:
            done, computed, target = self._waiting.popleft()
            self._back.wait_for(computed)
            if is_packed(done):
                staging.download(self._back, target, done.memory, done.offset)
            else:
                target[...] = done.numpy(self._back)

    def end(self) -> Event:
        """An event behind all results that were sent for so far."""
        self.collect()
        return self._back.marker()

    def _lane(self, nbytes: int) -> Memory:
        """Memory for orbitals, whose kernels come before what is sent there."""
        if len(self._lanes) < _LANES:
            return self._device.allocate(nbytes)
        memory, computed = self._lanes.popleft()
        if memory.nbytes < nbytes:
            memory.release()
            return self._device.allocate(nbytes)
        self._there.wait_for(computed)
        return memory

    def _hold(self, done: Any) -> None:
        """Keep a result until it is fetched."""
        self._held.append(done)
        if sum(one.nbytes for one in self._held) > self._most:
            self.collect()
            self._back.finish()
            self._held.clear()


@dataclass(frozen=True)
class Place:
    """An ``Into`` that says by which flow the result may come, too."""

    made: Into
    flow: Flow | None = None

    def __call__(self, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        return self.made(shape, dtype)
