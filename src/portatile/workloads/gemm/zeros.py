"""Products with a triangle of zeros, or with a triangle of C that is not wanted: which devices skip it, and in which configuration."""

from __future__ import annotations

from dataclasses import replace

from portatile.records import DeviceInfo, Problem
from portatile.workloads.gemm.forms.cpu.default import panels
from portatile.workloads.gemm.forms.gpu import stream
from portatile.workloads.gemm.forms.gpu.default import alone
from portatile.workloads.gemm.forms.gpu.point import Gpu
from portatile.workloads.gemm.forms.gpu.stream import Stream
from portatile.workloads.gemm.plan import Triangle
from portatile.workloads.gemm.point import Point
from portatile.workloads.gemm.storage import takes_vectors, takes_vectors_along_k


def skips_zeros(device: DeviceInfo) -> bool:
    """Whether one launch skips the blocks of a ``Triangle``: on processors, and on NVIDIA's GPUs."""
    return device.kind == "cpu" or device.nvidia


def point(problem: Problem, device: DeviceInfo, triangle: Triangle) -> Point:
    """The point for such a product. It is the default: stored results are of whole products and say nothing about triangles."""
    return panels(problem, device, triangle.operand != "a") if device.kind == "cpu" else alone(problem, device, triangle.operand)


def shared(problem: Problem, device: DeviceInfo, triangle: Triangle) -> tuple[Point, Stream | None]:
    """The point for a product of which a triangle of C is wanted, and how groups share its tiles where that is estimated to be faster."""
    whole = point(problem, device, triangle)
    if triangle.operand != "c" or not isinstance(whole, Gpu):
        return whole, None
    found = stream.shared(problem, device, triangle.zeros, whole)
    return (whole, None) if found is None else found


def paired(problem: Problem, device: DeviceInfo, fold: float) -> Point | None:
    """The point of one launch that adds a second product, of A and B in each other's place, to a triangle of C, where that is estimated to
    be faster than one product and ``fold`` microseconds; None too where the two lie in ways that are copied differently.
    """
    a, b = problem.layout["a"], problem.layout["b"]
    other = replace(problem, layout={**problem.layout, "a": b, "b": a})
    return stream.paired(problem, device, fold) if _copied(problem) == _copied(other) else None


def _copied(problem: Problem) -> tuple[bool, ...]:
    """How A and B can be copied."""
    return tuple(takes(problem, name) for takes in (takes_vectors, takes_vectors_along_k) for name in "ab")
