"""Launches through several queues of PoCL, so that the first one of its sizes runs alone.

Before version 6 PoCL has a kernel loaded several times, for wider and wider launches, and counts who runs it; but it gives back, by kernel
and work-group size alone, whichever was loaded last. Where a kernel is loaded again while another queue runs it, the process is ended by an
assertion, or machine code unloaded that still runs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from threading import RLock
from typing import Any, Protocol
from weakref import WeakSet

from portatile.device.exit_gate import inside
from portatile.errors import PortatileError

_RIGHT_SINCE = 6  # the version of PoCL that gives back what it took


class Finishing(Protocol):
    """A queue."""

    def finish(self) -> None: ...


class Turns:
    """The queues of one driver that needs it."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._queues: WeakSet[Finishing] = WeakSet()
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
            if first:
                self._finish_others(queue)
            event = enqueue()
            if first:
                with inside:
                    event.wait()
            return event

    def _finish_others(self, queue: Finishing) -> None:
        for other in list(self._queues):
            if other is not queue:
                with suppress(PortatileError):  # which is told to those who wait for that queue
                    other.finish()


def turns(compiler: str) -> Turns | None:
    """Those of a driver, which ``DeviceInfo.compiler`` names; None where launches need no order."""
    version = re.search(r"\bPoCL (\d+)", compiler)
    return _of(compiler) if version is not None and int(version[1]) < _RIGHT_SINCE else None


@cache
def _of(compiler: str) -> Turns:
    return Turns()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_of.cache_clear)  # a child begins without queues
