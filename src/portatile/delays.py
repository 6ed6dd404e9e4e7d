"""Notices of what takes seconds once, for a program whose user waits: the command line shows them on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_listeners: list[Callable[[str], None]] = []


@contextmanager
def told_to(listener: Callable[[str], None]) -> Iterator[None]:
    """Inside, ``listener`` is called with each notice."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def notice(text: str) -> None:
    """Say what takes seconds now; nobody hears it where nothing listens."""
    for listener in tuple(_listeners):
        listener(text)
