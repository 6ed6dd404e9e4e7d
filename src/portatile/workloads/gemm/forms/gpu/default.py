"""The default of the gpu form: chosen by the estimate if its constants are known, otherwise the largest tile that fills the device."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from portatile.records import DeviceInfo, Problem
from portatile.workloads.gemm.capabilities import joins, local_limit, matrix_shapes, matrix_units
from portatile.workloads.gemm.forms import UNKNOWN_LOSS
from portatile.workloads.gemm.forms.gpu import costs, ranking, timings
from portatile.workloads.gemm.forms.gpu.estimate import PLAIN, Structure
from portatile.workloads.gemm.forms.gpu.point import Gpu, matrix, pipeline
from portatile.workloads.gemm.passing import ceil_div
from portatile.workloads.gemm.reals import for_units, in_place, parted, plain, types_of
from portatile.workloads.gemm.storage import k_fast, takes_vectors, takes_vectors_along_k
from portatile.workloads.gemm.waste import waste

_ESTIMATED_LOSS = 1.03  # the loss (default over best time) if an estimate that was fitted to such a device chooses the default
_WORTH_PACKING = 5e8  # multiply-adds from which a packing launch costs less than copying element by element
_TAIL_PAYS = 0.015  # the share of the time that a tail must save, to be worth its second launch
_LONG = 1024  # steps of k from which whole waves of the largest float32 tile are preferred: up to 12 % faster on an H200
_EVEN = 0.95  # a last wave this full counts as full
_LARGE, _MANY = 2.5, 1.2  # waves from which the largest tile is taken, for float32 and for float64
_SHORT = 128  # steps of k up to which storing C takes longer than computing it
_JOINED = 1 << 18  # bytes of a tile's partial sums up to which its last work-group adds them before a second launch would begin
_DEEP = 16  # split k from which C has so few tiles that only k is left to divide
_STREAMED = 3.0  # the cost of copying a tile's operands, times (1 / rows + 1 / columns); multiplying them costs 1
_BANDED = 1024  # tiles from which an operand exceeds the last-level cache, so that neighbouring work-groups should share both
_CACHED = 5e7  # bytes that a GPU's last cache may hold
_BETTER = 0.95  # a smaller tile must cost less than this share of the larger one's cost
_MIRRORED = 256  # without an estimate: the order up to which products of a stack read a symmetric triangle themselves
_EXPANDED = 0.9  # microseconds to expand one megabyte of symmetric matrices, of few ...
_LARGE_EXPANDED = 3.0, 0.55  # ... and of many: microseconds at least, and for each megabyte
_FILLED = 0.6  # the share of its tiles that a problem of a batch must fill; there are work-groups enough, so smaller tiles cost nothing


def point(problem: Problem, device: DeviceInfo, batch: int) -> Gpu | None:
    """The point for an NVIDIA GPU, whose asynchronous copies the text uses; None for other devices, or if the work-group does not fit."""
    if not device.nvidia:
        return None
    found = _nvidia(problem, device, batch)
    fits = found.items <= device.max_work_group_size and found.local_bytes(problem.itemsize) <= local_limit(device)
    return found if fits else None


def alone(problem: Problem, device: DeviceInfo, structure: Structure = PLAIN) -> Gpu:
    """The point for a product in one launch (besides packing) that may skip a triangle, about half of the work."""
    found = None if structure.zeros else _nvidia(problem, device, 1)
    if found is not None and _single(found):
        return found
    if _reals_estimated(problem, device):
        estimated = ranking.fastest(problem, device, local_limit(device), structure, alone=True)
        if estimated is not None:
            return estimated
    found = found or _nvidia(problem, device, 1)
    return found if _single(found) else replace(found, TAIL=0, SPLIT_K=1)


def in_stacks(problem: Problem, device: DeviceInfo, structure: Structure) -> Gpu:
    """The point for a stack of small products in one launch, on NVIDIA's GPUs."""
    if (structure.count == 1 and not structure.mirrored) or not _reals_estimated(problem, device):
        return _nvidia(problem, device, structure.count)
    found = ranking.fastest(problem, device, local_limit(device), structure, alone=True)
    return _nvidia(problem, device, structure.count) if found is None else found


