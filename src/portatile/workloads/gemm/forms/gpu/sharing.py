"""How groups share the tiles of a triangle of C: an estimate of whole tiles, of quarters on the diagonal, and of equal shares of k."""

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

_PIECE = 2.5  # microseconds that a group needs to begin another tile, and to tell whether it is the last ...
_SUMS = 0.07  # ... and megabytes of a part's sums that it stores and reads meanwhile, in one
_SLOWER = {True: 1.06, False: 1.08}  # than whole tiles, whose groups read the same part of k: with matrix units, without
_QUARTERED = {True: 0.96, False: 0.94}  # of the time of whole tiles, which take more registers to store: with matrix units, without
_MANY, _HOLDING = 128, 0.93  # sums of a work-item from which OpenCL's compiler makes more of quarters, and the time that this leaves
_BESIDE = 0.08  # through OpenCL, for each other group that a multiprocessor has to hold at once: there registers may not suffice
_HELD = 256  # bytes of sums that a work-item of matrix units has at most: a text for each piece takes registers too
_DIVIDED = 1.1  # times what the estimate of all variants expects of a product: as much as of whole tiles here, seen over orders
_FOLDED = 1.05  # times the estimate of a whole product and its fold: what both products at once may come to
_LONG = 2e10  # multiply-adds of doubles from which clocks follow the power limit: then tiles near it multiply at one rate, ...
_SUSTAINED, _NEAR = 0.93, 0.85  # ... this part of a multiprocessor's but for their copies, from this part of which on they do
_DRAWN = 8.0  # what copies cost there, times the perimeter of a tile over its area: they draw power that multiply-adds would use
_BUSY = 16  # warps on a multiprocessor at which a tile's rate is given
_COPIES = 2.0  # what copies cost beside multiply-adds, times the perimeter of a tile over its area
_BEGUN = 4.0  # microseconds that a wave of shared tiles on matrix units takes to begin and to end: one group has nothing to hide it behind
_DEEP = 1.1  # what such tiles take longer that load operands far ahead: a text for each piece takes registers, too
_CROWDED = 1.04  # what whole tiles take longer of which a multiprocessor holds several
_EVERY = 100  # tiles, more than there are
_TOGETHER = 0.5  # how much of a last round shares few multiprocessors


Found = tuple[Gpu, Sharing | None]


class Way(NamedTuple):
    """A tile, how groups share those of a triangle, and the estimated microseconds."""

    took: float
    found: Found


@dataclass(frozen=True)
class _Timed:
    """A tile, the rate of its multiply-adds, and what a device of so many multiprocessors takes for groups of it."""

    tile: GpuTile
    rate: float
    costs: Costs
    units: int
    itemsize: int

    @property
    def point(self) -> Gpu:
        """Without staging."""
        return self.tile.point

    def reached(self, groups: int) -> float:
        """The part of the rate that so many groups on a multiprocessor reach."""
        warps = groups * self.point.items / 32
        return warps / (warps + self.costs.warps) * (_BUSY + self.costs.warps) / _BUSY

    def copies(self, price: float) -> float:
        """The factor by which copies make multiply-adds slower: ``price`` times the perimeter of the tile over its area."""
        return 1 + price * (1 / self.point.rows + 1 / self.point.columns)

    def sustained(self) -> _Timed:
        """With the rate by which full multiprocessors come to what the power limit allows, of a tile that comes near it otherwise."""
        usual = self.reached(self.tile.groups) / self.copies(_COPIES)
        allowed = _SUSTAINED * (_CROWDED if self.tile.groups > 1 else 1.0) / self.copies(_DRAWN)
        return replace(self, rate=allowed / usual) if self.rate * usual >= _NEAR * allowed else self

    def round(self, k: int, groups: int) -> float:
        """Microseconds in which so many groups on a multiprocessor multiply k steps of a tile each, and store it."""
        point, area = self.point, self.point.rows * self.point.columns
        drain = self.costs.drain * 1e-3 * area * self.itemsize if self.tile.groups == 1 else 0.0
        fill: float = self.costs.filled(point.rows + point.columns, min(point.KB * (point.STAGES - 1), k), self.itemsize)
        multiplied = groups * area * k / self.rate / self.costs.products
        return multiplied / self.reached(groups) * self.copies(_COPIES) + fill + drain

    def whole(self, groups: int, k: int, parts: int = 1) -> float:
        """Microseconds of so many whole tiles, or of tiles in ``parts`` of k, which the last group adds up."""
        each = ceil_div(groups * parts, self.units)
        rounds, rest = divmod(each, self.tile.groups)
        steps = ceil_div(k, parts)
        took = rounds * self.round(steps, self.tile.groups) + (self.round(steps, rest) if rest else 0.0)
        # the first groups are spread evenly
        uneven = ceil_div(groups * parts, self.units * self.tile.groups) * self.tile.groups / each if rounds else 1.0
        crowded = _CROWDED if self.tile.groups > 1 else 1.0
        return took * (1 + _TOGETHER * (uneven - 1)) * crowded + (self.joined(parts) if parts > 1 else 0.0)

    def shared(self, wanted: int, k: int, stream: SharedTiles) -> float:
        """Microseconds of so many tiles that are shared: so much of a wave as there are, and what the sharing costs."""
        parts = ceil_div(ceil_div(k, self.point.KB), stream.share) + 1
        waves = wanted / (self.tile.groups * self.units)
        slower = _SLOWER[self.point.MMA] * (_DEEP if self.point.MMA and self.point.DOUBLE == 2 else 1.0)
        begun = _BEGUN if self.point.MMA else 0.0
        return (slower * self.round(k, self.tile.groups) + begun) * waves + self.joined(parts)

    def joined(self, parts: int) -> float:
        """Microseconds in which the last group of a tile adds up its parts."""
        return _PIECE + parts * 1e-6 * self.point.rows * self.point.columns * self.itemsize / _SUMS


