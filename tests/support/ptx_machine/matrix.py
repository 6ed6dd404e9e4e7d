"""Matrix instructions: which element of A, B and C each lane of a warp holds, as the PTX manual lays the fragments out."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from functools import cache, cached_property
from operator import mul

import numpy as np

from support.ptx_machine.values import from_float, signed, to_float

Place = tuple[int, int]
_WARP = 32
EIGHT_BITS = {"e4m3": (4, 3), "e5m2": (5, 2)}  # bits of the exponent and of the fraction
_KEPT = 13  # bits of a sum of floats of eight bits below its largest term's first


def layout(shape: str, kind: str) -> tuple[int, Callable[[int, int], Place], Callable[[int, int], Place], Callable[[int, int], Place]]:
    """The depth k and, for A, B and C, a function of lane and element number that gives (row, column)."""
    rows, depth = int(shape[1 : shape.index("n")]), int(shape[shape.index("k") + 1 :])
    pairs = 4 if kind in ("s8", *EIGHT_BITS) else 2 if kind in ("f16", "bf16") else 1  # elements of one register

    def a(lane: int, i: int) -> Place:
        group, within = lane >> 2, lane & 3
        register, part = divmod(i, pairs)
        lower, block = (register & 1, register >> 1) if rows == 16 else (0, register)
        return group + 8 * lower, within * pairs + part + 4 * pairs * block

    def b(lane: int, i: int) -> Place:
        register, part = divmod(i, pairs)
        return (lane & 3) * pairs + part + 4 * pairs * register, lane >> 2

    def c(lane: int, i: int) -> Place:
        return (lane >> 2) + 8 * (i >> 1), (lane & 3) * 2 + (i & 1)

    return depth, a, b, c


def elements(registers: Sequence[int], kind: str) -> list[float]:
    """The numbers in a lane's registers of one operand."""
    if kind == "f64":
        return list(struct.unpack(f"<{len(registers)}d", struct.pack(f"<{len(registers)}Q", *registers)))
    if kind == "f32":
        return [to_float(r, "f32") for r in registers]
    if kind == "tf32":  # the low 13 bits are not read
        return [to_float(r & ~0x1FFF, "f32") for r in registers]
    if kind == "s32":
        return [signed(r, 32) for r in registers]
    if kind in ("s8", *EIGHT_BITS):
        parts = [r >> shift & 0xFF for r in registers for shift in (0, 8, 16, 24)]
        return [signed(part, 8) if kind == "s8" else eight_bits(part, kind) for part in parts]
    halves = [part for r in registers for part in (r & 0xFFFF, r >> 16 & 0xFFFF)]
    return [to_float(h, "f16") if kind == "f16" else to_float(h << 16, "f32") for h in halves]


@cache
def eight_bits(value: int, kind: str) -> float:
    """The number whose bit pattern is ``value``; e4m3 has no infinity, and one NaN of each sign."""
    wide, fraction = EIGHT_BITS[kind]
    exponent, digits = value >> fraction & ((1 << wide) - 1), value & ((1 << fraction) - 1)
    size = math.ldexp(digits + ((exponent > 0) << fraction), max(exponent, 1) - (1 << wide - 1) + 1 - fraction)
    if kind == "e4m3" and value & 0x7F == 0x7F:
        size = math.nan
    elif kind == "e5m2" and exponent == 31:
        size = math.nan if digits else math.inf
    return -size if value & 0x80 else size


def cut(terms: Sequence[float]) -> float:
    """A sum of which units keep few bits: of each term what lies above the last one, cut."""
    if not all(map(math.isfinite, terms)) or not any(terms):
        return sum(terms)
    unit = math.ldexp(1.0, max(math.frexp(term)[1] for term in terms if term) - 1 - _KEPT)
    return math.fsum(math.trunc(term / unit) * unit for term in terms)


class Factors:
    """Rows of A and columns of B that the lanes of a warp hold together: ``fragments`` has the registers of both of each lane."""

    def __init__(self, shape: str, kind: str, fragments: Sequence[tuple[Sequence[int], Sequence[int]]]) -> None:
        self.shape, self.kind = shape, kind
        self.rows, self.columns = (
            [[held[lane][number] for lane, number in line] for line in lines]
            for lines, held in (
                (lines, [elements(fragment[operand], kind) for fragment in fragments])
                for operand, lines in enumerate(_holders(shape, kind))
            )
        )

    @cached_property
    def sums(self) -> list[list[int]]:
        """The products of integers, row by row of C."""
        found: list[list[int]] = (np.array(self.rows, np.int64) @ np.array(self.columns, np.int64).T).tolist()
        return found

    def multiply(self, kind: str, lane: int, c: Sequence[int]) -> list[int]:
        """D of one lane, of ``c``, its registers of C; ``kind`` is that of both."""
        places = _places(self.shape, self.kind, lane, len(c))
        if kind == "s32":
            return [
                int(start + self.sums[row][column]) & 0xFFFFFFFF for start, (row, column) in zip(elements(c, kind), places, strict=True)
            ]
        add = cut if self.kind in EIGHT_BITS else math.fsum
        return [
            from_float(add([start, *map(mul, self.rows[row], self.columns[column])]), kind)
            for start, (row, column) in zip(elements(c, kind), places, strict=True)
        ]


@cache
def _places(shape: str, kind: str, lane: int, count: int) -> list[Place]:
    """Row and column of the elements of C that a lane holds."""
    place = layout(shape, kind)[3]
    return [place(lane, i) for i in range(count)]


@cache
def _holders(shape: str, kind: str) -> tuple[list[list[Place]], list[list[Place]]]:
    """Row by row of A and column by column of B, the lane and the element number of each of its k elements."""
    depth, place_a, place_b, _ = layout(shape, kind)
    rows = int(shape[1 : shape.index("n")])
    of_a, of_b = rows * depth // _WARP, 8 * depth // _WARP
    a = {place_a(lane, i): (lane, i) for lane in range(_WARP) for i in range(of_a)}
    b = {place_b(lane, i): (lane, i) for lane in range(_WARP) for i in range(of_b)}
    return [[a[row, k] for k in range(depth)] for row in range(rows)], [[b[k, column] for k in range(depth)] for column in range(8)]
