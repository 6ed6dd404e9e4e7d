"""The legal configurations of a GEMM: one space, in which a parameter that a form does not use has one value."""

from __future__ import annotations

from collections.abc import Mapping

from portatile.records import DeviceInfo, Problem, Value
from portatile.space import ParameterSpace
from portatile.workloads.gemm.images import image_limits, view_pixels
from portatile.workloads.gemm.plan import ceil_div, operand_shapes
from portatile.workloads.gemm.point import MMA_SHAPES, OPERANDS
from portatile.workloads.gemm.storage import takes_vectors, takes_vectors_along_k


def build(problem: Problem, device: DeviceInfo, batch: int | None = None) -> ParameterSpace:
    """The space for a problem on a device, or for a ``batch`` of so many of them, which takes no images.

    Facts beside those of problem and device: ``tiles``, how many tiles of 128 x 128 there are; ``plain_a``, ``plain_b``, whether gpu.cl
    copies the operand in vectors as it lies, so that packing cannot help; ``turnable_a``, ``turnable_b``, whether TURN
    applies to it; ``matrix_units``, ``small_units`` for float64: of 16 x 8, of 8 x 8; ``nvidia``; ``joins``, ``local_limit``, see there.
    """
    tiles = ceil_div(problem.sizes["m"], 128) * ceil_div(problem.sizes["n"], 128) * (1 if batch is None else batch)
    facts: dict[str, Value] = {
        **problem.facts(),
        **device.facts(),
        "tiles": tiles,
        "plain_a": takes_vectors(problem, "a"),
        "plain_b": takes_vectors(problem, "b"),
        "turnable_a": takes_vectors_along_k(problem, "a"),
        "turnable_b": takes_vectors_along_k(problem, "b"),
        "matrix_units": matrix_units(device),
        "small_units": "8x8x4" in matrix_shapes(device),
        "nvidia": device.nvidia,
        "joins": joins(device),
        "local_limit": local_limit(device),
        "image_width": image_limits(device)[0],
        "image_height": image_limits(device)[1],
        **{f"shown_{name}": _shown(problem, name, device) for name in "ab"},
    }
    if batch is None:
        return ParameterSpace(_PARAMETERS, _CONSTRAINTS, facts, LATER)
    parameters = {name: values for name, values in _PARAMETERS.items() if name not in UNBATCHED}
    return ParameterSpace(parameters, (*_CONSTRAINTS, *_BATCH), {**facts, **UNBATCHED, "batch": batch}, LATER)


UNBATCHED: Mapping[str, Value] = {"TXC": False, "TXC_OF": "AB", "VIEW_A": False, "VIEW_B": False, "TAIL": 0}
"""What a batch does without: images hold one problem, and it has groups enough."""

_STAGING: Mapping[str, Value] = {"SM_OF": "AB", "TXC_OF": "AB", "VIEW_A": False, "VIEW_B": False}
LATER: Mapping[str, Value] = {"MMA_SHAPE": "16x8x8", "LDG": False, "SHUFFLE": False, "JOIN": False, **_STAGING}
"""What configurations mean that were recorded before these parameters were there, as results that come with the package were."""


def _shown(problem: Problem, name: str, device: DeviceInfo) -> bool:
    """Whether the device has an image that shows A or B where it lies, whatever its pixels are."""
    extent = problem.layout[name].extent(operand_shapes(problem)[name])
    return device.images and view_pixels(problem, extent, device) <= device.image_buffer_max


def matrix_units(device: DeviceInfo) -> bool:
    """Whether the device multiplies 16 x 8 x 8 blocks of float64 in one instruction: NVIDIA from compute capability 9.0 to 10.0."""
    return "16x8x8" in matrix_shapes(device)


def matrix_shapes(device: DeviceInfo) -> tuple[str, ...]:
    """The shapes of the matrix instructions of float64 that are faster than plain ones: compute capability 8.0 has one of them."""
    return device.can.matrix_shapes


JOINED = 1 << 19
"""Bytes of a tile's sums from which one group adds them more slowly than a second launch on every device seen."""


def joins(device: DeviceInfo) -> bool:
    """Whether the last of some groups can tell that it is, and read what the others wrote: see join.cl."""
    return device.can.ordered_groups


