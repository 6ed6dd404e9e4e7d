"""How work-groups share the tiles of a triangle of C: estimates for whole tiles, for quarters on the diagonal, and for stream-K."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from portatile.records import DeviceInfo, Problem
from portatile.workloads.gemm.capabilities import joins, local_limit, matrix_units
from portatile.workloads.gemm.forms.gpu import triangle
from portatile.workloads.gemm.forms.gpu.costs import Costs, known
from portatile.workloads.gemm.forms.gpu.default import expected
from portatile.workloads.gemm.forms.gpu.estimate import Structure
from portatile.workloads.gemm.forms.gpu.point import Gpu
from portatile.workloads.gemm.forms.gpu.ranking import candidates
from portatile.workloads.gemm.forms.gpu.stream import SharedTiles, Sharing, streamed, tailed
from portatile.workloads.gemm.forms.gpu.tiles import GpuTile, tiles
from portatile.workloads.gemm.forms.gpu.triangle import Doubled, quartered
from portatile.workloads.gemm.forms.gpu.variants import WAYS
from portatile.workloads.gemm.passing import ceil_div
from portatile.workloads.gemm.reals import plain, types_of

_PIECE = 2.5  # microseconds for a work-group to begin another tile, and to detect whether it is the last ...
_SUMS = 0.07  # ... and megabytes of partial sums that it stores and reads in one microsecond
_SLOWER = {
    True: 1.06,
    False: 1.08,
}  # the time of shared tiles over that of whole ones, whose work-groups read the same part of k at the same time; by MMA
_QUARTERED = {
    True: 0.96,
    False: 0.94,
}  # the time of tiles with quarters over that of whole ones, which take more registers to store; by MMA
_MANY, _HOLDING = 128, 0.93  # sums of a work-item from which OpenCL's compiler gains more from quarters, and the factor of the time
_BESIDE = 0.08  # through OpenCL: further time for each other work-group that a multiprocessor should hold, since registers may not suffice
_HELD = 256  # bytes of sums of a work-item on matrix units, at most: the unrolled code of each piece takes registers, too
_DIVIDED = 1.1  # scales the general estimate of a product to the estimates of this file, as seen over many orders
_FOLDED = 1.12  # both products in one launch may be estimated to take so many times one whole product and the launch that folds it
_LONG = 2e10  # float64 multiply-adds from which the power limit sets the clock: tiles near that limit then multiply at one rate, ...
_SUSTAINED, _NEAR = (
    0.93,
    0.85,
)  # ... this share of a multiprocessor's peak, less their copies; a tile is near the limit from this share of that rate on
_DRAWN = 8.0  # the cost of copies at the power limit, times (1 / rows + 1 / columns): they draw power that multiply-adds would use
_BUSY = 16  # warps on a multiprocessor for which the rate of a tile is given
_COPIES = 2.0  # the cost of copies otherwise, times (1 / rows + 1 / columns); multiply-adds cost 1
_LEAST = 9.0  # microseconds that the shortest stream-K product takes
_BEGUN = 4.0  # microseconds for a wave of shared tiles on matrix units to begin and end; a single work-group cannot hide them
_DEEP = 1.1  # the factor for such tiles with DOUBLE = 2: the unrolled code of each piece takes registers, too
_STREAMED = 0.89  # the factor for shared tiles on matrix units, unless the power limit binds
_LIGHT = 0.89  # the same for whole tiles of work-groups of ...
_FOUR_WARPS, _SIDE = 128, 64  # ... so many work-items, and of at least so many rows and columns
_CROWDED = 1.04  # the factor for whole tiles of which a multiprocessor holds several
_EVERY = 100  # more than the number of candidate tiles
_TOGETHER = 0.5  # the share of a last round whose work-groups crowd on few multiprocessors


Found = tuple[Gpu, Sharing | None]


class Way(NamedTuple):
    """A tile, how work-groups share a triangle's tiles, and the estimated microseconds."""

    took: float
    found: Found


