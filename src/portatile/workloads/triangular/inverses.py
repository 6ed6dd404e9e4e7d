"""The inverses of all blocks on a triangle's diagonal: small ones by substitution, then pairs of neighbours are joined up to order NB.

For neighbours P and Q, with the block B of A between them, the block between their inverses is -Q^-1 B P^-1. One launch computes small
blocks of this kind. Large ones are two products each, in one batch for all pairs at equal distances.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from portatile.capabilities import MOST_GROUPS
from portatile.records import Arg, Call, Config, DeviceInfo, Launch, Layout, Plan, Problem, Source, Temporary
from portatile.workloads import blocks
from portatile.workloads.blocks import integer, long_integer
from portatile.workloads.gemm.extras import Triangle
from portatile.workloads.structured import order

_STATIC = 49152  # bytes of local memory that a kernel text may declare on every device
_LARGE = 128  # the order of neighbours from which products join them faster than one launch, and above which skipping zeros pays
_CHUNK, _COMPLEX = 32, 16  # columns that are joined in local memory at a time, real and complex


class Stack(NamedTuple):
    """``number`` triangles of one order, ``step`` elements apart, whose inverses are stored one after another."""

    number: int
    step: int


def inverses(
    problem: Problem, config: Config, device: DeviceInfo, text: Source, *, kept: bool, triangles: Stack | None = None
) -> tuple[list[Launch | Call], list[Temporary]]:
    """The steps that invert, and their temporaries: ``inverses``, NB x NB each, one after another, and with ``kept`` also the ``blocks``.

    ``problem`` is the first of the ``triangles``, if there are several. A temporary may be listed several times, since these launches run
    one after another.
    """
    n, nb, size = order(problem), int(config["NB"]), square(problem, config, device)
    group, panel = int(config["WGS"]), int(config["PANEL"])
    known = (blocks.scalar(problem, "alpha"), *blocks.matrix(problem, "a", "in"))
    count, many = -(-n // nb), 1 if triangles is None else triangles.number
    steps: list[Launch | Call] = []
    names = ["inverses"]
    if kept:
        names.append("blocks")
        everything = (-(-nb // group) * group, min(n, MOST_GROUPS), 1)
        arguments = (integer("order", n), *known, Arg("blocks", role="temporary"))
        steps.append(Launch(text, "triangular_blocks", everything, (group, 1, 1), arguments))
    temporaries = [Temporary(name, many * count * nb**2 * problem.itemsize) for name in names]
    rest: tuple[Arg, ...] = (*known, Arg("inverses", role="temporary"))
    if triangles is not None:
        rest = (*rest, long_integer("a_batch", triangles.step), long_integer("inverses_batch", count * nb**2))
    steps.append(Launch(text, "triangular_invert", (count * nb // size * group, 1, many), (group, 1, 1), (integer("order", n), *rest)))
    while size < min(nb, n, _LARGE):
        arguments = (integer("order", n), integer("half_size", size), *rest)
        everything = (size // panel * group, -(-(n - size) // (2 * size)), many)
        steps.append(Launch(text, "triangular_join", everything, (group, 1, 1), arguments))
        size *= 2
    if size < min(nb, n):
        temporaries.append(Temporary("joined", max(many, count) * (nb // 2) ** 2 * problem.itemsize))
    while size < min(nb, n):
        for plan in _joins(problem, nb, size, device) if triangles is None else _joins_of_all(problem, nb, size, triangles, device):
            steps += plan.steps
            temporaries += plan.temporaries
        size *= 2
    return steps, temporaries


def joining(problem: Problem, nb: int, size: int, device: DeviceInfo) -> dict[str, int]:
    """The definitions for the kernel that joins neighbours: their largest order, the columns that are in local memory at a time, and the
    order of blocks that have zeros beside the triangle (first those of ``size``).
    """
    chunk = _COMPLEX if blocks.is_complex(problem) else _CHUNK
    return {"HALF": min(nb, _LARGE) // 2, "CHUNK": chunk, "ZEROED": max(min(nb // 2, _LARGE), size) if device.nvidia else nb}


def square(problem: Problem, config: Config, device: DeviceInfo) -> int:
    """The order of the blocks that one launch inverts, each in the local memory of a work-group."""
    memory = min(device.local_memory, _STATIC)
    fitting = (size for size in (64, 32, 16) if size <= int(config["NB"]) and problem.itemsize * size * (size + 2) <= memory)
    return max(int(config["IB"]), next(fitting, 0))


def _joins(problem: Problem, nb: int, size: int, device: DeviceInfo) -> Iterator[Plan]:
    """The products that join all neighbours of this order; one batch for those at the same place of their NB blocks."""
    n = order(problem)
    for within in range(0, nb, 2 * size):
        whole = max(0, (n - within - 2 * size) // nb + 1)
        if whole:
            yield from _join(problem, nb, _Pairs(within, size, size, whole), device)
        start = whole * nb + within
        if n > start + size:
            yield from _join(problem, nb, _Pairs(start, size, n - start - size, 1), device)


def _joins_of_all(problem: Problem, nb: int, size: int, triangles: Stack, device: DeviceInfo) -> Iterator[Plan]:
    """As ``_joins`` for a stack of triangles: one batch for the neighbours at the same place of all triangles."""
    n = order(problem)
    for start in range(0, n - size, 2 * size):
        yield from _join(problem, nb, _Pairs(start, size, min(size, n - start - size), triangles.number, triangles), device)


class _Pairs(NamedTuple):
    """``pairs`` of neighbours, NB apart, or one pair in each of the ``triangles``: unknowns ``start`` to ``start + size``, and ``second``
    more after them.
    """

    start: int
    size: int
    second: int
    pairs: int
    triangles: Stack | None = None


def _join(problem: Problem, nb: int, pairs: _Pairs, device: DeviceInfo) -> Iterator[Plan]:
    """Two products for the pairs, which skip the zeros of large inverses if the device's products can."""
    start, size, second, count, triangles = pairs
    upper = problem.options["uplo"] == "U"
    neighbours = (start, size), (start + size, second)
    (row, rows), (column, columns) = neighbours if upper else neighbours[::-1]
    a, alone = problem.layout["a"], count == 1 and triangles is None

    def stack(layout: Layout, step: int) -> Layout:
        return layout if alone else replace(layout, strides=(step, *layout.strides))

    def inverse(i: int, j: int) -> Layout:
        blocks_of_one = 1 if triangles is None else -(-order(problem) // nb)
        return stack(Layout((nb, 1), start // nb * nb**2 + i % nb * nb + j % nb), blocks_of_one * nb**2)

    between = stack(blocks.part(a, row, column), nb * (a.strides[0] + 1) if triangles is None else triangles.step)
    joined = stack(Layout((size, 1)), size**2)
    natively = blocks.natively(problem)

    def product(sizes: tuple[int, int, int], operands: blocks.Operands, factor: float, operand: str) -> Plan:
        triangle, asked = Triangle(operand, "below" if upper else "above"), blocks.BlockProduct(sizes, operands, ("N", "N"), (factor, 0.0))
        if not device.nvidia or size <= _LARGE:
            return Plan((blocks.product(natively, asked, None if alone else count),))
        if alone:
            return blocks.whole(natively, asked, triangle, device)
        return blocks.stack(natively, asked, triangle, device, count)

    operands = {"a": ("a", between), "b": ("inverses", inverse(column, column)), "c": ("joined", joined)}
    yield product((rows, columns, columns), operands, 1.0, "b")
    operands = {"a": ("inverses", inverse(row, row)), "b": ("joined", joined), "c": ("inverses", inverse(row, column))}
    yield product((rows, columns, rows), operands, -1.0, "a")
