"""The generic form: the ten-parameter generator of Du et al. (table 4), and every way to read an operand; it runs on every device."""

from __future__ import annotations

from dataclasses import replace

from portatile.records import DeviceInfo, Problem
from portatile.workloads.gemm.epilogue import block_of
from portatile.workloads.gemm.forms import Form
from portatile.workloads.gemm.forms.generic.images import facts
from portatile.workloads.gemm.forms.generic.point import MEDIUM, Generic, tile
from portatile.workloads.gemm.reals import types_of

__all__ = ["form"]


def default(problem: Problem, device: DeviceInfo, batch: int) -> Generic:
    """A tile of 64 x 64, or one work-item of 4 x 4 on a device that does not support such work-groups."""
    if MEDIUM.items > device.max_work_group_size or MEDIUM.local_bytes(problem.itemsize) > device.local_memory:
        least = tile(2 if types_of(problem).complex else 1, (4, 4), (1, 1), (1, 1), 8, False)
        return replace(least, PACK_A=True, PACK_B=True) if block_of(problem) else least
    return replace(MEDIUM, PACK_A=True, PACK_B=True) if block_of(problem) else MEDIUM


form = Form(Generic, rank=100, default=default, facts=facts)
