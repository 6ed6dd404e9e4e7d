"""The cpu form: register tiles for processors. A work-group is one work-item, which computes a tile, or a column of tiles in a band of
rows.
"""

from __future__ import annotations

from portatile.records import DeviceInfo, Problem
from portatile.workloads.gemm.forms import Form
from portatile.workloads.gemm.forms.cpu import default
from portatile.workloads.gemm.forms.cpu.point import Cpu

__all__ = ["form"]


def _default(problem: Problem, device: DeviceInfo, batch: int) -> Cpu | None:
    return default.point(problem, device) if device.kind == "cpu" else None


form = Form(Cpu, rank=10, default=_default)
