"""The thin form, for few rows or columns of C on a GPU, where the time is that of reading the large operand once."""

from __future__ import annotations

from portatile.records import DeviceInfo, Problem, Value
from portatile.workloads.gemm.capabilities import joins, local_limit
from portatile.workloads.gemm.forms import Form
from portatile.workloads.gemm.forms.thin import default
from portatile.workloads.gemm.forms.thin.point import Thin
from portatile.workloads.gemm.reals import plain

__all__ = ["form"]


def _default(problem: Problem, device: DeviceInfo, batch: int) -> Thin | None:
    return default.point(problem, device, batch) if plain(problem) and device.kind == "gpu" else None


def _facts(problem: Problem, device: DeviceInfo) -> dict[str, Value]:
    return {"joins": joins(device), "local_limit": local_limit(device)}


form = Form(Thin, rank=20, default=_default, facts=_facts)
