"""The GIL's switch interval: shorter while several threads have work at the same time.

A thread that wants the GIL waits until the running thread's interval has passed, by default 5 ms. A thread that releases the GIL briefly,
for a driver call or while it waits for a message, has usually taken it again before another thread wakes up.
"""

from __future__ import annotations

import select
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_TURN = 5e-4  # seconds; a switch between threads takes some microseconds
_changing = threading.Lock()
_usual: list[float] = []
"""The switch interval outside of every ``short_turns``, while there are any."""
_asked: list[float] = []
"""The interval that each active ``short_turns`` asked for."""


@contextmanager
def short_turns(seconds: float = _TURN) -> Iterator[None]:
    """A context manager that sets the switch interval of all threads to ``seconds``, until the last such context has ended.

    If several are active, the shortest interval applies.
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
    """Let another thread take the GIL, in a polling loop; ``time.sleep(0)`` would take 50 us."""
    select.select((), (), (), 0)


def _set() -> None:
    """Set the shortest interval that is asked for, but never a longer one than usual."""
    sys.setswitchinterval(min([*_usual, *_asked]))
