"""The parameters of the gpu form: what each means, its values and its rules; and the geometry that follows from them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from portatile.device.target import EARLY_START
from portatile.records import DeviceInfo, Problem, Value
from portatile.workload import packed_layout
from portatile.workloads.gemm.capabilities import JOINED, MMA_SHAPES, clusters, joins, matrix_shapes
from portatile.workloads.gemm.forms.gpu import sources, tail, triangle
from portatile.workloads.gemm.parameters import SHARES_K, parameter
from portatile.workloads.gemm.point import BlockedTile, TailCut

MIRRORED_PAD = 4  # padding of a tile's rows, in elements, if a triangle is read element by element without matrix units
SHORT = 1024  # steps of k of a work-group up to which it pays to skip those steps of the last stage that lie past the end of k
_UNIT = "((16 if MMA_SHAPE == '16x8x16' else 8) if MMA else VL if KEEP else 1)"  # steps of k that are loaded to registers together
_TILES = "((m + TBR * TR * TRR - 1) // (TBR * TR * TRR) * ((n + TBC * TC * TCR - 1) // (TBC * TC * TCR)))"
_ITEMS, _OTHER = (4, 8, 12, 16, 24, 32), "{0} in (8, 16, 32) or (device_kind != 'cpu' and (MMA or ({0} < 24 and {1})))"
# Spelling, unrolling and instructions that seldom matter are tried only beside these values, not in every combination.
_PLAIN = ("KG == 1", "PAD == 0", "STAGES >= 3", "TAIL == 0", "not TURN", "not KEEP", "SPLIT_K == 1")


@dataclass(frozen=True)
class Gpu(BlockedTile):
    """A work-group of KG parts, each of TBR x TBC work-items, computes TRR x TCR blocks of C; a work-item has TR x TC elements of each
    block.
    """

    FORM: ClassVar[str] = "gpu"
    OPTIONS: ClassVar[tuple[str, ...]] = (EARLY_START,)
    FILE: ClassVar[str] = __file__
    IDLE: ClassVar = {"SM": (True,), "SCALARS": (False,)}

    VL: int = parameter(
        1,
        (2, 4),
        "Elements of a vector that is loaded from local memory.",
        must={
            "VL must divide TR and be 2 or more": "TR % VL == 0 and VL >= 2",
            "the gpu form reads real operands without conversion and complex elements; it packs all others: set PACK_A and PACK_B": ""
            "(PACK_A or in_place_a or parted_a) and (PACK_B or in_place_b or parted_b)",
            "TURN, KEEP and TAIL are for float32 and float64": "plain or not (TURN or KEEP or TAIL)",
            "a second launch adds the shared sums of complex products: set JOIN = False, CLUSTER = 1": "not complex"
            " or not (JOIN or CLUSTER > 1)",
        },
        tried=("VL * itemsize in (8, 16)",),
    )
    TC: int = parameter(
        1,
        (2, 4),
        "Columns of a work-item's part of one block.",
        must={"VL must divide TC": "TC % VL == 0"},
        tried=("TC == VL or (MMA and TC == 2 * VL)",),
    )
    TR: int = parameter(
        1,
        (2, 4),
        "Rows of a work-item's part of one block.",
        tried=(
            "TR == VL or (MMA and TR == 2 * VL)",
            "64 <= TR * TRR * TC * TCR * itemsize <= (512 if itemsize == 4 or MMA else 256)",
            "device_kind != 'cpu' or TR * TRR * TC * TCR <= 32",
            # a processor runs this form a hundred times slower than its own: legal if a trial takes little time
            "device_kind != 'cpu' or m * n * k * max(batch, 1) <= 1 << 22",
        ),
    )
    TBC: int = parameter(
        1, _ITEMS, "Work-items along the columns of C, in each part of a work-group.", tried=(_OTHER.format("TBC", "True"),)
    )
    TBR: int = parameter(
        1, _ITEMS, "Work-items along the rows of C, in each part of a work-group.", tried=(_OTHER.format("TBR", "TBC >= 8"),)
    )
    TCR: int = parameter(1, (1, 2, 3, 4, 5), "Blocks of the tile along the columns of C.")
    TRR: int = parameter(1, (1, 2, 3, 4, 5), "Blocks of the tile along the rows of C.")
    KB: int = parameter(
        1,
        (8, 16, 32, 64),
        "Steps of k in a stage of local memory.",
        must={
            "KB / KG must be a whole number; with MMA a multiple of 8 (MMA_SHAPE 16x8x16: of 16), with KEEP a multiple of VL": ""
            f"KB % (KG * {_UNIT}) == 0",
        },
        tried=(
            "STAGES * KB * (TBR * TR * TRR + TBC * TC * TCR + 2 * PAD) * itemsize <= local_limit",
            "device_kind != 'cpu' or KB == 8",
        ),
    )
    UNROLL: int = parameter(
        1,
        (4, 8, 16, 32, 64),
        "Steps of k that are unrolled; KB: the whole stage.",
        must={
            "UNROLL must divide KB / KG or exceed it, and must be a multiple of 8 (MMA_SHAPE 16x8x16: of 16) with MMA, of VL with KEEP": ""
            "UNROLL * KG >= KB"
            f" or (UNROLL > 0 and UNROLL % {_UNIT} == 0 and KB // KG % UNROLL == 0)",
            "with DOUBLE, UNROLL must be an even number of such multiples": ""
            f"DOUBLE == 0 or UNROLL * KG >= KB or UNROLL // {_UNIT} % 2 == 0",
        },
        tried=(
            "UNROLL == KB or (KB >= 16 and UNROLL in (KB // 4, KB // 2) and UNROLL < KB // KG)",
            "UNROLL == KB or (device_kind != 'cpu' and MMA_SHAPE == '16x8x8')",
            *(f"UNROLL == KB or {rule}" for rule in (*_PLAIN, "STAGES == 3", "RASTER == 1", "MAD == 'a*b+c'")),
        ),
    )
    MAD: str = parameter(
        "fma",
        ("fma", "mad", "a*b+c"),
        "How a multiply-add is written: fma, mad or a*b+c.",
        when="not MMA",
        idle="a*b+c",
        tried=(
            "(device_kind != 'cpu' and DOUBLE > 0) or MAD == 'a*b+c'",
            *(f"{rule} or MAD == 'a*b+c'" for rule in (*_PLAIN, "STAGES == 3", "RASTER == 1")),
        ),
    )
    PAD: int = parameter(
        0,
        (0, 4),
        "Padding, in elements, of the rows of a tile that is transposed element by element on its way to local memory: avoids bank "
        "conflicts.",
        must={"PAD must be a multiple of VL": "PAD % VL == 0"},
        tried=(
            "PAD == 0 or (not MMA and not KEEP)",
            "PAD == 0 or (trans_a == 'N' and not PACK_A and not (TURN and turnable_a))"
            " or (trans_b == 'T' and not PACK_B and not (TURN and turnable_b))",
            "device_kind != 'cpu' or PAD == 0",
        ),
    )
    STAGES: int = parameter(
        1,
        (1, 2, 3, 4),
        "Stages of the pipeline: tiles in local memory that asynchronous copies fill.",
        tried=("device_kind != 'cpu' or STAGES == 2",),
    )
    LANES: int = parameter(
        0,
        (2, 4, 8, 16),
        "Columns of the patch of work-items that a warp forms; it has 32 / LANES rows.",
        must={"LANES must divide TBC, and 32 / LANES must divide TBR": "LANES > 0 and TBC % LANES == 0 and TBR % (32 // LANES) == 0"},
        tried=("device_kind != 'cpu' or LANES == 4",),
    )
    DOUBLE: int = parameter(
        0,
        (0, 1, 2),
        "Double buffering in registers, the operands of the next step of k that are loaded during the current one: 0 neither; 1 B's to a "
        "second set of registers, and A's in place as they are used up; 2 both to a second set.",
        must={
            "DOUBLE needs two stages or more, and an even number of steps in a part's share of a stage": ""
            f"DOUBLE == 0 or (STAGES > 1 and KB // KG // {_UNIT} % 2 == 0)",
        },
        tried=("device_kind != 'cpu' or DOUBLE == 0",),
    )
    KG: int = parameter(
        1,
        (1, 2, 4),
        "Parts of a work-group, which divide the k of a stage among them and add up their sums in the end.",
        tried=(
            "TBR * TBC * KG <= min(512, max_work_group_size)",
            "KG == 1 or tiles <= 2 * compute_units",
            "KG == 1 or TBR * TR * TRR * TBC * TC * TCR * itemsize <= local_limit",
            "device_kind != 'cpu' or KG == 1",
        ),
    )
    TAIL: int = parameter(
        0,
        (0, 1, 2),
        "Work-groups that a multiprocessor is assumed to hold at once. The tiles that would leave part of the device idle in a last wave "
        "then have their k split (a stream-K tail). 0: all tiles are whole.",
        must={"TAIL splits k itself and would pack B twice: set SPLIT_K = 1, PACK_B = False": "TAIL == 0 or (SPLIT_K == 1 and not PACK_B)"},
        tried=(
            "TAIL == 0 or (KG == 1 and m > TBR * TR * TRR and k >= 256)",
            f"TAIL == 0 or {_TILES} > TAIL * compute_units",
            f"TAIL == 0 or {_TILES} % (TAIL * compute_units) <= TAIL * compute_units // 2",  # a last wave that is nearly full is well used
        ),
        batched=False,
    )
    PACK_A: bool = parameter(
        False,
        (False, True),
        "A launch before the product packs A into panels.",
        tried=("not PACK_A or not (plain_a or (MMA and turnable_a))",),
    )
    PACK_B: bool = parameter(
        False,
        (False, True),
        "A launch before the product packs B into panels.",
        tried=("not PACK_B or not (plain_b or (MMA and turnable_b))",),
    )
    TURN: bool = parameter(
        False,
        (False, True),
        "An unpacked operand that is contiguous along k is transposed on its way to local memory in vectors, not element by element.",
        when="not MMA",
        must={"TURN and KEEP exclude each other": "not (TURN and KEEP)"},
        tried=("not TURN or (turnable_a and not PACK_A) or (turnable_b and not PACK_B)",),
    )
    KEEP: bool = parameter(
        False,
        (False, True),
        "An unpacked operand that is contiguous along k stays so in local memory, and work-items load vectors along k. MMA always does "
        "this.",
        when="not MMA",
        must={
            "TURN and KEEP need TR = TC = VL": "not (TURN or KEEP) or TR == TC == VL",
            "TURN and KEEP need powers of two for TBR, TBC and KB": "not (TURN or KEEP)"
            " or (TBR & (TBR - 1)) == (TBC & (TBC - 1)) == (KB & (KB - 1)) == 0",
        },
        tried=(
            "not KEEP or (trans_a == 'N' and not PACK_A) or (trans_b == 'T' and not PACK_B)",
            "not KEEP or TR * TRR * TC * TCR * itemsize <= 256",  # vectors along k take more registers
        ),
    )
    PAIRS: bool = parameter(
        False,
        (False, True),
        "Operands whose rows are aligned to 8 bytes but not to 16 are copied two elements at a time, not one by one, unless they are "
        "transposed on the way.",
        when="not MMA",
        must={"PAIRS is for float32": "plain and itemsize == 4 or not PAIRS"},
        tried=(
            "not PAIRS or (not PACK_A and (paired_a or (KEEP and paired_along_a))) or (not PACK_B and (paired_b or (KEEP and "
            "paired_along_b)))",
        ),
        later=True,
    )
    HELD: bool = parameter(
        False,
        (False, True),
        "Operands that are contiguous across k but cannot be copied 16 bytes at a time go through registers, not by asynchronous copies.",
        must={"HELD is for float32 and float64": "plain or not HELD"},
        tried=(
            "not HELD or device_kind != 'cpu'",
            "not HELD or not (PACK_A or plain_a or trans_a == 'N') or not (PACK_B or plain_b or trans_b == 'T')",
        ),
        later=True,
    )
    SHIFT: bool = parameter(
        False,
        (False, True),
        "Operands that are contiguous across k, with rows that begin anywhere, are copied as the aligned 16-byte vectors that contain the "
        "rows; loads from local memory skip what precedes a row.",
        must={
            "SHIFT is for float32, and for float64 with MMA": "not SHIFT or (plain and (itemsize == 4 or MMA))",
            "SHIFT without MMA needs VL = TR = TC = 4, and KB / KG must be a multiple of 4": "not SHIFT or MMA"
            " or (VL == TR == TC == 4 and KB // KG % 4 == 0)",
            "SHIFT and TAIL exclude each other": "not SHIFT or TAIL == 0",
        },
        tried=("not SHIFT or (not HELD and UNROLL == KB)", "not SHIFT or (not PACK_A and shifts_a) or (not PACK_B and shifts_b)"),
        later=True,
        batched=False,
    )
    SPLIT_K: int = parameter(
        1,
        (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 32, 48, 64),
        "Split k: work-groups that share the k of one tile. A second launch, or with JOIN the last group, adds their sums in a fixed "
        "order.",
        tried=(SHARES_K,),
    )
    RASTER: int = parameter(
        1,
        (1, 8),
        "Rows of tiles in a band, which neighbouring work-groups cover together; 0: all rows.",
        tried=("RASTER == 1 or tiles >= 64", "device_kind != 'cpu' or RASTER == 1"),
    )
    MMA: bool = parameter(
        False,
        (False, True),
        "Matrix instructions (tensor cores) of float64. With LANES 8, TR 4 and TC 2, B is the instruction's first operand.",
        must={
            "MMA needs VL = 2, and either TR = 2, TC = 4, LANES = 4 or TR = 4, TC = 2, LANES = 8": "not MMA"
            " or (VL == 2 and ((TR == 2 and TC == 4 and LANES == 4) or (TR == 4 and TC == 2 and LANES == 8)))",
            "with MMA, KB must be a multiple of 16": "not MMA or KB % 16 == 0",
            "MMA multiplies float64 only": "not MMA or itemsize == 8",
        },
        tried=("not MMA or matrix_units or (small_units and MMA_SHAPE == '8x8x4')",),
    )
    MMA_SHAPE: str = parameter(
        "16x8x8",
        MMA_SHAPES,
        "Rows x columns x steps of k of a matrix instruction: 8x8x4 from compute capability 8.0 on, the others from 9.0 on.",
        when="MMA",
        tried=(
            "MMA_SHAPE == '16x8x8' or (MMA and (MMA_SHAPE != '8x8x4' or small_units))",
            *(f"MMA_SHAPE == '16x8x8' or not matrix_units or {rule}" for rule in _PLAIN),
            "MMA_SHAPE != '16x8x16' or DOUBLE == 0 or TR * TRR * TC * TCR <= 32",  # a step's operands take twice the registers
        ),
        later=True,
    )
    JOIN: bool = parameter(
        False,
        (False, True),
        "Of the work-groups that share a tile's k, the last to finish adds all sums, in a fixed order: no second launch. On NVIDIA's GPUs "
        "and on processors.",
        must={"JOIN needs work-groups that share k: SPLIT_K > 1 or TAIL > 0": "not JOIN or SPLIT_K > 1 or TAIL > 0"},
        tried=("not JOIN or joins", f"not JOIN or TBR * TR * TRR * TBC * TC * TCR * SPLIT_K // CLUSTER ** 2 * itemsize <= {JOINED}"),
        later=True,
    )

    CLUSTER: int = parameter(
        1,
        (1, 2, 4, 8),
        "Work-groups in a cluster: they share a tile's k and add up their sums through each other's local memory. 1: no clusters.",
        must={
            "CLUSTER > 1 must equal SPLIT_K, or divide it with JOIN, and TAIL must be 0": "CLUSTER == 1"
            " or (SPLIT_K % CLUSTER == 0 and JOIN == (SPLIT_K > CLUSTER) and TAIL == 0)",
        },
        when="SPLIT_K > 1",
        tried=("CLUSTER == 1 or clusters",),
        later=True,
    )

    @property
    def items(self) -> int:
        """Work-items of a work-group."""
        return super().items * self.KG

    @property
    def gathered(self) -> int:
        """The work-groups of a cluster that share a tile's k."""
        return self.CLUSTER

    def groups_of_triangle(self, problem: Problem, zeros: str) -> int:
        """One for each tile that the triangle intersects."""
        return triangle.count(problem.sizes["n"], zeros, self.rows, self.columns)

    def roundings(self, k: int) -> int:
        """The roundings of adding partial sums: those of work-groups, of a work-group's parts, and of a tail."""
        return self.SPLIT_K + self.KG + (tail.PARTS if self.TAIL else 0)

    def cut(self, problem: Problem, device: DeviceInfo) -> TailCut | None:
        """Where the stream-K tail begins."""
        return tail.cut(problem, self, device) if self.TAIL else None

    def slots(self, units: int) -> int:
        """TAIL work-groups on each multiprocessor."""
        return self.TAIL * units

    def bare(self, parts: int) -> Gpu:
        """The point without a tail, where ``parts`` work-groups share the k of a tile."""
        return replace(self, TAIL=0, SPLIT_K=parts)

    def local_bytes(self, itemsize: int, along: bool = True) -> int:
        """The stages of both operands' tiles, or the sums that the parts of a work-group exchange in the end."""
        stages = self.STAGES * self.KB * (self.rows + self.columns + 2 * max(self.PAD, 4 * self.SHIFT))
        exchange = self.rows * self.columns if self.KG > 1 or self.CLUSTER > 1 else 0
        return max(stages, exchange) * itemsize

    def mirroring(self, operand: str) -> Gpu:
        """The point for a symmetric A or B of which one triangle is read: the operand is not packed, and the tile's rows are padded against
        bank conflicts.
        """
        pad = 0 if self.MMA else max(self.PAD, MIRRORED_PAD)
        return replace(self, PACK_A=self.PACK_A and operand != "a", PACK_B=self.PACK_B and operand != "b", PAD=pad)

    def lowered(self, device: DeviceInfo) -> Gpu:
        """The point without what the device lacks: matrix units or their shape, clusters, work-groups that can detect which is last."""
        shapes, point = matrix_shapes(device), self
        if point.CLUSTER > 1 and not clusters(device):
            point = replace(point, CLUSTER=1, JOIN=point.rows * point.columns * point.SPLIT_K * 4 <= JOINED)
        if not joins(device):
            point = replace(point, JOIN=False)
        if not point.MMA or point.MMA_SHAPE in shapes:
            return point
        return replace(point, MMA_SHAPE=shapes[0]) if shapes else replace(point, MMA=False, MMA_SHAPE="16x8x8", MAD="a*b+c")

    def facts(self, problem: Problem, device: DeviceInfo, bare_sums: bool) -> dict[str, Value]:
        """The sources of the tiles (see tiles.cl), and which sizes no tile divides."""
        m, n, k = (problem.sizes[s] for s in "mnk")
        facts: dict[str, Value] = {}
        for name, across, packed, tile in (("a", m, self.PACK_A, self.rows), ("b", n, self.PACK_B, self.columns)):
            along = self.MMA or self.KEEP
            source = (
                "panel"
                if packed
                else sources.source(problem, name, along=along, transposed=self.TURN, pairs=self.PAIRS, shifted=self.SHIFT)
            )
            facts[f"{name.upper()}_FROM"] = source
            if self.SHIFT:
                facts[f"{name.upper()}_SHIFT"] = problem.layout[name].strides[0] % (16 // problem.itemsize)
            facts[f"{name.upper()}_EDGE"] = not packed and across % tile != 0
        target = packed_layout((m, n)) if bare_sums else problem.layout["c"]
        facts["C_VECTORS"] = n % self.VL == 0 and target.vector_width(problem.itemsize) >= self.VL
        facts["C_EDGE"] = m % self.rows != 0 or n % self.columns != 0
        facts["K_EDGE"] = k % self.KB != 0 and not (self.PACK_A and self.PACK_B)
        facts["K_REST"] = k % self.KB != 0 and k <= SHORT * self.SPLIT_K
        return facts


def pipeline(vl: int, group: tuple[int, int], blocks: tuple[int, int], kb: int, stages: int, lanes: int, double: int = 2) -> Gpu:
    """A pipelined point with ``group`` work-items, each with ``blocks`` squares of ``vl`` x ``vl`` elements; pairs are (rows, columns)."""
    (tbr, tbc), (trr, tcr) = group, blocks
    tile = Gpu(VL=vl, TR=vl, TC=vl, TBR=tbr, TBC=tbc, TRR=trr, TCR=tcr, KB=kb, UNROLL=kb)
    return replace(tile, MAD="a*b+c", STAGES=stages, LANES=lanes, DOUBLE=double)


def matrix(warps: tuple[int, int], blocks: tuple[int, int], kb: int, stages: int, double: int = 1, lanes: int = 8) -> Gpu:
    """A float64 point for NVIDIA's matrix instructions: ``warps`` with ``blocks`` squares of 16 x 16 each; pairs are (rows, columns).

    With 8 ``lanes`` B is the instruction's first operand, which is fastest if A has k fast and B has k slow. With 4 lanes A is.
    """
    (down, across), (tr, tc) = warps, (4, 2) if lanes == 8 else (2, 4)
    point = pipeline(2, (16 // tr * down, 16 // tc * across), blocks, kb, stages, lanes, double)
    return replace(point, TR=tr, TC=tc, MMA=True)