def reads_triangle(problem: Problem, device: DeviceInfo, count: int, operand: str) -> bool:
    """Whether ``count`` products that read the one stored triangle of a symmetric A or B themselves are estimated to be faster than
    products of matrices that a launch expands first.
    """
    order = problem.sizes["k"]
    known = costs.known(device, problem.dtype) if _reals_estimated(problem, device) else None
    if known is None:
        return count > 1 and order <= _MIRRORED
    least = {
        name: ranking.candidates(
            problem, device, local_limit(device), known, structure=Structure(mirrored=name, count=count), alone=True
        ).took.min(initial=math.inf)
        for name in (operand, "")
    }
    megabytes = 1e-6 * count * order * problem.sizes["m" if operand == "a" else "n"] * problem.itemsize
    begun, each = _LARGE_EXPANDED
    expanded = min(_EXPANDED * megabytes, begun + each * megabytes)
    return bool(least[operand] <= least[""] + known.pack + expanded)


def _single(point: Gpu) -> bool:
    """Whether the product needs no second launch."""
    return not point.TAIL and (point.SPLIT_K == 1 or point.JOIN or point.CLUSTER > 1)


def contenders(problem: Problem, device: DeviceInfo, count: int) -> Iterator[Gpu]:
    """Points that the estimate ranks high, of many different kinds."""
    known = costs.known(device, problem.dtype) if _estimated(problem, device) and not for_units(problem) else None
    if known is None:
        return
    points = timings.candidates(problem, device, local_limit(device), known, count)
    yield from points[:1]
    if streamed(problem):
        yield from (replace(one, RASTER=8) for one in points[:1])
    yield from points[1:]


def streamed(problem: Problem) -> bool:
    """Whether the operands are larger than a GPU's last cache, so that the order of tiles (RASTER) decides how often they are read."""
    m, n, k = (problem.sizes[s] for s in "mnk")
    return (m + n) * k * problem.itemsize > _CACHED


def expected(problem: Problem, device: DeviceInfo) -> float | None:
    """The least estimate of all points, in microseconds; None if the estimate's constants do not cover the device's units."""
    known = costs.known(device, problem.dtype) if _reals_estimated(problem, device) else None
    took = None if known is None else ranking.candidates(problem, device, local_limit(device), known).took
    return None if took is None or not len(took) else float(took.min())


def loss(problem: Problem, device: DeviceInfo) -> float:
    """Close to 1 if an estimate that was fitted to timings of such a device chooses the default."""
    return _ESTIMATED_LOSS if _estimated(problem, device) else UNKNOWN_LOSS


def _nvidia(problem: Problem, device: DeviceInfo, batch: int) -> Gpu:
    """The point with the least estimate if there are constants for the device's units. For other devices the largest tile that fills the
    device, or a smaller one that wastes much less; the smallest tile may also split k.
    """
    m, n, k = (problem.sizes[s] for s in "mnk")
    if _reals_estimated(problem, device) and not _whole_waves(problem, device, batch):
        found = ranking.fastest(problem, device, local_limit(device), Structure(count=batch))
        if found is not None:
            return replace(found, RASTER=8) if found.MMA and _banded(problem) else found
    if problem.dtype != "float64":
        ladder = _float32(problem, device)
    elif shapes := matrix_shapes(device):
        ladder = _float64_matrix(problem)
        if "16x8x8" not in shapes:
            ladder = tuple((fill, replace(point, MMA_SHAPE=shapes[0])) for fill, point in ladder)
    else:
        ladder = (1.2, pipeline(2, (16, 16), (4, 2), 8, 3, 4)), (0.0, pipeline(2, (8, 8), (2, 2), 8, 3, 4))
    chosen: Gpu | None = None
    least = math.inf
    blocks = batch * ceil_div(m, 128) * ceil_div(n, 128)
    for fill, point in ladder:
        if blocks > 2 * device.compute_units and point.KG > 1:
            if chosen is not None:
                break  # there are tiles enough: no need to divide the k of a stage
            point = replace(point, KG=1)
        tiles = ceil_div(max(m, 1), point.rows) * ceil_div(max(n, 1), point.columns)
        if batch > 1 and point.MMA and point.KB == 32:  # problems of a batch are short, and addressing each takes further registers
            point = replace(point, KB=16, UNROLL=16, STAGES=4, DOUBLE=1)
        if batch > 1 and fill > 0 and m * n < _FILLED * tiles * point.rows * point.columns:
            continue
        groups = batch * tiles
        shared = fill <= 1 and (m * n * k >= _WORTH_PACKING or 2 * groups < device.compute_units)  # else a second launch costs more
        split = _split(groups, k, device, 1 if point.items >= 256 else 2) if shared else 1
        if split >= _DEEP and batch == 1:
            point = _deep(point)
        if groups * split >= fill * device.compute_units:
            join = (
                split > 1
                and joins(device)
                and not types_of(problem).complex
                and point.rows * point.columns * problem.itemsize * split < _JOINED
            )
            point = _staged(problem, replace(point, SPLIT_K=split, JOIN=join), device, batch)
            cost = _cost(problem, point, device, batch)
            if chosen is None or (cost < _BETTER * least and split == 1):
                chosen, least = point, cost
            if split > 1 or point.KG > 1 or batch > 1 or k <= _SHORT:
                break
    assert chosen is not None  # the last rung of a ladder fits every problem
    return chosen


