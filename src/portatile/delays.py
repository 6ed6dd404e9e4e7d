"""Notices of one-off work that takes seconds, so that users know why they wait: the command line shows them on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
    for listener in tuple(_listeners):
        listener(text)
