"""A pipeline of orbitals from page-locked memory through a device and back: uploads, kernels and downloads overlap.

Uploads, kernels and downloads each have their own queue, and nothing waits for the device before ``collect`` and the end, so the link
carries orbitals in both directions while kernels process others.
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
from portatile.runtime.one_device import memory_limit

Into = Callable[[tuple[int, ...], Any], NDArray[Any]]
"""Makes the host array of a shape and dtype to which a batch's result is written, such as ``np.empty``."""

_LANES = 6  # groups of orbitals on the device at once, each in its own memory
_AHEAD = 3  # groups that are sent before the first result is waited for, if the host copies results to their destination
_SHARE = 16  # results are released together, when they hold more than 1 / _SHARE of the device's memory


class DevicePipeline:
    """The pipeline of one device, for one thread and groups of at most ``group`` orbitals. Leaving its context finishes it."""

    def __init__(self, device: Device, group: int) -> None:
        self.group, self.sent = group, 0  # ``sent``: orbitals so far
        self._device, self._default = device, device.default_queue()
        self._uploads, self._downloads = device.queue(), device.queue()
        self._lanes: deque[tuple[Memory, Event]] = deque()
        self._most = min(device.info.global_memory, memory_limit.limit_of(device) or device.info.global_memory) // _SHARE
        self._held: list[Buffer] = []  # not released one by one: freeing memory makes all queues wait for each other
        self._waiting: deque[tuple[Any, Event, NDArray[Any]]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for queue in (self._uploads, self._default, self._downloads):
            with suppress(PortatileError):  # a failed device cannot finish
                queue.finish()
        for queue in (self._uploads, self._downloads):  # before the memory, because releasing memory waits for all existing queues
            with suppress(PortatileError):
                queue.release()
        self._held.clear()
        for memory, _ in self._lanes:
            memory.release()

    def through(self, orbitals: NDArray[Any], compute: Callable[[Buffer], Any], place: Callable[[Any], NDArray[Any]]) -> None:
        """Queue the upload of page-locked orbitals, ``compute`` of them, and the download of the result to the array from ``place``."""
        self.sent += len(orbitals)
        memory = self._lane(orbitals.nbytes)
        self._uploads.upload(memory, orbitals, blocking=False)
        self._default.wait_for(self._uploads.marker())
        self._uploads.flush()
        done = compute(Buffer(memory, orbitals.shape, orbitals.dtype))
        computed = self._default.marker()
        self._default.flush()
        self._lanes.append((memory, computed))
        target = place(done)
        if is_packed(done) and locked.crosses(self._device, target, back=True):
            self._downloads.wait_for(computed)
            self._downloads.download(target, done.memory, done.offset, blocking=False)
            self._downloads.flush()
        else:
            self._waiting.append((done, computed, target))
        self._hold(done)
        self.collect(_AHEAD)

    def collect(self, left: int = 0) -> None:
        """Fetch the results that the host must copy, the oldest first, until at most ``left`` remain."""
        while len(self._waiting) > left:
            done, computed, target = self._waiting.popleft()
            self._downloads.wait_for(computed)
            if is_packed(done):
                staging.download(self._downloads, target, done.memory, done.offset)
            else:
                target[...] = done.numpy(self._downloads)

    def end(self) -> Event:
        """An event after all downloads that were queued so far."""
        self.collect()
        return self._downloads.marker()

    def _lane(self, nbytes: int) -> Memory:
        """Memory for a group of orbitals: new, or that of the oldest group, whose kernels the next upload then waits for."""
        if len(self._lanes) < _LANES:
            return self._device.allocate(nbytes)
        memory, computed = self._lanes.popleft()
        if memory.nbytes < nbytes:
            memory.release()
            return self._device.allocate(nbytes)
        self._uploads.wait_for(computed)
        return memory

    def _hold(self, done: Any) -> None:
        """Keep a result at least until it is downloaded."""
        self._held.append(done)
        if sum(one.nbytes for one in self._held) > self._most:
            self.collect()
            self._downloads.finish()
            self._held.clear()


@dataclass(frozen=True)
class PipelinePlace:
    """An ``Into`` that also names the pipeline through which the result may come."""

    made: Into
    flow: DevicePipeline | None = None

    def __call__(self, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        return self.made(shape, dtype)
