"""The stream-K tail of a product: tiles of a last wave that would leave part of the device idle have their k split among all work-groups.

This is the hybrid schedule of Osama et al. (2023), data-parallel tiles and a stream-K tail, with parts of equal length.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from portatile.records import DeviceInfo, Problem
from portatile.workloads.gemm.point import TailCut

PARTS = 16  # work-groups that share a tile of the tail, at most
_STEPS = 128  # steps of k that each of them computes, at least
_PLANE_STEPS = 12  # the cost of a plane's element, stored and added later, in steps of k for each of its bytes


class Tiled(Protocol):
    """The properties of a point that the tail depends on."""

    @property
    def rows(self) -> int:
        """Rows of a tile."""

    @property
    def columns(self) -> int:
        """Columns of a tile."""

    @property
    def TAIL(self) -> int:  # the parameter's name
        """Work-groups that a multiprocessor holds at once."""


def cut(problem: Problem, point: Tiled, device: DeviceInfo) -> TailCut | None:
    """Where the tail of ``point`` begins, at a whole row of tiles, so that the number of waves is least. None if there are too few rows or
    steps of k to cut, or if more than half of the last wave is used.
    where more than half of the last wave is used.

    A wave is TAIL work-groups on every multiprocessor.
    """
    m, n, k = (problem.sizes[s] for s in "mnk")
    down, across, slots = -(-m // point.rows), -(-n // point.columns), point.TAIL * device.compute_units
    if down * across <= slots or down * across % slots > slots // 2:
        return None

    rows = np.arange(1, min(down, slots // across + 2))[:, None]
    parts = np.arange(2, min(PARTS, k // _STEPS) + 1)[None, :]
    if not rows.size * parts.size:
        return None
    planes = rows * across * parts * _PLANE_STEPS * problem.itemsize / (slots * k)
    waves = -(-(down - rows) * across // slots) + -(-rows * across * parts // slots) / parts + planes
    least = divmod(int(np.argmin(waves)), parts.size)
    above = down - int(rows[least[0], 0])
    return TailCut(above * point.rows, int(parts[0, least[1]]), float(1 - waves[least] / -(-down * across // slots)))