def local_limit(device: DeviceInfo) -> int:
    """Bytes of local memory that a group may take, declared in the text or asked for by the launch."""
    return max(device.local_memory, device.static_local)


# Parameters in the order in which a configuration is built up: what decides most comes first, and a constraint is checked as soon as
# the last name it reads is bound. So a switch that ties sizes together comes before them or soon after: then legal configurations can be
# counted in few states, and random ones seldom end where nothing is legal. What is bound first stands first in a constraint.
_PARAMETERS: dict[str, tuple[Value, ...]] = {
    "FORM": ("generic", "cpu", "gpu", "thin"),
    "MMA": (False, True),
    "MMA_SHAPE": MMA_SHAPES,
    "LDG": (False, True),
    "SHUFFLE": (False, True),
    "TXC": (False, True),
    "TXC_OF": OPERANDS,
    "VIEW_A": (False, True),
    "VIEW_B": (False, True),
    "SM": (False, True),
    "SM_OF": OPERANDS,
    "SCALARS": (False, True),
    "JOIN": (False, True),
    "VL": (1, 2, 4, 8, 16),
    "TR": (1, 2, 3, 4, 5, 6, 8, 10, 12),
    "TC": (1, 2, 4, 8, 10, 12, 16, 24, 32, 48, 64),
    "TRR": (1, 2, 3, 4),
    "TCR": (1, 2, 3, 4),
    "TBR": (1, 2, 4, 8, 16, 32, 64),
    "TBC": (1, 4, 8, 16, 32),
    "LANES": (0, 2, 4, 8, 16),
    "TURN": (False, True),
    "KEEP": (False, True),
    "KB": (0, 1, 6, 8, 10, 16, 32, 64, 128, 256, 512, 1024, 2048),
    "UNROLL": (1, 2, 4, 6, 8, 10, 16, 32),
    "KG": (1, 2, 4, 8, 16, 32, 64, 128, 256),
    "PAD": (0, 1, 4),
    "STAGES": (1, 2, 3, 4),
    "DOUBLE": (0, 1, 2),
    "TAIL": (0, 1, 2),
    "PACK_A": (False, True),
    "PACK_B": (False, True),
    "SPLIT_K": (1, 2, 4, 8, 16, 32, 64),
    "RASTER": (0, 1, 8, 32, 43),
    "MAD": ("fma", "mad", "a*b+c"),
}

# Operands that are staged apart, shown or packed: not in every combination with what is blocked or spelled otherwise.
_ALIKE = "(TXC_OF == 'AB' and not VIEW_A and not VIEW_B and SM_OF == 'AB')"
# Parts stand in the order of the parameters: an expression is told as far as it is bound.
_SQUARE = "SCALARS and VL * itemsize == 16 and TR <= 8 and TR % VL == 0 and TC <= 8 and TRR == 1 and TCR == 1 and KB in (8, 16)"
_BARE = "not LDG and not SHUFFLE and MAD == 'a*b+c' and UNROLL == KB and PAD == 0 and SPLIT_K == 1"

