"""Resources of kernels as columns of a table; only columns for which the compiler reports a number."""

from __future__ import annotations

from collections.abc import Sequence

from portatile.records import Resources

_USUAL = {
    "registers": "registers",
    "spill stores": "spill_stores",
    "spill loads": "spill_loads",
    "local bytes": "local_memory",
    "stack": "stack",
}
_SELDOM = {"scalar registers": "scalar_registers", "occupancy": "occupancy"}


def figured(used: Sequence[Resources]) -> tuple[str, ...]:
    """The columns: what most compilers say, and of the rest what one of these kernels' compilers does."""
    return (*_USUAL, *(column for column, name in _SELDOM.items() if any(getattr(entry, name) >= 0 for entry in used)))


def figures(used: Resources, columns: Sequence[str]) -> tuple[str, ...]:
    """A kernel's figures in those columns, ``?`` where its compiler does not say."""
    values = (getattr(used, (_USUAL | _SELDOM)[column]) for column in columns)
    return tuple("?" if value < 0 else str(value) for value in values)