@dataclass(frozen=True)
class _Triangle:
    """A product of which a triangle is wanted, and what its device takes for it."""

    problem: Problem
    device: DeviceInfo
    costs: Costs
    zeros: str
    mirrored: bool

    @property
    def order(self) -> int:
        """Of C."""
        return self.problem.sizes["n"]

    @property
    def k(self) -> int:
        """The steps of a sum."""
        return self.problem.sizes["k"]

    @property
    def units(self) -> int:
        """The multiprocessors."""
        return max(self.device.compute_units, 1)

    @property
    def opencl(self) -> bool:
        """Whether OpenCL's compiler makes the kernel."""
        return self.device.can.language == "OpenCL C"

    def tiles(self) -> Iterator[_Timed]:
        """Those without a cut last wave."""
        drawn = _drawn(self.problem)
        for tile, rate in zip(tiles(self.problem), self.costs.rates, strict=True):
            if not tile.tail:
                timed = _Timed(tile, rate, self.costs, self.units, self.problem.itemsize)
                yield timed.sustained() if drawn else timed

    def wanted(self, point: Gpu) -> int:
        """The tiles in which something is wanted."""
        return point.groups_of_triangle(self.problem, self.zeros)

    def packing(self, point: Gpu) -> float:
        """Microseconds in which panels are written; square tiles have one set of them where B is A."""
        operands = point.PACK_A + point.PACK_B - (self.mirrored and point.PACK_A and point.rows == point.columns)
        return operands * 2e-6 * self.order * self.k * self.problem.itemsize / self.costs.packed

    def tails(self, timed: _Timed, point: Gpu, like: Gpu, *, products: int = 1) -> Iterator[Way]:
        """Whole waves of a square tile, and the rest in smaller ones, of operands that lie as they are, where the power limit binds: what
        takes less time is slower by another launch.
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
    """``whole`` tiles first, then square ones, tiles with quarters, and tiles that groups share; nothing where ``whole`` is not known.

    Operands come to local memory as those of ``whole`` do. Only where B is A ``mirrored`` quarters of tiles are shared.
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
    """The fastest of the ``ways`` by their estimates; ``whole`` tiles where there are none."""
    return min(ways(problem, device, zeros, whole, mirrored=mirrored), key=lambda way: way.took, default=Way(0.0, (whole, None))).found


def _squares(case: _Triangle, whole: Gpu) -> Iterator[Way]:
    """Whole square tiles, which the estimate of all variants does not know of where the power limit binds."""
    for timed in case.tiles() if _drawn(case.problem) else ():
        point = _staged(timed.point, whole)
        if point is not None and point.rows == point.columns and point.KG == 1 and _fits(point, case):
            yield Way(timed.whole(case.wanted(point), case.k) + case.packing(point), (point, None))


