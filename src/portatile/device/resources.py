"""The base class of memory, queues, loaded kernels and devices, which hold a resource of a device; and page locks."""

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
    """Locked pages of a host array; ``alive`` until they or the device are released."""

    alive: bool

    @abstractmethod
    def wait(self) -> None:
        """Block until all devices that can access the pages have finished their queued commands."""
