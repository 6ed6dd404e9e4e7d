"""An estimate of the time of the engine form's configurations, as ``forms.gpu.estimate`` is one of the gpu form's: a sum of what was seen
to cost time. Its constants are fitted to timings (``costs.py``), in microseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile.records import DeviceInfo, Problem
from portatile.workloads.gemm.forms.engine.costs import Costs
from portatile.workloads.gemm.forms.engine.point import Engine
from portatile.workloads.gemm.storage import k_fast

_PRODUCTS = 128 * 1980.0  # multiply-adds of a multiprocessor in a microsecond
_CLOCK = 1980.0  # cycles in a microsecond
_SOFT = 5.0  # how sharply the longer of two times that overlap hides the shorter
_ISSUED = {4: 1.0, 8: 5.0}  # the same of products and loads of local memory: of float32 they are issued one after the other
_FOUR = 4  # warps that registers are given to together
_REGISTERS = 1 << 16
_PART = 16  # multiprocessors that hold whole clusters of four and eight

Numbers = NDArray[Any]


@dataclass(frozen=True)
class Shape:
    """The sizes of a problem; ``kind``: 0 for NN and TT, 1 for TN, 2 for NT, of float32 0; ``units``: multiprocessors."""

    m: Any
    n: Any
    k: Any
    kind: Any
    units: int
    itemsize: int


@dataclass(frozen=True, eq=False)
class Columns:
    """Points as columns of numbers. ``resident`` groups of one are on a multiprocessor at a time; ``loads``: of 16 bytes for each item
    that all warps do for a step of k.
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

    def take(self, which: Any) -> Columns:
        """Some of them, by an index or a mask."""
        return Columns(**{name: getattr(self, name)[which] for name in self.__dataclass_fields__})


def shape_of(problem: Problem, device: DeviceInfo) -> Shape:
    """The sizes of a problem on a device."""
    m, n, k = (max(problem.sizes[s], 1) for s in "mnk")
    a, b = (k_fast(problem, name) for name in "ab")
    kind = 0 if problem.itemsize == 4 or a != b else 2 if a else 1
    return Shape(m, n, k, kind, max(device.compute_units, 1), problem.itemsize)


def resident(point: Engine, limit: int, itemsize: int) -> int:
    """The groups of a point that find local memory and registers on a multiprocessor at the same time."""
    blocks = point.TRR * point.TCR
    registers = 16 * blocks + 32 * max(point.TRR, point.TCR) + (24 if blocks > 2 else 40)
    if itemsize == 4:
        registers = 8 * blocks + 4 * point.TRR + 8 * point.TCR + 40
    allocated = -(-(point.warps + point.COPIER) // _FOUR) * _FOUR * 32 * min(registers, 255)
    return max(1, min(limit // (point.local_bytes(itemsize) + 1024), _REGISTERS // allocated))


def columns_of(points: Sequence[Engine], itemsize: int, limit: int = 227 << 10) -> Columns:
    """Points as columns; ``limit``: bytes of a multiprocessor's local memory."""
    rows = [
        (
            *(p.rows, p.columns, p.KB, p.STAGES, p.warps, p.KG, p.GROUPS or resident(p, limit, itemsize)),
            *(p.TBR * p.TBC * _loads(p, itemsize), p.GROUPS > 0, p.COPIER, p.SPLIT_K, p.JOIN, p.CLUSTER),
        )
        for p in points
    ]
    return Columns(*(np.array(column) for column in zip(*rows, strict=True)))


def _loads(point: Engine, itemsize: int) -> float:
    """The loads of 16 bytes of each work-item for a step of k: of float64 a warp's 512 bytes are four steps of 16 rows or columns."""
    return (point.TRR + point.TCR) / 4 if itemsize == 8 else point.TRR / 2 + point.TCR


def _chunk(shape: Shape, v: Columns) -> Numbers:
    """Steps of k of a group, whole stages."""
    share = -(-shape.k // v.split)
    return np.asarray(-(-share // v.deep) * v.deep)


def parts(shape: Shape, v: Columns) -> Numbers:
    """The groups that have steps of a tile's k."""
    return np.asarray(-(-shape.k // _chunk(shape, v)))


def microseconds(shape: Shape, v: Columns, costs: Costs) -> Numbers:
    """The estimate for each point."""
    units = np.where(v.cluster >= _FOUR, max(shape.units - shape.units % _PART, 1), shape.units)
    tiles = -(-shape.m // v.rows) * -(-shape.n // v.columns)
    chunk, count = _chunk(shape, v), parts(shape, v)
    area = v.rows * v.columns
    each = -(-(tiles * count) // units)  # groups of a multiprocessor
    products = area / (_PRODUCTS * np.array(costs.rates)[shape.kind])
    power, size = _ISSUED[shape.itemsize], 1e-6 * shape.itemsize
    step = (products**power + (v.loads * costs.loaded / _CLOCK) ** power) ** (1 / power)
    turns = np.where(v.copier, costs.turn, costs.asked) * chunk / v.deep / v.teams
    wait = costs.wait * chunk / v.deep / np.maximum(v.stages - 1, 1)

    def busy(count: Numbers) -> Numbers:
        """A round of ``count`` groups on a multiprocessor."""
        many = np.maximum(count, 1)
        reached = many * v.warps / (many * v.warps + costs.warps)
        return np.where(count > 0, ((many * step * chunk / reached + turns) ** _SOFT + wait**_SOFT) ** (1 / _SOFT), 0.0)

    rounds, rest = each // v.resident, each % v.resident
    copied = size * tiles * count * (v.rows + v.columns) * chunk / costs.cached
    read = size * (shape.m + shape.n) * shape.k / costs.read
    filled = costs.fill + size * (v.rows + v.columns) * np.minimum(v.deep * v.stages, chunk) / costs.first
    c = size * shape.m * shape.n
    shared = -(-count // v.cluster)
    took = costs.launch + filled * np.where(v.stays, 1, rounds + (rest > 0))
    took = took + np.maximum(np.maximum(rounds * busy(v.resident) + busy(rest), copied), read) + c * shared / costs.stored
    took += size * area * (v.teams - 1) / costs.exchanged * np.minimum(each, 2)
    alone = costs.arrive + size * area * shared / v.cluster / (costs.alone * np.sqrt(v.warps / v.teams / _FOUR))
    gathered = np.where(v.cluster > 1, costs.gather + size * area * (v.cluster - 1) / v.cluster / costs.gathered, 0.0)
    launched = costs.add + c * (count + 1) / costs.added
    return np.asarray(took + gathered + np.where(shared == 1, 0.0, np.where(v.join, alone, launched)))