def _quarters(case: _Triangle, whole: Gpu) -> Iterator[Way]:
    """Square tiles, of which those on the diagonal are shared in quarters, or of which the last ones are left to smaller tiles."""
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
    """Tiles whose k all groups share evenly."""
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
    """Square tiles of a product and its transpose in one launch, all in one size or with a rest in smaller ones."""
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
            longest_first = along * (along - 1) // 2 + ceil_div(along, 2)  # two of those on the diagonal for one beside it
            yield Way(timed.whole(longest_first, 2 * case.k), (point, triangle.doubled(case.order, point.rows)))
            yield from case.tails(timed, point, point, products=2)


def doubled(problem: Problem, device: DeviceInfo) -> Found | None:
    """The fastest of the ``doubled_ways``, where that is estimated to be faster than the whole product and a second launch, which adds what
    lies across the diagonal.
    """
    costs, divided = _costs(problem, device), expected(problem, device)  # with k shared in ways that are not for both products
    best = min(doubled_ways(problem, device), key=lambda way: way.took, default=None)
    if costs is None or divided is None or best is None:
        return None
    case = _Triangle(problem, device, costs, "above", False)
    groups = ((timed, ceil_div(case.order, timed.point.rows) * ceil_div(case.order, timed.point.columns)) for timed in case.tiles())
    whole = min(timed.whole(count, case.k) for timed, count in groups)
    folded = costs.add + 1.5e-6 * case.order**2 * problem.itemsize / costs.packed
    return best.found if best.took < _FOLDED * (min(whole, _DIVIDED * divided) + folded) else None


def doubled_by_ranking(problem: Problem, device: DeviceInfo) -> tuple[Gpu, Doubled] | None:
    """As ``doubled``, among all variants of square tiles: of sums twice as long of which a triangle is wanted. Short ones gain that the
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
    """Whether the power limit binds."""
    m, n, k = (problem.sizes[s] for s in "mnk")
    return problem.itemsize == 8 and float(m) * n * k >= _LONG


def _alike(one: Gpu, other: Gpu) -> bool:
    """Whether two points have one tile."""
    return all(getattr(one, name) == getattr(other, name) for name in ("rows", "columns", "items", "KB", "STAGES", "DOUBLE", "KG"))


def _staged(point: Gpu, like: Gpu) -> Gpu | None:
    """The point with operands as another has them; None where its shape does not allow that, or too many registers would be needed."""
    if like.KEEP or (like.TURN and any(side & (side - 1) for side in (point.TBR, point.TBC))):
        return None
    names = ("PACK_A", "PACK_B", "TURN", "PAD", "PAIRS", "HELD")
    return replace(point, **{name: getattr(like, name) for name in names})


def _quartering(point: Gpu, problem: Problem) -> bool:
    """Whether the tile is square, each of its quarters is the work of whole warps, and reals of C are stored in vectors."""
    even = point.TBR * point.LANES % 64 == 0 and point.TBC % (2 * point.LANES) == 0
    vectors = problem.sizes["n"] % point.VL == 0 and problem.layout["c"].vector_width(problem.itemsize) >= point.VL
    vectors = vectors or types_of(problem).complex
    return point.rows == point.columns and even and vectors and point.KG == 1


def _spares(tile: GpuTile, problem: Problem) -> bool:
    """Whether a tile's work-items have registers to spare, which no other group of their multiprocessor needs."""
    return tile.groups == 1 and math.prod(tile.point.item_tile) * problem.itemsize <= _HELD


def _fits(point: Gpu, case: _Triangle) -> bool:
    """Whether the device takes such groups."""
    limit = local_limit(case.device)
    return point.items <= case.device.max_work_group_size and point.local_bytes(case.problem.itemsize) <= limit


def _costs(problem: Problem, device: DeviceInfo) -> Costs | None:
    """The constants for the units that compute the problem, where they are known."""
    units = problem.dtype == "float32" or matrix_units(device)
    reals = plain(problem) or types_of(problem).complex
    return known(device, problem.dtype) if device.nvidia and reals and units else None
