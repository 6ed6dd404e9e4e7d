"""What the forms on matrix units share: which element types they multiply, how operands reach them, how C is stored, what tiles cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from portatile.records import Config, DeviceInfo, Layout, Problem, Value
from portatile.workload import packed_layout
from portatile.workloads.gemm import epilogue
from portatile.workloads.gemm.capabilities import JOINED, joins, local_limit
from portatile.workloads.gemm.passing import operand_shapes
from portatile.workloads.gemm.point import Point
from portatile.workloads.gemm.reals import EIGHT_BITS, for_units, moduli, types_of
from portatile.workloads.gemm.storage import k_fast, transposed

KINDS: Mapping[str, str] = {
    "float16": "F16",
    "bfloat16": "BF16",
    "tfloat32": "TF32",
    "int8": "S8",
    "float8_e4m3fn": "E4M3",
    "float8_e5m2": "E5M2",
}
"""Operand types, and the prelude's multiply-add for each."""

LINE = 128
"""Bytes of a row of a tile in local memory, whether the row runs along k or across it."""

PROMOTED = 128
"""Products of 8-bit floats that are summed in the matrix units, which keep 14 bits, before the sum is promoted: one tile's."""

MEANS_PROMOTE = "Steps of k whose sums stay in the matrix units, before they are added to others in registers; 0: all."
MUST_PROMOTE = {"sums of floats of eight bits, and only these, must be promoted": f"PROMOTE == ({PROMOTED} if eight_bits else 0)"}

_CHUNK = 16  # bytes that are copied at a time
_REMAINDERS = 4  # remainders (bytes) that a work-item stores at a time
# The times that rank tiles, in microseconds, fitted to products of random shapes on an H100. _RATES: multiply-adds per microsecond of a
# multiprocessor, by bytes of an element.
_RATES = {1: 6.5e6, 2: 3.6e6, 4: 1.7e6}
_BEGUN = 0.16  # from the start of a tile to its first products
_MET = 0.1  # further time of a cluster's tile: its work-groups wait for each other
_ENDED = 6.0e-5  # to store an element of a tile while no products overlap
_SECOND = 1.3  # a second launch
_PLANE = 1.5e-4, 1.1e-3, 4000  # for each partial sum that a multiprocessor writes and reads; further time for each beyond this many
_LAST = 0.78, 7.0e-5  # before the last work-group of a tile adds; for each element that a group leaves, or the last one adds
# For each row of 128 bytes: to receive it; and for each work-group that reads rows at the same time, by whether rows are unaligned, so that
# some memory sectors are read for two rows.
_RECEIVED = 1.25e-3
_READ = {False: 1.05e-5, True: 1.95e-5}
_SENT = 1.3  # the factor for rows that the work-groups of a cluster send each other
_STREAMED = 3.7e6  # bytes per microsecond of the larger operand, which is read from memory at least once
_SECTOR = 32  # bytes of memory that one transaction reads
_ALIGNED_COPIES = 4.5, 1.8e4  # the launch that aligns rows; bytes per microsecond that a multiprocessor then reads and writes
_CONTIGUOUS_COPIES = 2.6, 2.2e4  # the same for the launch that makes operands contiguous along k
_LEAST = 256  # steps of k of each work-group that shares a tile, at least
_STORED = {"float16": "F16", "bfloat16": "BF16"}  # 16-bit types that sums are rounded to


def kind(problem: Problem, device: DeviceInfo) -> str:
    """The multiply-add for the problem's operands; empty if there is none. Without units for 8-bit floats these are
    converted to float16.
    """
    name = types_of(problem).operand.name
    return KINDS.get(name, "") + ("_AS_F16" if name in EIGHT_BITS and name not in device.can.matrix_types else "")


def promotes(problem: Problem) -> bool:
    """Whether the sums of the problem's products must be promoted (see ``PROMOTED``)."""
    return types_of(problem).operand.name in EIGHT_BITS


def depth(problem: Problem) -> int:
    """Steps of k in a tile of local memory."""
    return LINE // types_of(problem).operand.itemsize


