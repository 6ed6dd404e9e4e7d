"""The tiles of a triangle of C: each of them is computed by groups of its own, and no group comes for the others."""

from __future__ import annotations

from portatile.workloads.gemm.passing import ceil_div


def count(order: int, zeros: str, rows: int, columns: int) -> int:
    """The tiles of this size in which something is wanted; nothing is "above" or "below" the diagonal, as ``zeros`` says."""
    along, across = (rows, columns) if zeros == "above" else (columns, rows)
    most = ceil_div(order, across)
    return sum(min(most, (first + along - 1) // across + 1) for first in range(0, order, along))
