"""How groups share the tiles of a triangle of C: an estimate of whole tiles, of quarters on the diagonal, and of equal shares of k."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from portatile.records import DeviceInfo, Problem
from portatile.workloads.gemm.capabilities import joins, local_limit, matrix_units
from portatile.workloads.gemm.forms.gpu import triangle
from portatile.workloads.gemm.forms.gpu.costs import Costs, known
from portatile.workloads.gemm.forms.gpu.default import expected
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
_CROWDED = 1.04  # what whole tiles take longer of which a multiprocessor holds several
_EVERY = 100  # tiles, more than there are
_TOGETHER = 0.5  # how much of a last round shares few multiprocessors


Found = tuple[Gpu, Sharing | None]


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
    def units(self) -> int:
        """The multiprocessors."""
        return max(self.device.compute_units, 1)

    @property
    def opencl(self) -> bool:
        """Whether OpenCL's compiler makes the kernel."""
        return self.device.can.language == "OpenCL C"

    def tiles(self) -> Iterator[tuple[GpuTile, float]]:
        """Those without a cut last wave, and their rates."""
        drawn = _drawn(self.problem)
        for tile, rate in zip(tiles(self.problem), self.costs.rates, strict=True):
            if not tile.tail:
                yield tile, _sustained(tile, rate, self.costs) if drawn else rate

    def wanted(self, point: Gpu) -> int:
        """The tiles in which something is wanted."""
        return point.groups_of_triangle(self.problem, self.zeros)

    def whole(self, tile: GpuTile, rate: float, groups: int, *, products: int = 1, parts: int = 1) -> float:
        """Microseconds of so many groups with whole tiles of one or two ``products``, or with tiles in ``parts`` of k, which the last group
        adds up.
        """
        steps, itemsize = products * self.problem.sizes["k"], self.problem.itemsize
        return _whole(tile, rate, self.costs, groups, steps, self.units, itemsize=itemsize, parts=parts)

    def packing(self, point: Gpu) -> float:
        """Microseconds in which panels are written; square tiles have one set of them where B is A."""
        operands = point.PACK_A + point.PACK_B - (self.mirrored and point.PACK_A and point.rows == point.columns)
        return operands * 2e-6 * self.order * self.problem.sizes["k"] * self.problem.itemsize / self.costs.packed

    def tails(self, tile: GpuTile, rate: float, point: Gpu, like: Gpu, *, products: int = 1) -> Iterator[tuple[float, Found]]:
        """Whole waves of a square tile, and the rest in smaller ones, of operands that lie as they are, where the power limit binds: what
        takes less time is slower by another launch.
        """
        if point.PACK_A or point.PACK_B or point.KG > 1 or not _drawn(self.problem):
            return
        for other, its_rate in self.tiles():
            smaller = _staged(other.point, like)
            if smaller is None or 2 * smaller.rows != point.rows or smaller.rows != smaller.columns or not _fits(smaller, self):
                continue
            found = tailed(self.order, point.rows, smaller, self.units * tile.groups, doubled=products > 1)
            if found is None or smaller.KG > 1:
                continue
            left = found.rest.groups - ceil_div(self.order, point.rows)  # without those that lie in the other triangle
            took = self.whole(tile, rate, found.first.groups, products=products) * (1.0 if products > 1 else _QUARTERED[point.MMA])
            yield took + self.costs.launch + self.whole(other, its_rate, left, products=products), (point, found)


def shared(problem: Problem, device: DeviceInfo, zeros: str, whole: Gpu, *, mirrored: bool = False) -> Found | None:
    """The tile and the sharing that are estimated to be faster than ``whole`` tiles, or square tiles that are; None where there are none.

    Operands come to local memory as those of ``whole`` do, whose own tile has to be among the known ones. Only where B is A ``mirrored``
    quarters of tiles are shared.
    """
    costs = _costs(problem, device)
    if costs is None or not joins(device):
        return None
    case = _Triangle(problem, device, costs, zeros, mirrored)
    best = math.inf
    for tile, rate in case.tiles():
        if _alike(tile.point, whole):
            best = case.whole(tile, rate, case.wanted(whole), parts=whole.SPLIT_K) + case.packing(whole)
    if best == math.inf:
        return None
    found: Found | None = None
    for took, way in (*_squares(case, whole), *_quarters(case, whole), *_streams(case, whole)):
        if took < best:
            best, found = took, way
    return found


