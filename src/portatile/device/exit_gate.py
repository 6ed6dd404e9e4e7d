"""A gate that keeps threads out of drivers while the interpreter exits: it waits for threads inside, and lets no others in.

At exit, Python terminates each daemon thread at the moment it asks for the GIL. If a driver's frames are on its stack, the process aborts.
So every driver call that releases the GIL, to wait or to copy, is made in ``with inside:``.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from threading import get_ident
from types import TracebackType

_PATIENCE = 10.0  # seconds that the exiting thread waits for threads inside


class Gate:
    """A context manager; after ``close``, threads other than the one that closed it block here forever."""

    __slots__ = ("_closed", "_never", "_owner", "_threads")

    def __init__(self) -> None:
        self._threads: list[int] = []  # ids of the threads inside; a list's methods are atomic
        self._closed, self._owner = False, 0
        self._never = threading.Lock()  # the closing thread takes it and never releases it

    def __enter__(self) -> None:
        self._threads.append(get_ident())
        if self._closed and get_ident() != self._owner:
            self._threads.remove(get_ident())
            self._never.acquire()

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._threads.remove(get_ident())

    def close(self, patience: float = _PATIENCE) -> None:
        """Let no other thread in, and wait until those inside have left, for at most ``patience`` seconds."""
        self._never.acquire(blocking=False)
        self._owner, self._closed = get_ident(), True
        ends = time.monotonic() + patience
        while time.monotonic() < ends and self._others():
            time.sleep(0.001)

    def forget(self) -> None:
        """Forget the other threads, in a forked child, which does not have them."""
        self._threads.clear()

    def _others(self) -> bool:
        alive = sys._current_frames()  # an interrupt may have ended a thread without __exit__
        return any(thread != self._owner and thread in alive for thread in [*self._threads])


inside = Gate()
"""The gate of this process."""

atexit.register(inside.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=inside.forget)
