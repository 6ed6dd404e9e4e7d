"""Matrix instructions: which element of A, B and C each lane of a warp holds, as the PTX manual lays the fragments out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache

from support.ptx_machine.values import from_float, to_float

Place = tuple[int, int]
_WARP = 32


def layout(shape: str, kind: str) -> tuple[int, Callable[[int, int], Place], Callable[[int, int], Place], Callable[[int, int], Place]]:
    """The depth k and, for A, B and C, a function of lane and element number that gives (row, column)."""
    rows, depth = int(shape[1 : shape.index("n")]), int(shape[shape.index("k") + 1 :])
    pairs = 2 if kind in ("f16", "bf16") else 1  # elements of one register

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
        return [to_float(r, "f64") for r in registers]
    if kind == "f32":
        return [to_float(r, "f32") for r in registers]
    if kind == "tf32":  # the low 13 bits are not read
        return [to_float(r & ~0x1FFF, "f32") for r in registers]
    halves = [part for r in registers for part in (r & 0xFFFF, r >> 16 & 0xFFFF)]
    return [to_float(h, "f16") if kind == "f16" else to_float(h << 16, "f32") for h in halves]


def multiply(
    shape: str, kinds: tuple[str, str], lane: int, fragments: Sequence[tuple[Sequence[int], Sequence[int]]], c: Sequence[int]
) -> list[int]:
    """D of one lane: ``fragments`` has A's and B's registers of all lanes; ``kinds`` are those of A and B and of C and D."""
    depth, _, _, place_c = layout(shape, kinds[0])
    where, read = _holders(shape, kinds[0]), cache(lambda holder, operand: elements(fragments[holder][operand], kinds[0]))

    def element(operand: int, place: Place) -> float:
        holder, number = where[operand][place]
        return read(holder, operand)[number]

    result = []
    for i, start in enumerate(elements(c, kinds[1])):
        row, column = place_c(lane, i)
        products = [element(0, (row, k)) * element(1, (k, column)) for k in range(depth)]
        result.append(from_float(math.fsum([start, *products]), kinds[1]))
    return result


@cache
def _holders(shape: str, kind: str) -> tuple[dict[Place, Place], dict[Place, Place]]:
    """The lane and the element number by row and column of A, and of B."""
    depth, place_a, place_b, _ = layout(shape, kind)
    rows = int(shape[1 : shape.index("n")])
    of_a, of_b = rows * depth // _WARP, 8 * depth // _WARP
    return (
        {place_a(lane, i): (lane, i) for lane in range(_WARP) for i in range(of_a)},
        {place_b(lane, i): (lane, i) for lane in range(_WARP) for i in range(of_b)},
    )
