"""A product as its kernel computes it: in real numbers, and transposed if the configuration asks for that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from portatile.records import DeviceInfo, Problem
from portatile.workloads.gemm.extras import Extras, Triangle
from portatile.workloads.gemm.passing import ceil_div
from portatile.workloads.gemm.point import Point
from portatile.workloads.gemm.storage import Batch, transposed


@dataclass(frozen=True)
class OrientedProduct:
    """The product that the kernel computes: the caller's, or its transpose, of which A is the caller's B.

    ``names`` maps A and B ("a", "b") to the caller's operands. ``batch`` has the kernel's A and B, too.
    """

    problem: Problem
    point: Point
    device: DeviceInfo
    batch: Batch | None
    triangle: Triangle | None
    names: Mapping[str, str]

    @classmethod
    def of(cls, problem: Problem, point: Point, device: DeviceInfo, extras: Extras) -> OrientedProduct:
        """The orientation that ``point`` asks for; ``problem`` is one of real numbers."""
        batch = extras.batch
        if not point.transposes:
            return cls(problem, point, device, batch, extras.triangle, {"a": "a", "b": "b"})
        swapped = None if batch is None else replace(batch, a=batch.b, b=batch.a)
        return cls(transposed(problem), point, device, swapped, extras.triangle, {"a": "b", "b": "a"})

    @property
    def count(self) -> int:
        """The number of problems in the batch; 1 without one."""
        return 1 if self.batch is None else self.batch.count

    @property
    def depth(self) -> int:
        """Steps of k in a packed panel."""
        return self.point.depth(self.problem)

    @property
    def repeats_panels(self) -> bool:
        """Whether the packed panels of op(B) equal those of op(A), because op(B) is its transpose."""
        mirrored = self.triangle is not None and self.triangle.mirrored
        return mirrored and self.point.packs("a") and self.point.rows == self.point.columns

    def across(self, name: str) -> int:
        """The size of A or B beside k: m or n."""
        return self.problem.sizes["m" if name == "a" else "n"]

    def panels(self, name: str) -> tuple[int, int]:
        """(number, width) of the panels that A or B is packed into."""
        width = self.point.rows if name == "a" else self.point.columns
        return ceil_div(self.across(name), width), width

    def stored_step(self, name: str) -> int:
        """Elements from the caller's A or B of one problem of the batch to that of the next; 0 if all share it."""
        assert self.batch is not None
        return self.batch.a if name == "a" else self.batch.b

    def step(self, name: str) -> int:
        """Elements from one problem's A or B to the next one's where the product reads it, packed or copied; 0 if all share it."""
        step = self.stored_step(name)
        if step and self.point.packs(name):
            panels, width = self.panels(name)
            return panels * width * self.depth
        if step and (pitch := self.point.lines(self.problem, name)):
            return pitch * self.across(name)
        return step

    def copies(self, name: str) -> int:
        """How many matrices a packed or copied A or B has: one for each problem, unless all share it."""
        return self.count if self.batch is not None and self.step(name) else 1
