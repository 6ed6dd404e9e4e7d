"""Launches that are prepared once and run many times."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

from portatile.device.resources import Releasable
from portatile.records import TensorMap


class Slot(NamedTuple):
    """An argument of a ready launch that is given at each run: ``place`` is its index among the run's values. ``kind`` is Memory for an
    address, a NumPy scalar type for a number, or a TensorMap for the address of a matrix that is passed as that map.
    """

    place: int
    kind: type | TensorMap


class Repeat(Releasable):
    """Launches of one plan, with their own kernel objects, whose arguments stay set from run to run."""

    @abstractmethod
    def run(self, queue: Any, values: Sequence[Any]) -> bool:
        """Queue the launches in order, with memory and numbers in the order of ``Slot.place``; does not wait.

        Returns False, with nothing queued, for a queue that cannot run them.
        """
