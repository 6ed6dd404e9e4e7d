"""The tiles of a triangle of C: each of them is computed by groups of its own, and no group comes for the others."""

from __future__ import annotations

from dataclasses import dataclass

from portatile.records import Problem, Value
from portatile.workloads.gemm.passing import ceil_div

BAND = 1024
"""Rows or columns of C in which neighbouring groups work together, so that they read few rows of both factors."""


def count(order: int, zeros: str, rows: int, columns: int) -> int:
    """The tiles of this size in which something is wanted; nothing is "above" or "below" the diagonal, as ``zeros`` says."""
    along, across = (rows, columns) if zeros == "above" else (columns, rows)
    most = ceil_div(order, across)
    return sum(min(most, (first + along - 1) // across + 1) for first in range(0, order, along))


def mirrored(problem: Problem, operand: str, missing: str) -> dict[str, Value]:
    """Facts of a symmetric A or B of which what lies ``missing``, "above" or "below" the diagonal, is not stored: whether vectors of the
    other triangle can be copied, too.
    """
    vector = 16 // problem.itemsize
    sizes = (problem.sizes["m" if operand == "a" else "n"], problem.sizes["k"])
    whole = all(size % vector == 0 for size in sizes) and problem.layout[operand].vector_width(problem.itemsize) >= vector
    return {f"{operand.upper()}_FROM": "mirrored", "MIRRORED": missing, "MIRRORED_WHOLE": whole}


@dataclass(frozen=True)
class Quarters:
    """Square tiles, in so many ``groups``. Of tiles on the diagonal a quarter has nothing wanted: a group has four of the others."""

    groups: int


@dataclass(frozen=True)
class Doubled:
    """Square tiles of a product and its transpose, op(A) op(B) and op(B) op(A), added up, in so many ``groups``; B is stored as A is.

    A tile of so many ``elements`` on the diagonal is transposed in local memory.
    """

    groups: int
    elements: int


@dataclass(frozen=True)
class Rest:
    """The square tiles of a triangle from number ``first`` on, each in four of the ``groups``, whose tiles have half their side. With
    ``elements`` they are those of ``Doubled``.
    """

    groups: int
    first: int
    elements: int = 0


def quartered(order: int, side: int) -> Quarters:
    """The groups for tiles of this side: one for each beside the diagonal, and one for four of the quarters on it."""
    along = ceil_div(order, side)
    return Quarters(along * (along - 1) // 2 + ceil_div(3 * along, 4))


def rest(order: int, side: int, first: int, *, doubled: bool = False) -> Rest:
    """The groups for the tiles of twice this side from number ``first`` on."""
    along = ceil_div(order, 2 * side)
    return Rest(4 * (along * (along + 1) // 2 - first), first, side * side if doubled else 0)


def doubled(order: int, side: int) -> Doubled:
    """The groups for tiles of this side, one for each."""
    along = ceil_div(order, side)
    return Doubled(along * (along + 1) // 2, side * side)
