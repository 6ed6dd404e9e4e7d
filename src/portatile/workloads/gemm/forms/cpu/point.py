"""The parameters of the cpu form: what each means, its values and its rules; and the geometry that follows from them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from portatile.records import DeviceInfo, Problem, Value
from portatile.workloads.gemm import epilogue
from portatile.workloads.gemm.parameters import SHARES_K, parameter
from portatile.workloads.gemm.point import Passes, RegisterTile
from portatile.workloads.gemm.reals import types_of

_STATIC = 49152  # bytes of local memory that a kernel text may declare on every GPU
_WIDEST = 8  # bytes of the largest element


@dataclass(frozen=True)
class Cpu(RegisterTile):
    """A work-item keeps a tile of TR rows x TC columns of C in vector registers for all of its k."""

    FORM: ClassVar[str] = "cpu"
    FILE: ClassVar[str] = __file__

    VL: int = parameter(
        1,
        (1, 2, 4, 8, 16),
        "Elements of a vector.",
        must={
            "the cpu form reads only real operands without conversion, and packs all others: set PACK_A and PACK_B": ""
            "(PACK_A or in_place_a) and (PACK_B or in_place_b)",
            "complex elements need even TR, TC and VL: each is two reals": "not complex or TR % 2 == VL % 2 == 0",
            "SM, KEEP and TURN are for float32 and float64": "plain or not (SM or KEEP or TURN)",
        },
        tried=("device_kind == 'cpu' or VL <= 4", "VL * itemsize < 64 or wide_arithmetic"),
        defines=("cpu", "dots", "staged"),
    )
    TC: int = parameter(
        1,
        (1, 2, 4, 8, 12, 16, 24, 32, 48, 64),
        "Columns of the register tile, in vectors of VL; with KEEP, columns whose products along k are summed in vectors.",
        must={"VL must divide TC": "KEEP or TC % VL == 0"},
        tried=("KEEP or (TC // VL in (1, 2, 3, 4) and 4 <= TR * TC // VL <= 30)", "device_kind == 'cpu' or TR * TC <= 64"),
        defines=("cpu", "dots", "staged"),
    )
    TR: int = parameter(
        1,
        (1, 2, 3, 4, 5, 6, 8, 12),
        "Rows of the register tile.",
        tried=("TR > 1 or (n if TURN else m) == 1 or KEEP",),
        defines=("cpu", "dots", "staged"),
    )
    KB: int = parameter(
        1,
        (0, 64, 128, 256, 512, 1024, 2048),
        "Steps of k in a launch, 0 for all; with SM, steps of k of B's columns that local memory holds.",
        when="not KEEP",
        tried=("KB == 0 or KB < k or SM", "KB not in (64, 128) or not PACK_B"),  # so few steps help rows of B in memory that lie far apart
        defines=("staged",),
    )
    SM: bool = parameter(
        False,
        (False, True),
        "A work-item copies its columns of B to local memory, KB steps of k at a time, and multiplies them by all rows of A, or of a band.",
        when="not KEEP",
        must={
            "with SM, the cpu form copies B itself: set KB > 0 and PACK_B = False": "not SM or (KB > 0 and not PACK_B)",
            "with SM, the cpu form does not split k: set SPLIT_K = 1": "not SM or SPLIT_K == 1",
            "several launches would round C in between: set KB = 0 for this type or epilogue": "exact_c or KB == 0 or KB >= k",
        },
        tried=("not SM or device_kind == 'cpu'", "not SM or (KB in (64, 128, 256, 512) and KB * TC * itemsize <= local_memory)"),
    )
    UNROLL: int = parameter(
        1, (1, 2, 4), "Steps of k that are unrolled; with KEEP, vectors along k.", tried=("device_kind == 'cpu' or UNROLL == 4",)
    )
    MAD: str = parameter(
        "fma",
        ("fma", "mad", "a*b+c"),
        "How a multiply-add is written: fma, mad or a*b+c.",
        when="not KEEP",
        idle="a*b+c",
        tried=(
            "MAD != 'mad'",
            "MAD == 'a*b+c' or VL * itemsize < 64 or wide_functions",
            "device_kind == 'cpu' or MAD == 'a*b+c'",
        ),
    )
    PACK_A: bool = parameter(False, (False, True), "A launch before the product packs A into panels of TR rows.", when="not KEEP")
    PACK_B: bool = parameter(
        False,
        (False, True),
        "A launch before the product packs B into panels of TC columns.",
        must={
            "the cpu form reads B in place only if it is k x n and at least TC wide: set PACK_B": "KEEP or PACK_B or SM"
            " or (trans_a == 'T' and m >= TC if TURN else trans_b == 'N' and n >= TC)",
        },
    )
    TURN: bool = parameter(
        False,
        (False, True),
        "C is computed transposed, so that vectors run along its columns: in all other parameters rows and columns, and A and B, change "
        "places.",
        when="not KEEP",
        tried=("not TURN or (device_kind == 'cpu' and m > 1)",),
    )
    KEEP: bool = parameter(
        False,
        (False, True),
        "Both operands are read in vectors along k, A in place and B in place or from panels of one column: for few rows or columns of C.",
        must={
            "with KEEP and PACK_B, TC must be 1 in the cpu form": "not (KEEP and PACK_B) or TC == 1",
            "KEEP in the cpu form needs A stored as m x k, and PACK_B exactly if B is stored as k x n": "not KEEP"
            " or (trans_a == 'N' and PACK_B == (trans_b == 'N'))",
        },
        tried=(
            "not KEEP or (device_kind == 'cpu' and min(m, n) <= 64)",
            "not KEEP or (VL >= 4 and TC <= 8 and 4 <= TR * TC <= 16)",
        ),
    )
    SPLIT_K: int = parameter(
        1,
        (1, 2, 4, 8, 16, 32, 64),
        "Split k: work-groups that share the k of one tile; a second launch adds their sums in a fixed order.",
        must={
            "the cpu form splits k between work-groups or between launches: set SPLIT_K = 1 or KB = 0": ""
            "SPLIT_K == 1 or KEEP or KB == 0 or KB >= k"
        },
        tried=(SHARES_K, "SPLIT_K == 1 or KEEP or KB == 0"),
    )
    RASTER: int = parameter(
        1,
        (0, 8, 32, 43),
        "Rows of tiles in a band, which neighbouring work-groups go through column by column; 0: all. With SM, each computes a column of "
        "a band.",
        when="not KEEP",
        tried=("RASTER in (0, 32, 43) or (SM and RASTER == 8)",),
        defines=("cpu", "staged"),
    )

    @property
    def text(self) -> str:
        """``dots`` for dot products along k, ``staged`` if columns of B go through local memory, else ``cpu``."""
        return "dots" if self.KEEP else "staged" if self.SM else "cpu"

    @property
    def transposes(self) -> bool:
        """Whether the kernel computes C^T = op(B)^T op(A)^T."""
        return self.TURN

    def groups(self, problem: Problem) -> int:
        """The tiles; with SM the columns of tiles in bands, one work-group each."""
        down, across = -(-problem.sizes["m"] // self.rows), -(-problem.sizes["n"] // self.columns)
        if self.SM:
            down = 1 if self.RASTER == 0 else -(-down // self.RASTER)
        return down * across

    def passes(self, k: int) -> Passes:
        """With KB several launches of equal length (or with SM stages of one launch): a short last one would cost as much traffic of C."""
        if self.SM:
            return Passes(-(-k // -(-k // self.KB)), 1)
        if not self.KEEP and 0 < self.KB < k:
            chunk = -(-k // max(1, round(k / self.KB)))
            return Passes(chunk, 1, tuple(range(0, k, chunk)))
        return super().passes(k)

    def roundings(self, k: int) -> int:
        """Two more roundings for each launch or stage: its product with alpha, and its sum with C."""
        return super().roundings(k) + (2 * (k // self.KB + 1) if self.KB and not self.KEEP else 0)

    def local_bytes(self, itemsize: int, along: bool = True) -> int:
        """TC columns of B for KB steps of k."""
        return self.KB * self.TC * itemsize if self.SM else 0

    def lowered(self, device: DeviceInfo) -> Cpu:
        """The point with fewer steps of B's columns, since a GPU's local memory is smaller than a processor's."""
        steps = self.KB
        while self.SM and device.kind != "cpu" and steps > 1 and steps * self.TC * _WIDEST > _STATIC:
            steps //= 2
        return replace(self, KB=steps)

    def facts(self, problem: Problem, device: DeviceInfo, bare_sums: bool) -> dict[str, Value]:
        """Whether only alpha and beta lie between sums and C; whether eight float16 are stored at once; and whether rows of C are
        prefetched, which compilers for GPUs may reject.
        """
        types, bare = types_of(problem), not epilogue.options_of(problem)
        as_summed = bare and not types.complex and types.result.stored == types.operand.real != "uint"
        halves = bare and device.can.half_vectors and types.result.name == "float16" and types.real == "float32" and self.TC % 8 == 0
        return {"PLAIN_C": as_summed, "EIGHT_C": halves, "FETCH": device.kind == "cpu" and as_summed}


def register(vl: int, rows: int, vectors: int, unroll: int = 4, block: int = 0, band: int = 0) -> Cpu:
    """A register tile of ``rows`` x ``vectors`` vectors for a processor; ``block`` steps of k a launch, ``band`` rows of tiles a band."""
    return Cpu(VL=vl, TR=rows, TC=vl * vectors, KB=block, UNROLL=unroll, RASTER=band, MAD="a*b+c", PACK_B=True)
