"""What holds a resource of a device, and gives it back: the base of memory, queues, loaded kernels and devices; and locked pages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Releasable(ABC):
    """A resource of a device, released by ``release`` or at the end of ``with``."""

    @abstractmethod
    def release(self) -> None:
        """Release it; a second call does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()


class PageLock(Releasable):
    """Pages of a host array that are locked in memory: ``alive`` until they or the device are released."""

    alive: bool

    @abstractmethod
    def wait(self) -> None:
        """Block until all devices that reach the pages have done what they were given so far."""