@dataclass(frozen=True)
class _Timed:
    """A tile with the rate of its multiply-adds, and the estimated times of its work-groups on a device with ``units`` multiprocessors."""

    tile: GpuTile
    rate: float
    costs: Costs
    units: int
    itemsize: int
    drawn: bool = False  # whether the power limit binds

    @property
    def point(self) -> Gpu:
        """The tile's point, without staging of operands."""
        return self.tile.point

    def reached(self, groups: int) -> float:
        """The share of the rate that is reached with ``groups`` work-groups on a multiprocessor."""
        warps = groups * self.point.items / 32
        return warps / (warps + self.costs.warps) * (_BUSY + self.costs.warps) / _BUSY

    def copies(self, price: float) -> float:
        """The factor by which copies slow the multiply-adds: ``price`` times (1 / rows + 1 / columns) of the tile, plus 1."""
        return 1 + price * (1 / self.point.rows + 1 / self.point.columns)

    def sustained(self) -> _Timed:
        """The tile at the rate that the power limit allows full multiprocessors, if it would otherwise come near that limit."""
        usual = self.reached(self.tile.groups) / self.copies(_COPIES)
        allowed = _SUSTAINED * (_CROWDED if self.tile.groups > 1 else 1.0) / self.copies(_DRAWN)
        return replace(self, rate=allowed / usual) if self.rate * usual >= _NEAR * allowed else self

    def light(self) -> _Timed:
        """The tile at the rate that four warps on matrix units were seen to reach beside other work-groups, if it is not small."""
        point = self.point
        few = point.MMA and point.items == _FOUR_WARPS and min(point.rows, point.columns) >= _SIDE
        return replace(self, rate=self.rate / _LIGHT) if few else self

    def round(self, k: int, groups: int) -> float:
        """Microseconds for ``groups`` work-groups on a multiprocessor to multiply k steps of a tile each, and to store it."""
        point, area = self.point, self.point.rows * self.point.columns
        drain = self.costs.drain * 1e-3 * area * self.itemsize if self.tile.groups == 1 else 0.0
        fill: float = self.costs.filled(point.rows + point.columns, min(point.KB * (point.STAGES - 1), k), self.itemsize)
        multiplied = groups * area * k / self.rate / self.costs.products
        return multiplied / self.reached(groups) * self.copies(_COPIES) + fill + drain

    def whole(self, groups: int, k: int, parts: int = 1) -> float:
        """Microseconds for ``groups`` whole tiles, or with k split in ``parts`` that the last work-group of a tile adds up."""
        each = ceil_div(groups * parts, self.units)
        rounds, rest = divmod(each, self.tile.groups)
        steps = ceil_div(k, parts)
        took = rounds * self.round(steps, self.tile.groups) + (self.round(steps, rest) if rest else 0.0)
        # the first work-groups are spread evenly over the multiprocessors
        uneven = ceil_div(groups * parts, self.units * self.tile.groups) * self.tile.groups / each if rounds else 1.0
        crowded = _CROWDED if self.tile.groups > 1 else 1.0
        return took * (1 + _TOGETHER * (uneven - 1)) * crowded + (self.joined(parts) if parts > 1 else 0.0)

    def shared(self, wanted: int, k: int, stream: SharedTiles) -> float:
        """Microseconds for ``wanted`` tiles in stream-K: the fraction of waves that they make, and the cost of sharing."""
        parts = ceil_div(ceil_div(k, self.point.KB), stream.share) + 1
        waves = wanted / (self.tile.groups * self.units)
        slower = _SLOWER[self.point.MMA] * (_DEEP if self.point.MMA and self.point.DOUBLE == 2 else 1.0)
        slower *= _STREAMED if self.point.MMA and not self.drawn else 1.0
        begun = _BEGUN if self.point.MMA else 0.0
        return max((slower * self.round(k, self.tile.groups) + begun) * waves + self.joined(parts), _LEAST)

    def joined(self, parts: int) -> float:
        """Microseconds for the last work-group of a tile to add up its parts."""
        return _PIECE + parts * 1e-6 * self.point.rows * self.point.columns * self.itemsize / _SUMS