_GENERIC = (
    "VL <= 8",
    "TR in (1, 2, 4, 8, 10)",
    "TC in (1, 2, 4, 8, 10) and TC % VL == 0",
    "TRR == 1 or TRR * TR <= 8",
    "TCR == 1 or TCR * TC <= 8",
    "4 <= TR * TRR * TC * TCR <= 72 or TR == TC == 10",
    "(TR == 10) == (TC == 10)",
    "(TR == 10) == (KB == 10)",
    "TR != 10 or (VL == 2 and SM and not TXC)",
    *(f"TR != 10 or {rule}" for rule in ("TRR == 1", "TCR == 1", "TBR == 16", "TBC == 16", "PAD == 0", "SPLIT_K == 1")),
    "TBR in (8, 16, 32)",
    "TBC >= 8 and 64 <= TBR * TBC <= min(256, max_work_group_size)",
    "device_kind != 'cpu' or m * n * k <= 1 << 22",  # ten times slower than registers on a processor: legal where quickly tried
    "LANES == 0",
    "KB in (6, 8, 10, 16)",
    "not SM or KB * (TBR * TR * TRR + TBC * TC * TCR) * itemsize <= local_memory",
    "UNROLL in (1, KB)",
    "KG == 1",
    "TAIL == 0",
    "PAD == 0 or (SM and PAD % VL == 0 and KB * (TBR * TR * TRR + TBC * TC * TCR + 2 * PAD) * itemsize <= local_memory)",
    "STAGES == 1",
    "DOUBLE == 0",
    "not PACK_A or not TXC or TXC_OF == 'B'",
    "not PACK_B or not TXC or TXC_OF == 'A'",
    "not TURN",
    "not KEEP",
    "RASTER == 1",
    f"{_ALIKE} or ({_SQUARE})",
    f"{_ALIKE} or ({_BARE})",
    f"device_kind != 'cpu' or ({_ALIKE} and not (PACK_A or PACK_B)) or TBR * TBC == 64",
    f"not (PACK_A or PACK_B) or ({_SQUARE})",
    f"not (PACK_A or PACK_B) or ({_BARE})",
    "not TXC or images",
    "not TXC or VIEW_A or TXC_OF == 'B' or (k <= image_width and m * itemsize // 16 < image_height)",
    "not TXC or VIEW_B or TXC_OF == 'A' or (k <= image_width and n * itemsize // 16 < image_height)",
    "not VIEW_A or shown_a",
    "not VIEW_B or shown_b",
    "not TXC or SM or (VL * itemsize == 16 and TR * itemsize % 16 == 0)",
    "not TXC or TBR * TR * TRR * itemsize % 16 == TBC * TC * TCR * itemsize % 16 == 0",
    "not TXC or SPLIT_K == 1",
    "not TXC or SCALARS",
    "device_kind != 'cpu' or SCALARS",
    "device_kind != 'cpu' or UNROLL == KB",
    "device_kind != 'cpu' or PAD == 0",
    "MAD == 'a*b+c' or (device_kind != 'cpu' and SCALARS and UNROLL == KB and PAD == 0 and SPLIT_K == 1)",
    "not LDG or (nvidia and not TXC and SCALARS and UNROLL == KB and PAD == 0 and MAD == 'a*b+c')",
    "not SHUFFLE or (nvidia and SM and SCALARS and UNROLL == KB and PAD == 0 and MAD == 'a*b+c')",
    "not SHUFFLE or TR * TRR <= TBC",
)

_CPU = (
    "not SM or (device_kind == 'cpu' and not KEEP and not PACK_B and SPLIT_K == 1)",
    "not SM or (KB in (64, 128, 256, 512) and KB * TC * itemsize <= local_memory)",
    "not TURN or (device_kind == 'cpu' and not KEEP and m > 1)",
    "not TXC",
    "SCALARS",
    "KEEP or (TC % VL == 0 and TC // VL in (1, 2, 3, 4) and 4 <= TR * TC // VL <= 30)",
    "TR != 10 and (TR > 1 or (n if TURN else m) == 1 or KEEP)",
    "TRR == 1",
    "TCR == 1",
    "TBR == 1",
    "TBC == 1",
    "LANES == 0",
    "KB in (0, 64, 128, 256, 512, 1024, 2048) and (KB == 0 or KB < k or SM)",
    "KB not in (64, 128) or not PACK_B",  # steps so short are for rows of B that lie far apart
    "UNROLL in (1, 2, 4)",
    "KG == 1",
    "PAD == 0",
    "TAIL == 0",
    "STAGES == 1",
    "DOUBLE == 0",
    "KEEP or PACK_B or SM or (trans_a == 'T' and m >= TC if TURN else trans_b == 'N' and n >= TC)",
    "not KEEP or (device_kind == 'cpu' and trans_a == 'N' and not PACK_A and min(m, n) <= 64)",
    "not KEEP or (VL >= 4 and TC <= 8 and 4 <= TR * TC <= 16)",
    "not KEEP or PACK_B == (trans_b == 'N')",
    "not KEEP or not PACK_B or TC == 1",
    "not KEEP or (KB == 0 and RASTER == 0 and MAD == 'a*b+c')",
    "SPLIT_K == 1 or KB == 0",
    "RASTER in (0, 32, 43) or (SM and RASTER == 8)",
    "MAD != 'mad'",
    "MAD == 'a*b+c' or VL * itemsize <= 32",  # compilers have died of fma() of 512 bits
    "device_kind == 'cpu' or VL <= 4",
    "device_kind == 'cpu' or TR * TC <= 64",
    "device_kind == 'cpu' or UNROLL == 4",
    "device_kind == 'cpu' or MAD == 'a*b+c'",
)