def direct(problem: Problem, name: str, fragments: bool = False) -> bool:
    """Whether A or B is copied to local memory without a change of order. Rows must be aligned to 16 bytes. If k is slow, elements must
    have two bytes, because units multiply these in either order; with ``fragments``, A may also have four, which are loaded to registers
    one by one.
    """
    size = types_of(problem).operand.itemsize
    either = size == 2 or (fragments and name == "a" and size == 4)
    return problem.layout[name].vector_width(size) * size >= _CHUNK and (k_fast(problem, name) or either)


def aligned_pitch(problem: Problem, name: str) -> int:
    """The row stride of a copy of A or B whose rows are aligned to ``LINE`` bytes."""
    size = types_of(problem).operand.itemsize
    return -(-operand_shapes(problem)[name][1] * size // LINE) * LINE // size


def aligned_copies_us(problem: Problem, names: str, device: DeviceInfo) -> float:
    """Microseconds of an H200 for one launch that makes such copies of A, B or both."""
    launch, rate = _ALIGNED_COPIES
    rows = sum(problem.sizes["m" if name == "a" else "n"] for name in names)
    return launch + 2 * problem.sizes["k"] * rows * types_of(problem).operand.itemsize / rate / max(device.compute_units, 1)


def contiguous_copies_us(problem: Problem, names: str, batch: int, device: DeviceInfo) -> float:
    """Microseconds of an H100 for one launch that copies A, B or both to rows along k."""
    if not names:
        return 0.0
    launch, rate = _CONTIGUOUS_COPIES
    rows = batch * sum(problem.sizes["m" if name == "a" else "n"] for name in names)
    return launch + 2 * problem.sizes["k"] * rows * types_of(problem).operand.itemsize / rate / max(device.compute_units, 1)


def pitch(problem: Problem, name: str, fragments: bool = False) -> int:
    """The row stride of the copy contiguous along k that is made of A or B before the product; 0 if ``direct``."""
    return 0 if direct(problem, name, fragments) else -(-problem.sizes["k"] // depth(problem)) * depth(problem)


def along(problem: Problem, name: str, fragments: bool = False) -> bool:
    """Whether the rows of A's or B's tile run along k."""
    return k_fast(problem, name) or not direct(problem, name, fragments)


def facts(
    problem: Problem,
    device: DeviceInfo,
    tile: tuple[int, int],
    bare_sums: bool,
    terms: int = 1,
    fragments: bool = False,
    of_transpose: bool = False,
) -> dict[str, Value]:
    """The values that the texts read, for a problem and a ``tile`` of rows and columns of C.

    ``bare_sums``: the kernel stores partial sums rather than C. ``terms``: the number of matrices whose sum each operand is. ``fragments``:
    A may be loaded to registers element by element (see ``direct``). ``of_transpose``: the problem is the transpose of the one whose C is
    stored.
    """
    m, n, k = (problem.sizes[s] for s in "mnk")
    types = types_of(problem)
    values: dict[str, Value] = {"KIND": kind(problem, device), "itemsize": types.operand.itemsize, "TERMS": terms}
    values |= {f"{name.upper()}_ALONG": along(problem, name, fragments) for name in "ab"}
    values |= {"A_EDGE": m % tile[0] != 0, "B_EDGE": n % tile[1] != 0, "K_EDGE": k % depth(problem) != 0}
    values["C_EDGE"] = m % tile[0] != 0 or n % tile[1] != 0
    m, n = (n, m) if of_transpose else (m, n)
    size = 4 if bare_sums else types.result.itemsize
    layout = packed_layout((m, n)) if bare_sums else problem.layout["c"]
    wide = _REMAINDERS if size == 1 else _CHUNK // size
    values["WIDE"] = wide if n % wide == 0 and layout.vector_width(size) >= wide else 1
    values["LINES"] = layout.vector_width(size) * size >= _CHUNK  # whether each row of C consists of aligned chunks
    values["SHIFTED"] = bool(layout.offset * size % _SECTOR or layout.strides[0] * size % _SECTOR)
    values["OUT"] = "" if bare_sums else _STORED.get(types.result.name, "")
    whole = (types.real == "uint32") != (types.result.real == "uint")  # integers become floats
    halves = 16 if values["WIDE"] == 8 else 4 if layout.vector_width(size) >= 2 else 2  # bytes of 16-bit results that are stored at a time
    values["ENDS"] = not bare_sums and (bool(epilogue.options_of(problem)) or whole or bool(moduli(problem)))
    values["HALVES"] = halves if fragments and values["OUT"] and (n % 2 == 0 or not values["ENDS"]) else 0
    values["ALIGNED"] = " ".join(
        name
        for name in epilogue.VECTORS
        if name != problem.options.get("narrow") and name in problem.layout and _aligned(problem.layout[name])
    )
    return values


def _aligned(vector: Layout) -> bool:
    """Whether every fourth element of a float32 vector is aligned to 16 bytes."""
    return replace(vector, strides=(0, 1)).vector_width(4) >= 4


def space_facts(problem: Problem, device: DeviceInfo) -> dict[str, Value]:
    """Facts for rules, for instance whether sub-groups and warp groups have an instruction for the problem's types."""
    can = device.can
    facts: dict[str, Value] = {"unit": unit(problem, device), "warp_groups": unit(problem, device) and can.warp_groups}
    facts |= {"turns": turns(problem), "tensor_maps": can.tensor_maps, "clusters": can.clusters}
    size = types_of(problem).operand.itemsize
    facts |= {"joins": joins(device), "across": size == 2 and not along(problem, "b")}
    return {**facts, "unaligned": "".join(name for name in "ab" if unaligned(problem, name))}


def turns(problem: Problem) -> bool:
    """Whether to compute the transpose: for elements of four bytes this makes a B with k slow an operand that can be copied ``direct``."""
    size = types_of(problem).operand.itemsize
    slow = k_fast(problem, "a") and not k_fast(problem, "b")
    return size == 4 and slow and problem.layout["b"].vector_width(size) * size >= _CHUNK


def unit(problem: Problem, device: DeviceInfo) -> bool:
    """Whether the device has a matrix instruction for the problem's types."""
    return for_units(problem) and types_of(problem).operand.name in device.can.matrix_types


def note(problem: Problem, config: Config, device: DeviceInfo) -> str:
    """A note for users if the device lacks matrix units for the operands' type; otherwise empty."""
    name = types_of(problem).operand.name
    if not for_units(problem) or name in device.can.matrix_types or config.get("FORM") in ("matrix", "hopper", "vnni"):
        return ""
    instead = (
        "float32 itself is multiplied"
        if name == "tfloat32"
        else f"the {config.get('FORM')} form multiplies it as {_multiplied_in(problem)}"
    )
    return f"{device.name} has no matrix units for {name}: {instead}"


def _multiplied_in(problem: Problem) -> str:
    """The type in which operands are multiplied without matrix units."""
    return {"uint32": "int32"}.get(types_of(problem).real, types_of(problem).real)


def roundings(k: int, parts: int, promote: int = 0) -> int:
    """The roundings of a sum beyond those of its k terms, for ``reference.bound``.

    A matrix unit aligns the 16 products or so of an instruction, and the sum so far, to the largest of them, and truncates what lies below
    its 24 bits: 17 truncations of 2 u for every 16 terms (Fasi, Higham, Mikaitis, Pranesh, 2021), which equals 2.2 k roundings of u.

    For 8-bit floats NVIDIA's units keep 13 bits below the largest of an instruction's 32 products and the sum so far. That is 33
    truncations of 2^-13, or 2^11 u, and one more where the sum leaves the unit, for each of the instructions between two promotions.
    """
    if promote:
        return (34 * min(promote, -(-k // 32) * 32) // 32 << 11) + k // promote + parts + 2
    return k + k // 4 + 34 + parts


@dataclass(frozen=True)
class UnitTile:
    """A candidate: a point, the share of the matrix units' rate that it reaches, and the microseconds (``launch``) before its work-groups
    multiply and after they end.
    """

    point: Point
    rate: float
    launch: float


def fits(point: Point, device: DeviceInfo, beside: int = 0) -> bool:
    """Whether a work-group of the point fits on the device: its work-items, and its local memory with ``beside`` further bytes."""
    return point.items <= device.max_work_group_size and point.local_bytes(4) + beside <= local_limit(device)


def fastest(problem: Problem, device: DeviceInfo, batch: int, tiles: Sequence[UnitTile]) -> tuple[float, Point]:
    """The estimated time of the fastest of ``tiles``, in microseconds of an H100, and its point, with k split where that is faster."""
    sizes = {name: max(problem.sizes[name], 1) for name in "mnk"}
    size, units = types_of(problem).operand.itemsize, max(device.compute_units, 1)
    streamed = batch * max(sizes["m"], sizes["n"]) * sizes["k"] * size / _STREAMED
    ranked: list[tuple[float, float, int, Point]] = []
    for place, tile in enumerate(tiles):
        point = tile.point
        m, n = (sizes[name] for name in ("nm" if point.transposes else "mn"))
        groups = batch * -(-m // (point.rows * point.CLUSTER)) * point.CLUSTER * -(-n // point.columns)
        seen = transposed(problem) if point.transposes else problem
        area, (received, read) = point.rows * point.columns, _copied(seen, point)
        first = tile.launch + contiguous_copies_us(seen, "".join(name for name in "ab" if point.lines(seen, name)), batch, device)
        for split in (1, 2, 4, 8, 16, 32, 64, 128):
            if split > 1 and (sizes["k"] < split * _LEAST or groups * split > units):
                break
            steps = -(-sizes["k"] // split // depth(problem))
            each = max(area * depth(problem) / (tile.rate * _RATES[size]), received, read * min(groups * split, units)) * steps
            each += _BEGUN + (_MET if point.CLUSTER > 1 else 0.0)
            waves, ended = -(-groups * split // units), area * _ENDED
            busy = waves * each + (ended if getattr(point, "ALTERNATE", False) else waves * ended)
            for values, added in _added(point, split, split * m * n * batch / units, device):
                took = first + max(busy, streamed) + added
                ranked.append((took, busy, place, replace(point, SPLIT_K=split, **values)))  # type: ignore[type-var]
    took, *_, best = min(ranked, key=lambda one: one[:3])
    return took, best


def _added(point: Point, split: int, sums: float, device: DeviceInfo) -> Iterator[tuple[dict[str, Value], float]]:
    """The ways to add up the partial sums of ``split`` work-groups (a second launch, or the tile's last work-group), each with its
    microseconds; ``sums``: partial sums for each compute unit.
    """
    each, further, many = _PLANE
    yield {}, _SECOND + sums * each + max(sums - many, 0) * further if split > 1 else 0.0
    area = point.rows * point.columns
    if split > 1 and hasattr(point, "JOIN") and joins(device) and 4 * area * split <= JOINED:
        yield {"JOIN": True}, _LAST[0] + (1 + split) * area * _LAST[1]


def unaligned(problem: Problem, name: str) -> bool:
    """Whether A or B is copied ``direct`` and its rows begin in the middle of a memory sector."""
    size, layout = types_of(problem).operand.itemsize, problem.layout[name]
    return direct(problem, name, fragments=True) and (layout.offset * size % _SECTOR or layout.strides[0] * size % _SECTOR) != 0


def _copied(problem: Problem, point: Point) -> tuple[float, float]:
    """Microseconds for the rows of a tile along k: to receive them, and what reading them takes of the memory's time, which all groups
    share.
    """
    received = read = 0.0
    for name, rows, sharing in (("a", point.rows, 1), ("b", point.columns, point.CLUSTER)):
        received += rows * _RECEIVED * (_SENT if sharing > 1 else 1.0)
        read += rows / sharing * _READ[unaligned(problem, name) and not point.aligned(problem, name)]
    return received, read