@dataclass(frozen=True)
class _Triangle:
    """A product of which a triangle is wanted, and the costs on its device."""

    problem: Problem
    device: DeviceInfo
    costs: Costs
    zeros: str
    mirrored: bool

    @property
    def order(self) -> int:
        """The order of C."""
        return self.problem.sizes["n"]

    @property
    def k(self) -> int:
        """The steps of k."""
        return self.problem.sizes["k"]

    @property
    def units(self) -> int:
        """The number of multiprocessors."""
        return max(self.device.compute_units, 1)

    @property
    def opencl(self) -> bool:
        """Whether OpenCL's compiler builds the kernel."""
        return self.device.can.language == "OpenCL C"

    def tiles(self) -> Iterator[_Timed]:
        """The candidate tiles, without those that need a stream-K tail."""
        drawn = _drawn(self.problem)
        for tile, rate in zip(tiles(self.problem), self.costs.rates, strict=True):
            if not tile.tail:
                timed = _Timed(tile, rate, self.costs, self.units, self.problem.itemsize, drawn)
                yield timed.sustained() if drawn else timed.light()

    def wanted(self, point: Gpu) -> int:
        """The number of tiles that the triangle intersects."""
        return point.groups_of_triangle(self.problem, self.zeros)

    def packing(self, point: Gpu) -> float:
        """Microseconds for packing; square tiles need one set of panels if op(B) is op(A) transposed."""
        operands = point.PACK_A + point.PACK_B - (self.mirrored and point.PACK_A and point.rows == point.columns)
        return operands * 2e-6 * self.order * self.k * self.problem.itemsize / self.costs.packed

    def tails(self, timed: _Timed, point: Gpu, like: Gpu, *, products: int = 1) -> Iterator[Way]:
        """Whole waves of a square tile, and the rest in smaller tiles in a second launch. Only for unpacked operands and for products so
        long that the power limit binds: a shorter product loses more by the second launch than it gains.
        """
        if point.PACK_A or point.PACK_B or point.KG > 1 or not _drawn(self.problem):
            return
        for other in self.tiles():
            smaller = _staged(other.point, like)
            if smaller is None or 2 * smaller.rows != point.rows or smaller.rows != smaller.columns or not _fits(smaller, self):
                continue
            found = tailed(self.order, point.rows, smaller, self.units * timed.tile.groups, doubled=products > 1)
            if found is None or smaller.KG > 1:
                continue
            left = found.rest.groups - ceil_div(self.order, point.rows)  # without those that lie in the other triangle
            took = timed.whole(found.first.groups, products * self.k) * (1.0 if products > 1 else _QUARTERED[point.MMA])
            yield Way(took + self.costs.launch + other.whole(left, products * self.k), (point, found))


def ways(problem: Problem, device: DeviceInfo, zeros: str, whole: Gpu, *, mirrored: bool = False) -> Iterator[Way]:
    """The ways to compute the triangle: ``whole`` tiles first, then square ones, tiles with quarters, and stream-K. Empty if the constants
    for ``whole`` are not known.

    All of them stage the operands as ``whole`` does. Quarters are shared only if op(B) is op(A) ``mirrored``.
    """
    costs = _costs(problem, device)
    if costs is None or not joins(device):
        return
    case = _Triangle(problem, device, costs, zeros, mirrored)
    own = next((timed for timed in case.tiles() if _alike(timed.point, whole)), None)
    if own is not None:
        yield Way(own.whole(case.wanted(whole), case.k, whole.SPLIT_K) + case.packing(whole), (whole, None))
        yield from _squares(case, whole)
        yield from _quarters(case, whole)
        yield from _streams(case, whole)


