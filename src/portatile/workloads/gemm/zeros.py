"""Products of which a triangle is zero, or of whose result one is not wanted: which devices leave it out, and by which configuration."""

from __future__ import annotations

from portatile.records import DeviceInfo, Problem
from portatile.workloads.gemm.forms.cpu.default import panels
from portatile.workloads.gemm.forms.gpu.default import half
from portatile.workloads.gemm.plan import Shape
from portatile.workloads.gemm.point import Point


def left_out(device: DeviceInfo) -> bool:
    """Whether one launch leaves out what ``plan.Shape`` says: on processors, and on NVIDIA's GPUs."""
    return device.kind == "cpu" or device.nvidia


def point(problem: Problem, device: DeviceInfo, shape: Shape) -> Point:
    """The configuration for such a product; None of a device's own results knows of the triangle."""
    return panels(problem, device, shape.operand != "a") if device.kind == "cpu" else half(problem, device, shape.operand)
