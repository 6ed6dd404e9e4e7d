"""The default configuration: what was fastest by hand on devices of a kind, for problems of a size."""

from __future__ import annotations

from dataclasses import replace

from portatile.records import Config, DeviceInfo, Problem
from portatile.workloads.gemm import presets
from portatile.workloads.gemm.plan import ceil_div
from portatile.workloads.gemm.point import Point


def default(problem: Problem, device: DeviceInfo) -> Config:
    """Legal and correct for every problem on every device."""
    if device.kind == "cpu":
        return _cpu(problem, device).config()
    if device.kind == "gpu" and "nvidia" in device.vendor.lower():
        return _nvidia(problem, device).config()
    return _anything(problem, device).config()


def _cpu(problem: Problem, device: DeviceInfo) -> Point:
    wide = "intel" in device.platform.lower()  # PoCL 3.0 targets AVX2 whatever the processor has
    if problem.dtype == "float32":
        point = presets.register(16, 8, 3) if wide else presets.register(8, 6, 2)
    else:
        point = presets.register(8, 8, 3) if wide else presets.register(4, 4, 3)
    return replace(point, PACK_A=problem.options["trans_a"] == "T")


def _anything(problem: Problem, device: DeviceInfo) -> Point:
    point = presets.MEDIUM
    if point.items > device.max_work_group_size or point.local_bytes(problem.itemsize) > device.local_memory:
        return presets.generic(1, (4, 4), (4, 4), (1, 1), 8, False)
    return point


def _nvidia(problem: Problem, device: DeviceInfo) -> Point:
    vl = 16 // problem.itemsize
    m, n, k = (problem.sizes[s] for s in "mnk")
    big = presets.pipeline(4, (16, 8), (2, 4), 16, 3, 4) if vl == 4 else presets.pipeline(2, (16, 16), (4, 2), 8, 3, 4)
    groups = ceil_div(max(m, 1), big.rows) * ceil_div(max(n, 1), big.columns)
    if groups >= device.compute_units:
        worth = k >= 512 and min(m, n) >= 512
        return replace(big, PACK_A=worth and problem.options["trans_a"] == "N", PACK_B=worth and problem.options["trans_b"] == "T")
    return presets.pipeline(4, (8, 8), (2, 2), 16, 3, 4) if vl == 4 else presets.pipeline(2, (8, 8), (2, 2), 16, 3, 4)
