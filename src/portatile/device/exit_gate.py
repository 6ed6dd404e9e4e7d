"""Threads inside a driver when the interpreter ends: it waits for those that are in, and lets none in again.

Python ends a daemon thread where it asks for the interpreter's lock, and a driver's frames do not survive that: the process would abort.
So every command that gives the lock away while it waits or copies stands in ``with inside:``.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from threading import get_ident
from types import TracebackType

_PATIENCE = 10.0  # seconds that the end of the interpreter waits


class Gate:
    """A context manager; after ``close`` threads other than the one that closed it wait there for ever."""

    __slots__ = ("_closed", "_never", "_owner", "_threads")

    def __init__(self) -> None:
        self._threads: list[int] = []  # those inside; its methods are atomic
        self._closed, self._owner = False, 0
        self._never = threading.Lock()  # that the closing thread never gives back

    def __enter__(self) -> None:
        self._threads.append(get_ident())
        if self._closed and get_ident() != self._owner:
            self._threads.remove(get_ident())
            self._never.acquire()

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._threads.remove(get_ident())

    def close(self, patience: float = _PATIENCE) -> None:
        """Let no other thread in, and wait until those that are in have come out, or ``patience`` seconds."""
        self._never.acquire(blocking=False)
        self._owner, self._closed = get_ident(), True
        ends = time.monotonic() + patience
        while time.monotonic() < ends and self._others():
            time.sleep(0.001)

    def forget(self) -> None:
        """Forget the other threads, in a forked child: none of them came along."""
        self._threads.clear()

    def _others(self) -> bool:
        alive = sys._current_frames()  # an interrupt may have taken a thread out without its exit
        return any(thread != self._owner and thread in alive for thread in [*self._threads])


inside = Gate()
"""The process's own."""

atexit.register(inside.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=inside.forget)
