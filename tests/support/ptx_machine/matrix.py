"""Matrix instructions: which element of A, B and C each lane of a warp holds, as the PTX manual lays the fragments out."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from functools import cache
from operator import itemgetter, mul

import numpy as np

from support.ptx_machine.values import from_float, to_float

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
    if kind in ("f32", "tf32"):  # of tf32 the low 13 bits are not read
        read = 0xFFFFE000 if kind == "tf32" else 0xFFFFFFFF
        return list(struct.unpack(f"<{len(registers)}f", struct.pack(f"<{len(registers)}I", *(r & read for r in registers))))
    if kind in ("s8", "s32", *EIGHT_BITS):
        count, item = (len(registers), "i") if kind == "s32" else (4 * len(registers), "b" if kind == "s8" else "B")
        parts = struct.unpack(f"<{count}{item}", struct.pack(f"<{len(registers)}I", *(r & 0xFFFFFFFF for r in registers)))
        return [eight_bits(part, kind) for part in parts] if kind in EIGHT_BITS else list(parts)
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


def multiply(shape: str, kind: str, c_kind: str, fragments: Sequence[Sequence[Sequence[int]]]) -> list[list[int]]:
    """D of each lane of a warp, of ``fragments``: its registers of A, B and C. ``kind`` is that of A and B, ``c_kind`` of C and D."""
    of_rows, of_columns = _holders(shape, kind)
    a, b, c = (
        elements([register for fragment in fragments for register in fragment[operand]], one)
        for operand, one in enumerate((kind, kind, c_kind))
    )
    rows, columns = [take(a) for take in of_rows], [take(b) for take in of_columns]
    places = _places(shape, kind, len(c))
    if c_kind == "s32":
        sums = (np.array(rows, np.int64) @ np.array(columns, np.int64).T).tolist()
        values = [int(start + sums[row][column]) & 0xFFFFFFFF for start, (row, column) in zip(c, places, strict=True)]
    else:
        add = cut if kind in EIGHT_BITS else math.fsum
        sums_of = zip(c, places, strict=True)
        values = _bits([add([start, *map(mul, rows[row], columns[column])]) for start, (row, column) in sums_of], c_kind)
    each = len(values) // _WARP
    return [values[first : first + each] for first in range(0, len(values), each)]


def _bits(numbers: Sequence[float], kind: str) -> list[int]:
    """Bit patterns of numbers, most of which are finite."""
    number, pattern = {"f32": "fI", "f64": "dQ"}[kind]
    try:
        found = struct.unpack(f"<{len(numbers)}{pattern}", struct.pack(f"<{len(numbers)}{number}", *numbers))
    except OverflowError:  # of float32
        return [from_float(one, kind) for one in numbers]
    return [bits if one == one else from_float(one, kind) for one, bits in zip(numbers, found, strict=True)]


@cache
def _places(shape: str, kind: str, count: int) -> list[Place]:
    """Row and column of the ``count`` elements of C, lane by lane."""
    place = layout(shape, kind)[3]
    return [place(lane, i) for lane in range(_WARP) for i in range(count // _WARP)]


@cache
def _holders(shape: str, kind: str) -> tuple[list[itemgetter[list[float]]], list[itemgetter[list[float]]]]:
    """What takes each row of A and each column of B from their elements, lane by lane."""
    depth, place_a, place_b, _ = layout(shape, kind)
    rows = int(shape[1 : shape.index("n")])
    of_a, of_b = rows * depth // _WARP, 8 * depth // _WARP
    a = {place_a(lane, i): lane * of_a + i for lane in range(_WARP) for i in range(of_a)}
    b = {place_b(lane, i): lane * of_b + i for lane in range(_WARP) for i in range(of_b)}
    return (
        [itemgetter(*(a[row, k] for k in range(depth))) for row in range(rows)],
        [itemgetter(*(b[k, column] for k in range(depth))) for column in range(8)],
    )