_UNIT = "(8 if MMA else VL if KEEP else 1)"  # steps of k that the gpu form takes at a time
# Where spelling, unrolling and instructions that seldom matter are tried: not in every combination.
_PLAIN = ("KG == 1", "PAD == 0", "STAGES >= 3", "TAIL == 0", "not TURN", "not KEEP", "SPLIT_K == 1")

_TILES = "((m + TBR * TR * TRR - 1) // (TBR * TR * TRR) * ((n + TBC * TC * TCR - 1) // (TBC * TC * TCR)))"

_GPU = (
    "SM",
    "not TXC",
    "not SCALARS",
    "VL > 1 and VL * itemsize in (8, 16)",
    "TR == VL or (MMA and TR == 2 * VL)",
    "TC == VL or (MMA and TC == 2 * VL)",
    "64 <= TR * TRR * TC * TCR * itemsize <= (512 if itemsize == 4 or MMA else 256)",
    "TBR >= 8 or (MMA and TBR == 4)",
    "TBC >= 8 or (MMA and TBC == 4)",
    "LANES > 0 and TBC % LANES == 0 and TBR % (32 // LANES) == 0",
    "KB in (8, 16, 32)",
    f"UNROLL == KB or (KB >= 16 and UNROLL in (KB // 4, KB // 2) and UNROLL < KB // KG and UNROLL % {_UNIT} == 0)",
    f"UNROLL == KB or DOUBLE == 0 or UNROLL // {_UNIT} % 2 == 0",
    "UNROLL == KB or (device_kind != 'cpu' and MMA_SHAPE == '16x8x8')",
    *(f"UNROLL == KB or {rule}" for rule in (*_PLAIN, "STAGES == 3", "RASTER == 1", "MAD == 'a*b+c'")),
    "TBR * TBC * KG <= min(512, max_work_group_size)",
    "KG == 1 or tiles <= 2 * compute_units",
    "KG == 1 or TBR * TR * TRR * TBC * TC * TCR * itemsize <= local_limit",
    "PAD == 0 or (PAD == 4 and not MMA and not KEEP)",
    "PAD == 0 or (trans_a == 'N' and not PACK_A and not (TURN and turnable_a))"
    " or (trans_b == 'T' and not PACK_B and not (TURN and turnable_b))",  # only tiles that are transposed by elements are padded
    "STAGES * KB * (TBR * TR * TRR + TBC * TC * TCR + 2 * PAD) * itemsize <= local_limit",
    f"KB // KG % {_UNIT} == 0",
    f"DOUBLE == 0 or (STAGES > 1 and KB // KG // {_UNIT} % 2 == 0)",
    "not PACK_A or not (plain_a or (MMA and turnable_a))",
    "not PACK_B or not (plain_b or (MMA and turnable_b))",
    "not TURN or (not MMA and ((turnable_a and not PACK_A) or (turnable_b and not PACK_B)))",
    "not KEEP or (not MMA and not TURN and ((trans_a == 'N' and not PACK_A) or (trans_b == 'T' and not PACK_B)))",
    "not KEEP or TR * TRR * TC * TCR * itemsize <= 256",  # vectors along k take more registers
    "RASTER == 1 or (RASTER == 8 and tiles >= 64)",
    "TAIL == 0 or (SPLIT_K == 1 and KG == 1 and not PACK_B and m > TBR * TR * TRR and k >= 256)",
    f"TAIL == 0 or {_TILES} > TAIL * compute_units",
    f"TAIL == 0 or {_TILES} % (TAIL * compute_units) <= TAIL * compute_units // 2",  # a last wave that is nearly full is well used
    "(device_kind != 'cpu' and not MMA and DOUBLE > 0) or MAD == 'a*b+c'",
    *(f"{rule} or MAD == 'a*b+c'" for rule in (*_PLAIN, "STAGES == 3", "RASTER == 1")),
    *(f"MMA_SHAPE == '16x8x8' or not matrix_units or {rule}" for rule in _PLAIN),
    "MMA_SHAPE != '16x8x16' or (KB // KG % 16 == 0 and (DOUBLE == 0 or KB // KG // 16 % 2 == 0))",
    "MMA_SHAPE != '16x8x16' or DOUBLE == 0 or TR * TRR * TC * TCR <= 32",  # a step's operands take twice the registers
    "not MMA or (TR == 2 and TC == 4 and LANES == 4) or (TR == 4 and TC == 2 and LANES == 8)",
    "not MMA or KB % 16 == 0",
    "device_kind != 'cpu' or m * n * k <= 1 << 22",
    "device_kind != 'cpu' or TR * TRR * TC * TCR <= 32",
    "device_kind != 'cpu' or KB == 8",
    "device_kind != 'cpu' or LANES == 4",
    "device_kind != 'cpu' or KG == 1",
    "device_kind != 'cpu' or PAD == 0",
    "device_kind != 'cpu' or STAGES == 2",
    "device_kind != 'cpu' or DOUBLE == 0",
    "device_kind != 'cpu' or RASTER == 1",
    "KG <= 4",
    "TBR in (4, 8, 16, 32)",
)