def _squares(case: _Triangle, whole: Gpu) -> Iterator[tuple[float, Found]]:
    """Whole square tiles, which the estimate of all variants does not know of where the power limit binds."""
    for tile, rate in case.tiles() if _drawn(case.problem) else ():
        point = _staged(tile.point, whole)
        if point is not None and point.rows == point.columns and point.KG == 1 and _fits(point, case):
            yield case.whole(tile, rate, case.wanted(point)) + case.packing(point), (point, None)


def _quarters(case: _Triangle, whole: Gpu) -> Iterator[tuple[float, Found]]:
    """Square tiles, of which those on the diagonal are shared in quarters, or of which the last ones are left to smaller tiles."""
    for tile, rate in case.tiles() if case.mirrored else ():
        point = _staged(tile.point, whole)
        if point is None or not _quartering(point, case.problem) or not _fits(point, case):
            continue
        holding = _HOLDING if case.opencl and math.prod(point.item_tile) >= _MANY else 1.0
        quarters = quartered(case.order, point.rows)
        yield holding * _QUARTERED[point.MMA] * case.whole(tile, rate, quarters.groups) + case.packing(point), (point, quarters)
        for took, way in case.tails(tile, rate, point, whole):
            yield holding * took, way


def _streams(case: _Triangle, whole: Gpu) -> Iterator[tuple[float, Found]]:
    """Tiles whose k all groups share evenly."""
    problem, k = case.problem, case.problem.sizes["k"]
    for tile, rate in case.tiles() if plain(problem) else ():
        point = None if tile.point.MMA and not _spares(tile, problem) else _staged(tile.point, whole)
        stream = None if point is None else streamed(case.order, k, case.zeros, point, tile.groups * case.units)
        if point is None or stream is None or not _fits(point, case):
            continue
        took = _shared(tile, rate, case.costs, case.wanted(point), k, case.units, problem.itemsize, stream)
        if case.opencl and not point.MMA:
            took *= (1 + _BESIDE * (tile.groups - 1)) / (_SLOWER[False] if stream.groups == stream.sharing else 1)
        yield took + case.packing(point), (point, stream)


def doubled(problem: Problem, device: DeviceInfo) -> Found | None:
    """The tile and the groups of a product and its transpose in one launch, where that is estimated to be faster than the whole product and
    a second launch, which adds what lies across the diagonal.
    """
    costs = _costs(problem, device)
    if costs is None:
        return None
    case = _Triangle(problem, device, costs, "above", False)
    order, best, whole = case.order, math.inf, math.inf
    found: Found | None = None
    for tile, rate in case.tiles():
        point = tile.point
        along = ceil_div(order, point.rows)
        whole = min(whole, case.whole(tile, rate, along * ceil_div(order, point.columns)))
        keeps = point.STAGES * point.KB * (point.rows + point.columns) >= point.rows * point.columns
        fills = along * (along + 1) // 2 >= case.units * tile.groups
        if point.rows == point.columns and point.KG == 1 and keeps and fills and _fits(point, case):
            longest_first = along * (along - 1) // 2 + ceil_div(along, 2)  # two of those on the diagonal for one beside it
            both: Found = (point, triangle.doubled(order, point.rows))
            ways = ((case.whole(tile, rate, longest_first, products=2), both), *case.tails(tile, rate, point, point, products=2))
            best, found = min(((best, found), *ways), key=lambda way: way[0])
    folded = costs.add + 1.5e-6 * order**2 * problem.itemsize / costs.packed
    divided = expected(problem, device)  # with k shared in ways that are not for both products
    if divided is None:
        return None
    return found if best < _FOLDED * (min(whole, _DIVIDED * divided) + folded) else None


