"""Where a product by residues is expected to win clearly: its time on paper beside the native product's, and the memory that it takes."""

from __future__ import annotations

from math import ceil

from portatile.dtypes import itemsize
from portatile.records import DeviceInfo, Problem
from portatile.workloads.gemm_residues import plan
from portatile.workloads.gemm_residues.numbers import LONGEST

GAIN = 1.15
"""How many times faster than the native product it must be on paper, so that it runs unasked."""
LEAST_K = 256
"""Steps of k from which it runs unasked: the times on paper are those of long sums."""

# Of an H200 and an H100 (`bench/residues.py --steps`), in multiply-adds of one compute unit in a microsecond, microseconds, and bytes in a
# microsecond on one compute unit.
_NATIVE = {"float64": 0.231e6, "complex128": 0.0549e6, "complex64": 0.0512e6}  # the fastest native product: 61, 58, 54 Tflop/s
_BYTES = 6.2e6  # products of bytes, while a tile is multiplied
_ENDED = 3.4e-5  # to begin and to store a tile, an element of it
_TILE = (128, 256)
_CUT = 1.2e4  # an operand read, its bytes written
_JOINED = 1.5e4  # remainders read, C and marks written
_LAUNCH = 6.0
_LAUNCHES = 4  # beside those that make bytes
_SHARE = 16  # the workspace is at most one part of so many of the device's memory
_WHOLE = 2  # with the operands one of so many


def wins(problem: Problem, device: DeviceInfo) -> bool:
    """Whether the product by residues is expected to be faster than the native one by ``GAIN``, and its workspace is small beside the
    device's memory. Its bound is no larger than the native product's, whatever the operands hold.
    """
    m, n, k = (problem.sizes[s] for s in "mnk")
    if not (device.fp64 and device.can.warp_groups and "int8" in device.can.matrix_types and problem.dtype in _NATIVE):
        return False  # the units of others have not been measured
    if min(m, n) == 0 or k < LEAST_K:
        return False
    return GAIN * residues(problem, device) < native(problem, device) and _fits(problem, device)


def native(problem: Problem, device: DeviceInfo) -> float:
    """Microseconds that the native product takes where it fills the device."""
    m, n, k = (problem.sizes[s] for s in "mnk")
    return _LAUNCH + m * n * k / (_NATIVE[problem.dtype] * max(device.compute_units, 1))


def residues(problem: Problem, device: DeviceInfo) -> float:
    """Microseconds that the product by residues takes in its default configuration where few elements are computed again."""
    count, size = max(device.compute_units, 1), itemsize(problem.dtype)
    planes, (rows, columns) = plan.planes(problem.dtype), plan.shares(problem, reduced=True)
    m, n, k = (problem.sizes[s] for s in "mnk")
    took = 0.0
    for i in range(0, m, rows):
        for h in range(0, k, LONGEST):
            depth = plan.padded(min(k - h, LONGEST))
            took += _cut(min(rows, m - i), depth, planes, size) / count
            for j in range(0, n, columns):
                sizes = min(rows, m - i), min(columns, n - j)
                tiles = ceil(sizes[0] / _TILE[0]) * ceil(sizes[1] / _TILE[1])
                waves = ceil(tiles * planes / count) + ceil(tiles / count) / 2 ** plan.spacing(depth)
                took += waves * _TILE[0] * _TILE[1] * (depth / _BYTES + _ENDED) + _LAUNCH * _LAUNCHES
                took += sizes[0] * sizes[1] * (planes + size + 2) / _JOINED / count
                if columns < n or i == 0:
                    took += _cut(sizes[1], depth, planes, size) / count
    return took


def _cut(lines: int, depth: int, planes: int, size: int) -> float:
    """Microseconds of one compute unit that makes bytes of so many rows or columns."""
    return lines * depth * (size + planes) / _CUT


def workspace(problem: Problem) -> tuple[int, int, int]:
    """Bytes of what is kept of A, of B and of C."""
    (rows, columns), depth = plan.shares(problem, reduced=True), plan.padded(min(problem.sizes["k"], LONGEST))
    planes = plan.planes(problem.dtype)
    line = planes * depth + plan.sampled(depth)
    return rows * line, columns * line, rows * columns * (planes + 2)


def _fits(problem: Problem, device: DeviceInfo) -> bool:
    """Whether workspace and operands leave the device's memory to others."""
    m, n, k = (problem.sizes[s] for s in "mnk")
    parts, operands = workspace(problem), itemsize(problem.dtype) * (m * k + k * n + m * n)
    if max(parts) > device.max_allocation or _SHARE * sum(parts) > device.global_memory:
        return False
    return _WHOLE * (sum(parts) + operands) <= device.global_memory
