"""An estimate of a tiled configuration's time on an NVIDIA GPU, so that shapes nobody has measured get a good one.

A sum of what was seen to cost time: launches, rounds of groups that fill and drain, multiply-adds at the rate that the resident warps
reach, copies that are not whole vectors, memory. The constants are fitted to timings of an H200 (docs/internals/gemm.md), in
microseconds at its clock; on another GPU the order of the candidates is what counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from portatile.records import DeviceInfo, Problem
from portatile.workloads.gemm.capabilities import JOINED, clusters, joins
from portatile.workloads.gemm.forms.gpu.costs import Costs, known
from portatile.workloads.gemm.forms.gpu.point import Gpu
from portatile.workloads.gemm.forms.gpu.tiles import Tile, tiles
from portatile.workloads.gemm.passing import ceil_div
from portatile.workloads.gemm.storage import k_fast, takes_vectors, takes_vectors_along_k

_BUSY = 16  # warps on a multiprocessor at which a tile's rate is given
_SOFT = 6.0  # how sharply the longer of two times that overlap hides the shorter
_WORTH_PACKING = 5e7  # multiply-adds below which no packing is thought of
_STEPS = 64  # of k for each group that shares it, at least
_KEPT = 128  # bytes of C that a work-item has at most where operands lie along k: with more, they take too many registers
_ARRIVE, _ALONE = 2.5, 0.055  # microseconds until a tile's last group knows that it is; megabytes that its warps, if _JOINED, add in one
_JOINED = 4
_GATHER = 3.0  # microseconds in which a cluster's groups add up their sums
_TILES = 10  # of which all variants are looked at
_CLUSTERS = (2, 4, 8)  # groups
_SPLITS = (2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64)  # groups that share a tile's k
_PAIR, _HELD = 0.8, 0.9  # of the copies' cost, where they bring two elements at a time, or go through registers
_FULL = 4  # groups a multiprocessor up to which k is split
_TOGETHER, _COPIED = 0.5, 2.0  # of triangles: how much of a last round shares few multiprocessors; copies over multiply-adds, times a side


@dataclass(frozen=True)
class Shape:
    """The facts of a problem that the estimate reads."""

    m: int
    n: int
    k: int
    itemsize: int
    fast: tuple[bool, bool]  # k is, in A and B
    whole: tuple[bool, bool]  # vectors can be copied
    paired: tuple[bool, bool]  # two elements of float32 can, and no vectors
    units: int
    zeros: str = ""  # the operand of which a triangle is zero, or c, of which one is not wanted


def fastest(problem: Problem, device: DeviceInfo, limit: int, zeros: str = "", *, alone: bool = False) -> Gpu | None:
    """The candidate with the least estimate among those whose groups have at most ``limit`` bytes of local memory; None without any.

    With ``zeros``, an operand, a triangle of it is left out as far as tiles go (see ``plan.Triangle``). With ``alone`` only points of one
    launch are candidates: k is shared where the last group adds up, and there is no tail.
    """
    costs = known(device, problem.dtype)
    if costs is None:
        return None
    found = candidates(problem, device, limit, costs, zeros=zeros, alone=alone)

    def seen(candidate: Candidate) -> tuple[float, float]:
        """The microseconds until the caller sees the result: launches take the host as long."""
        point = candidate.point
        host = (launches(point) + point.PACK_A + point.PACK_B) * device.can.launch_us
        return max(candidate.took, host), candidate.took

    return min(found, key=seen).point if found else None


@dataclass(frozen=True)
class Candidate:
    """A point of the tile at ``place``, and its estimated microseconds."""

    took: float
    place: int
    point: Gpu


def candidates(
    problem: Problem, device: DeviceInfo, limit: int, costs: Costs, most: int = _TILES, *, zeros: str = "", alone: bool = False
) -> list[Candidate]:
    """Every variant of the ``most`` tiles whose simplest ones take the least time; ``zeros`` and ``alone`` as for ``fastest``."""
    shape = replace(shape_of(problem, device), zeros=zeros)
    fitting = [
        (_promise(problem, device, shape, tile, rate, costs), place, tile, rate)
        for place, (tile, rate) in enumerate(zip(tiles(problem), costs.rates, strict=True))
        if tile.point.items <= device.max_work_group_size and tile.point.local_bytes(problem.itemsize) <= limit
    ]
    found = []
    for _, place, tile, rate in sorted(fitting, key=lambda one: one[:2])[:most]:
        for point in variants(shape, tile, device):
            if alone and launches(point) > 1:
                continue
            cut = point.cut(problem, device) if point.TAIL else None
            if (point.TAIL and cut is None) or point.local_bytes(problem.itemsize) > limit:
                continue
            saved = None if cut is None else cut.saved
            found.append(Candidate(microseconds(shape, point, tile.groups, rate, saved, costs), place, point))
    return found


def _promise(problem: Problem, device: DeviceInfo, shape: Shape, tile: Tile, rate: float, costs: Costs) -> float:
    """Microseconds of the tile's first staging, with its tail, or with k as it is or shared by about as many groups as the device holds."""
    point = replace(next(stagings(shape, tile.point)), TAIL=tile.tail)
    if tile.tail:
        cut = point.cut(problem, device)
        return math.inf if cut is None else microseconds(shape, point, tile.groups, rate, cut.saved, costs)
    filling = tile.groups * shape.units // (ceil_div(shape.m, point.rows) * ceil_div(shape.n, point.columns))
    splits = {1, max(split for split in (1, *_SPLITS) if split <= max(filling, 1) and (split == 1 or split * _STEPS <= shape.k))}
    return min(microseconds(shape, replace(point, SPLIT_K=split, JOIN=split > 1), tile.groups, rate, None, costs) for split in splits)


