"""A computation in a separate thread while this thread serves workers, with a shorter switch interval of Python's global lock. A thread
that talks to workers releases the lock at each message, and would each time wait a whole interval for the computing thread.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import TypeVar

from portatile.thread_turns import short_turns

Result = TypeVar("Result")
_LOOK = 0.01  # seconds between two calls of what goes on beside it


def in_background(compute: Callable[[], Result], meanwhile: Callable[[], None]) -> Result:
    """Run ``compute`` in a separate thread, call ``meanwhile`` repeatedly until it has finished, and return its result or raise its
    exception.

    An exception of ``meanwhile`` ends the waiting; the thread then continues without supervision.
    """
    results: list[Result] = []
    errors: list[BaseException] = []
    ended = threading.Event()

    def run() -> None:
        try:
            results.append(compute())
        except BaseException as error:
            errors.append(error)
        finally:
            ended.set()

    threading.Thread(target=contextvars.copy_context().run, args=(run,), daemon=True, name="portatile-background").start()
    with short_turns():
        while not ended.wait(_LOOK):
            meanwhile()
    if errors:
        raise errors[0]
    return results[0]
