"""What PoCL compiles in turn: a launch is the first of its sizes through one queue alone, and while no program is built.

Before version 6 PoCL has a kernel loaded several times, for wider and wider launches, and counts who runs it; but it gives back, by kernel
and work-group size alone, whichever was loaded last. Where a kernel is loaded again while another queue runs it, the process is ended by an
assertion, or machine code unloaded that still runs. And processes died where threads built programs while a launch had its kernel compiled.
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

from portatile.device.gate import inside
from portatile.errors import PortatileError

_RIGHT_SINCE = 6  # the version of PoCL that gives back what it took
_MOST_FIRST = 64  # events that are kept


class Finishing(Protocol):
    """A queue."""

    def finish(self) -> None: ...


class Turns:
    """The queues of one driver that needs it."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._queues: WeakSet[Finishing] = WeakSet()
        self._first: list[Any] = []  # events of launches that may still have their kernels compiled
        self.several = False

    def enter(self, queue: Finishing) -> None:
        """One more queue: what others run has been loaded before it launches."""
        with self._lock:
            self._finish_others(queue)
            self._queues.add(queue)
            self.several = len(self._queues) > 1

    def leave(self, queue: Finishing) -> None:
        """A queue that is finished and launches no more."""
        with self._lock:
            self._queues.discard(queue)
            self.several = len(self._queues) > 1

    def launch(self, queue: Finishing, enqueue: Callable[[], Any], first: bool) -> Any:
        """What ``enqueue`` gives, an event; ``first``: the kernel has not run in these sizes, and no other queue launches until it has."""
        with self._lock:
            if first and self.several:
                self._finish_others(queue)
            event = enqueue()
            if first:
                self._first.append(event)
                if self.several or len(self._first) > _MOST_FIRST:
                    self._wait()
            return event

    @contextmanager
    def building(self) -> Iterator[None]:
        """While a program is built no launch is the first of its sizes."""
        with self._lock:
            self._wait()
            yield

    def _wait(self) -> None:
        with inside:
            while self._first:
                self._first.pop().wait()

    def _finish_others(self, queue: Finishing) -> None:
        for other in list(self._queues):
            if other is not queue:
                with suppress(PortatileError):  # which is told to those who wait for that queue
                    other.finish()


def turns(compiler: str) -> Turns | None:
    """Those of a driver, which ``DeviceInfo.compiler`` names; None where launches need no order."""
    version = re.search(r"\bPoCL (\d+)", compiler)
    return _of(compiler) if version is not None and int(version[1]) < _RIGHT_SINCE else None


def building(compiler: str) -> AbstractContextManager[None]:
    """Around each build by a driver, and each question that may have it compile."""
    order = turns(compiler)
    return nullcontext() if order is None else order.building()


@cache
def _of(compiler: str) -> Turns:
    return Turns()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_of.cache_clear)  # a child begins without queues
