"""A computation in a thread of its own, while this one attends to workers, and shorter turns of Python's lock meanwhile.

A thread that wants the lock waits until the turn of the one that computes is over: 5 ms by default. A thread that talks to workers gives
the lock up at each message, so it would wait that long each time.
"""

from __future__ import annotations

import contextvars
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

Result = TypeVar("Result")
_LOOK = 0.01  # seconds between two calls of what goes on beside it
_TURN = 5e-4  # seconds; to change threads takes some microseconds
_changing = threading.Lock()
_usual: list[float] = []
"""The length of turns outside of every ``short_turns``, once for each that is entered."""


@contextmanager
def short_turns() -> Iterator[None]:
    """A context manager: Python's threads take short turns inside, of this thread and of others, until the last one has left."""
    with _changing:
        _usual.append(_usual[0] if _usual else sys.getswitchinterval())
        sys.setswitchinterval(min(_TURN, _usual[0]))
    try:
        yield
    finally:
        with _changing:
            usual = _usual.pop()
            if not _usual:
                sys.setswitchinterval(usual)


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
