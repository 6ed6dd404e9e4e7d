"""Configurations for a shape: the default, fastest by hand on devices of a kind, and what any configuration wastes on a problem."""

from __future__ import annotations

from dataclasses import replace

from portatile.records import Config, DeviceInfo, Problem
from portatile.workloads.gemm.plan import ceil_div, takes_vectors, takes_vectors_along_k
from portatile.workloads.gemm.point import Point
from portatile.workloads.gemm.presets import MEDIUM, generic, matrix, pipeline, register
from portatile.workloads.gemm.space import local_limit, matrix_units

_LONG = {4: 1800, 8: 1200}  # the size, by bytes of an element, from which a processor's caches want the problem in blocks
_LONG_WIDE = 2500  # the same for processors with AVX-512, whose caches are larger
_WORTH_PACKING = 5e8  # multiply-adds from which a packing kernel costs a GPU less than copies of single elements
_FILLED = 0.5  # the part of a tile that a problem of a batch must fill: there are groups enough, so small tiles cost nothing


def default(problem: Problem, device: DeviceInfo, batch: int = 1) -> Config:
    """Legal and correct for every problem on every device; ``batch`` of them share a launch."""
    if device.kind == "cpu":
        return _cpu(problem, device).config()
    if device.kind == "gpu" and "nvidia" in device.vendor.lower():
        point = _nvidia(problem, device, batch)
        if point.items <= device.max_work_group_size and point.local_bytes(problem.itemsize) <= local_limit(device):
            return point.config()
    return _anything(problem, device).config()


def waste(problem: Problem, config: Config, device: DeviceInfo, batch: int = 1) -> float:
    """How many times the work of m n k the tiles of a configuration do, times how unevenly their groups share the compute units."""
    m, n, k = (max(problem.sizes[s], 1) for s in "mnk")
    point = Point(**config)  # type: ignore[arg-type]
    tiles = ceil_div(m, point.rows) * ceil_div(n, point.columns)
    block = point.KB if point.FORM != "cpu" else 1
    padded = tiles * point.rows * point.columns / (m * n) * (ceil_div(k, block) * block / k)
    groups, units = max(batch, 1) * tiles * point.SPLIT_K, max(device.compute_units, 1)
    return padded * ceil_div(groups, units) * units / groups


def _cpu(problem: Problem, device: DeviceInfo) -> Point:
    """Register tiles for AVX-512 or AVX2, whichever the compiler targets; Intel's does not say and is taken to have the first."""
    single, size = problem.itemsize == 4, min(problem.sizes.values())
    if device.wide_vectors or "intel" in device.platform.lower():
        block, band = (2048 if single else 1024, 43) if size > _LONG_WIDE else (0, 0 if single else 32)
        return replace(register(16 if single else 8, 6, 4, 4, block, band), PACK_A=problem.options["trans_a"] == "T")
    block, band = (1024, 43 if single else 32) if size > _LONG[problem.itemsize] else (0, 0)
    point = register(8, 6, 2, 4, block, band) if single else register(4, 4, 3, 1, block, band)
    return replace(point, PACK_A=block > 0 or problem.options["trans_a"] == "T")


def _anything(problem: Problem, device: DeviceInfo) -> Point:
    if MEDIUM.items > device.max_work_group_size or MEDIUM.local_bytes(problem.itemsize) > device.local_memory:
        return generic(1, (4, 4), (1, 1), (1, 1), 8, False)
    return MEDIUM


def _nvidia(problem: Problem, device: DeviceInfo, batch: int) -> Point:
    """The largest tile that fills the device, the smaller ones also with k split; operands that cannot be copied in vectors
    are packed where that pays.
    """
    m, n, k = (problem.sizes[s] for s in "mnk")
    packing = m * n * k >= _WORTH_PACKING
    pack_a = packing and n >= 256 and not takes_vectors(problem, "a")
    pack_b = packing and m >= 256 and not takes_vectors(problem, "b")
    if problem.dtype == "float32":
        ladder = _float32(device, pack_b)
    elif matrix_units(device):
        ladder = _float64_matrix(device)
    else:
        ladder = (1.2, pipeline(2, (16, 16), (4, 2), 8, 3, 4)), (0.0, pipeline(2, (8, 8), (2, 2), 8, 3, 4))
    for fill, point in ladder:
        tiles = ceil_div(max(m, 1), point.rows) * ceil_div(max(n, 1), point.columns)
        if batch > 1 and point.KB == 32:  # problems of a batch are short, and the place of each takes registers too
            point = replace(point, KB=16, UNROLL=16, STAGES=3)
        if batch > 1 and fill > 0 and m * n < _FILLED * tiles * point.rows * point.columns:
            continue
        groups = batch * tiles
        if batch > 1 and ceil_div(m, 128) * ceil_div(n, 128) * batch > 2 * device.compute_units:
            point = replace(point, KG=1)  # there is enough to do without sharing the k of a group
        split = _split(groups, k, device) if fill <= 1 else 1
        if groups * split >= fill * device.compute_units:
            turn = _turns(problem, pack_a, pack_b) and point.VL == 4 and groups >= device.compute_units / 2
            pad = 4 if turn and point.TRR > 1 else point.PAD
            return replace(point, PACK_A=pack_a, PACK_B=pack_b, SPLIT_K=split, TURN=turn, PAD=pad)
    raise AssertionError("the last rung of a ladder fits every problem")


def _turns(problem: Problem, pack_a: bool, pack_b: bool) -> bool:
    """Whether an operand that is not packed can be transposed by vectors on its way to local memory."""
    return (takes_vectors_along_k(problem, "a") and not pack_a) or (takes_vectors_along_k(problem, "b") and not pack_b)


def _float32(device: DeviceInfo, pack_b: bool) -> tuple[tuple[float, Point], ...]:
    """Tiles, each with the groups per multiprocessor from which it is the best; the two compilers prefer different ones."""
    small = ((1.0, replace(pipeline(4, (8, 8), (2, 2), 32, 2, 4), KG=2)), (0.0, replace(pipeline(4, (8, 8), (1, 1), 16, 3, 4), KG=2)))
    if device.backend == "opencl":
        return (3.5, pipeline(4, (8, 16), (4, 2), 16, 3, 8)), (1.2, pipeline(4, (16, 8), (2, 2), 16, 3, 4)), *small
    big = pipeline(4, (16, 8), (2, 4), 16, 3, 4, double=1) if pack_b else pipeline(4, (16, 16), (4, 2), 16, 2, 4)
    return (2.5, big), (1.2, pipeline(4, (16, 16), (2, 2), 16, 3, 4)), *small


def _float64_matrix(device: DeviceInfo) -> tuple[tuple[float, Point], ...]:
    small = (1.0, matrix((2, 2), (2, 2), 16, 3)), (0.0, matrix((1, 2), (2, 1), 16, 3))
    big = matrix((1, 4), (4, 2), 16, 4) if device.backend == "opencl" else matrix((4, 2), (2, 4), 16, 4)
    return (1.2, big), *small


def _split(groups: int, k: int, device: DeviceInfo) -> int:
    """Groups that share the k of a tile: at most two for each multiprocessor, and at least 256 steps for each group."""
    fitting = [split for split in (2, 4, 8, 16, 64) if groups * split <= 2 * device.compute_units and 256 * split <= k]
    return max(fitting, default=1)
