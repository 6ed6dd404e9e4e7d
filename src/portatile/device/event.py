"""The interface of events, points in a queue, which every back end implements."""

from __future__ import annotations

from abc import ABC, abstractmethod


class Event(ABC):
    """A point in a queue."""

    @abstractmethod
    def wait(self) -> None:
        """Block until the queue has passed the point."""

    @property
    @abstractmethod
    def done(self) -> bool:
        """Whether the queue has passed the point."""

    @abstractmethod
    def seconds_since(self, earlier: Event) -> float:
        """Device seconds between the end of ``earlier`` and the end of this one; both from queues with ``profiling``."""

    @property
    def duration(self) -> float | None:
        """Device seconds that the command itself took, if the back end profiles single commands."""
        return None
