"""The tma form: the TMA fills local memory with float64 tiles, and warps multiply from it; NVIDIA's compute capability 9.0."""

from __future__ import annotations

from portatile.records import DeviceInfo, Problem, Value
from portatile.workloads.gemm.capabilities import clusters, joins, local_limit, matrix_units
from portatile.workloads.gemm.forms import Form
from portatile.workloads.gemm.forms.tma import default
from portatile.workloads.gemm.forms.tma.point import Tma, rows_aligned

__all__ = ["form"]


def _facts(problem: Problem, device: DeviceInfo) -> dict[str, Value]:
    """Facts for the form's rules. ``tma``: the device has a TMA and matrix units, and the rows of A and B are aligned as the TMA needs."""
    facts: dict[str, Value] = {"joins": joins(device), "clusters": clusters(device), "local_limit": local_limit(device)}
    return facts | {"tma": device.can.tensor_maps and matrix_units(device) and rows_aligned(problem)}


form = Form(Tma, rank=26, default=default.point, facts=_facts, contenders=default.contenders)
