"""An estimate of the time of the tma form's configurations. As in ``forms.gpu.estimate``, it is a sum of observed costs; its constants are
fitted to timings (``costs.py``), in microseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile.records import DeviceInfo, Problem
from portatile.workloads.gemm.capabilities import usable_multiprocessors
from portatile.workloads.gemm.forms.tma.costs import TmaCosts
from portatile.workloads.gemm.forms.tma.point import Tma
from portatile.workloads.gemm.storage import k_fast

_PRODUCTS = 128 * 1980.0  # multiply-adds of a multiprocessor per microsecond
_CLOCK = 1980.0  # cycles in a microsecond
_SOFT = 5.0  # how sharply the longer of two times that overlap hides the shorter
_FOUR = 4  # registers are allocated to warps in groups of four
_REGISTERS = 1 << 16  # registers of a multiprocessor
_LINE = 16  # elements in a row of a box

Numbers = NDArray[Any]


@dataclass(frozen=True)
class TmaShape:
    """The sizes of a problem. ``along``: whether A, and B, is contiguous along k. ``units``: multiprocessors. ``ragged``: rows of C are not
    aligned to pairs.
    """

    m: Any
    n: Any
    k: Any
    along: tuple[bool, bool]
    units: int
    ragged: bool

    @property
    def kind(self) -> int:
        """The place in ``rates``: 0 for NN and TT, 1 for TN, 2 for NT."""
        return 0 if self.along[0] != self.along[1] else 2 if self.along[0] else 1


@dataclass(frozen=True, eq=False)
class TmaColumns:
    """Points as columns of numbers. ``resident``: work-groups that a multiprocessor holds. ``loads``: loads of 16 bytes by each work-item
    that all warps need for one step of k; those of a warp, 512 bytes, bring four steps of 16 rows or columns.
    """

    rows: Numbers
    columns: Numbers
    deep: Numbers
    stages: Numbers
    warps: Numbers
    teams: Numbers
    resident: Numbers
    loads: Numbers
    stays: Numbers
    copier: Numbers
    split: Numbers
    join: Numbers
    cluster: Numbers

    def take(self, which: Any) -> TmaColumns:
        """The points that an index or a mask selects."""
        return TmaColumns(**{name: getattr(self, name)[which] for name in self.__dataclass_fields__})


def shape_of(problem: Problem, device: DeviceInfo) -> TmaShape:
    """The sizes of a problem on a device."""
    m, n, k = (max(problem.sizes[s], 1) for s in "mnk")
    ragged = problem.sizes["n"] % 2 != 0 or problem.layout["c"].vector_width(problem.itemsize) < 2
    return TmaShape(m, n, k, (k_fast(problem, "a"), k_fast(problem, "b")), max(device.compute_units, 1), ragged)


def resident(point: Tma, limit: int) -> int:
    """The work-groups of a point for which a multiprocessor has local memory and registers at the same time."""
    blocks = point.TRR * point.TCR
    registers = 16 * blocks + 32 * max(point.TRR, point.TCR) + (24 if blocks > 2 else 40)
    allocated = -(-(point.warps + point.COPIER) // _FOUR) * _FOUR * 32 * min(registers, 255)
    return max(1, min(limit // (point.local_bytes(8) + 1024), _REGISTERS // allocated))


def columns_of(points: Sequence[Tma], limit: int = 227 << 10) -> TmaColumns:
    """Points as columns; ``limit``: bytes of a multiprocessor's local memory."""
    rows = [
        (
            *(p.rows, p.columns, p.KB, p.STAGES, p.warps, p.KG, p.GROUPS or resident(p, limit)),
            *(p.TBR * p.TBC * (p.TRR + p.TCR) / 4, p.GROUPS > 0, p.COPIER, p.SPLIT_K, p.JOIN, p.CLUSTER),
        )
        for p in points
    ]
    return TmaColumns(*(np.array(column) for column in zip(*rows, strict=True)))


def _chunk(shape: TmaShape, v: TmaColumns) -> Numbers:
    """Steps of k that a work-group computes, in whole stages."""
    share = -(-shape.k // v.split)
    return np.asarray(-(-share // v.deep) * v.deep)


def parts(shape: TmaShape, v: TmaColumns) -> Numbers:
    """The number of work-groups that share a tile's k, without those left without a step."""
    return np.asarray(-(-shape.k // _chunk(shape, v)))


def _boxes(shape: TmaShape, v: TmaColumns) -> Numbers:
    """Boxes that are requested of the TMA for a stage: 16 elements wide, along k or across it."""
    of_a, of_b = (np.where(along, v.deep, side) for along, side in zip(shape.along, (v.rows, v.columns), strict=True))
    return np.asarray((of_a + of_b) / _LINE)


def microseconds(shape: TmaShape, v: TmaColumns, costs: TmaCosts) -> Numbers:
    """The estimate for each point."""
    units = usable_multiprocessors(shape.units, v.cluster)
    tiles = -(-shape.m // v.rows) * -(-shape.n // v.columns)
    chunk, count = _chunk(shape, v), parts(shape, v)
    area = v.rows * v.columns
    each = -(-(tiles * count) // units)  # work-groups of a multiprocessor
    products = area / (_PRODUCTS * np.array(costs.rates)[shape.kind])
    step = (products**_SOFT + (v.loads * costs.loaded / _CLOCK) ** _SOFT) ** (1 / _SOFT)
    stages = chunk / v.deep
    turns = np.where(v.copier, costs.turn, costs.asked) * stages / v.teams
    asked = costs.box * _boxes(shape, v) * stages
    even = v.warps / (_FOUR * -(-v.warps // _FOUR))  # each warp stays on the quarter of the multiprocessor where it begins
    wait = costs.wait * stages / np.maximum(v.stages - 1, 1)

    def busy(count: Numbers) -> Numbers:
        """Microseconds of a round of ``count`` work-groups on a multiprocessor."""
        many = np.maximum(count, 1)
        reached = np.maximum(even, costs.even) * many * v.warps / (many * v.warps + costs.warps)
        longest = ((many * step * chunk / reached + turns) ** _SOFT + wait**_SOFT + (many * asked) ** _SOFT) ** (1 / _SOFT)
        return np.where(count > 0, longest, 0.0)

    rounds, rest = each // v.resident, each % v.resident
    copied = 8e-6 * tiles * count * (v.rows + v.columns) * chunk / costs.cached
    read = 8e-6 * (shape.m + shape.n) * shape.k / costs.read
    filled = costs.fill + 8e-6 * (v.rows + v.columns) * np.minimum(v.deep * v.stages, chunk) / costs.first
    c = 8e-6 * shape.m * shape.n
    stored = costs.stored / (costs.ragged if shape.ragged else 1.0)
    shared = -(-count // v.cluster)
    multiplied = rounds * busy(v.resident) + busy(rest)
    took = costs.launch + filled * np.where(v.stays, 1, rounds + (rest > 0))
    took = took + (multiplied**_SOFT + copied**_SOFT + read**_SOFT) ** (1 / _SOFT) + c * shared / stored
    took += 8e-6 * area * (v.teams - 1) / costs.exchanged * np.minimum(each, 2)
    alone = costs.arrive + 8e-6 * area * shared / v.cluster / (costs.alone * np.sqrt(v.warps / v.teams / _FOUR))
    gathered = np.where(v.cluster > 1, costs.gather + 8e-6 * area * (v.cluster - 1) / v.cluster / costs.gathered, 0.0)
    launched = costs.add + c * (count + 1) / costs.added
    return np.asarray(took + gathered + np.where(shared == 1, 0.0, np.where(v.join, alone, launched)))
