"""What the workloads other than GEMM say of their parameters, a table for each: for a page, with no measurement behind it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from portatile import workloads
from recorded import Table, markdown


def from_results(folder: Path) -> Iterator[Table]:
    """The tables; ``folder`` holds results, of which none is needed. Left out are GEMM's own and those of stacks."""
    for name in sorted(workloads.names()):
        if name in ("gemm", "gemm_blocks", "gemm_epilogue") or name.endswith("_batched"):
            continue
        rows = [[f"`{parameter}`", meaning] for parameter, meaning in workloads.get(name).meanings.items()]
        yield Table(f"meanings-{name}", markdown(("parameter", "meaning"), rows, numbers=False), frozenset(), name)