_ALONG = "(trans_b == 'T' if TURN else trans_a == 'N')"  # the large operand has k fast

_THIN = (
    "device_kind != 'cpu' and (m if TURN else n) <= 16",
    "TURN == (m < n)",
    "not TXC",
    "SCALARS",
    "VL * itemsize <= 16",
    "TR in (1, 2, 4, 8)",
    "TC in (1, 2, 4, 8) and (TC == 1 or TC < 2 * (m if TURN else n))",
    f"TR % VL == 0 or {_ALONG}",
    "TRR == TCR == TBC == 1",
    "TR * TC * itemsize <= 256",
    "LANES == 0",
    "UNROLL in (1, 2, 4, 8, 16)",
    f"TR * UNROLL * (VL if {_ALONG} else 1) * itemsize <= 256",
    "64 <= TBR * KG <= min(1024, max_work_group_size)",
    "KB == 1 or (SM and KB >= 64 and KB % (KG * UNROLL * VL) == 0)",
    "not SM or (KB > 1 and TC * (KB * itemsize + 16) <= min(local_memory, 49152))",
    "STAGES == 1 or (TC * (KB * itemsize + 16) if SM else 0) + STAGES * TBR * KG * TR * UNROLL"
    f" * (VL if {_ALONG} else 1) * itemsize <= min(local_limit, 131072)",
    "PAD == 0",
    "STAGES in (1, 2, 3, 4)",
    "DOUBLE == 0",
    "TAIL == 0",
    "not PACK_A",
    "not PACK_B",
    "not KEEP",
    "not MMA",
    "RASTER == 1",
    "MAD == 'a*b+c'",
)

_BATCH = ("FORM == 'cpu' or device_kind != 'cpu' or m * n * k * batch <= 1 << 22",)

_CONSTRAINTS = (
    "not MMA or (FORM == 'gpu' and itemsize == 8 and (matrix_units or (small_units and MMA_SHAPE == '8x8x4')))",
    "MMA_SHAPE == '16x8x8' or (MMA and (MMA_SHAPE != '8x8x4' or small_units))",
    "SM_OF == 'AB' or (FORM == 'generic' and SM)",
    "TXC_OF == 'AB' or (FORM == 'generic' and TXC)",
    "not VIEW_A or (TXC and TXC_OF != 'B')",
    "not VIEW_B or (TXC and TXC_OF != 'A')",
    "FORM == 'generic' or not LDG",
    "FORM == 'generic' or not SHUFFLE",
    "not JOIN or (joins and FORM in ('gpu', 'thin') and (SPLIT_K > 1 or TAIL > 0))",
    f"not JOIN or TBR * TR * TRR * TBC * TC * TCR * SPLIT_K * itemsize <= {JOINED}",
    "SPLIT_K == 1 or (SPLIT_K * 64 <= k and tiles * SPLIT_K <= 4 * compute_units)",
    *(f"FORM != 'generic' or ({rule})" for rule in _GENERIC),
    *(f"FORM != 'cpu' or ({rule})" for rule in _CPU),
    *(f"FORM != 'gpu' or ({rule})" for rule in _GPU),
    *(f"FORM != 'thin' or ({rule})" for rule in _THIN),
)
