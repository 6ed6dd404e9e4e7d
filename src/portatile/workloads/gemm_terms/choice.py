"""When a float32 product from terms of 16 bits is expected to be faster: its estimated time, and that of the native product."""

from __future__ import annotations

import math
from dataclasses import replace

from portatile.records import Config, DeviceInfo, Problem
from portatile.workloads.gemm import units
from portatile.workloads.gemm.forms.gpu import default as gpu
from portatile.workloads.gemm_terms import error, points

LEAST_K = 256
"""Steps of k from which terms are used without tuning: the estimates are those of long sums."""

# Rates: multiply-adds or bytes of one compute unit per microsecond; times in microseconds. The native ones are those of an H200. Those of
# terms are a least-squares fit to the logarithms of 48 products of random shapes on an H100, which they meet within 5 %
# (bench/random_shapes.py, seeds 477336 and 618853).
_NATIVE = 0.197e6  # the fastest native product: 52 Tflop/s
_RATES = {"hopper": 1.08e6, "matrix": 0.37e6}  # within a tile
_STREAM = 2.0e4  # both operands are read twice, and their terms written
_LAUNCH = {"native": 6.0, "terms": 14.5}
_LATER = 6.0  # further time through OpenCL, where no launch begins before the previous one has ended
_ENDED, _LOOSE = (
    3.9e-4,
    4.8e-4,
)  # for each element of a tile, to begin and store it; further time for each element of C if its rows are not aligned
_SURELY = 0.94  # the share of the native time that an estimate must be below; smaller gains were seen to be as often losses
_FILLED = 0.85  # the share of the device's rate that the native product reaches


def default(problem: Problem, device: DeviceInfo) -> Config:
    """The fastest tile if it is expected to win, otherwise the native product."""
    took, config = _best(problem, device)
    return config if took < math.inf and took < _SURELY * native(problem, device) else points.config(points.NATIVE)


def wins(problem: Problem, device: DeviceInfo) -> bool:
    """Whether the terms' product is expected to be faster than the native one, and its bound is no larger."""
    return default(problem, device)["FORM"] != points.NATIVE


def reason(problem: Problem, device: DeviceInfo) -> str:
    """The reason why the native product runs in place of an emulated one."""
    if "float16" not in device.can.matrix_types:
        return "the device has no matrix units for float16: the native product runs"
    if not any(error.within_native_bound(problem, point.CHUNK, 1) for point in points.TILES.values()):
        return f"sums of {problem.sizes['k']} terms are more accurate natively: the native product runs"
    if problem.sizes["k"] < LEAST_K:
        return f"of sums of fewer than {LEAST_K} terms `portatile tune` finds out what is faster: until then the native product runs"
    return "the native product is faster here, as expected or measured: the native product runs"


def least(problem: Problem, device: DeviceInfo) -> float:
    """The estimated microseconds of the product that ``default`` chooses."""
    return min(_best(problem, device)[0], native(problem, device))


def native(problem: Problem, device: DeviceInfo) -> float:
    """The expected microseconds of the native product."""
    expected = gpu.expected(problem, device) if min(problem.sizes.values()) > 0 else None
    return native_us(problem.sizes["m"] * problem.sizes["n"] * problem.sizes["k"], device) if expected is None else expected


def native_us(multiply_adds: float, device: DeviceInfo) -> float:
    """The expected microseconds of ``multiply_adds`` in one native product that nearly fills the device."""
    return _LAUNCH["native"] + multiply_adds / (_FILLED * _NATIVE * device.compute_units)


def _fast(device: DeviceInfo) -> bool:
    """Whether matrix units multiply float16 at some ten times the plain rate of float32, as on GPUs with float64 matrix units. On others
    they reach only twice that rate with sums in float32, and three products are slower than the native one.
    """
    return "float16" in device.can.matrix_types and bool(device.can.matrix_shapes)


def _best(problem: Problem, device: DeviceInfo) -> tuple[float, Config]:
    """(microseconds, configuration) of the fastest tile; infinite if none is as accurate as the native product."""
    m, n, k = (max(problem.sizes[s], 1) for s in "mnk")
    best: tuple[float, Config] = (math.inf, points.config(points.NATIVE))
    if k < LEAST_K or min(problem.sizes.values()) == 0 or not _fast(device):
        return best
    count = max(device.compute_units, 1)
    launched = _LAUNCH["terms"] + (_LATER if device.can.language == "OpenCL C" else 0.0)
    beside_us = launched + (m + n) * k * 12 / _STREAM / count + (m * n * _LOOSE / count if n % 4 else 0.0)
    for (form, tile), point in points.TILES.items():
        stages = next((number for number in (point.STAGES, 2) if units.fits(replace(point, STAGES=number), device)), 0)
        if not stages or (form == "hopper" and not device.can.warp_groups) or not error.within_native_bound(problem, point.CHUNK, 1):
            continue
        narrow = 0.8 if point.rows * point.columns < 128 * 128 else 1.0
        tiles = -(-m // point.rows) * -(-n // point.columns)
        for split in (1, 2, 4, 8):
            if split > 1 and (k < points.LEAST * split or tiles * split > count):
                break
            waves = math.ceil(tiles * split / count)
            took = beside_us + waves * point.rows * point.columns * (k / split / (narrow * _RATES[form]) + _ENDED)
            took += 3.0 + 2.6e-4 * split * m * n / count if split > 1 else 0.0
            if took < best[0]:
                best = took, points.config(form, tile, stages=stages, split=split)
    return best
