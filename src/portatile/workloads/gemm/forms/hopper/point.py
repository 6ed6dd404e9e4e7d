"""The parameters of the hopper form: what each means, its values and its rules; and the geometry that follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from portatile.errors import ArgumentError
from portatile.records import Arg, DeviceInfo, Problem, Role, TensorMap, Value
from portatile.workloads.gemm import units
from portatile.workloads.gemm.capabilities import JOINED
from portatile.workloads.gemm.epilogue import block_of, options_of
from portatile.workloads.gemm.parameters import SHARES_K, parameter
from portatile.workloads.gemm.point import OperandPlace, Point, TailCut
from portatile.workloads.gemm.reals import moduli, types_of

_ROWS = 64  # rows of C that one instruction of a warp group computes
_GROUP = 128  # work-items of a warp group
_EXCHANGE = 4 * 16 * 40 * 4  # bytes of local memory through which a warp group's sums pass on their way to C
_MAP = 128  # bytes of a tensor map
_ALIGNMENT = 1024  # bytes to which tiles are aligned; local memory itself need not be
RESTS: Mapping[str, tuple[int, int, int]] = {
    "128x192": (128, 192, 4),
    "128x128": (128, 128, 6),
    "64x128": (64, 128, 6),
    "64x64": (64, 64, 12),
}
"""Name -> rows, columns and stages of the tiles that compute the last rows of C, below whole waves of larger tiles."""
_SHARED, _SHARE = 16, 256  # for those tiles: the most work-groups that share the k of one, and the fewest steps of k of each


@dataclass(frozen=True)
class Hopper(Point):
    """A persistent work-group: TBR consumer warp groups that multiply, and a producer warp group that has the TMA copy tiles."""

    FORM: ClassVar[str] = "hopper"
    FILE: ClassVar[str] = __file__
    OPTIONS: ClassVar[tuple[str, ...]] = ("-arch=sm_90a", "-portatile-early-start")
    PERSISTENT: ClassVar[bool] = True
    SCRATCH: ClassVar[int] = 2 * _MAP

    TBR: int = parameter(
        1,
        (1, 2, 3),
        "Consumer warp groups, one below the other in the tile.",
        must={
            "the hopper form is for 16-bit and 8-bit floats, tfloat32 and int8": "unit_type",
            "TBR must be 1, 2 or 3": "TBR in (1, 2, 3)",
        },
        tried=("warp_groups",),
    )
    TRR: int = parameter(
        1, (1, 2), "Blocks of 64 rows that each warp group computes.", must={"TRR * TBR must be at most 4": "TRR * TBR <= 4"}
    )
    TCR: int = parameter(
        1,
        (2, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16),
        "Columns of the tile of C, in units of 16.",
        must={
            "TCR must be 1 to 16, with three warp groups at most 12": "1 <= TCR <= (12 if TBR == 3 else 16)",
            "TRR * TCR must be at most 16, so that the sums fit in registers": "TRR * TCR <= 16",
            "CLUSTER must divide 2 * TCR: each work-group copies its share of B's tile in units of 8 rows": "TCR * 2 % CLUSTER == 0",
        },
        tried=("not across or TCR % 4 == 0",),
    )
    STAGES: int = parameter(
        1,
        (3, 4, 5, 6, 8, 12),
        "Stages of the pipeline: tiles in local memory that the TMA fills; each has 128 bytes along k.",
        must={"STAGES must be 2 or more": "STAGES >= 2"},
        tried=(
            f"STAGES * (2048 + 64 * (block > 0)) * (4 * TRR * TBR + TCR) + TBR * ({_EXCHANGE})"
            f" + {2 * _MAP + _ALIGNMENT + 16 * 6} <= local_limit",
        ),
    )
    CLUSTER: int = parameter(
        1,
        (1, 2),
        "Work-groups in a cluster, one below the other: each multicasts its share of their common tile of B to the others.",
        must={"CLUSTER must be 1, 2 or 4": "CLUSTER in (1, 2, 4)"},
        tried=("CLUSTER == 1 or clusters",),
    )
    SPLIT_K: int = parameter(
        1,
        (1, 2, 4, 8, 16, 32, 64, 128),
        "Split k: work-groups that share the k of one tile. A second launch, or with JOIN the last group, adds their sums in a fixed "
        "order.",
        tried=(SHARES_K,),
    )
    JOIN: bool = parameter(
        False,
        (False, True),
        "Of the work-groups that share a tile's k, the last to finish adds all sums, in a fixed order: no second launch.",
        must={"JOIN needs work-groups that share k: SPLIT_K > 1": "not JOIN or SPLIT_K > 1"},
        tried=("not JOIN or joins", f"not JOIN or TBR * TRR * TCR * 4096 * SPLIT_K <= {JOINED}"),
        later=True,
    )
    MAPS: int = parameter(
        0,
        (0, 1),
        "Where the tensor maps of A and B are made: 0 by each work-group, in global memory; 1 on the host, which passes them to the "
        "kernel.",
        must={"MAPS must be 0 or 1": "MAPS in (0, 1)"},
        tried=("MAPS == 0 or tensor_maps",),
        later=True,
    )
    PROMOTE: int = parameter(
        0,
        (0, units.PROMOTED),
        units.MEANS_PROMOTE,
        must={
            **units.MUST_PROMOTE,
            "with PROMOTE, (TRR + 1) * TCR must be at most 24, or 16 with three warp groups, so that the sums fit in registers": (
                "not PROMOTE or (TRR + 1) * TCR <= (16 if TBR == 3 else 24)"
            ),
            "beside block scales fewer sums fit: TRR must be 1 and TBR at most 2, or (TRR + 1) * TCR at most 16": ""
            "not block or (TRR == 1 and TBR <= 2) or (TRR + 1) * TCR <= 16",
        },
        later=True,
    )
    TURN: bool = parameter(
        False,
        (False, True),
        "C is computed transposed: in all other parameters rows and columns, and A and B, change places.",
        must={"TURN needs TBR of at most 2": "not TURN or TBR <= 2"},
        tried=("not TURN or turns",),
        later=True,
    )
    ALIGNED: str = parameter(
        "none",
        ("none", "a", "b", "ab"),
        "Operands that a launch copies to rows aligned to 128 bytes before the product: those whose rows are aligned to 16 bytes only.",
        must={"TURN and ALIGNED exclude each other": "ALIGNED == 'none' or not TURN"},
        tried=("ALIGNED == 'none' or ALIGNED in unaligned",),
        batched=False,
        later=True,
    )
    ALTERNATE: bool = parameter(
        False,
        (False, True),
        "Ping-pong: each of two warp groups computes tiles of its own, and stores one while the other multiplies; otherwise they share a "
        "tile.",
        must={"ALTERNATE needs TBR = 2": "not ALTERNATE or TBR == 2"},
        tried=("not ALTERNATE or (tiles > compute_units and not PROMOTE)",),
        later=True,
    )
    REST: str = parameter(
        "none",
        ("none", *RESTS),
        "The tile, rows x columns, for the last rows of C, which a second launch computes below whole waves of tiles; none: all tiles are "
        "alike.",
        must={
            "REST excludes SPLIT_K > 1, TURN, ALIGNED and ALTERNATE": (
                "REST == 'none' or (SPLIT_K == 1 and not TURN and ALIGNED == 'none' and not ALTERNATE)"
            )
        },
        tried=("REST == 'none' or m > TBR * TRR * 64",),
        batched=False,
        later=True,
    )
    RASTER: int = parameter(
        1,
        (1, 8, 16),
        "Rows of tiles in a band, which neighbouring work-groups cover together; 0: all rows.",
        tried=("RASTER <= 8 or tiles >= 64",),
    )

    @property
    def transposes(self) -> bool:
        """Whether the kernel computes C^T = op(B)^T op(A)^T."""
        return self.TURN

    @property
    def rows(self) -> int:
        """Rows of the tile of C that a work-group computes."""
        return _ROWS * self.TRR * (1 if self.ALTERNATE else self.TBR)

    @property
    def columns(self) -> int:
        """Columns of the tile of C that a work-group computes."""
        return 16 * self.TCR

    @property
    def item_tile(self) -> tuple[int, int]:
        """Rows and columns of the block of C whose operands a warp group reads from local memory together."""
        return _ROWS * self.TRR, self.columns

    @property
    def items(self) -> int:
        """Work-items of a work-group."""
        return _GROUP * (self.TBR + 1)

    @property
    def block(self) -> int:
        """Steps of k that are never divided between work-groups: a stage of the smallest elements."""
        return units.LINE

    @property
    def rounded(self) -> int:
        """Steps of k to which the work is rounded up."""
        return units.LINE // 2

    def groups(self, problem: Problem) -> int:
        """Tiles of C, rounded up to whole clusters of CLUSTER tiles."""
        down = -(-problem.sizes["m"] // (self.rows * self.CLUSTER)) * self.CLUSTER
        return down * -(-problem.sizes["n"] // self.columns)

    def spans_batch(self) -> bool:
        """Whether a work-group loops over the batch: if the host makes tensor maps, of whole stacks."""
        return bool(self.MAPS)

    def maps(self, problem: Problem, places: Mapping[str, OperandPlace]) -> tuple[Arg, ...]:
        """With MAPS a tensor map of each operand. Its box is the whole tile if rows run along k, else 64 elements across k (of two bytes
        each).
        """
        if not self.MAPS:
            return ()
        depth, size = units.depth(problem), types_of(problem).operand.itemsize
        made = []
        for name, across, tile, shares in (("a", "m", self.rows, 1), ("b", "n", self.columns, self.CLUSTER)):
            place = places[name]
            sides, box = (problem.sizes["k"], problem.sizes[across]), (depth, tile // shares)
            if not units.along(problem, name, fragments=True):
                sides, box = sides[::-1], (units.LINE // size, depth // shares)
            role: Role = "in" if place.buffer == name else "temporary"
            stack = (place.count, place.step * size) if place.step else (0, 0)
            found = TensorMap(size, *sides, place.layout.strides[0] * size, *box, place.layout.offset * size, *stack)
            made.append(Arg(place.buffer, "tensor_map", role, map=found))
        return tuple(made)

    def cut(self, problem: Problem, device: DeviceInfo) -> TailCut | None:
        """Where C is cut below whole waves of tiles; None without REST, with an epilogue, or if operands are copied along k first."""
        copied = any(self.lines(problem, name) for name in "ab")
        if self.REST == "none" or self.TERMS > 1 or copied or options_of(problem) or block_of(problem) or moduli(problem):
            return None
        m, n, k = (problem.sizes[s] for s in "mnk")
        step, across, slots = self.rows * self.CLUSTER, -(-n // self.columns), self.resident(device.compute_units) // self.CLUSTER
        down = -(-m // step)
        whole = down * across // slots
        above = whole * slots // across
        if not 0 < above < down:
            return None
        tile = self.bare(1)
        groups = -(-(m - above * step) // tile.rows) * -(-n // tile.columns)
        shares = min(device.compute_units // groups, k // _SHARE, _SHARED)
        parts = 1 << max(shares, 1).bit_length() - 1
        last = -(-groups * parts // device.compute_units) / parts * (tile.rows * tile.columns) / (self.rows * self.columns)
        return TailCut(above * step, parts, max(1 - (whole + last) / -(-down * across // slots), 0.0))

    def bare(self, parts: int) -> Hopper:
        """The tile for the last rows, whose k ``parts`` work-groups share."""
        rows, columns, stages = RESTS[self.REST]
        return replace(tile(rows, columns, stages), MAPS=self.MAPS, PROMOTE=self.PROMOTE, SPLIT_K=parts)

    def roundings(self, k: int) -> int:
        """See ``units.roundings``."""
        return units.roundings(k, self.SPLIT_K if self.REST == "none" else _SHARED, self.PROMOTE)

    def lines(self, problem: Problem, name: str) -> int:
        """The row stride of the copy along k that is made of an operand which is not ``units.direct``."""
        return units.pitch(problem, name, fragments=True)

    def aligned(self, problem: Problem, name: str) -> int:
        """The row stride of the aligned copy that ALIGNED asks for, of an operand whose rows begin in the middle of memory sectors."""
        asked = name in ("" if self.ALIGNED == "none" else self.ALIGNED)
        return units.aligned_pitch(problem, name) if asked and units.unaligned(problem, name) else 0

    def local_bytes(self, itemsize: int, along: bool = True) -> int:
        """The stages of both operands' tiles, sums on their way to C, tensor maps and barriers."""
        stages = self.STAGES * units.LINE * (self.rows + self.columns) * self.TERMS
        return _ALIGNMENT + stages + self.TBR * _EXCHANGE + 2 * _MAP + 16 * self.STAGES

    def local_beside(self, problem: Problem) -> int:
        """The block scales of each row and column of a stage's tiles."""
        return self.STAGES * 4 * (self.rows + self.columns) if block_of(problem) else 0

    def facts(self, problem: Problem, device: DeviceInfo, bare_sums: bool) -> dict[str, Value]:
        """The orientation of the operands' tiles, and which sizes no tile divides. Raises ArgumentError for what the device cannot do."""
        if self.MAPS and not device.can.tensor_maps:
            raise ArgumentError(f"gemm: {device.name} takes no tensor maps from the host: MAPS must be 0")
        if self.CLUSTER > 1 and not device.can.clusters:
            raise ArgumentError(f"gemm: {device.name} runs no clusters of work-groups: CLUSTER must be 1")
        size = types_of(problem).operand.itemsize
        along = {name: units.along(problem, name, fragments=True) for name in "ab"}
        if not along["b"] and self.columns * size % units.LINE:
            raise ArgumentError("gemm: a B with k slow is copied 128 bytes at a time across k: TCR must be a multiple of 4")
        tile = self.rows * self.CLUSTER, self.columns
        found = units.facts(problem, device, tile, bare_sums, self.TERMS, fragments=True, of_transpose=self.TURN)
        found |= {f"{name.upper()}_ALONG": value for name, value in along.items()}
        return {**found, "local_bytes": self.local_bytes(4) + self.local_beside(problem)}


def tile(rows: int, columns: int, stages: int, blocks: int = 1, cluster: int = 1) -> Hopper:
    """A tile of ``rows`` x ``columns`` of C, with ``blocks`` blocks of 64 rows for each warp group, in clusters of
    ``cluster`` work-groups.
    """
    return Hopper(TBR=rows // (_ROWS * blocks), TRR=blocks, TCR=columns // 16, STAGES=stages, CLUSTER=cluster, RASTER=8)
