"""How long a Python thread computes while others wait for Python's lock: shorter while several have something to do at once.

A thread that wants the lock waits for one that computes until that one's turn is over, 5 ms as Python is started. A thread that gives the
lock up for a moment, in a call of a driver or at a message, has mostly taken it again before another one woke up.
"""

from __future__ import annotations

import select
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_TURN = 5e-4  # seconds; to change threads takes some microseconds
_changing = threading.Lock()
_usual: list[float] = []
"""The length of turns outside of every ``short_turns``, while there are some."""
_asked: list[float] = []
"""The length that each ``short_turns`` asked for that was entered and not left."""


@contextmanager
def short_turns(seconds: float = _TURN) -> Iterator[None]:
    """A context manager: Python's threads take turns of so many seconds inside, of this thread and of others, until the last one has left.

    Where several ask, the shortest turns count.
    """
    with _changing:
        if not _asked:
            _usual.append(sys.getswitchinterval())
        _asked.append(seconds)
        _set()
    try:
        yield
    finally:
        with _changing:
            _asked.remove(seconds)
            _set()
            if not _asked:
                _usual.clear()


def give_way() -> None:
    """Let another thread have Python's lock, in a loop that asks for something again and again; ``time.sleep(0)`` takes 50 us."""
    select.select((), (), (), 0)


def _set() -> None:
    """Have threads take the shortest turns that are asked for, and never longer ones than usual."""
    sys.setswitchinterval(min([*_usual, *_asked]))
