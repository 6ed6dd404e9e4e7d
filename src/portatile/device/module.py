"""The interface of loaded binaries and their kernels, which every back end implements."""

from __future__ import annotations

from abc import ABC, abstractmethod

from portatile.device.resources import Releasable
from portatile.records import Entry, Resources


class LoadedKernel(ABC):
    """A kernel that is loaded on a device."""

    name: str
    entry: Entry
    resources: Resources

    def argument(self, index: int) -> str:
        """The index of an argument, with its type and name if they are known, for a message."""
        parameters = self.entry.parameters
        text = f" ({parameters[index].type} {parameters[index].name})" if index < len(parameters) else ""
        return f"{index}{text} of kernel {self.name!r}"


class Module(Releasable):
    """A loaded binary."""

    @abstractmethod
    def kernel(self, name: str) -> LoadedKernel:
        """The kernel called ``name`` in the kernel text; raises ArgumentError with the existing names."""
