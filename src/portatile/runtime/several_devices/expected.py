"""The time that a problem is expected to take, shared and on each device alone, and which device should compute it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from portatile.formatting import duration


@dataclass(frozen=True)
class ExpectedTime:
    """Expected seconds. ``measured``: they were measured for this problem. ``like``: they are those of a device of the same kind."""

    seconds: float
    measured: bool = False
    like: bool = False

    def __str__(self) -> str:
        return f"{duration(self.seconds)} ({'measured' if self.measured else 'predicted'})"


@dataclass(frozen=True)
class Forecast:
    """The expected time of a problem when all devices share it (None where a rate is unknown), and on each device alone, where that is
    known.

    ``quickest`` is the device that should compute the problem alone, because its time is the least or has yet to be measured; "" to share
    it. ``tiny``: the problem is too small to be shared, whatever the times. ``little``: the fraction that all other devices would do, where
    that is too small to share; otherwise 0. ``trying``: the device is timed once more, although it took longer than all together.
    ``forced``: the problem is shared whatever the expected times.
    """

    together: ExpectedTime | None
    alone: Mapping[str, ExpectedTime]
    quickest: str = ""
    tiny: bool = False
    little: float = 0.0
    trying: bool = False
    forced: bool = False

    @property
    def decided(self) -> bool:
        """Whether one device should compute the problem alone and nothing is left to measure, or the others would do too little."""
        return bool(self.quickest) and not self.trying and (bool(self.little) or self.alone[self.quickest].measured)

    @property
    def tried(self) -> bool:
        """Whether both the shared computation and the best single device were measured, or sharing is forced."""
        if self.forced:
            return True
        best = self.alone.get(self.best_alone)
        return self.together is not None and self.together.measured and best is not None and (best.measured or best.like)

    @property
    def why(self) -> str:
        """Which device computes the problem alone, and why."""
        if self.little:
            return f"{self.quickest} computes it alone: the others would do only {100 * self.little:.2g} %, less than sharing costs"
        because = "to time that once more" if self.trying else "which is faster" if self.decided else "which has not been timed yet"
        sentence = f"{self.quickest} computes it alone, {because}"
        return f"{sentence}: it is too small to share" if self.tiny else sentence

    @property
    def best_alone(self) -> str:
        """The device that is expected to be the fastest alone; "" where nothing is known."""
        return min(self.alone, key=lambda name: (self.alone[name].seconds, not self.alone[name].measured), default="")

    def __str__(self) -> str:
        shared = "" if self.tiny else "shared: unknown" if self.together is None else f"shared: {self.together}"
        best = self.best_alone
        return ", ".join(filter(None, (shared, best and f"{best} alone: {self.alone[best]}")))
