"""What a problem is expected to take: by several devices together, by each of them alone, and who should compute it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from portatile.formatting import duration


@dataclass(frozen=True)
class ExpectedTime:
    """Seconds that somebody is expected to take; whether they were ``measured``, or are those of one ``like`` it, of its kind."""

    seconds: float
    measured: bool = False
    like: bool = False

    def __str__(self) -> str:
        return f"{duration(self.seconds)} ({'measured' if self.measured else 'predicted'})"


@dataclass(frozen=True)
class Forecast:
    """What a problem takes when all share it, None where somebody's rate is unknown, and by each device alone whose time is known.

    ``quickest`` is the device that should compute it alone, for its measured time is the least or it has to be measured; "" to share it.
    ``tiny``: it is too small to be shared, whatever the times. ``little`` is the part that all others would do, where that is too little
    to share; 0 elsewhere. ``trying``: it is timed once more, although it took longer than all together. ``forced``: all share the problem,
    whatever is expected.
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
        """Whether one should compute it alone and nothing remains to be tried: its time is known, or the others can do but little."""
        return bool(self.quickest) and not self.trying and (bool(self.little) or self.alone[self.quickest].measured)

    @property
    def tried(self) -> bool:
        """Whether all together and the best one alone were measured, so that nothing but the division into parts may change."""
        if self.forced:
            return True
        best = self.alone.get(self.best_alone)
        return self.together is not None and self.together.measured and best is not None and (best.measured or best.like)

    @property
    def why(self) -> str:
        """Who computes it alone, and why."""
        if self.little:
            return f"{self.quickest} computes it alone: the others would do {100 * self.little:.2g} % of it, which sharing would cost"
        because = "which is tried once more" if self.trying else "which is faster" if self.decided else "which was not tried yet"
        sentence = f"{self.quickest} computes it alone, {because}"
        return f"{sentence}: it is too small to share" if self.tiny else sentence

    @property
    def best_alone(self) -> str:
        """The device that is expected to be the fastest one alone; "" where nothing is known."""
        return min(self.alone, key=lambda name: (self.alone[name].seconds, not self.alone[name].measured), default="")

    def __str__(self) -> str:
        shared = "" if self.tiny else "shared: unknown" if self.together is None else f"shared: {self.together}"
        best = self.best_alone
        return ", ".join(filter(None, (shared, best and f"{best} alone: {self.alone[best]}")))