def shared(problem: Problem, device: DeviceInfo, zeros: str, whole: Gpu, *, mirrored: bool = False) -> Found:
    """The fastest of the ``ways`` by estimate; ``whole`` tiles if there are none."""
    return min(ways(problem, device, zeros, whole, mirrored=mirrored), key=lambda way: way.took, default=Way(0.0, (whole, None))).found


def _squares(case: _Triangle, whole: Gpu) -> Iterator[Way]:
    """Whole square tiles where the power limit binds, which the general estimate does not model."""
    for timed in case.tiles() if _drawn(case.problem) else ():
        point = _staged(timed.point, whole)
        if point is not None and point.rows == point.columns and point.KG == 1 and _fits(point, case):
            yield Way(timed.whole(case.wanted(point), case.k) + case.packing(point), (point, None))


def _quarters(case: _Triangle, whole: Gpu) -> Iterator[Way]:
    """Square tiles where a work-group computes four wanted quarters of those on the diagonal, or where smaller tiles
    compute the last ones.
    """
    for timed in case.tiles() if case.mirrored else ():
        point = _staged(timed.point, whole)
        if point is None or not _quartering(point, case.problem) or not _fits(point, case):
            continue
        holding = _HOLDING if case.opencl and math.prod(point.item_tile) >= _MANY else 1.0
        quarters = quartered(case.order, point.rows)
        yield Way(holding * _QUARTERED[point.MMA] * timed.whole(quarters.groups, case.k) + case.packing(point), (point, quarters))
        for took, found in case.tails(timed, point, whole):
            yield Way(holding * took, found)


def _streams(case: _Triangle, whole: Gpu) -> Iterator[Way]:
    """Stream-K: tiles whose k all work-groups share evenly."""
    problem, k = case.problem, case.problem.sizes["k"]
    for timed in case.tiles() if plain(problem) else ():
        tile = timed.tile
        point = None if tile.point.MMA and not _spares(tile, problem) else _staged(tile.point, whole)
        stream = None if point is None else streamed(case.order, k, case.zeros, point, tile.groups * case.units)
        if point is None or stream is None or not _fits(point, case):
            continue
        took = timed.shared(case.wanted(point), k, stream)
        if case.opencl and not point.MMA:
            took *= (1 + _BESIDE * (tile.groups - 1)) / (_SLOWER[False] if stream.groups == stream.sharing else 1)
        yield Way(took + case.packing(point), (point, stream))


def doubled_ways(problem: Problem, device: DeviceInfo) -> Iterator[Way]:
    """Square tiles of a product and its transpose in one launch, all of one size or with the rest in smaller ones."""
    costs = _costs(problem, device)
    if costs is None:
        return
    case = _Triangle(problem, device, costs, "above", False)
    for timed in case.tiles():
        point = timed.point
        along = ceil_div(case.order, point.rows)
        keeps = point.STAGES * point.KB * (point.rows + point.columns) >= point.rows * point.columns
        fills = along * (along + 1) // 2 >= case.units * timed.tile.groups
        if point.rows == point.columns and point.KG == 1 and keeps and fills and _fits(point, case):
            longest_first = along * (along - 1) // 2 + ceil_div(along, 2)  # two tiles on the diagonal take as long as one off it
            yield Way(timed.whole(longest_first, 2 * case.k), (point, triangle.doubled(case.order, point.rows)))
            yield from case.tails(timed, point, point, products=2)


def doubled(problem: Problem, device: DeviceInfo) -> Found | None:
    """The fastest of the ``doubled_ways``, if it is estimated to be faster than the whole product and a second launch that adds the
    elements across the diagonal; otherwise None.
    """
    costs, divided = (
        _costs(problem, device),
        expected(problem, device),
    )  # the general estimate may split k, which both products in one launch cannot
    best = min(doubled_ways(problem, device), key=lambda way: way.took, default=None)
    if costs is None or divided is None or best is None:
        return None
    case = _Triangle(problem, device, costs, "above", False)
    groups = ((timed, ceil_div(case.order, timed.point.rows) * ceil_div(case.order, timed.point.columns)) for timed in case.tiles())
    whole = min(timed.whole(count, case.k) for timed, count in groups)
    folded = costs.add + 1.5e-6 * case.order**2 * problem.itemsize / costs.packed
    return best.found if best.took < _FOLDED * (min(whole, _DIVIDED * divided) + folded) else None


