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

MIRRORED_PAD = 4  # elements by which rows of a tile are longer where a triangle is read element by element, without matrix units
SHORT = 1024  # steps of k of a group up to which it pays to leave out those of the last stage that are past the end
_UNIT = "((16 if MMA_SHAPE == '16x8x16' else 8) if MMA else VL if KEEP else 1)"  # steps of k that are taken at a time
_TILES = "((m + TBR * TR * TRR - 1) // (TBR * TR * TRR) * ((n + TBC * TC * TCR - 1) // (TBC * TC * TCR)))"
_ITEMS, _OTHER = (4, 8, 12, 16, 24, 32), "{0} in (8, 16, 32) or (device_kind != 'cpu' and (MMA or ({0} < 24 and {1})))"
# Where spelling, unrolling and instructions that seldom matter are tried: not in every combination.
_PLAIN = ("KG == 1", "PAD == 0", "STAGES >= 3", "TAIL == 0", "not TURN", "not KEEP", "SPLIT_K == 1")


@dataclass(frozen=True)
class Gpu(BlockedTile):
    """A group of KG parts of TBR x TBC work-items each computes TRR x TCR blocks, of each of which a work-item has TR x TC elements."""

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
            "the gpu form packs operands that are neither reals as they lie nor complex elements: set PACK_A and PACK_B": ""
            "(PACK_A or in_place_a or parted_a) and (PACK_B or in_place_b or parted_b)",
            "TURN, KEEP and TAIL are for float32 and float64": "plain or not (TURN or KEEP or TAIL)",
            "groups that share sums of complex products leave them to a second launch: set JOIN = False, CLUSTER = 1": "not complex"
            " or not (JOIN or CLUSTER > 1)",
        },
        tried=("VL * itemsize in (8, 16)",),
    )
    TC: int = parameter(
        1,
        (2, 4),
        "Columns of one block of a work-item.",
        must={"VL must divide TC": "TC % VL == 0"},
        tried=("TC == VL or (MMA and TC == 2 * VL)",),
    )
    TR: int = parameter(
        1,
        (2, 4),
        "Rows of one block of a work-item.",
        tried=(
            "TR == VL or (MMA and TR == 2 * VL)",
            "64 <= TR * TRR * TC * TCR * itemsize <= (512 if itemsize == 4 or MMA else 256)",
            "device_kind != 'cpu' or TR * TRR * TC * TCR <= 32",
            # a processor runs this form a hundred times slower than its own: legal where quickly tried
            "device_kind != 'cpu' or m * n * k * max(batch, 1) <= 1 << 22",
        ),
    )
    TBC: int = parameter(1, _ITEMS, "Work-items of a part of a group along the columns of C.", tried=(_OTHER.format("TBC", "True"),))
    TBR: int = parameter(1, _ITEMS, "Work-items of a part of a group along the rows of C.", tried=(_OTHER.format("TBR", "TBC >= 8"),))
    TCR: int = parameter(1, (1, 2, 3, 4, 5), "Blocks of a work-item along the columns of C.")
    TRR: int = parameter(1, (1, 2, 3, 4, 5), "Blocks of a work-item along the rows of C.")
    KB: int = parameter(
        1,
        (8, 16, 32, 64),
        "Steps of k in a stage of local memory.",
        must={
            "KG must divide KB, for MMA into multiples of 8 (MMA_SHAPE 16x8x16: of 16), for KEEP of VL": f"KB % (KG * {_UNIT}) == 0",
        },
        tried=(
            "STAGES * KB * (TBR * TR * TRR + TBC * TC * TCR + 2 * PAD) * itemsize <= local_limit",
            "device_kind != 'cpu' or KB == 8",
        ),
    )
    UNROLL: int = parameter(
        1,
        (4, 8, 16, 32, 64),
        "Steps of k that are unrolled; KB for all of a stage.",
        must={
            "UNROLL must divide KB / KG, or be more, and be such a multiple too": "UNROLL * KG >= KB"
            f" or (UNROLL > 0 and UNROLL % {_UNIT} == 0 and KB // KG % UNROLL == 0)",
            "UNROLL must be two of them or more for DOUBLE": f"DOUBLE == 0 or UNROLL * KG >= KB or UNROLL // {_UNIT} % 2 == 0",
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
        "How a multiply-add is spelled: fma, mad or a*b+c.",
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
        "Elements added to a row of a tile that is transposed by elements on its way to local memory.",
        must={"PAD must be a multiple of VL": "PAD % VL == 0"},
        tried=(
            "PAD == 0 or (not MMA and not KEEP)",
            "PAD == 0 or (trans_a == 'N' and not PACK_A and not (TURN and turnable_a))"
            " or (trans_b == 'T' and not PACK_B and not (TURN and turnable_b))",
            "device_kind != 'cpu' or PAD == 0",
        ),
    )
    STAGES: int = parameter(
        1, (1, 2, 3, 4), "Tiles in local memory, filled by asynchronous copies.", tried=("device_kind != 'cpu' or STAGES == 2",)
    )
    LANES: int = parameter(
        0,
        (2, 4, 8, 16),
        "Work-items of a warp along the columns of C.",
        must={"LANES must divide TBC, and 32 / LANES TBR": "LANES > 0 and TBC % LANES == 0 and TBR % (32 // LANES) == 0"},
        tried=("device_kind != 'cpu' or LANES == 4",),
    )
    DOUBLE: int = parameter(
        0,
        (0, 1, 2),
        "Operands of the next step of k that are loaded to registers during the current one: 0 neither, 1 B's to a second set and "
        "A's in place as they are used up, 2 both to a second set.",
        must={
            "DOUBLE needs two stages and an even number of steps": f"DOUBLE == 0 or (STAGES > 1 and KB // KG // {_UNIT} % 2 == 0)",
        },
        tried=("device_kind != 'cpu' or DOUBLE == 0",),
    )
    KG: int = parameter(
        1,
        (1, 2, 4),
        "Parts of a work-group, which share the k of a stage and add their sums in the end.",
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
        "Groups that a multiprocessor is taken to hold at once: the tiles that would leave part of the device idle in the end have "
        "their k split as far as it takes. 0: whole tiles.",
        must={"TAIL splits k by itself and would pack B twice": "TAIL == 0 or (SPLIT_K == 1 and not PACK_B)"},
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
        "A is packed into panels by a kernel of its own.",
        tried=("not PACK_A or not (plain_a or (MMA and turnable_a))",),
    )
    PACK_B: bool = parameter(
        False,
        (False, True),
        "B is packed into panels by a kernel of its own.",
        tried=("not PACK_B or not (plain_b or (MMA and turnable_b))",),
    )
    TURN: bool = parameter(
        False,
        (False, True),
        "An operand that is not packed and has k fast is transposed on its way to local memory by vectors, not by elements.",
        when="not MMA",
        must={"TURN and KEEP exclude each other": "not (TURN and KEEP)"},
        tried=("not TURN or (turnable_a and not PACK_A) or (turnable_b and not PACK_B)",),
    )
    KEEP: bool = parameter(
        False,
        (False, True),
        "Such an operand lies in local memory with k fast too, and work-items load vectors along k, as MMA does without being told.",
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
        "Rows of an operand that are aligned to 8 bytes and not to 16 are copied two elements at a time, not one by one, unless they are "
        "transposed on the way.",
        when="not MMA",
        must={"PAIRS is for float32": "plain and itemsize == 4 or not PAIRS"},
        tried=(
            "not PAIRS or (not PACK_A and (paired_a or (KEEP and paired_along_a)))"
            " or (not PACK_B and (paired_b or (KEEP and paired_along_b)))",
        ),
        later=True,
    )
    HELD: bool = parameter(
        False,
        (False, True),
        "Operands that have k slow and are not copied 16 bytes at a time go through registers, not by asynchronous copies.",
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
        "Operands that have k slow and rows which begin anywhere come as the 16 bytes that hold them; a row is then read from "
        "local memory as far on as it begins.",
        must={
            "SHIFT is for float32, and for float64 with MMA": "not SHIFT or (plain and (itemsize == 4 or MMA))",
            "SHIFT needs VL = TR = TC = 4, and parts of a stage in whole fours, but for MMA": "not SHIFT or MMA"
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
        "Groups that share the k of one tile; their sums are added by a second kernel, or with JOIN, always in the same order.",
        tried=(SHARES_K,),
    )
    RASTER: int = parameter(
        1,
        (1, 8),
        "Rows of tiles that neighbouring groups cover together; 0: all.",
        tried=("RASTER == 1 or tiles >= 64", "device_kind != 'cpu' or RASTER == 1"),
    )
    MMA: bool = parameter(
        False,
        (False, True),
        "Matrix instructions; with LANES 8, TR 4 and TC 2 B takes the place of the instruction's A.",
        must={
            "MMA needs VL = 2 and TR = 2, TC = LANES = 4 or TR = 4, TC = 2, LANES = 8": "not MMA"
            " or (VL == 2 and ((TR == 2 and TC == 4 and LANES == 4) or (TR == 4 and TC == 2 and LANES == 8)))",
            "MMA needs KB in whole sixteens": "not MMA or KB % 16 == 0",
            "MMA multiplies float64 only": "not MMA or itemsize == 8",
        },
        tried=("not MMA or matrix_units or (small_units and MMA_SHAPE == '8x8x4')",),
    )
    MMA_SHAPE: str = parameter(
        "16x8x8",
        MMA_SHAPES,
        "Rows, columns and steps of a matrix instruction: 8x8x4 from compute capability 8.0 on, the others from 9.0 on.",
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
        "The last of the groups that share a tile's sums to be done adds them, in the same order: no second launch. NVIDIA's GPUs "
        "and processors.",
        must={"JOIN adds what groups share: with SPLIT_K or a TAIL": "not JOIN or SPLIT_K > 1 or TAIL > 0"},
        tried=("not JOIN or joins", f"not JOIN or TBR * TR * TRR * TBC * TC * TCR * SPLIT_K // CLUSTER ** 2 * itemsize <= {JOINED}"),
        later=True,
    )

    CLUSTER: int = parameter(
        1,
        (1, 2, 4, 8),
        "Groups that share a tile's k on neighbouring multiprocessors, and add up their sums in each other's local memory. 1: none do.",
        must={
            "a cluster's groups are those of SPLIT_K, or clusters share k with JOIN; set TAIL = 0": "CLUSTER == 1"
            " or (SPLIT_K % CLUSTER == 0 and JOIN == (SPLIT_K > CLUSTER) and TAIL == 0)",
        },
        when="SPLIT_K > 1",
        tried=("CLUSTER == 1 or clusters",),
        later=True,
    )

    @property
    def items(self) -> int:
        """Work-items of a group."""
        return super().items * self.KG

    @property
    def gathered(self) -> int:
        """The groups of a cluster that share a tile's k."""
        return self.CLUSTER

    def groups_of_triangle(self, problem: Problem, zeros: str) -> int:
        """One for each tile that the triangle has a part of."""
        return triangle.count(problem.sizes["n"], zeros, self.rows, self.columns)

    def roundings(self, k: int) -> int:
        """The roundings of a sum's parts: one for each group, each part of a group, and each part of a tail."""
        return self.SPLIT_K + self.KG + (tail.PARTS if self.TAIL else 0)

    def cut(self, problem: Problem, device: DeviceInfo) -> TailCut | None:
        """The first row of the tail."""
        return tail.cut(problem, self, device) if self.TAIL else None

    def slots(self, units: int) -> int:
        """TAIL groups on each multiprocessor."""
        return self.TAIL * units

    def bare(self, parts: int) -> Gpu:
        """The point without a tail, ``parts`` groups to the k of a tile."""
        return replace(self, TAIL=0, SPLIT_K=parts)

    def local_bytes(self, itemsize: int, along: bool = True) -> int:
        """The stages of both operands' tiles, or what the parts of a group exchange in the end."""
        stages = self.STAGES * self.KB * (self.rows + self.columns + 2 * max(self.PAD, 4 * self.SHIFT))
        exchange = self.rows * self.columns if self.KG > 1 or self.CLUSTER > 1 else 0
        return max(stages, exchange) * itemsize

    def mirroring(self, operand: str) -> Gpu:
        """The point for a symmetric A or B of which one triangle is read: not packed, its rows spread over the banks."""
        pad = 0 if self.MMA else max(self.PAD, MIRRORED_PAD)
        return replace(self, PACK_A=self.PACK_A and operand != "a", PACK_B=self.PACK_B and operand != "b", PAD=pad)

    def lowered(self, device: DeviceInfo) -> Gpu:
        """The point without what the device lacks: matrix units or a shape of theirs, clusters, groups that can tell which is last."""
        shapes, point = matrix_shapes(device), self
        if point.CLUSTER > 1 and not clusters(device):
            point = replace(point, CLUSTER=1, JOIN=point.rows * point.columns * point.SPLIT_K * 4 <= JOINED)
        if not joins(device):
            point = replace(point, JOIN=False)
        if not point.MMA or point.MMA_SHAPE in shapes:
            return point
        return replace(point, MMA_SHAPE=shapes[0]) if shapes else replace(point, MMA=False, MMA_SHAPE="16x8x8", MAD="a*b+c")

    def facts(self, problem: Problem, device: DeviceInfo, bare_sums: bool) -> dict[str, Value]:
        """The sources of the tiles (see tiles.cl), and whether tiles divide the operands."""
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
    """A tiled, pipelined point: ``group`` work-items of ``blocks`` squares of ``vl`` x ``vl`` elements; pairs are rows, columns."""
    (tbr, tbc), (trr, tcr) = group, blocks
    tile = Gpu(VL=vl, TR=vl, TC=vl, TBR=tbr, TBC=tbc, TRR=trr, TCR=tcr, KB=kb, UNROLL=kb)
    return replace(tile, MAD="a*b+c", STAGES=stages, LANES=lanes, DOUBLE=double)


def matrix(warps: tuple[int, int], blocks: tuple[int, int], kb: int, stages: int, double: int = 1, lanes: int = 8) -> Gpu:
    """A float64 point for NVIDIA's matrix instructions: ``warps`` of ``blocks`` squares of 16 x 16; pairs are rows, columns.

    With 8 ``lanes`` B takes the place of the instruction's A: the fastest way where A has k fast and B has not. With 4 it is as written.
    """
    (down, across), (tr, tc) = warps, (4, 2) if lanes == 8 else (2, 4)
    point = pipeline(2, (16 // tr * down, 16 // tc * across), blocks, kb, stages, lanes, double)
    return replace(point, TR=tr, TC=tc, MMA=True)
