"""A deadline for finding legal configurations, so that a search with a budget does not exceed it before its first one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from portatile.errors import SpaceError

_UNTIL: ContextVar[float | None] = ContextVar("portatile.space.deadline", default=None)
_EVERY = 1024  # steps between two looks at the clock


class OverdueError(SpaceError):
    """The deadline of a search passed while it searched for a legal configuration."""


@contextmanager
def within(until: float | None) -> Iterator[None]:
    """A context in which spaces search for legal configurations until ``until`` (``time.monotonic``), and then raise OverdueError."""
    token = _UNTIL.set(until)
    try:
        yield
    finally:
        _UNTIL.reset(token)


class Steps:
    """Counts examined combinations, and checks the clock from time to time."""

    def __init__(self) -> None:
        self.taken = 0

    def step(self) -> None:
        """Count one more step; raises OverdueError after the deadline."""
        self.taken += 1
        if self.taken % _EVERY == 0 and (until := _UNTIL.get()) is not None and time.monotonic() > until:
            raise OverdueError(
                f"no legal configuration was found in time; {self.taken} partial combinations were looked at last."
                " Write constraints as expressions, which settle before all their parameters are bound, give a default, or a larger budget"
            )
