"""A computation of this process beside which something else goes on: what workers report waits for it as little as may be.

A thread that wants Python's lock waits for one that computes until that one's turn is over, after 5 ms as Python is started, and a thread
that talks to workers gives the lock up at each message. So turns are shorter while something is computed beside that.
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


def beside(compute: Callable[[], Result], meanwhile: Callable[[], None]) -> Result:
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

    threading.Thread(target=contextvars.copy_context().run, args=(run,), daemon=True, name="portatile-beside").start()
    with short_turns():
        while not ended.wait(_LOOK):
            meanwhile()
    if errors:
        raise errors[0]
    return results[0]
