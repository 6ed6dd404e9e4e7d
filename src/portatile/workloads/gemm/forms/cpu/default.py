"""The default of the cpu form: the register tile that suits the shape, how its operands are read, and what stays in
a processor's caches.
"""

from __future__ import annotations

from dataclasses import replace

from portatile.records import DeviceInfo, Problem
from portatile.workloads.gemm.forms.cpu.point import Cpu, register
from portatile.workloads.gemm.forms.cpu.processors import Registers, processor, thresholds
from portatile.workloads.gemm.reals import plain, types_of
from portatile.workloads.gemm.storage import transposed

_BAND = 43  # rows of tiles in a band: 256 rows of A in tiles of six, whose blocks of k then fit a second-level cache of 2 MiB
_LONG_SUM = 4096  # steps of k from which k is divided into blocks in any case
_FEW = 64  # rows of C up to which B is read in place if ...
_NEAR = 1024  # ... its row stride has at most so many bytes, so that the cache holds all that is read again
_SAVED = 1 / 16  # the share of the work that a smaller tile must save, since it has fewer multiply-adds for each load
_ROWS_IN_PLACE = 5  # rows of tiles up to which reading the same columns of B again is faster than copying them first
_AGAIN = 4  # tiles along a row of C from which an A that is not contiguous along k is packed, since each of them reads it
_AGAIN_ALONG = 20  # the same for an A that is contiguous along k, and needs many registers for addresses
_ADDRESSES = 2  # the time, in steps of k, that a tile spends on the addresses of rows of A in place
_DOTS = 4  # rows or columns of C up to which dot products along k beat any tile; with k fast and C wide up to _DOTS_ROWS rows
_DOTS_ROWS = 16
_DOTS_WIDE = 256
_DOTS_LONG = 64  # steps of k from which dot products pay for adding up a vector in the end
_STAGE = 256  # steps of k that a work-item copies to local memory: with its columns little more than the first-level cache
_STAGED_ROWS = 128  # rows of C up to which a launch that packs B costs more than copies by each work-item ...
_STAGED_DEPTH = 64  # ... or steps of k ...
_STAGED_ALL = 1 << 24  # ... or multiply-adds
_STAGE_DEEP = 512  # steps of k in local memory where such copies beat packed panels for any number of tiles
_ALONE = 1 << 18  # multiply-adds that take no longer than it takes to wake another core
_STEPS = 32  # vectors along a row of C up to which narrow tiles pay if zeros follow the diagonal
_TRANSPOSED_COLUMNS = 32  # columns of C up to which vectors run down them if A is contiguous across k


def point(problem: Problem, device: DeviceInfo) -> Cpu:
    """The point for the vector registers for which the device compiles."""
    if not plain(problem):
        return panels(problem, device, stepped=False)
    registers = processor(device).tiles[problem.itemsize]
    dots = _dots(problem, registers)
    if dots is not None:
        return dots
    m, n = problem.sizes["m"], problem.sizes["n"]
    if problem.options["trans_a"] == "T" and n <= _TRANSPOSED_COLUMNS and m >= registers.lanes and m > n:
        return replace(_streamed(transposed(problem), registers, device), TURN=True)
    return _staged(problem, registers, device) or _tile(problem, registers, device)


