"""Host arrays that a queue may still read or write: they are kept alive until the queue has finished, however the call ends.

An interrupt (Ctrl-C, another thread's exception) may come between any two steps of a call. The call then waits for the queue before the
exception propagates. Should another interrupt break off that wait, the arrays stay referenced, and the next call on the device waits first.
"""

from __future__ import annotations

from types import TracebackType

from portatile.device.base import Queue
from portatile.errors import PortatileError

INTERRUPTS = 1000  # interrupts that one wait survives, so that it ends even if the queue never finishes


def drain(queue: Queue) -> None:
    """Wait for the queue, even through interrupts; errors of the device are ignored here."""
    for _ in range(INTERRUPTS):
        try:
            queue.finish()
            return
        except PortatileError:
            return
        except BaseException:
            continue


class InFlight:
    """A context manager that keeps arrays alive. ``kept_alive`` is the device's list of them; the caller holds the engine's lock."""

    __slots__ = ("_arrays", "_held", "_queue")

    def __init__(self, kept_alive: list[object], queue: Queue, arrays: object) -> None:
        self._held, self._queue, self._arrays = kept_alive, queue, arrays

    def __enter__(self) -> None:
        if self._held:  # an earlier call was interrupted, and so was its wait
            drain(self._queue)
            self._held.clear()
        self._held.append(self._arrays)

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        if kind is not None:
            drain(self._queue)
        self._held.clear()
