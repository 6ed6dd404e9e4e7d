"""One filtered axis: how many points are read and written, and which points each output sums."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BOUNDARIES = ("periodic", "zero", "grow", "shrink")
BANKS = ("single", "analysis", "synthesis")


@dataclass(frozen=True)
class Axis:
    """An axis of ``n`` points and its filter; ``convolution`` explains boundary, bank and lower."""

    n: int
    boundary: str
    bank: str
    taps: int
    lower: int

    @property
    def phases(self) -> int:
        """The number of filters, which consecutive outputs use in turn: one, or two for a filter bank."""
        return 1 if self.bank == "single" else 2

    @property
    def ends(self) -> int:
        """The number of points by which the longer side of ``grow`` and ``shrink`` exceeds ``n``."""
        return max(self.taps - self.phases, 0)

    @property
    def rows(self) -> int:
        """The number of points that are read."""
        return self.n + (self.ends if self.boundary == "shrink" else 0)

    @property
    def length(self) -> int:
        """The number of points that are written."""
        return self.n + (self.ends if self.boundary == "grow" else 0)

    @property
    def first(self) -> int:
        """The position of the point that the first tap of output 0 multiplies."""
        return {"grow": -self.ends, "shrink": 0}.get(self.boundary, self.lower)

    @property
    def filter_ld(self) -> int:
        """Elements from one filter to the next in local memory, in whole vectors of 16 bytes."""
        return -(-self.taps // 4) * 4

    def places(self, outputs: NDArray[np.int64]) -> NDArray[np.int64]:
        """The places of outputs in memory; analysis stores the even ones before the odd ones."""
        if self.bank != "analysis":
            return outputs
        return np.where(outputs % 2, outputs // 2 + (self.length + 1) // 2, outputs // 2)

    def terms(self, filters: NDArray[np.float64], outputs: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]:
        """For each tap, the point that each of ``outputs`` reads and its weight from ``filters`` (phases x taps)."""
        phase = outputs % self.phases
        for tap in range(self.taps) if self.rows else ():
            position = outputs - phase + self.first + tap
            weight = filters[phase, tap]
            if self.boundary != "periodic":
                weight = np.where((position >= 0) & (position < self.rows), weight, 0.0)
            row = position % self.rows
            if self.bank == "synthesis":
                row = np.where(row % 2, row // 2 + (self.rows + 1) // 2, row // 2)
            yield row, weight