def panels(problem: Problem, device: DeviceInfo, stepped: bool) -> Cpu:
    """The tile for a product of packed panels over all of k at once, as products that skip zeros use it (see ``extras.Triangle``).

    ``stepped``: the zeros begin at another place in each column, so that a wide tile computes many of them.
    """
    registers = processor(device).tiles[problem.itemsize]
    if stepped and problem.sizes["n"] <= _STEPS * registers.lanes:
        registers = replace(registers, vectors=2)
    lanes, vectors, rows = _shape(problem, registers)
    near = thresholds(device, problem.itemsize)
    large = problem.sizes["m"] * problem.sizes["k"] * problem.itemsize > near.panels
    found = replace(register(lanes, rows, vectors, band=_BAND if large else 0), PACK_A=True)
    if types_of(problem).complex:  # a complex row or column is two real ones
        rows, lanes = max(found.TR - found.TR % 2, 2), max(found.VL, 2)
        found = replace(found, TR=rows, VL=lanes, TC=lanes * (found.TC // found.VL))
    return found


def _dots(problem: Problem, registers: Registers) -> Cpu | None:
    """The point that reads both operands along k: for few rows or columns with k fast, or for one column that is packed. Otherwise None."""
    m, n, k = (problem.sizes[size] for size in "mnk")
    packed = problem.options["trans_b"] == "N"
    few = n == 1 if packed else min(m, n) <= _DOTS or (m <= _DOTS_ROWS and n >= _DOTS_WIDE)
    if problem.options["trans_a"] == "T" or not few or k < _DOTS_LONG:
        return None
    if n <= _DOTS:
        columns = _least((1, 2, 4), n)
        rows = min(4, registers.dots // columns)
    else:
        rows = _least((1, 2, 4, 8), m) if m <= registers.dots else 4
        columns = min(4, registers.dots // rows)
    return replace(register(registers.lanes, rows, 1), TC=columns, KEEP=True, PACK_B=packed)


def _shape(problem: Problem, registers: Registers) -> tuple[int, int, int]:
    """(lanes, vectors, rows) of a register tile no larger than C."""
    m, n = problem.sizes["m"], problem.sizes["n"]
    lanes = _least(tuple(width for width in (1, 2, 4, 8, 16) if width <= registers.lanes), n)
    vectors = min(registers.vectors, max(-(-n // lanes), 1))
    narrower = vectors - 1
    if narrower >= 2 and _padded(n, lanes * narrower) * (1 + _SAVED) < _padded(n, lanes * vectors):
        vectors = narrower
    counts = tuple(count for count in (1, 2, 3, 4, 5, 6, 8) if count * vectors >= 4 and count <= registers.rows[vectors])
    rows = _least(counts, m)
    even = _least(counts, -(-m // -(-m // rows)) if m else 1)
    return lanes, vectors, even if _padded(m, even) * (1 + _SAVED) < _padded(m, rows) else rows


def _padded(size: int, tile: int) -> int:
    """``size`` rounded up to whole tiles."""
    return -(-size // tile) * tile


def _streamed(problem: Problem, registers: Registers, device: DeviceInfo) -> Cpu:
    """The point for few rows of C. B is read in place if few rows of tiles read all of it; otherwise each work-item copies its columns."""
    m, n, k = (problem.sizes[size] for size in "mnk")
    lanes, vectors, rows = _shape(problem, registers)
    if problem.options["trans_b"] == "N" and n >= lanes * vectors:
        step = problem.layout["b"].strides[0] * problem.itemsize
        if (m <= _FEW and step <= _NEAR) or rows < m <= _ROWS_IN_PLACE * rows:
            deep = thresholds(device, problem.itemsize).deep
            return replace(register(lanes, rows, vectors, block=deep if k > deep else 0), PACK_B=False)
        if m <= rows:
            return replace(register(lanes, rows, vectors, block=_STAGE if k > _STAGE else 0), PACK_B=False)
    point = replace(register(lanes, rows, vectors, block=_stage(problem, lanes * vectors, device)), SM=True, PACK_B=False)
    again = problem.options["trans_a"] == "T" and n > _AGAIN * point.columns
    short = m * n * k > _ALONE and _ADDRESSES * n > k * point.columns
    return replace(point, PACK_A=again or short)


def _staged(problem: Problem, registers: Registers, device: DeviceInfo) -> Cpu | None:
    """The point whose work-items copy their own columns of B, if a launch that packs B would not pay; otherwise None."""
    m, n, k = (problem.sizes[size] for size in "mnk")
    point = _streamed(problem, registers, device)
    small = m <= _STAGED_ROWS or k <= _STAGED_DEPTH or m * n * k <= _STAGED_ALL
    slow = problem.options["trans_a"] == "T"
    if (not small and not (slow and n <= point.columns)) or (slow and k >= _LONG_SUM):
        return None
    if m * n * k <= _ALONE:
        return point
    return _banded(problem, point, device) if point.SM else point


def _banded(problem: Problem, point: Cpu, device: DeviceInfo) -> Cpu | None:
    """The point with the largest bands of rows that leave work for every core; None if none do."""
    points = (replace(point, RASTER=band) for band in (0, _BAND, 32, 8))
    return next((one for one in points if one.groups(problem) >= device.compute_units), None)


def _stage(problem: Problem, columns: int, device: DeviceInfo) -> int:
    """Steps of k of ``columns`` columns of B that fit in local memory."""
    return next((steps for steps in (_STAGE, 128) if steps * columns * problem.itemsize <= device.local_memory), 64)


def _tile(problem: Problem, registers: Registers, device: DeviceInfo) -> Cpu:
    """The point with a tile no larger than C, and with bands and blocks of k if the operands exceed the caches."""
    known, near = processor(device), thresholds(device, problem.itemsize)
    m, n, k = (problem.sizes[size] for size in "mnk")
    slow = problem.options["trans_a"] == "T"
    lanes, vectors, rows = _shape(problem, registers)
    long = min(m, n, k) > (near.banded_packed if slow else near.banded)
    band, block = near.band if long else 0, near.deep if (long and known.band_blocks) or k >= _LONG_SUM else 0
    pack_a = slow or (known.packs_wide and n > _AGAIN_ALONG * lanes * vectors)  # A in place needs registers for the addresses of its rows
    if slow and m * k * problem.itemsize > near.panels:
        band = band or _BAND
    if lanes == registers.lanes and vectors > 1 and k <= known.staged_deep.get(problem.itemsize, 0):
        _, _, rows = _shape(problem, replace(registers, vectors=2))
        wide = 2 if device.can.wide_arithmetic else 1
        deep = replace(register(wide * lanes, rows, 2 // wide, block=_STAGE_DEEP), SM=True, PACK_A=pack_a, PACK_B=False)
        banded = _banded(problem, deep, device) if _STAGE_DEEP * deep.TC * problem.itemsize <= device.local_memory else None
        if banded is not None:
            return banded
    return replace(register(lanes, rows, vectors, block=block, band=band), PACK_A=pack_a)


def _least(of: tuple[int, ...], needed: int) -> int:
    """The smallest of the values that is enough, or the largest."""
    return next((one for one in of if one >= needed), of[-1])
