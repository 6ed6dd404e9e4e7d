"""Products that skip a triangle, of zeros in A or B or of unwanted elements of C: which devices do it, and in which configuration."""

from __future__ import annotations

from portatile.records import DeviceInfo, Problem
from portatile.workloads.gemm.capabilities import matrix_units
from portatile.workloads.gemm.extras import Triangle
from portatile.workloads.gemm.forms.cpu.default import panels
from portatile.workloads.gemm.forms.gpu import sharing
from portatile.workloads.gemm.forms.gpu.default import alone
from portatile.workloads.gemm.forms.gpu.estimate import Structure
from portatile.workloads.gemm.forms.gpu.point import Gpu
from portatile.workloads.gemm.forms.gpu.stream import Sharing
from portatile.workloads.gemm.point import Point
from portatile.workloads.gemm.reals import computed, in_place, parted


def skips_zeros(device: DeviceInfo) -> bool:
    """Whether one launch can skip the work of a ``Triangle``: on processors, and on NVIDIA's GPUs."""
    return device.kind == "cpu" or device.nvidia


def point(problem: Problem, device: DeviceInfo, triangle: Triangle) -> Point:
    """The point for such a product: always the default, because stored results are of whole products and say nothing about triangles."""
    reals = computed(problem)
    if device.kind == "cpu":
        return panels(reals, device, triangle.operand != "a")
    return alone(reals, device, Structure(triangle.operand, same=triangle.mirrored))


def shared(problem: Problem, device: DeviceInfo, triangle: Triangle) -> tuple[Point, Sharing | None]:
    """The point for a product that skips ``triangle``; and, of a triangle of C, how the work-groups share its tiles where sharing is
    estimated to be faster.
    """
    whole = point(problem, device, triangle)
    if triangle.operand != "c" or not isinstance(whole, Gpu):
        return whole, None
    return sharing.shared(computed(problem), device, triangle.zeros, whole, mirrored=triangle.mirrored)


def doubled(problem: Problem, device: DeviceInfo) -> tuple[Gpu, Sharing | None] | None:
    """The point for a triangle of op(A) op(B) + op(B) op(A) in one launch, and how work-groups share its tiles: on NVIDIA's GPUs, if B is
    stored as A is. Complex elements must be aligned, and the GPU must have matrix units. None if that is impossible, or if two launches
    are estimated to be faster.
    """
    reals = computed(problem)
    a, b = (reals.layout[name] for name in "ab")
    alike = a.strides == b.strides and a.vector_width(reals.itemsize) == b.vector_width(reals.itemsize)
    if not alike or not device.nvidia:
        return None
    if problem.dtype == "float32":
        return sharing.doubled_by_ranking(reals, device)
    alike = all(in_place(reals, name) or parted(reals, name) for name in "ab")
    return sharing.doubled(reals, device) if alike and problem.dtype in ("float64", "complex128") and matrix_units(device) else None
