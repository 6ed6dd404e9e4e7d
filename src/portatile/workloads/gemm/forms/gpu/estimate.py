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
from portatile.workloads.gemm.capabilities import JOINED, joins
from portatile.workloads.gemm.forms.gpu.costs import Costs, known
from portatile.workloads.gemm.forms.gpu.point import Gpu, matrix, pipeline
from portatile.workloads.gemm.passing import ceil_div
from portatile.workloads.gemm.storage import k_fast, takes_vectors, takes_vectors_along_k

_BUSY = 16  # warps on a multiprocessor at which a tile's rate is given
_SOFT = 6.0  # how sharply the longer of two times that overlap hides the shorter
_WORTH_PACKING = 5e7  # multiply-adds below which no packing is thought of
_STEPS = 128  # of k for each group that shares it, at least
_KEPT = 128  # bytes of C that a work-item has at most where operands lie along k: with more, they take too many registers
_ARRIVE, _ALONE = 2.5, 0.055  # microseconds until a tile's last group knows that it is; megabytes that its warps, if _JOINED, add in one
_JOINED = 4
_FULL = 4  # groups a multiprocessor up to which k is split
_TOGETHER, _COPIED = 0.5, 2.0  # of triangles: how much of a last round shares few multiprocessors; copies over multiply-adds, times a side
_SPLITS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 64)


@dataclass(frozen=True)
class Tile:
    """A point without staging, and how many of its groups a multiprocessor holds; only with a cut last wave where ``tail`` is set."""

    point: Gpu
    groups: int
    tail: int = 0


@dataclass(frozen=True)
class Shape:
    """The facts of a problem that the estimate reads."""

    m: int
    n: int
    k: int
    itemsize: int
    fast: tuple[bool, bool]  # k is, in A and B
    whole: tuple[bool, bool]  # vectors can be copied
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
    shape = replace(shape_of(problem, device), zeros=zeros)
    found: Gpu | None = None
    least = (math.inf, math.inf)
    for tile, rate in zip(tiles(problem), costs.rates, strict=True):
        if tile.point.items > device.max_work_group_size or tile.point.local_bytes(problem.itemsize) > limit:
            continue
        for point in variants(shape, tile, device):
            saved = None
            if alone and (point.TAIL or (point.SPLIT_K > 1 and not point.JOIN)):
                continue
            if point.TAIL:
                cut = point.cut(problem, device)
                if cut is None:
                    continue
                saved = cut.saved
            took = microseconds(shape, point, tile.groups, rate, saved, costs)
            launches = 1 + point.PACK_A + point.PACK_B + ((point.SPLIT_K > 1 and not point.JOIN) or point.TAIL > 0)
            seen = (max(took, launches * device.can.launch_us), took)
            if seen < least and point.local_bytes(problem.itemsize) <= limit:
                found, least = point, seen
    return found


def shape_of(problem: Problem, device: DeviceInfo) -> Shape:
    """The problem's sizes, and how its operands lie."""
    m, n, k = (max(problem.sizes[s], 1) for s in "mnk")
    fast = (k_fast(problem, "a"), k_fast(problem, "b"))
    whole = tuple(takes_vectors(problem, name) or takes_vectors_along_k(problem, name) for name in "ab")
    return Shape(m, n, k, problem.itemsize, fast, (whole[0], whole[1]), max(device.compute_units, 1))


def microseconds(shape: Shape, point: Gpu, groups: int, rate: float, saved: float | None, costs: Costs) -> float:
    """The estimate for a point of which a multiprocessor holds ``groups``; ``saved`` of the waves by its tail, if it has one."""
    rows, columns, units = point.rows, point.columns, shape.units
    tiles = _tiles(shape, rows, columns)
    chunk = ceil_div(ceil_div(shape.k, point.SPLIT_K), point.KB) * point.KB
    parts = ceil_div(shape.k, chunk)
    slower, copies, packs, packed = 1.0, 0.0, 0, 0.0
    for pack, fast, whole, across, side in (
        (point.PACK_A, shape.fast[0], shape.whole[0], shape.m, rows),
        (point.PACK_B, shape.fast[1], shape.whole[1], shape.n, columns),
    ):
        if pack:
            packs, packed = packs + 1, packed + 2e-6 * across * shape.k * shape.itemsize
        elif fast and (point.KEEP or point.MMA):
            slower *= costs.kept if whole else 1.0
            copies += 0.0 if whole else costs.dots * side
        elif fast and point.TURN and whole:
            slower *= costs.transposed
        elif fast:
            copies += costs.columns * side
        elif not whole:
            copies += costs.elements * side
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
    took += (costs.fill + drain) * (rounds + (rest > 0)) + max(multiplied, copied, read) + c * parts / costs.stored
    took += costs.exchange * 1e-5 * rows * columns * (point.KG - 1) * shape.itemsize / 4 * each
    took *= _uneven(shape, point, groups, tiles * parts)
    if parts > 1 and point.JOIN:
        return took + _ARRIVE + 1e-6 * rows * columns * shape.itemsize * parts / (_ALONE * math.sqrt(warps / _JOINED))
    return took + (costs.add + c * (parts + 1) / costs.added if parts > 1 else 0.0)


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
    joined = joins(device)
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


