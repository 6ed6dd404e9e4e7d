"""Panels of operands: what a work-item of a processor packs, and one launch for both operands by groups that move squares: pack_both.cl."""

from __future__ import annotations

from collections.abc import Mapping

from portatile.records import Arg, Launch, Problem, Temporary, Value
from portatile.workloads.gemm.epilogue import block_of
from portatile.workloads.gemm.passing import ceil_div, factor, matrix, real, scalar
from portatile.workloads.gemm.point import Point
from portatile.workloads.gemm.reals import plain
from portatile.workloads.gemm.shared_texts import beside
from portatile.workloads.gemm.storage import k_fast

_SQUARE = 32  # rows and steps of k that a group moves
_ROWS = 8  # of its work-items
_SLICE = 256  # steps of k that one work-item packs, so that the slice of a panel stays in the first cache
_LINES = 512  # bytes that a work-item reads in a row, where panels are narrow and neighbours lie in one row


def spans(problem: Problem, width: int, fast: bool) -> tuple[int, int]:
    """(panels, steps of k) that one work-item of a processor packs of an operand with k ``fast``, in panels of this width."""
    span = 1 if fast else ceil_div(_LINES, width * problem.itemsize)
    return span, max(_SLICE // span, 16)


def takes_both(problem: Problem, point: Point) -> bool:
    """Whether a point packs both operands, of plain reals, by groups that move squares of them."""
    single = plain(problem) and not block_of(problem) and not (point.SERIAL or point.PANELS)
    return single and point.packs("a") and point.packs("b")


def both(problem: Problem, point: Point, depth: int, names: Mapping[str, str]) -> tuple[Launch, tuple[Temporary, ...]]:
    """The launch, and the panels of A and B, ``depth`` steps of k deep; ``names`` are the operands'. The problem is one of plain reals."""
    sides = {"a": (problem.sizes["m"], point.rows), "b": (problem.sizes["n"], point.columns)}
    defines: dict[str, Value] = {f"{name.upper()}_WIDTH": width for name, (_, width) in sides.items()}
    facts = {f"{name.upper()}_FAST": k_fast(problem, name) for name in sides}
    source = beside(point, "pack_both.cl", defines, real=real(problem), COMPLEX=False, **facts)
    args = [scalar(name, problem.sizes[name]) for name in "mnk"] + [scalar("depth", depth), factor(problem, "alpha")]
    for name in sides:
        args += [*matrix(names[name], "in", problem.layout[name]), Arg(f"{name}_panels", role="temporary")]
    lengths = {name: ceil_div(across, width) * width for name, (across, width) in sides.items()}
    groups = sum(ceil_div(length, _SQUARE) for length in lengths.values()) * ceil_div(depth, _SQUARE)
    launch = Launch(
        source,
        "gemm_pack",
        (groups * _SQUARE, _ROWS, 1),
        (_SQUARE, _ROWS, 1),
        tuple(args),
    )
    return launch, tuple(Temporary(f"{name}_panels", length * depth * problem.itemsize) for name, length in lengths.items())
