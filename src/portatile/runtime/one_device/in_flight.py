"""Arrays of the host that a queue may still read or write: they live until it has finished, whatever ends the call.

An interrupt (Ctrl-C, another thread's exception) may come between any two steps of a call. Then the queue is waited for, and the exception
goes on. Should another interrupt break that off, the arrays are still held, and the next call on the device waits first.
"""

from __future__ import annotations

from types import TracebackType

from portatile.device.base import Queue
from portatile.errors import PortatileError

INTERRUPTS = 1000  # the most of one wait, which ends even if the queue never answers


def drain(queue: Queue) -> None:
    """Wait for the queue, through interrupts; what the device has to complain about is not asked here."""
    for _ in range(INTERRUPTS):
        try:
            queue.finish()
            return
        except PortatileError:
            return
        except BaseException:
            continue


class InFlight:
    """A context manager: arrays given to it may be in use. ``held`` is the device's list of them; the caller holds the engine's lock."""

    __slots__ = ("_arrays", "_held", "_queue")

    def __init__(self, kept_alive: list[object], queue: Queue, arrays: object) -> None:
        self._held, self._queue, self._arrays = kept_alive, queue, arrays

    def __enter__(self) -> None:
        if self._held:  # a call was broken off, and its waiting too
            drain(self._queue)
            self._held.clear()
        self._held.append(self._arrays)

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        if kind is not None:
            drain(self._queue)
        self._held.clear()