def stagings(shape: Shape, point: Gpu) -> Iterator[Gpu]:
    """The point with operands as they lie, or packed where that may pay; on the way transposed, kept along k, or element by element."""
    plain = tuple(whole and (point.MMA or not fast) for fast, whole in zip(shape.fast, shape.whole, strict=True))
    packing = (False, True) if shape.m * shape.n * shape.k >= _WORTH_PACKING else (False,)
    for pack_a, pack_b in product(packing, repeat=2):
        if (pack_a and plain[0]) or (pack_b and plain[1]):
            continue
        packed = replace(point, PACK_A=pack_a, PACK_B=pack_b)
        left = [whole for pack, fast, whole in zip((pack_a, pack_b), shape.fast, shape.whole, strict=True) if fast and not pack]
        if point.MMA or not left:
            yield packed
            continue
        if any(left):
            yield replace(packed, TURN=True, PAD=0 if all(left) else 4)
        else:
            yield replace(packed, PAD=4)
        if point.TR * point.TRR * point.TC * point.TCR * shape.itemsize <= _KEPT:
            yield replace(packed, KEEP=True)


def tiles(problem: Problem) -> tuple[Tile, ...]:
    """The tiles that are candidates, in the order of ``Costs.rates``."""
    return tiles_of(problem.dtype, not k_fast(problem, "a") and k_fast(problem, "b"))


def tiles_of(dtype: str, written: bool) -> tuple[Tile, ...]:
    """The same for an element type; ``written``: A has k slow, and B has it fast."""
    if dtype == "float32":
        return _FLOAT32
    return _WRITTEN if written else _FLOAT64


_FLOAT32 = (
    Tile(replace(pipeline(4, (8, 8), (1, 1), 32, 3, 4), KG=2), 5),
    Tile(replace(pipeline(4, (8, 8), (2, 1), 32, 3, 4), KG=2), 4),
    Tile(replace(pipeline(4, (8, 8), (2, 1), 32, 3, 4), KG=4), 2),
    Tile(replace(pipeline(4, (8, 8), (1, 2), 32, 3, 4), KG=2), 4),
    Tile(pipeline(4, (8, 8), (1, 2), 32, 3, 4), 6),
    Tile(replace(pipeline(4, (8, 8), (2, 2), 32, 2, 4, double=1), KG=2), 3),
    Tile(replace(pipeline(4, (8, 8), (2, 2), 32, 3, 4), KG=2), 3),
    Tile(replace(pipeline(4, (8, 8), (2, 2), 32, 3, 4), KG=4), 1),
    Tile(replace(pipeline(4, (8, 16), (3, 1), 32, 3, 4), KG=2), 1),
    Tile(pipeline(4, (8, 16), (3, 1), 32, 3, 4), 3),
    Tile(replace(pipeline(4, (8, 8), (3, 1), 32, 3, 4), KG=2), 3),
    Tile(pipeline(4, (16, 8), (2, 2), 16, 3, 4), 3),
    Tile(pipeline(4, (8, 16), (2, 2), 16, 3, 4), 3),
    Tile(pipeline(4, (8, 16), (4, 2), 16, 3, 8), 2),
    Tile(pipeline(4, (16, 16), (4, 2), 16, 3, 4), 1),
    Tile(pipeline(4, (16, 16), (3, 2), 16, 3, 4), 1, tail=2),
    Tile(replace(pipeline(4, (8, 8), (1, 1), 32, 3, 4), KG=4), 3),
    Tile(replace(pipeline(4, (8, 8), (1, 2), 16, 3, 4), KG=2), 5),
    Tile(pipeline(4, (8, 8), (1, 2), 16, 3, 4), 8),
    Tile(pipeline(4, (8, 8), (2, 1), 32, 3, 4), 6),
    Tile(pipeline(4, (16, 16), (2, 2), 16, 3, 4), 1),
    Tile(pipeline(4, (16, 16), (3, 2), 16, 3, 4), 1),
    Tile(pipeline(4, (16, 8), (2, 1), 16, 3, 4), 5),
)


def _matrix_tiles(written: bool) -> tuple[Tile, ...]:
    """Tiles for matrix instructions. Unless ``written``, rows and columns change places, which spares moves between registers."""

    def tile(warps: tuple[int, int], blocks: tuple[int, int], kb: int, stages: int, double: int = 1) -> Gpu:
        return matrix(warps[::-1], blocks[::-1], kb, stages, double, 4) if written else matrix(warps, blocks, kb, stages, double)

    big = tile((4, 2), (2, 4), 16, 4)
    return (
        Tile(tile((1, 2), (2, 1), 16, 4, 2), 6),
        Tile(tile((2, 2), (2, 1), 32, 3, 2), 3),
        Tile(tile((2, 2), (2, 1), 16, 3), 4),
        Tile(tile((2, 2), (1, 2), 32, 3, 2), 3),
        Tile(replace(tile((2, 2), (2, 1), 32, 3, 2), KG=2), 2),
        Tile(tile((2, 2), (2, 2), 16, 4), 3),
        Tile(tile((4, 2), (1, 2), 32, 3, 2), 2),
        Tile(tile((4, 2), (2, 1), 32, 3, 2), 1),
        Tile(tile((4, 2), (2, 2), 32, 3, 2), 1),
        Tile(tile((2, 2), (4, 2), 16, 4), 2),
        Tile(big, 1),
        Tile(big, 1, tail=1),
        Tile(tile((1, 2), (1, 1), 16, 4, 2), 10),
        Tile(replace(tile((1, 2), (1, 1), 32, 3, 2), KG=2), 5),
        Tile(replace(tile((1, 2), (2, 1), 32, 3, 2), KG=2), 4),
        Tile(replace(tile((2, 2), (1, 1), 32, 3, 0), KG=4), 2),
        Tile(tile((2, 2), (1, 2), 32, 4, 2), 2),
        Tile(tile((2, 2), (2, 3), 16, 4), 2),
        Tile(tile((4, 2), (2, 2), 16, 4), 1),
        Tile(tile((2, 2), (3, 2), 16, 4), 2),
        Tile(tile((1, 4), (3, 1), 16, 4), 3),
    )


_FLOAT64, _WRITTEN = _matrix_tiles(False), _matrix_tiles(True)