def shape_of(problem: Problem, device: DeviceInfo) -> Shape:
    """The problem's sizes, and how its operands lie."""
    m, n, k = (max(problem.sizes[s], 1) for s in "mnk")
    fast = (k_fast(problem, "a"), k_fast(problem, "b"))
    whole = tuple(takes_vectors(problem, name) or takes_vectors_along_k(problem, name) for name in "ab")
    paired = tuple(
        problem.itemsize == 4 and not all_whole and (takes_vectors(problem, name, 8) or takes_vectors_along_k(problem, name, 8))
        for name, all_whole in zip("ab", whole, strict=True)
    )
    return Shape(m, n, k, problem.itemsize, fast, (whole[0], whole[1]), (paired[0], paired[1]), max(device.compute_units, 1))


def microseconds(shape: Shape, point: Gpu, groups: int, rate: float, saved: float | None, costs: Costs) -> float:
    """The estimate for a point of which a multiprocessor holds ``groups``; ``saved`` of the waves by its tail, if it has one."""
    rows, columns, units = point.rows, point.columns, shape.units
    tiles = _tiles(shape, rows, columns)
    chunk = ceil_div(ceil_div(shape.k, point.SPLIT_K), point.KB) * point.KB
    parts = ceil_div(shape.k, chunk)
    slower, copies, packs, packed = 1.0, 0.0, 0, 0.0
    for pack, fast, whole, paired, across, side in (
        (point.PACK_A, shape.fast[0], shape.whole[0], shape.paired[0], shape.m, rows),
        (point.PACK_B, shape.fast[1], shape.whole[1], shape.paired[1], shape.n, columns),
    ):
        loose = _PAIR if paired and point.PAIRS else 1.0
        if pack:
            packs, packed = packs + 1, packed + 2e-6 * across * shape.k * shape.itemsize
        elif fast and (point.KEEP or point.MMA):
            slower *= costs.kept if whole else 1.0
            copies += 0.0 if whole else costs.dots * side * loose
        elif fast and point.TURN and whole:
            slower *= costs.transposed
        elif fast:
            copies += costs.columns * side
        elif not whole:
            copies += costs.elements * side * loose * (_HELD if point.HELD else 1.0)
    work = (rows * columns / rate * slower + copies) * chunk / costs.products
    wait = costs.wait * chunk / point.KB / max(point.STAGES - 1, 1)
    warps = point.items / 32

    def busy(count: int) -> float:
        """A round of ``count`` groups on a multiprocessor."""
        reached = count * warps / (count * warps + costs.warps) * (_BUSY + costs.warps) / _BUSY
        return float(((count * work / reached) ** _SOFT + wait**_SOFT) ** (1 / _SOFT))

    drain = costs.drain * 1e-3 * rows * columns * shape.itemsize if groups == 1 else 0.0
    c = 1e-6 * shape.m * shape.n * shape.itemsize * (0.5 if shape.zeros == "c" else 1.0)
    took = costs.launch + (costs.pack * packs + packed / costs.packed if packs else 0.0)
    if saved is not None:
        waves = ceil_div(tiles, point.TAIL * units) * (1 - saved)
        return took + costs.add + waves * busy(point.TAIL) + (costs.fill + drain) * (waves + 1) + c / costs.stored
    each = ceil_div(tiles * parts, units)
    rounds, rest = divmod(each, groups)
    multiplied = rounds * busy(groups) + (busy(rest) if rest else 0.0)
    copied = 1e-6 * tiles * parts * (rows + columns) * chunk * shape.itemsize / costs.cached
    read = 1e-6 * (shape.m + shape.n) * shape.k * shape.itemsize / costs.read
    took += (
        (costs.fill + drain) * (rounds + (rest > 0))
        + max(multiplied, copied, read)
        + c * (1 if point.CLUSTER > 1 else parts) / costs.stored
    )
    took += costs.exchange * 1e-5 * rows * columns * (point.KG - 1) * shape.itemsize / 4 * each
    took *= _uneven(shape, point, groups, tiles * parts)
    if point.CLUSTER > 1:
        return took + _GATHER
    if parts > 1 and point.JOIN:
        return took + _ARRIVE + 1e-6 * rows * columns * shape.itemsize * parts / (_ALONE * math.sqrt(warps / _JOINED))
    return took + (costs.add + c * (parts + 1) / costs.added if parts > 1 else 0.0)


