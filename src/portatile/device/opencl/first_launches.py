"""A workaround for PoCL: the first launch with new sizes runs alone, and binaries are made while nothing runs.

Before version 6, PoCL may load a kernel several times, for larger launches and for the program's binary, and counts the users of each copy.
But it looks the copy to release up by kernel and work-group size alone, and releases the one that was loaded or looked up last. If that
happens while a queue runs the kernel, an assertion aborts the process, or machine code is unloaded while it runs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache
from threading import RLock
from typing import Any, Protocol
from weakref import WeakSet

from portatile.device.exit_gate import inside
from portatile.errors import PortatileError

_RIGHT_SINCE = 6  # the first version of PoCL without this bug


class FinishableQueue(Protocol):
    """A queue, of which only this is needed."""

    def finish(self) -> None: ...


class LaunchOrder:
    """Coordinates the queues of one affected driver. Thread-safe."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._queues: WeakSet[FinishableQueue] = WeakSet()
        self._several = False

    def enter(self, queue: FinishableQueue) -> None:
        """Add a queue, after the other queues have finished: the kernels that they run are loaded then."""
        with self._lock:
            self._finish_others(queue)
            self._queues.add(queue)
            self._several = len(self._queues) > 1

    def leave(self, queue: FinishableQueue) -> None:
        """Remove a queue that has finished and launches no more."""
        with self._lock:
            self._queues.discard(queue)
            self._several = len(self._queues) > 1

    def launch(self, queue: FinishableQueue, enqueue: Callable[[], Any], first: bool) -> Any:
        """Launch by ``enqueue``; returns its event.

        ``first``: the kernel has not run with these sizes yet, so no other queue launches until it has.
        """
        with self._lock:
            if not (first and self._several):
                return enqueue()
            self._finish_others(queue)
            event = enqueue()
            with inside:
                event.wait()
            return event

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """A context manager during which nothing runs and nothing is launched."""
        with self._lock:
            self._finish_others(None)
            yield

    def _finish_others(self, queue: FinishableQueue | None) -> None:
        for other in list(self._queues):
            if other is not queue:
                with suppress(PortatileError):  # reported to those who wait for that queue
                    other.finish()


def turns(compiler: str) -> LaunchOrder | None:
    """The launch order of a driver, which ``DeviceInfo.compiler`` names; None where the driver does not need one."""
    version = re.search(r"\bPoCL (\d+)", compiler)
    return _of(compiler) if version is not None and int(version[1]) < _RIGHT_SINCE else None


def quiet(compiler: str) -> AbstractContextManager[None]:
    """A context manager around calls in which the driver compiles a program's binary."""
    order = turns(compiler)
    return nullcontext() if order is None else order.quiet()


@cache
def _of(compiler: str) -> LaunchOrder:
    return LaunchOrder()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_of.cache_clear)  # a child begins without queues