def _estimated(problem: Problem, device: DeviceInfo) -> bool:
    """Whether the estimate covers the problem and the units that compute it."""
    return plain(problem) and _reals_estimated(problem, device)


def _reals_estimated(problem: Problem, device: DeviceInfo) -> bool:
    """As ``_estimated``, and also for the products of real numbers that compute complex ones."""
    known_types = plain(problem) or types_of(problem).complex
    return device.nvidia and known_types and (problem.dtype == "float32" or matrix_units(device))


def _whole_waves(problem: Problem, device: DeviceInfo, batch: int) -> bool:
    """Whether C consists of whole waves of the largest float32 tile, with long sums. Its fewer copies then decide, which no estimate
    captures.
    """
    m, n, k = (problem.sizes[s] for s in "mnk")
    tiles = batch * ceil_div(m, 256) * ceil_div(n, 128)
    return (
        problem.dtype == "float32"
        and plain(problem)
        and k >= _LONG
        and tiles >= _EVEN * ceil_div(tiles, device.compute_units) * device.compute_units
    )


def _cost(problem: Problem, point: Gpu, device: DeviceInfo, batch: int) -> float:
    """The time over that of a device without any waste: the tile's waste, times the cost of its copies."""
    return waste(problem, point, device, batch) * (1 + _STREAMED * (1 / point.rows + 1 / point.columns))


def _staged(problem: Problem, point: Gpu, device: DeviceInfo, batch: int) -> Gpu:
    """The point with the best staging of each operand: copied in vectors without a change of order if possible, else packed if that pays,
    else transposed on the way to local memory.
    """
    m, n, k = (problem.sizes[s] for s in "mnk")
    along = {name: takes_vectors_along_k(problem, name) for name in "ab"}
    copied = {
        name: parted(problem, name) or takes_vectors(problem, name) or (along[name] and (point.MMA or point.KEEP or point.KG > 1))
        for name in "ab"
    }
    pack_a, pack_b = (
        not (in_place(problem, name) or parted(problem, name))
        or (m * n * k >= _WORTH_PACKING and problem.sizes[other] >= 256 and not copied[name])
        for name, other in (("a", "n"), ("b", "m"))
    )
    if not plain(problem):
        loaded = any(parted(problem, name) and not packed for name, packed in (("a", pack_a), ("b", pack_b)))
        return replace(point, PACK_A=pack_a, PACK_B=pack_b, KEEP=False, TAIL=0, PAD=4 if loaded and not point.MMA else 0)
    turn = point.VL == 4 and not point.KEEP and ((along["a"] and not pack_a) or (along["b"] and not pack_b))
    loose = not point.MMA and any(
        k_fast(problem, name) and not packed and not along[name] for name, packed in (("a", pack_a), ("b", pack_b))
    )
    point = replace(point, PACK_A=pack_a, PACK_B=pack_b, TURN=turn, PAD=4 if loose else 0)
    whole = replace(point, TAIL=0)
    if not point.TAIL or batch > 1 or pack_b or point.cut(problem, device) is None:
        return whole
    left = waste(problem, point, device) / waste(problem, whole, device)
    return point if left < 1 - _TAIL_PAYS else whole