def doubled_by_ranking(problem: Problem, device: DeviceInfo) -> tuple[Gpu, Doubled] | None:
    """As ``doubled``, among all variants of square tiles: of sums twice as long of which a triangle is wanted. Short ones gain that the
    whole product is not written and read again.
    """
    costs = _costs(problem, device)
    divided = None if costs is None else expected(problem, device)
    if costs is None or divided is None:
        return None
    order, k = problem.sizes["n"], problem.sizes["k"]
    found = candidates(
        replace(problem, sizes={**problem.sizes, "k": 2 * k}), device, local_limit(device), costs, _EVERY, zeros="c", alone=True
    )
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


def _sustained(tile: GpuTile, rate: float, costs: Costs) -> float:
    """The rate with which full multiprocessors come to what the power limit allows, of a tile that comes near it otherwise."""
    usual = _reached(tile, tile.groups, costs) / _copies(tile)
    allowed = _SUSTAINED * (_CROWDED if tile.groups > 1 else 1.0) / (1 + _DRAWN * (1 / tile.point.rows + 1 / tile.point.columns))
    return allowed / usual if rate * usual >= _NEAR * allowed else rate


def _alike(one: Gpu, other: Gpu) -> bool:
    """Whether two points have one tile."""
    return all(getattr(one, name) == getattr(other, name) for name in ("rows", "columns", "items", "KB", "KG"))


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


def _reached(tile: GpuTile, groups: int, costs: Costs) -> float:
    """The part of a tile's rate that so many groups on a multiprocessor reach."""
    warps = groups * tile.point.items / 32
    return warps / (warps + costs.warps) * (_BUSY + costs.warps) / _BUSY


def _copies(tile: GpuTile) -> float:
    """The factor by which copies make multiply-adds slower."""
    return 1 + _COPIES * (1 / tile.point.rows + 1 / tile.point.columns)


def _round(tile: GpuTile, rate: float, costs: Costs, k: int, itemsize: int, groups: int) -> float:
    """Microseconds in which so many groups on a multiprocessor multiply k steps of a tile each, and store it."""
    point, reached, copies = tile.point, _reached(tile, groups, costs), _copies(tile)
    drain = costs.drain * 1e-3 * point.rows * point.columns * itemsize if tile.groups == 1 else 0.0
    fill: float = costs.filled(point.rows + point.columns, min(point.KB * (point.STAGES - 1), k), itemsize)
    return groups * point.rows * point.columns * k / rate / costs.products / reached * copies + fill + drain


def _wave(tile: GpuTile, rate: float, costs: Costs, k: int, itemsize: int) -> float:
    """A round of as many groups as a multiprocessor holds."""
    return _round(tile, rate, costs, k, itemsize, tile.groups)


def _whole(tile: GpuTile, rate: float, costs: Costs, wanted: int, k: int, units: int, *, itemsize: int, parts: int = 1) -> float:
    """Microseconds of so many whole tiles, or of tiles in ``parts`` of k, which the last group adds up."""
    each = ceil_div(wanted * parts, units)
    rounds, rest = divmod(each, tile.groups)
    steps = ceil_div(k, parts)
    took = rounds * _wave(tile, rate, costs, steps, itemsize) + (_round(tile, rate, costs, steps, itemsize, rest) if rest else 0.0)
    uneven = ceil_div(wanted * parts, units * tile.groups) * tile.groups / each if rounds else 1.0  # the first groups are spread evenly
    joined = (_PIECE + parts * 1e-6 * tile.point.rows * tile.point.columns * itemsize / _SUMS) if parts > 1 else 0.0
    return took * (1 + _TOGETHER * (uneven - 1)) * (_CROWDED if tile.groups > 1 else 1.0) + joined


def _shared(tile: GpuTile, rate: float, costs: Costs, wanted: int, k: int, units: int, itemsize: int, stream: SharedTiles) -> float:
    """Microseconds of a triangle whose tiles are shared: so much of a wave as there are tiles, and what the sharing costs."""
    parts = ceil_div(ceil_div(k, tile.point.KB), stream.share) + 1
    sharing = _PIECE + parts * 1e-6 * tile.point.rows * tile.point.columns * itemsize / _SUMS
    return _SLOWER[tile.point.MMA] * _wave(tile, rate, costs, k, itemsize) * wanted / (tile.groups * units) + sharing