def launches(point: Gpu) -> int:
    """Launches beside those that pack."""
    return 1 + (point.TAIL > 0 or (point.SPLIT_K > 1 and not point.JOIN and point.CLUSTER == 1))


def _uneven(shape: Shape, point: Gpu, groups: int, count: int) -> float:
    """What a triangle costs beside its ``count`` full sums: zeros in tiles on the diagonal, a last round whose groups may share few
    multiprocessors, since all of a round end together, and more copies for the same work where tiles are small.
    """
    if not shape.zeros:
        return 1.0
    side = {"a": point.rows, "b": point.columns}.get(shape.zeros, 0)
    rounds = ceil_div(count, shape.units * groups) * groups / ceil_div(count, shape.units)
    copies = 1 + _COPIED * (1 / point.rows + 1 / point.columns)
    return (1 + side / shape.k) * (1 + _TOGETHER * (rounds - 1)) * copies


def _tiles(shape: Shape, rows: int, columns: int) -> int:
    """Tiles of full sums that take as long as all tiles. Where A or B is triangular, sums are half as long as k in the mean, and the
    multiprocessor whose tiles are the longest has half a tile more to do than that.
    """
    wanted = _wanted(shape, rows, columns)
    return ceil_div(wanted + min(wanted, shape.units), 2) if shape.zeros in ("a", "b") else wanted


def _wanted(shape: Shape, rows: int, columns: int) -> int:
    """The tiles of C that are computed."""
    down, across = ceil_div(shape.m, rows), ceil_div(shape.n, columns)
    if shape.zeros != "c":
        return down * across
    return sum(min(across, ((tile + 1) * rows - 1) // columns + 1) for tile in range(down))


def variants(shape: Shape, tile: Tile, device: DeviceInfo) -> Iterator[Gpu]:
    """The tile with every sensible staging, and k split as far as there are multiprocessors for it."""
    tiles, coarse = (_wanted(shape, *sides) for sides in ((tile.point.rows, tile.point.columns), (128, 128)))
    joined, clustered = joins(device), clusters(device)
    if tile.point.KG > 1 and coarse > 2 * shape.units:
        return
    if tile.tail and (shape.m <= tile.point.rows or shape.k < 256 or tiles <= tile.tail * shape.units):
        return
    for point in stagings(shape, tile.point):
        if point.KG > 1 and point.columns >= 64 and not (point.PACK_B or shape.fast[1] or shape.whole[1]):
            continue  # seen to take up to a third longer than estimated
        if tile.tail:
            if not point.PACK_B:
                yield replace(point, TAIL=tile.tail)
            continue
        yield point
        for split in _SPLITS:
            if split * tiles > _FULL * shape.units or split * coarse > 4 * shape.units or split * _STEPS > shape.k:
                break
            yield replace(point, SPLIT_K=split)
            if joined and tile.point.rows * tile.point.columns * split * shape.itemsize <= JOINED:
                yield replace(point, SPLIT_K=split, JOIN=True)
            if clustered and split in _CLUSTERS:
                yield replace(point, SPLIT_K=split, CLUSTER=split)


def stagings(shape: Shape, point: Gpu) -> Iterator[Gpu]:
    """The point with operands as they lie, or packed where that may pay; on the way transposed, kept along k, or element by element."""
    plain = tuple(whole and (point.MMA or not fast) for fast, whole in zip(shape.fast, shape.whole, strict=True))
    packing = (False, True) if shape.m * shape.n * shape.k >= _WORTH_PACKING else (False,)
    for pack_a, pack_b in product(packing, repeat=2):
        if (pack_a and plain[0]) or (pack_b and plain[1]):
            continue
        packed = replace(point, PACK_A=pack_a, PACK_B=pack_b)
        for staged in _unpacked(shape, packed):
            loose = [not pack and not whole for pack, whole in zip((pack_a, pack_b), shape.whole, strict=True)]
            along = staged.KEEP or staged.MMA
            if any(is_loose and pair and (along or not fast) for is_loose, pair, fast in zip(loose, shape.paired, shape.fast, strict=True)):
                staged = replace(staged, PAIRS=True)
            yield staged
            if any(is_loose and not fast for is_loose, fast in zip(loose, shape.fast, strict=True)):
                yield replace(staged, HELD=True)


def _unpacked(shape: Shape, point: Gpu) -> Iterator[Gpu]:
    """The point with the ways for operands that have k fast and are not packed."""
    left = [whole for pack, fast, whole in zip((point.PACK_A, point.PACK_B), shape.fast, shape.whole, strict=True) if fast and not pack]
    if point.MMA or not left:
        yield point
        return
    turns = not (point.TBR & (point.TBR - 1) or point.TBC & (point.TBC - 1))
    if any(left) and turns:
        yield replace(point, TURN=True, PAD=0 if all(left) else 4)
    else:
        yield replace(point, PAD=4)
    if turns and point.TR * point.TRR * point.TC * point.TCR * shape.itemsize <= _KEPT:
        yield replace(point, KEEP=True)
