"""Where a product by residues is expected to be clearly faster: estimates of its time, of the native product's, and of its memory."""

from __future__ import annotations

from math import ceil

from portatile.dtypes import itemsize
from portatile.records import DeviceInfo, Problem
from portatile.workloads.gemm.reals import TRANSPOSED
from portatile.workloads.gemm_residues import costs, plan
from portatile.workloads.gemm_residues.numbers import LONGEST

GAIN = 1.15
"""How many times faster than the native product the estimate must be before it runs unasked."""
LEAST_K = 256
"""Steps of k from which it runs unasked: the estimate is fitted to long sums."""

_TILE = (128, 256)  # of the products of bytes
_SHARE = 16  # the workspace takes at most 1 / _SHARE of the device's memory
_WHOLE = 2  # workspace and operands together at most 1 / _WHOLE


def wins(problem: Problem, device: DeviceInfo) -> bool:
    """Whether the product by residues is expected to be ``GAIN`` times as fast as the native one, and its workspace takes a small part of
    the device's memory. Its error bound is no larger than the native product's for any operands.
    """
    m, n, k = (problem.sizes[s] for s in "mnk")
    m, n, k = (problem.sizes[s] for s in "mnk")
    if not comparable(problem, device) or min(m, n) == 0 or k < LEAST_K:
        return False
    units = device.compute_units
    return GAIN * residues(problem, units) < native(problem, units) and _fits(problem, device)


def comparable(problem: Problem, device: DeviceInfo) -> bool:
    """Whether the constants hold for the device and dtype: they were measured on devices with warp groups."""
    return device.fp64 and device.can.warp_groups and "int8" in device.can.matrix_types and problem.dtype in costs.known().native


def native(problem: Problem, units: int) -> float:
    """Microseconds of the native product on ``units`` compute units, all of them busy."""
    m, n, k = (problem.sizes[s] for s in "mnk")
    known = costs.known()
    return known.launch + m * n * k / (known.native[problem.dtype] * max(units, 1))


def residues(problem: Problem, units: int) -> float:
    """Microseconds of the product by residues on ``units`` compute units by default, if few elements are computed again."""
    count, known = max(units, 1), costs.known()
    rows, columns = plan.shares(problem, reduced=True)
    m, n, k = (problem.sizes[s] for s in "mnk")
    took = 0.0
    for i in range(0, m, rows):
        for h in range(0, k, LONGEST):
            depth = plan.padded(min(k - h, LONGEST))
            took += known.launch + cut_bytes(min(rows, m - i), depth, problem.dtype) / _cut(problem, "a") / count
            for j in range(0, n, columns):
                sizes = min(rows, m - i), min(columns, n - j)
                took += products(sizes, depth, problem.dtype, count) + 4 * known.launch
                took += (sizes[0] * sizes[1] / known.leading + join_bytes(sizes, problem.dtype) / known.joined[problem.dtype]) / count
                if columns < n or i == 0:
                    took += known.launch + cut_bytes(sizes[1], depth, problem.dtype) / _cut(problem, "b") / count
    return took


def products(sizes: tuple[int, int], depth: int, dtype: str, count: int) -> float:
    """Microseconds on ``count`` compute units of the products of bytes for ``sizes`` rows and columns of C and ``depth`` bytes along k."""
    each = _TILE[0] * _TILE[1] * (depth / costs.known().products + costs.known().ended)
    return waves(sizes, dtype, count) * each


def waves(sizes: tuple[int, int], dtype: str, count: int) -> int:
    """Tiles of products of bytes that each of ``count`` compute units computes one after the other."""
    return ceil(ceil(sizes[0] / _TILE[0]) * ceil(sizes[1] / _TILE[1]) * plan.planes(dtype) / count)


def cut_bytes(lines: int, depth: int, dtype: str) -> int:
    """Bytes read and written while ``lines`` rows or columns of ``depth`` steps are converted to bytes."""
    return lines * depth * (itemsize(dtype) + plan.planes(dtype))


def join_bytes(sizes: tuple[int, int], dtype: str) -> int:
    """Bytes read and written while the sums of ``sizes`` rows and columns are reconstructed: remainders, C and marks."""
    return sizes[0] * sizes[1] * (plan.planes(dtype) + itemsize(dtype) + 2)


def _cut(problem: Problem, name: str) -> float:
    """The rate in bytes per microsecond at which a compute unit converts A or B to bytes."""
    along = TRANSPOSED[str(problem.options[f"trans_{name}"])] == ("N" if name == "a" else "T")
    return (costs.known().cut if along else costs.known().cut_across)[problem.dtype]


def expected(problem: Problem, device: DeviceInfo) -> str:
    """The expected time beside the native product's, as a sentence for users; empty where it is not known."""
    if not comparable(problem, device) or 0 in problem.sizes.values():
        return ""
    share = residues(problem, device.compute_units) / native(problem, device.compute_units)
    if share < 1:
        return f"expected to take {share:.2g} of the native product's time"
    return f"expected to take {share:.1f} times the native product's time: precision='native' is faster here"


def workspace(problem: Problem) -> tuple[int, int, int]:
    """Bytes of workspace for A, for B and for C."""
    (rows, columns), depth = plan.shares(problem, reduced=True), plan.padded(min(problem.sizes["k"], LONGEST))
    planes = plan.planes(problem.dtype)
    line = planes * depth + plan.sampled(depth)
    return rows * line, columns * line, rows * columns * (planes + 2)


def _fits(problem: Problem, device: DeviceInfo) -> bool:
    """Whether workspace and operands stay within the shares ``_SHARE`` and ``_WHOLE`` of the device's memory."""
    m, n, k = (problem.sizes[s] for s in "mnk")
    parts, operands = workspace(problem), itemsize(problem.dtype) * (m * k + k * n + m * n)
    if max(parts) > device.max_allocation or _SHARE * sum(parts) > device.global_memory:
        return False
    return _WHOLE * (sum(parts) + operands) <= device.global_memory
