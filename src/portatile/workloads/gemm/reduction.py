"""The launch that adds up the partial sums of a product with split k, and updates C with them."""

from __future__ import annotations

from portatile.records import Arg, Launch, Problem
from portatile.workloads.gemm import epilogue, reals
from portatile.workloads.gemm.passing import ceil_div, factors, long_scalar, matrix, scalar
from portatile.workloads.gemm.point import Point
from portatile.workloads.gemm.shared_texts import beside, types
from portatile.workloads.gemm.storage import Batch

_INT_MAX = 2**31 - 1
_ITEMS = 64  # work-items of a work-group along a row of C
_SHARED = 16  # number of planes from which several work-items share the sum of an element
_MANY = 64  # number of planes above which twice as many work-items share it
_AHEAD = 16  # planes that a work-item loads before it adds them, at most
_ROWS = 32768  # work-groups along the columns of C, at most; each then reduces several rows


def shares(parts: int) -> int:
    """The number of work-items that together reduce one element of C: each of s work-items adds every s-th plane."""
    return 4 if parts >= _SHARED else 1


def reduce(problem: Problem, parts: int, batch: Batch | None, point: Point) -> Launch:
    """The launch that reduces ``parts`` planes of partial sums, each of the shape of C, to C. ``problem`` is the one of real numbers."""
    components = reals.types_of(problem).operand.components
    m, n = problem.sizes["m"] // components, problem.sizes["n"] // components
    alone = not epilogue.options_of(problem) and point.TERMS == 1
    if alone and n < _ITEMS and problem.layout["c"].strides[0] == n * components and m * n <= _INT_MAX:
        m, n = 1, m * n  # rows without gaps between them are treated as one row
    sharing = shares(parts) * (2 if parts > _MANY else 1)
    defines, ahead = {"ITEMS": _ITEMS, "SHARES": sharing}, min(max(ceil_div(parts, sharing), 1), _AHEAD)
    source = beside(point, "reduce.cl", defines, **types(problem), BATCH=batch is not None, TERMS=point.TERMS, AHEAD=ahead)
    args = (
        *(scalar(name, value) for name, value in (("m", m), ("n", n), ("parts", parts))),
        *factors(problem),
        Arg("planes", role="temporary"),
        *matrix("c", "inout", problem.layout["c"]),
        *(() if batch is None else (long_scalar("c_batch", batch.c),)),
        *epilogue.arguments(problem),
        *point.further_arguments(),
    )
    size = (ceil_div(n, _ITEMS) * _ITEMS, min(m, _ROWS) * sharing, 1 if batch is None else batch.count)
    return Launch(source, "gemm_reduce", size, (_ITEMS, sharing, 1), args)