def doubled_by_ranking(problem: Problem, device: DeviceInfo) -> tuple[Gpu, Doubled] | None:
    """As ``doubled``, among all variants of square tiles: the estimate of a triangle of sums twice as long. Short sums gain most, since the
    whole product is not written and read again.
    """
    costs = _costs(problem, device)
    divided = None if costs is None else expected(problem, device)
    if costs is None or divided is None:
        return None
    order, k = problem.sizes["n"], problem.sizes["k"]
    both = replace(problem, sizes={**problem.sizes, "k": 2 * k})
    found = candidates(both, device, local_limit(device), costs, _EVERY, structure=Structure("c"), alone=True)
    v = found.columns
    fits = (v.rows == v.columns) & (v.teams == 1) & (v.split == 1) & (v.stages > 1) & (v.ways_a == v.ways_b) & ~v.held_a
    fits &= v.ways_a != WAYS.index("shifted")
    if not fits.any():
        return None
    best = int(np.argmin(np.where(fits, found.took, math.inf)))
    folded = costs.add + 1.5e-6 * order**2 * problem.itemsize / costs.packed
    if found.took[best] >= divided + folded:
        return None
    point = found.point(best)
    return point, triangle.doubled(order, point.rows)


def _drawn(problem: Problem) -> bool:
    """Whether the power limit binds: for long float64 products."""
    m, n, k = (problem.sizes[s] for s in "mnk")
    return problem.itemsize == 8 and float(m) * n * k >= _LONG


def _alike(one: Gpu, other: Gpu) -> bool:
    """Whether two points have the same tile and pipeline."""
    return all(getattr(one, name) == getattr(other, name) for name in ("rows", "columns", "items", "KB", "STAGES", "DOUBLE", "KG"))


def _staged(point: Gpu, like: Gpu) -> Gpu | None:
    """The point with the operands staged as in ``like``; None if its shape does not allow that, or if it would need too many registers."""
    if like.KEEP or (like.TURN and any(side & (side - 1) for side in (point.TBR, point.TBC))):
        return None
    names = ("PACK_A", "PACK_B", "TURN", "PAD", "PAIRS", "HELD")
    return replace(point, **{name: getattr(like, name) for name in names})


def _quartering(point: Gpu, problem: Problem) -> bool:
    """Whether quarters of the point's tiles can be shared: it is square, each quarter is the work of whole warps, and C is stored in
    vectors.
    """
    even = point.TBR * point.LANES % 64 == 0 and point.TBC % (2 * point.LANES) == 0
    vectors = problem.sizes["n"] % point.VL == 0 and problem.layout["c"].vector_width(problem.itemsize) >= point.VL
    vectors = vectors or types_of(problem).complex
    return point.rows == point.columns and even and vectors and point.KG == 1


def _spares(tile: GpuTile, problem: Problem) -> bool:
    """Whether a tile's work-items have registers to spare: the multiprocessor holds one work-group, and their sums are few."""
    return tile.groups == 1 and math.prod(tile.point.item_tile) * problem.itemsize <= _HELD


def _fits(point: Gpu, case: _Triangle) -> bool:
    """Whether a work-group of the point fits on the device."""
    limit = local_limit(case.device)
    return point.items <= case.device.max_work_group_size and point.local_bytes(case.problem.itemsize) <= limit


def _costs(problem: Problem, device: DeviceInfo) -> Costs | None:
    """The constants for the units that compute the problem; None if they are not known."""
    units = problem.dtype == "float32" or matrix_units(device)
    reals = plain(problem) or types_of(problem).complex
    return known(device, problem.dtype) if device.nvidia and reals and units else None
