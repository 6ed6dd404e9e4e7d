"""Resources of kernels as columns of a table; only columns for which the compiler reports a number."""

from __future__ import annotations

from collections.abc import Sequence

from portatile.records import Resources

_COMMON = {
    "registers": "registers",
    "spill stores": "spill_stores",
    "spill loads": "spill_loads",
    "local bytes": "local_memory",
    "stack": "stack",
}
_RARE = {"scalar registers": "scalar_registers", "occupancy": "occupancy"}


def reported_columns(used: Sequence[Resources]) -> tuple[str, ...]:
    """The headings of the columns: those that most compilers report, and others that the compiler of one of these kernels reports."""
    return (*_COMMON, *(column for column, name in _RARE.items() if any(getattr(entry, name) >= 0 for entry in used)))


def cells(used: Resources, columns: Sequence[str]) -> tuple[str, ...]:
    """The cells of a kernel's row, ``?`` where its compiler does not report a number."""
    values = (getattr(used, (_COMMON | _RARE)[column]) for column in columns)
    return tuple("?" if value < 0 else str(value) for value in values)
