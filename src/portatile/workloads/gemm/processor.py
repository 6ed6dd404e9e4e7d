"""The default of the cpu form: the register tile that fits a shape, how its operands are read, and what stays in a processor's caches."""

from __future__ import annotations

from dataclasses import dataclass, replace

from portatile.records import DeviceInfo, Problem
from portatile.workloads.gemm.point import Point
from portatile.workloads.gemm.presets import register

_LONG = {4: 1800, 8: 1200}  # the size, by bytes of an element, from which the caches want the problem in blocks
_LONG_WIDE = 2500  # the same for processors with AVX-512, whose caches are larger
_LONG_TURNED = 1100  # the same for float64 whose A is packed: one stream of A comes slower from the last cache than several rows do
_PANELS = 6 << 20  # bytes of A's panels from which bands of rows keep a part of them near
_DEEP = 4096  # the k from which one panel of B is more than the second cache holds
_FEW = 64  # rows of C up to which reading B is most of the work: packing it would read it twice
_PAGE = 4096  # bytes: rows of B a multiple of it apart share few places of the caches, so that few of them are kept ...
_NEAR = {4: 512, 64: 64}  # ... so many, by rows of C at most: one row of tiles reads each of them once
_TURNED = 256  # rows of A, one step of k each, that are read a few elements at a time while they stay in the caches
_DOTS = 4  # rows or columns of C up to which products along k are faster than any tile; with k fast and C wide, up to _FEW rows
_DOTS_WIDE = 256
_DOTS_LONG = 64  # steps of k that pay for adding a vector up


@dataclass(frozen=True)
class Registers:
    """What a processor's vector registers hold: ``lanes`` elements each, a tile at most ``vectors`` of them wide, with the rows for each
    number of vectors; ``dots`` sums of products along k at once.
    """

    lanes: int
    vectors: int
    rows: dict[int, int]
    dots: int


_WIDE = {4: Registers(16, 4, {1: 8, 2: 8, 3: 8, 4: 6}, 16), 8: Registers(8, 4, {1: 8, 2: 8, 3: 8, 4: 6}, 16)}
_NARROW = {4: Registers(8, 2, {1: 8, 2: 6}, 8), 8: Registers(4, 3, {1: 8, 2: 6, 3: 4}, 8)}


def point(problem: Problem, device: DeviceInfo) -> Point:
    """Register tiles for AVX-512 or AVX2, whichever the compiler targets."""
    registers = (_WIDE if device.wide_vectors else _NARROW)[problem.itemsize]
    return _dots(problem, registers) or _tile(problem, registers, device.wide_vectors)


def _dots(problem: Problem, registers: Registers) -> Point | None:
    """A point that reads both operands along k, for problems with few rows or columns that have k fast, or one column to be packed."""
    m, n, k = (problem.sizes[size] for size in "mnk")
    packed = problem.options["trans_b"] == "N"
    few = n == 1 if packed else min(m, n) <= _DOTS or (m <= _FEW and n >= _DOTS_WIDE)
    if problem.options["trans_a"] == "T" or not few or k < _DOTS_LONG:
        return None
    if n <= _DOTS:
        columns = _least((1, 2, 4), n)
        rows = min(4, registers.dots // columns)
    else:
        rows = _least((1, 2, 4, 8), m) if m <= registers.dots else 4
        columns = min(4, registers.dots // rows)
    return replace(register(registers.lanes, rows, 1), TC=columns, KEEP=True, PACK_B=packed)


def _tile(problem: Problem, registers: Registers, wide: bool) -> Point:
    """A tile no larger than C, in blocks where the operands are larger than the caches."""
    m, n, k = (problem.sizes[size] for size in "mnk")
    turned, single, least = problem.options["trans_a"] == "T", problem.itemsize == 4, min(m, n, k)
    lanes = _least(tuple(width for width in (1, 2, 4, 8, 16) if width <= registers.lanes), n)
    vectors = min(registers.vectors, max(-(-n // lanes), 1))
    rows = _least(tuple(count for count in (1, 2, 3, 4, 5, 6, 8) if count * vectors >= 4 and count <= registers.rows[vectors]), m)
    if wide:
        long = _LONG_TURNED if turned and not single else _LONG_WIDE
        block, band = (2048 if single else 1024, 43) if least > long else (0, 0)
    else:
        block, band = (1024, 43 if single else 32) if least > _LONG[problem.itemsize] else (0, 0)
    columns, loose_a = lanes * vectors, turned and lanes == registers.lanes and n <= lanes * vectors
    in_place = problem.options["trans_b"] == "N" and n >= columns and m <= _FEW
    if block == 0 and k >= _DEEP:
        block = 2048 if single else 1024
    if loose_a and k > _TURNED:
        block = _TURNED
    elif in_place and problem.layout["b"].strides[0] * problem.itemsize % _PAGE == 0:
        near = next(steps for rows_most, steps in _NEAR.items() if m <= rows_most)
        block = near if k > near else block
    pack_a = (turned and not loose_a) or (band > 0 and not wide)
    if turned and pack_a and m * k * problem.itemsize > _PANELS:
        band = band or 43
    unroll = 1 if not wide and not single else 2 if in_place and single else 4
    return replace(register(lanes, rows, vectors, unroll, block, band), PACK_A=pack_a, PACK_B=not in_place)


def _least(of: tuple[int, ...], needed: int) -> int:
    """The smallest that is enough, or the largest."""
    return next((one for one in of if one >= needed), of[-1])
