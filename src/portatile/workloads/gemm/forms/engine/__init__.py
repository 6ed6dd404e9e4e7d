"""The engine form: the copy engine fills local memory with float64, warps multiply from it; NVIDIA's compute capability 9.0."""

from __future__ import annotations

from portatile.records import DeviceInfo, Problem, Value
from portatile.workloads.gemm.capabilities import clusters, joins, local_limit, matrix_units
from portatile.workloads.gemm.forms import Form
from portatile.workloads.gemm.forms.engine import default
from portatile.workloads.gemm.forms.engine.point import Engine, maps_of

__all__ = ["form"]


def _facts(problem: Problem, device: DeviceInfo) -> dict[str, Value]:
    """``engine``: whether the device has what the form needs, and rows of A and B are aligned as it needs them; ``engine_maps``: how many
    tensor maps show all rows of an operand. Products of float32 are for who names the form: they were not faster.
    """
    facts: dict[str, Value] = {"joins": joins(device), "clusters": clusters(device), "local_limit": local_limit(device)}
    there = device.can.tensor_maps and matrix_units(device) and problem.dtype == "float64"
    return facts | {"engine": there and maps_of(problem) > 0, "engine_maps": maps_of(problem)}


form = Form(Engine, rank=26, default=default.point, facts=_facts, contenders=default.contenders)
