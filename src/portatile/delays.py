"""Notices of one-off work that takes seconds, so that users know why they wait.

The command line listens to them. Without a listener they are lines on standard error, if that is a terminal or the output of a notebook.
Elsewhere nothing is written, so that scripts and logs stay clean.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from portatile import notebooks

_AFTER = 2.0  # seconds after which work that is usually short gets a notice
_told: set[str] = set()  # the notices so far

_listeners: list[Callable[[str], None]] = []


@contextmanager
def listening(listener: Callable[[str], None]) -> Iterator[None]:
    """A context in which ``listener`` is called with each notice."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def notice(text: str) -> None:
    """Tell every listener what now takes seconds."""
    for listener in tuple(_listeners) or (_line,):
        listener(text)


@contextmanager
def noticed(text: str, after: float = _AFTER) -> Iterator[None]:
    """A context for work that is usually short: if it takes more than ``after`` seconds, there is a notice; each text is shown once."""
    timer = threading.Timer(after, _notice_once, (text,))
    timer.daemon = True
    try:
        timer.start()
    except RuntimeError:  # the interpreter ends
        yield
        return
    try:
        yield
    finally:
        timer.cancel()


def _notice_once(text: str) -> None:
    if text not in _told:
        _told.add(text)
        notice(text)


def _line(text: str) -> None:
    stream = sys.stderr
    if stream is not None and (stream.isatty() or notebooks.inside()):
        print(f"portatile: {text}", file=stream, flush=True)
