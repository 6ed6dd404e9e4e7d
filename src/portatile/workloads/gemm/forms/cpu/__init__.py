"""The cpu form: register tiles for processors, one work-item to a group; a group computes a tile, or a band of tiles of its own columns."""

from __future__ import annotations

from portatile.records import DeviceInfo, Problem
from portatile.workloads.gemm.forms import Form
from portatile.workloads.gemm.forms.cpu import default
from portatile.workloads.gemm.forms.cpu.point import Cpu

__all__ = ["form"]


def _default(problem: Problem, device: DeviceInfo, batch: int) -> Cpu | None:
    return default.point(problem, device) if device.kind == "cpu" else None


form = Form(Cpu, rank=10, default=_default)
