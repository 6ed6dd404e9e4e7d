"""`PYTHONPATH=tests python -m support.corpus`: what the CUDA form of each program of the corpus is made of, as a table."""

from __future__ import annotations

import re

from portatile.device.cuda.compiler import CudaTarget
from portatile.device.ptx import functions
from portatile.program import build
from portatile.records import Resources
from support.corpus import SAMPLES, ptx

COLUMNS = ("registers", "spills", "instructions", "loads", "of them wide", "stores", "of them wide", "atomic", "generic", "local")


def row(name: str) -> list[int]:
    """The figures of a program's kernel."""
    sample = SAMPLES[name]
    counts = functions(ptx(name).data.decode())[sample.entry.symbol]
    used = build(sample.source, CudaTarget("sm_90"), None).resources.get(sample.kernel, Resources())

    def total(pattern: str) -> int:
        return sum(count for kind, count in counts.kinds.items() if re.fullmatch(pattern, kind))

    memory = r"(?:global|shared|const|local|generic)(?:\.nc)?"
    pairs = [total(rf"{op}\.{memory}{wide}") for op in ("ld", "st") for wide in (r"(?:\.v[248])?", r"\.v[248]")]
    spills = used.spill_stores + used.spill_loads
    return [used.registers, spills, counts.total, *pairs, counts.families.get("atomic", 0), total(r"\w+\.generic.*"), counts.local]


if __name__ == "__main__":
    print(f"{'':20s}" + "".join(f"{column:>14s}" for column in COLUMNS))
    for name in SAMPLES:
        print(f"{name:20s}" + "".join(f"{figure:14d}" for figure in row(name)), flush=True)
