"""Loaded binaries and their kernels; and ``Releasable``, the base of everything that holds a resource of a device."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

from portatile.records import Entry, Resources


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


class LoadedKernel(ABC):
    """A kernel that is loaded on a device."""

    name: str
    entry: Entry
    resources: Resources

    def argument(self, index: int) -> str:
        """The place of an argument, with its type and name if they are known, for a message."""
        parameters = self.entry.parameters
        text = f" ({parameters[index].type} {parameters[index].name})" if index < len(parameters) else ""
        return f"{index}{text} of kernel {self.name!r}"


class Repeat(Releasable):
    """Launches of one plan, with kernel objects of their own, whose arguments stay set from run to run."""

    @abstractmethod
    def run(self, queue: Any, values: Sequence[Any]) -> bool:
        """Queue the launches in order, with memory and numbers in the order of ``Slot.place``; does not wait.

        Returns False, with nothing queued, for a queue that cannot run them.
        """


class Module(Releasable):
    """A loaded binary."""

    @abstractmethod
    def kernel(self, name: str) -> LoadedKernel:
        """The kernel called ``name`` in its text; raises ArgumentError with the names there are."""
