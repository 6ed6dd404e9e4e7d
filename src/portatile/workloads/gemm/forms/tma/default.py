"""The default of the tma form, and what is worth timing: used if it is estimated to be faster than the gpu form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product

import numpy as np

from portatile.records import DeviceInfo, Problem
from portatile.workloads.gemm.capabilities import JOINED, clusters, local_limit, matrix_units
from portatile.workloads.gemm.forms.gpu import default as gpu
from portatile.workloads.gemm.forms.tma import costs, estimate
from portatile.workloads.gemm.forms.tma.point import Tma, rows_aligned
from portatile.workloads.gemm.reals import plain

_TIMED = 8000.0  # microseconds up to which the form has been timed; a longer product uses it only after it was timed itself
_LONG = 1000.0  # microseconds from which the gpu form takes up to an eighth longer than estimated, because it draws more power, ...
_AS_FAST = 1.02  # ... so that this form may then be estimated to take so many times as long
_NEAR = 1.3  # a point whose estimate is at most so many times the least may be the fastest
_SPLITS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 32, 48)
_SHARED = {4: (12, 16, 20, 24), 8: (16, 24, 32, 48)}  # by cluster size, the splits of k over several clusters
_STEPS = 64  # steps of k for each work-group that shares a tile's k, at least
_FULL = 4  # work-groups per multiprocessor up to which k is split
_BANDED = 1024  # tiles of 128 x 128 from which neighbouring work-groups had better share both operands

_SIDES = (
    *((2, 2, 1, 1), (1, 4, 1, 1), (4, 1, 1, 1), (1, 3, 1, 1), (3, 1, 1, 1), (2, 1, 1, 1), (1, 2, 1, 1)),
    *((2, 2, 2, 1), (2, 2, 1, 2), (2, 4, 1, 1), (4, 2, 1, 1), (2, 2, 3, 1), (2, 2, 1, 3)),
    *((2, 2, 2, 2), (4, 2, 1, 2), (2, 4, 2, 1), (4, 1, 2, 2), (1, 4, 2, 2), (4, 2, 2, 2), (2, 4, 2, 2)),
    *((2, 2, 4, 2), (2, 2, 2, 4), (2, 2, 3, 2), (2, 2, 2, 3), (4, 2, 2, 3), (2, 4, 3, 2), (3, 2, 2, 3), (3, 1, 1, 3), (1, 3, 3, 1)),
    *((4, 2, 2, 4), (2, 4, 4, 2), (1, 4, 4, 1), (4, 1, 1, 4), (1, 4, 3, 1), (4, 1, 1, 3)),
)
"""Warps down and across a tile, and blocks of 16 rows and of 16 columns of each warp."""


def point(problem: Problem, device: DeviceInfo, batch: int) -> Tma | None:
    """The point for a device with a TMA and float64 matrix units, if its estimate is less than the gpu form's. None otherwise, and for a
    compiler without constants of its own, which uses the form only after timing it.
    """
    if batch > 1 or not _fits(problem, device) or device.can.language not in costs.known():
        return None
    took, found = _ranked(problem, device, 1)[0]
    other = gpu.expected(problem, device)
    return found if other is None or (other < _TIMED and took < other * (_AS_FAST if other > _LONG else 1.0)) else None


def contenders(problem: Problem, device: DeviceInfo, count: int) -> Iterator[Tma]:
    """Points that the estimate ranks high, no two with the same tile, KB and sharing of k; the first one with its tiles in either order."""
    if not _fits(problem, device):
        return
    ranked = _ranked(problem, device, 16 * count)
    seen: set[tuple[int, ...]] = set()
    for took, found in ranked:
        kind = (found.rows, found.columns, found.KB, found.SPLIT_K, found.CLUSTER)
        if took <= _NEAR * ranked[0][0] and kind not in seen and len(seen) < count:
            seen.add(kind)
            yield found
            if len(seen) == 1 and gpu.streamed(problem):
                yield replace(found, RASTER=9 - found.RASTER)


def _fits(problem: Problem, device: DeviceInfo) -> bool:
    there = device.can.tensor_maps and matrix_units(device)
    return there and problem.dtype == "float64" and plain(problem) and min(problem.sizes.values()) > 0 and rows_aligned(problem)


def _ranked(problem: Problem, device: DeviceInfo, count: int) -> list[tuple[float, Tma]]:
    """The ``count`` points with the least estimates, in microseconds, and those estimates."""
    kind = _Kind(local_limit(device), clusters(device), device.can.ordered_groups)
    table, shape = _table(kind), estimate.shape_of(problem, device)
    took = estimate.microseconds(shape, table.columns, costs.of(device.can.language))
    took = np.where(_sensible(shape, table.columns), took, np.inf)
    best = [int(one) for one in np.argsort(took, kind="stable")[:count] if np.isfinite(took[one])]
    banded = -(-problem.sizes["m"] // 128) * -(-problem.sizes["n"] // 128) >= _BANDED
    return [(float(took[one]), replace(table.point(one), RASTER=8 if banded else 1)) for one in best]


def _sensible(shape: estimate.TmaShape, v: estimate.TmaColumns) -> np.ndarray:
    """Which points suit the sizes: k is split only as far as multiprocessors are free, and each work-group has a share of it."""
    tiles = -(-shape.m // v.rows) * -(-shape.n // v.columns)
    least = (v.split * _STEPS <= shape.k) & (estimate.parts(shape, v) == v.split)
    shared = (v.split == 1) | ((v.split * tiles <= _FULL * shape.units) & least)
    teams = (v.teams == 1) | (tiles <= 2 * shape.units)
    stays = ~v.stays | (tiles > v.resident * shape.units)
    return np.asarray(shared & teams & stays)


@dataclass(frozen=True)
class _Kind:
    """The properties of a device on which the points depend: bytes of a multiprocessor's local memory; whether it has clusters; whether a
    work-group can detect that it finishes last (``JOIN``).
    """

    limit: int
    clustered: bool
    joined: bool


@dataclass(frozen=True, eq=False)
class _Table:
    """The points for one kind of device as columns. A column is one of ``whole`` (by its place, in ``base``) with
    the column's split of k.
    """

    whole: tuple[Tma, ...]
    base: np.ndarray
    columns: estimate.TmaColumns

    def point(self, which: int) -> Tma:
        """One of the points."""
        split, cluster = int(self.columns.split[which]), int(self.columns.cluster[which])
        found: Tma = replace(self.whole[self.base[which]], SPLIT_K=split, JOIN=bool(self.columns.join[which]), CLUSTER=cluster)
        return found


@lru_cache(maxsize=16)
def _table(kind: _Kind) -> _Table:
    """Every point that fits a multiprocessor, with every split of k."""
    whole = tuple(_points(kind))
    ways = [(place, *way) for place, one in enumerate(whole) for way in _ways(one, kind)]
    base, split, join, cluster = (np.array(column) for column in zip(*ways, strict=True))
    columns = estimate.columns_of(whole, kind.limit).take(base)
    return _Table(whole, base, replace(columns, split=split, join=join, cluster=cluster))


def _points(kind: _Kind) -> Iterator[Tma]:
    """The points without split k."""
    for (down, across, trr, tcr), parts, (steps, stages), copier in product(
        _SIDES, (1, 2), ((16, 3), (32, 3), (32, 4), (32, 6), (32, 8)), (True, False)
    ):
        one = Tma(TBR=down, TBC=across, TRR=trr, TCR=tcr, KB=steps, STAGES=stages, COPIER=copier, KG=parts)
        one = replace(one, DOUBLE=2 if trr * tcr <= 4 else 1)
        if not copier and (parts > 1 or stages * steps > 96):
            continue  # the multiplying warps would have to request twice as many stages in the same time
        spills = one.warps + copier > 8 and trr * tcr > 4
        fits = stages % parts == 0 and stages >= 2 * parts and one.local_bytes(8) <= kind.limit
        if one.warps <= 8 and fits and not spills:
            yield one
            if copier and parts == 1:
                yield replace(one, GROUPS=estimate.resident(one, kind.limit))


def _ways(one: Tma, kind: _Kind) -> Iterator[tuple[int, bool, int]]:
    """The ways to split k: SPLIT_K, JOIN and CLUSTER."""
    yield (1, False, 1)
    for split in _SPLITS if one.GROUPS == 0 else ():
        yield (split, kind.joined and 8 * one.rows * one.columns * split <= JOINED, 1)
        for cluster in (2, 4, 8) if kind.clustered else ():
            if split == cluster or (kind.joined and split in _SHARED.get(cluster, ())):
                yield (split, split > cluster, cluster)
