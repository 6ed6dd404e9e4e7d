"""The tail of a product: the tiles of a last wave that would leave part of the device idle have their k split among all groups.

Known as the data-parallel tiles and the stream-K tail of a hybrid schedule (Osama et al., 2023), with parts of equal length.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from portatile.records import DeviceInfo, Problem
from portatile.workloads.gemm.point import TailCut

PARTS = 16  # groups that share a tile of the tail, at most
_STEPS = 128  # steps of k that each of them has, at least
_PLANE_STEPS = 12  # steps of k that storing an element of a plane and adding it take, for each of its bytes


class Tiled(Protocol):
    """The fields of a point that a tail reads."""

    @property
    def rows(self) -> int:
        """Rows of a tile."""

    @property
    def columns(self) -> int:
        """Columns of a tile."""

    @property
    def TAIL(self) -> int:  # the parameter's name
        """Groups on a multiprocessor."""


def cut(problem: Problem, point: Tiled, device: DeviceInfo) -> TailCut | None:
    """Where the tail of ``point`` begins, at a whole row of tiles, for the least waves; None where rows or k are too few to cut, and
    where more than half of the last wave is used.

    A wave is TAIL groups on every multiprocessor.
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
