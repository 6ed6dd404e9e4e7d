"""Variants of the gpu form for a problem, ranked by estimated time: the fastest, and many that are worth timing."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from portatile.records import DeviceInfo, Problem
from portatile.workloads.gemm.forms.gpu import tail
from portatile.workloads.gemm.forms.gpu.costs import Costs, known
from portatile.workloads.gemm.forms.gpu.estimate import PLAIN, ProblemShape, Structure, kind_of, microseconds, shape_of, wanted
from portatile.workloads.gemm.forms.gpu.point import Gpu
from portatile.workloads.gemm.forms.gpu.variants import SPLITS, Floats, VariantColumns, VariantTable, table

_TILES = 10  # tiles whose variants are all estimated
_STEPS = 64  # steps of k for each work-group that shares a tile's k, at least
_FULL = 4  # work-groups per multiprocessor up to which k is split
_CUT = 256  # steps of k from which a stream-K tail is considered
_WIDE = 64  # columns of a tile
_NEAR = 1.4  # estimates up to so many times the least count as near it
SHALLOW = (16, 32)
"""Values of KB for a single stage that holds all of k."""


@dataclass(frozen=True, eq=False)
class Ranking:
    """Variants of a problem with their estimated microseconds."""

    table: VariantTable
    columns: VariantColumns
    took: Floats

    def __len__(self) -> int:
        return len(self.took)

    def point(self, which: int) -> Gpu:
        """One of the variants as a point of the form."""
        return self.table.point(self.columns, which)


def fastest(
    problem: Problem,
    device: DeviceInfo,
    limit: int,
    structure: Structure = PLAIN,
    *,
    alone: bool = False,
) -> Gpu | None:
    """The candidate with the least estimate among those whose work-groups use at most ``limit`` bytes of local memory; None if there is
    none.

    With ``alone`` only points of one launch are candidates: split k only where the last work-group adds up, and no tail. In a stack no
    cluster shares k, and with ``alone`` k is not split at all.
    """
    costs = known(device, problem.dtype)
    if costs is None:
        return None
    found = candidates(problem, device, limit, costs, structure=structure, alone=alone)
    if not len(found):
        return None
    if structure.count > 1 and problem.sizes["k"] <= SHALLOW[-1]:
        return _in_one_stage(problem, found)
    # for the caller, a product takes at least as long as the host needs to launch it
    host = (found.columns.launches + np.minimum(found.columns.packs, 1)) * device.can.launch_us
    return found.point(int(np.lexsort((found.took, np.maximum(found.took, host)))[0]))


def candidates(
    problem: Problem,
    device: DeviceInfo,
    limit: int,
    costs: Costs,
    most: int = _TILES,
    *,
    structure: Structure = PLAIN,
    alone: bool = False,
    timed: bool = False,
) -> Ranking:
    """Every variant of the ``most`` tiles whose simplest variants are estimated to be fastest; otherwise as for ``fastest``.

    With ``timed``, for callers that time the candidates before they use one, variants are included for which the estimate has only a guess.
    """
    count, shape, kind = structure.count, shape_of(problem, device, structure), kind_of(problem, device, limit, structure.mirrored)
    variants = table(kind if count == 1 else replace(kind, packing=False))
    saved = _saved(problem, device, variants)
    promised = _promises(shape, variants, saved, costs)
    order = sorted(promised, key=lambda place: (promised[place], place))[:most]
    columns = variants.of_tiles(order) if order else variants.columns.take(slice(0))
    columns = replace(columns, saved=saved[columns.place])
    guessed = np.array([staging.SHIFT for staging in variants.stagings], np.bool_)[columns.staging]
    stacked = (columns.tail == 0) & (columns.cluster == 1) & ((columns.split == 1) | (not alone)) if count > 1 else True
    columns = columns.take(
        _sensible(shape, variants, columns) & stacked & ((columns.launches == 1) if alone else True) & (~guessed | timed)
    )
    empty = 1.0 if count == 1 else np.sqrt(_areas(shape, columns) / (shape.m * shape.n))
    return Ranking(variants, columns, microseconds(shape, columns, costs) * empty)


def _in_one_stage(problem: Problem, found: Ranking) -> Gpu:
    """Of the points with nearly the least estimate, the one that copies least, with all of k in one stage, since there is nothing to
    prefetch.
    """
    m, n, k = (problem.sizes[s] for s in "mnk")
    v, near = found.columns, np.flatnonzero(found.took <= _NEAR * found.took.min())
    copied = _ceil(m, v.rows[near]) * _ceil(n, v.columns[near]) * (v.rows[near] + v.columns[near])
    point = found.point(int(near[np.lexsort((found.took[near], copied))[0]]))
    kb = next(kb for kb in SHALLOW if k <= kb)
    return replace(point, KB=kb, UNROLL=kb, STAGES=1, DOUBLE=0, KG=1)


def _areas(shape: ProblemShape, v: VariantColumns) -> Floats:
    """The elements that the tiles of one problem cover, within C and beyond it."""
    return np.asarray(_ceil(shape.m, v.rows) * v.rows * _ceil(shape.n, v.columns) * v.columns, np.float64)


def _ceil(a: Any, b: Any) -> Any:
    return -(-a // b)


def _saved(problem: Problem, device: DeviceInfo, variants: VariantTable) -> Floats:
    """For each tile the share of the waves that its tail saves; NaN if no tail can be cut."""
    found = np.zeros(len(variants.kind.tiles))
    for place, tile in enumerate(variants.kind.tiles):
        if tile.tail:
            cut = tail.cut(problem, replace(tile.point, TAIL=tile.tail), device)
            found[place] = math.nan if cut is None else cut.saved
    return found


def _promises(shape: ProblemShape, variants: VariantTable, saved: Floats, costs: Costs) -> dict[int, float]:
    """For each tile the least of three estimates of its first staging: with its tail, with k undivided, and with k split as far as the
    device has idle compute units.
    """
    first = replace(variants.first, saved=saved[variants.first.place])
    filling = np.maximum(first.groups * shape.units // (-(-shape.m // first.rows) * -(-shape.n // first.columns)), 1)
    splits = np.array([1, *(split for split in SPLITS if split * _STEPS <= shape.k)])
    shared = np.where(first.tail > 0, 1, splits[np.searchsorted(splits, filling, "right") - 1])
    took = np.minimum(microseconds(shape, first, costs), microseconds(shape, first.sharing(shared), costs))
    took = np.where(np.isnan(took), math.inf, took)
    return dict(zip(first.place.tolist(), took.tolist(), strict=True))


def _sensible(shape: ProblemShape, variants: VariantTable, v: VariantColumns) -> np.ndarray:
    """Which variants suit the sizes: k is split only as far as multiprocessors are free, and each work-group has a share of it."""
    units, fast, whole = shape.units, variants.kind.fast[1], variants.kind.whole[1]
    count = wanted(shape, v.rows, v.columns)
    sides = np.array([128])
    coarse = int(wanted(shape, sides, sides)[0])
    packs_b = np.array([staging.PACK_B for staging in variants.stagings], np.bool_)[v.staging]
    shared = (v.split == 1) | ((v.split * count <= _FULL * units) & (v.split * coarse <= 4 * units) & (v.split * _STEPS <= shape.k))
    stages = -(-shape.k // (v.split * v.deep))  # of a group
    shared &= -(-shape.k // (stages * v.deep)) == v.split
    cut = (v.tail == 0) | ((shape.m > v.rows) & (shape.k >= _CUT) & (count > v.tail * units) & ~np.isnan(v.saved))
    teams = (v.teams == 1) | (coarse <= 2 * units) | (shape.structure.count > 1)
    slow = (v.teams > 1) & (v.columns >= _WIDE) & ~packs_b & (not (fast or whole))  # seen to take up to a third longer than estimated
    return np.asarray(shared & cut & teams & ~slow)
