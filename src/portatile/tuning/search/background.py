"""A computation in a thread of its own, while this one attends to workers, and shorter turns of Python's lock meanwhile.

A thread that talks to workers gives the lock up at each message, so it would wait for a whole turn of the one that computes each time.
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
    """The result of ``compute``, or what it raises, from a thread of its own; ``meanwhile`` is called again and again until it is there.

    What ``meanwhile`` raises ends the waiting, and the thread is left to itself.
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