def _float32(problem: Problem, device: DeviceInfo) -> tuple[tuple[float, Gpu], ...]:
    """Tiles from large to small, each with the work-groups per multiprocessor from which it is best; NVRTC and OpenCL's compiler differ."""
    m, n = problem.sizes["m"], problem.sizes["n"]
    small = (
        (1.0, replace(pipeline(4, (8, 8), (2, 2), 32, 2, 4, double=1), KG=2)),
        (0.0, replace(pipeline(4, (8, 8), (1, 1), 16, 3, 4), KG=2)),
    )
    if takes_vectors_along_k(problem, "a") and n < 256 <= m:
        return (0.9, replace(pipeline(4, (16, 8), (2, 2), 32, 2, 8, double=1), KEEP=True)), *small
    if takes_vectors_along_k(problem, "b") and m < 256 <= n:
        return (0.9, replace(pipeline(4, (8, 16), (2, 2), 32, 2, 8, double=1), KEEP=True)), *small
    big = replace(pipeline(4, (16, 16), (4, 2), 16, 3, 4), TAIL=1)
    tiles = ceil_div(max(m, 1), big.rows) * ceil_div(max(n, 1), big.columns)
    waves = tiles / device.compute_units
    large = 0.9 if waves >= _EVEN * ceil_div(tiles, device.compute_units) else _LARGE  # whole waves suffice
    if device.can.language == "OpenCL C":
        return (
            (large, big),
            (3.5, replace(pipeline(4, (8, 16), (4, 2), 16, 3, 8), TAIL=2)),
            (1.2, pipeline(4, (16, 8), (2, 2), 16, 3, 4)),
            *small,
        )
    return (
        (large, big),
        (1.2, replace(pipeline(4, (16, 16), (2, 2), 16, 3, 4), TAIL=2)),
        (1.2, pipeline(4, (16, 8), (2, 2), 16, 3, 4)),
        *small,
    )


def _float64_matrix(problem: Problem) -> tuple[tuple[float, Gpu], ...]:
    """Tiles for matrix instructions; rows and columns change places if that avoids moves between registers."""
    k = problem.sizes["k"]
    written = not k_fast(problem, "a") and k_fast(problem, "b")

    def tile(warps: tuple[int, int], blocks: tuple[int, int], kb: int, stages: int, double: int = 1) -> Gpu:
        return matrix(warps[::-1], blocks[::-1], kb, stages, double, 4) if written else matrix(warps, blocks, kb, stages, double)

    small = (
        (0.95, tile((4, 2), (2, 2), 32, 3, 2)),
        (1.0, tile((2, 2), (2, 2), 16, 4)),
        (1.5, tile((2, 2), (2, 1), 16, 3)),
        (0.0, tile((1, 2), (2, 1), 16, 4, 2)),
    )
    if k <= _SHORT:  # little but writing C: small tiles overlap it
        return (1.0, tile((2, 2), (2, 2), 16, 4)), *small[2:]
    big = replace(tile((4, 2), (2, 4), 16, 4), TAIL=1)
    return (_MANY, replace(big, RASTER=8) if _banded(problem) else big), *small


def _banded(problem: Problem) -> bool:
    """Whether C has so many tiles that neighbouring work-groups had better cover bands of them."""
    return ceil_div(problem.sizes["m"], 128) * ceil_div(problem.sizes["n"], 128) >= _BANDED


def _deep(point: Gpu) -> Gpu:
    """The smallest tile, for sums so long that many work-groups share them: with more steps of k in a stage."""
    if point.MMA:
        return replace(matrix((2, 2), (1, 1), 32, 3), DOUBLE=2, MMA_SHAPE=point.MMA_SHAPE)
    return replace(point, KB=32, UNROLL=32, STAGES=2, KG=4) if point.VL == 4 and point.KG == 2 else point


def _split(groups: int, k: int, device: DeviceInfo, most: int) -> int:
    """The split of k: at most ``most`` work-groups for each multiprocessor, and at least 256 steps of k for each work-group."""
    fitting = [split for split in (2, 4, 8, 16, 32, 64) if groups * split <= most * device.compute_units and 256 * split <= k]
    return max(fitting, default=1)
