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

_ROWS = 64  # of a warp group's instruction
_GROUP = 128  # work-items of a warp group
_EXCHANGE = 4 * 16 * 40 * 4  # bytes of local memory through which a warp group's sums go to C
_MAP = 128  # bytes of a tensor map
_ALIGNMENT = 1024  # of the tiles, which local memory need not have
RESTS: Mapping[str, tuple[int, int, int]] = {
    "128x192": (128, 192, 4),
    "128x128": (128, 128, 6),
    "64x128": (64, 128, 6),
    "64x64": (64, 64, 12),
}
"""Rows, columns and stages of tiles below whole waves of others, by their names."""
_SHARED, _SHARE = 16, 256  # groups at most that share the k of a tile of the rest, and steps of k of each at least


@dataclass(frozen=True)
class Hopper(Point):
    """A persistent group: TBR consumer warp groups that multiply, and a producer that has the TMA copy tiles."""

    FORM: ClassVar[str] = "hopper"
    FILE: ClassVar[str] = __file__
    OPTIONS: ClassVar[tuple[str, ...]] = ("-arch=sm_90a", "-portatile-early-start")
    PERSISTENT: ClassVar[bool] = True
    SCRATCH: ClassVar[int] = 2 * _MAP

    TBR: int = parameter(
        1,
        (1, 2, 3),
        "Consumer warp groups, one below the other.",
        must={
            "the hopper form multiplies 16-bit and 8-bit floats, tfloat32 and int8": "unit_type",
            "one to three warp groups multiply": "TBR in (1, 2, 3)",
        },
        tried=("warp_groups",),
    )
    TRR: int = parameter(1, (1, 2), "Blocks of 64 rows of a warp group.", must={"64 TRR TBR must be 256 at most": "TRR * TBR <= 4"})
    TCR: int = parameter(
        1,
        (2, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16),
        "Columns of the tile of C in sixteens.",
        must={
            "TCR must be 1 to 16, of three warp groups 12 at most": "1 <= TCR <= (12 if TBR == 3 else 16)",
            "sums must fit registers": "TRR * TCR <= 16",
            "shares of B's tile of CLUSTER groups are rows by eight": "TCR * 2 % CLUSTER == 0",
        },
        tried=("not across or TCR % 4 == 0",),
    )
    STAGES: int = parameter(
        1,
        (3, 4, 5, 6, 8, 12),
        "Tiles in local memory, filled by asynchronous copies; each has 128 bytes along k.",
        must={"two tiles or more take turns": "STAGES >= 2"},
        tried=(
            f"STAGES * (2048 + 64 * (block > 0)) * (4 * TRR * TBR + TCR) + TBR * ({_EXCHANGE})"
            f" + {2 * _MAP + _ALIGNMENT + 16 * 6} <= local_limit",
        ),
    )
    CLUSTER: int = parameter(
        1,
        (1, 2),
        "Groups of a cluster, one below the other, that multicast shares of their tile of B.",
        must={"one, two or four groups share B": "CLUSTER in (1, 2, 4)"},
        tried=("CLUSTER == 1 or clusters",),
    )
    SPLIT_K: int = parameter(
        1,
        (1, 2, 4, 8, 16, 32, 64, 128),
        "Groups that share the k of one tile; their sums are added by a second kernel, or with JOIN, always in the same order.",
        tried=(SHARES_K,),
    )
    JOIN: bool = parameter(
        False,
        (False, True),
        "The last of the groups that share a tile's sums to be done adds them, in the same order: no second launch.",
        must={"JOIN adds what groups share: with SPLIT_K": "not JOIN or SPLIT_K > 1"},
        tried=("not JOIN or joins", f"not JOIN or TBR * TRR * TCR * 4096 * SPLIT_K <= {JOINED}"),
        later=True,
    )
    MAPS: int = parameter(
        0,
        (0, 1),
        "Who makes the tensor maps of A and B: 0 each group, in global memory; 1 the host, which passes them to the kernel.",
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
            "sums and those of one block of rows in the units must fit registers": (
                "not PROMOTE or (TRR + 1) * TCR <= (16 if TBR == 3 else 24)"
            ),
            "beside factors of blocks of k fewer sums fit": "not block or (TRR == 1 and TBR <= 2) or (TRR + 1) * TCR <= 16",
        },
        later=True,
    )
    TURN: bool = parameter(
        False,
        (False, True),
        "C is computed transposed: rows and columns, A and B change places in all of this.",
        must={"two warp groups at most are TURNed": "not TURN or TBR <= 2"},
        tried=("not TURN or turns",),
        later=True,
    )
    ALIGNED: str = parameter(
        "none",
        ("none", "a", "b", "ab"),
        "Operands that are copied first to rows which begin where memory reads begin: those whose rows are aligned to 16 bytes only.",
        must={"what is TURNed is not ALIGNED": "ALIGNED == 'none' or not TURN"},
        tried=("ALIGNED == 'none' or ALIGNED in unaligned",),
        batched=False,
        later=True,
    )
    ALTERNATE: bool = parameter(
        False,
        (False, True),
        "Ping-pong: two warp groups compute whole tiles by turns, and one is stored while the other is multiplied; else they share one.",
        must={"two warp groups take turns": "not ALTERNATE or TBR == 2"},
        tried=("not ALTERNATE or (tiles > compute_units and not PROMOTE)",),
        later=True,
    )
    REST: str = parameter(
        "none",
        ("none", *RESTS),
        "The tile of the last rows of C, in a launch of their own, where tiles above them fill the device; none: all tiles are alike.",
        must={
            "a REST stands below whole tiles: without SPLIT_K, TURN, ALIGNED and ALTERNATE": (
                "REST == 'none' or (SPLIT_K == 1 and not TURN and ALIGNED == 'none' and not ALTERNATE)"
            )
        },
        tried=("REST == 'none' or m > TBR * TRR * 64",),
        batched=False,
        later=True,
    )
    RASTER: int = parameter(
        1, (1, 8, 16), "Rows of tiles that neighbouring groups cover together; 0: all.", tried=("RASTER <= 8 or tiles >= 64",)
    )

    @property
    def transposes(self) -> bool:
        """Whether C^T = op(B)^T op(A)^T is computed."""
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
        """Rows and columns of C whose operands are read from local memory together."""
        return _ROWS * self.TRR, self.columns

    @property
    def items(self) -> int:
        """Work-items of a group."""
        return _GROUP * (self.TBR + 1)

    @property
    def block(self) -> int:
        """Steps of k that are never divided between groups: a tile of the smallest elements."""
        return units.LINE

    @property
    def rounded(self) -> int:
        """Steps of k to which the work is rounded up."""
        return units.LINE // 2

    def groups(self, problem: Problem) -> int:
        """Tiles of C, with CLUSTER rounded up to whole clusters."""
        down = -(-problem.sizes["m"] // (self.rows * self.CLUSTER)) * self.CLUSTER
        return down * -(-problem.sizes["n"] // self.columns)

    def spans_batch(self) -> bool:
        """Whether the host makes the maps: of whole stacks."""
        return bool(self.MAPS)

    def maps(self, problem: Problem, places: Mapping[str, OperandPlace]) -> tuple[Arg, ...]:
        """A map of each operand with MAPS, in boxes of a whole tile along k, of 64 elements across it else."""
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
        """Below the tiles that fill the device; None without REST, for products with an epilogue, and where operands are copied first."""
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
        """The tile of the rest, whose k so many groups share."""
        rows, columns, stages = RESTS[self.REST]
        return replace(tile(rows, columns, stages), MAPS=self.MAPS, PROMOTE=self.PROMOTE, SPLIT_K=parts)

    def roundings(self, k: int) -> int:
        """See ``units.roundings``."""
        return units.roundings(k, self.SPLIT_K if self.REST == "none" else _SHARED, self.PROMOTE)

    def lines(self, problem: Problem, name: str) -> int:
        """The row stride of the copy that is made first of an operand which cannot be copied as it lies."""
        return units.pitch(problem, name, fragments=True)

    def aligned(self, problem: Problem, name: str) -> int:
        """The row stride of the copy that ALIGNED asks for, of an operand whose rows memory does not read whole."""
        asked = name in ("" if self.ALIGNED == "none" else self.ALIGNED)
        return units.aligned_pitch(problem, name) if asked and units.unaligned(problem, name) else 0

    def local_bytes(self, itemsize: int, along: bool = True) -> int:
        """The stages of both operands' tiles, sums on their way to C, tensor maps and barriers."""
        stages = self.STAGES * units.LINE * (self.rows + self.columns) * self.TERMS
        return _ALIGNMENT + stages + self.TBR * _EXCHANGE + 2 * _MAP + 16 * self.STAGES

    def local_beside(self, problem: Problem) -> int:
        """Factors of a block of k for each row and column of a stage's tiles."""
        return self.STAGES * 4 * (self.rows + self.columns) if block_of(problem) else 0

    def facts(self, problem: Problem, device: DeviceInfo, bare_sums: bool) -> dict[str, Value]:
        """How the operands' tiles lie, and whether they divide the operands. Raises ArgumentError for what the device does not take."""
        if self.MAPS and not device.can.tensor_maps:
            raise ArgumentError(f"gemm: no host makes tensor maps for {device.name}: MAPS must be 0")
        if self.CLUSTER > 1 and not device.can.clusters:
            raise ArgumentError(f"gemm: {device.name} runs no clusters of groups: CLUSTER must be 1")
        size = types_of(problem).operand.itemsize
        along = {name: units.along(problem, name, fragments=True) for name in "ab"}
        if not along["b"] and self.columns * size % units.LINE:
            raise ArgumentError("gemm: B with k slow is copied 128 bytes across at a time: TCR must be a multiple of 4")
        tile = self.rows * self.CLUSTER, self.columns
        found = units.facts(problem, device, tile, bare_sums, self.TERMS, fragments=True, of_transpose=self.TURN)
        found |= {f"{name.upper()}_ALONG": value for name, value in along.items()}
        return {**found, "local_bytes": self.local_bytes(4) + self.local_beside(problem)}


def tile(rows: int, columns: int, stages: int, blocks: int = 1, cluster: int = 1) -> Hopper:
    """A tile of rows x columns of C, each warp group with so many ``blocks`` of 64 rows, and so many groups in a cluster."""
    return Hopper(TBR=rows // (_ROWS * blocks), TRR=blocks, TCR=columns // 16, STAGES=stages, CLUSTER=cluster, RASTER=8)
