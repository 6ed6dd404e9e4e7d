"""The tiles of a triangle of C: work-groups are launched only for tiles that the triangle intersects."""

from __future__ import annotations

from dataclasses import dataclass

from portatile.records import Problem, Value
from portatile.workloads.gemm.passing import ceil_div

BAND = 1024
"""Rows or columns of C in a band. Neighbouring work-groups stay in one band, so that together they read few rows of both factors."""


def count(order: int, zeros: str, rows: int, columns: int) -> int:
    """The tiles of this size that the triangle intersects; C is not wanted on the side of the diagonal ("above", "below") that ``zeros``
    names.
    """
    along, across = (rows, columns) if zeros == "above" else (columns, rows)
    most = ceil_div(order, across)
    return sum(min(most, (first + along - 1) // across + 1) for first in range(0, order, along))


def mirrored(problem: Problem, operand: str, missing: str) -> dict[str, Value]:
    """Facts about a symmetric A or B whose triangle ``missing`` ("above" or "below" the diagonal) is not stored, among them whether the
    other triangle can be copied in vectors.
    """
    vector = 16 // problem.itemsize
    sizes = (problem.sizes["m" if operand == "a" else "n"], problem.sizes["k"])
    whole = all(size % vector == 0 for size in sizes) and problem.layout[operand].vector_width(problem.itemsize) >= vector
    return {f"{operand.upper()}_FROM": "mirrored", "MIRRORED": missing, "MIRRORED_WHOLE": whole}


@dataclass(frozen=True)
class Quarters:
    """Square tiles in ``groups`` work-groups. Of a tile on the diagonal only three quarters are wanted: a work-group computes four of
    these.
    """

    groups: int


@dataclass(frozen=True)
class Doubled:
    """Square tiles of the sum of a product and its transpose, op(A) op(B) + op(B) op(A), in ``groups`` work-groups; B is stored as A is.

    A tile on the diagonal, of ``elements`` elements, is transposed in local memory.
    """

    groups: int
    elements: int


@dataclass(frozen=True)
class Rest:
    """The square tiles of a triangle from number ``first`` on, each computed by four of the ``groups``, whose tiles have half the side.
    With ``elements`` they are tiles of ``Doubled``.
    """

    groups: int
    first: int
    elements: int = 0


def quartered(order: int, side: int) -> Quarters:
    """The work-groups for tiles of this side: one for each tile off the diagonal, and one for four wanted quarters on it."""
    along = ceil_div(order, side)
    return Quarters(along * (along - 1) // 2 + ceil_div(3 * along, 4))


def rest(order: int, side: int, first: int, *, doubled: bool = False) -> Rest:
    """The work-groups for the tiles of twice this side from number ``first`` on."""
    along = ceil_div(order, 2 * side)
    return Rest(4 * (along * (along + 1) // 2 - first), first, side * side if doubled else 0)


def doubled(order: int, side: int) -> Doubled:
    """The work-groups for tiles of this side, one for each."""
    along = ceil_div(order, side)
    return Doubled(along * (along + 1) // 2, side * side)
