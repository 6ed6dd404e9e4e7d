"""The parameters of the tma form: what each means, its values and its rules; and the geometry that follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from portatile.errors import ArgumentError
from portatile.records import Arg, DeviceInfo, Problem, Role, TensorMap, Value
from portatile.workload import packed_layout
from portatile.workloads.gemm.capabilities import JOINED, clusters
from portatile.workloads.gemm.parameters import SHARES_K, parameter
from portatile.workloads.gemm.point import OperandPlace, StagedTile
from portatile.workloads.gemm.storage import k_fast

_LINE = 16  # elements of a row of 128 bytes, within which the TMA swizzles 16-byte chunks
_ALIGNMENT = 1024  # bytes to which tiles are aligned; local memory itself need not be
_TILES = "((m + 16 * TBR * TRR - 1) // (16 * TBR * TRR) * ((n + 16 * TBC * TCR - 1) // (16 * TBC * TCR)))"
_WORD = 4  # bytes of an element in tensor maps, which count a float64 as two


@dataclass(frozen=True)
class Tma(StagedTile):
    """A warp has the TMA copy tiles of float64, and KG parts of TBR x TBC warps multiply them by matrix instructions."""

    FORM: ClassVar[str] = "tma"
    FILE: ClassVar[str] = __file__
    OPTIONS: ClassVar[tuple[str, ...]] = ("-arch=sm_90a", "-portatile-early-start")
    PERSISTENT: ClassVar[bool] = True

    TBR: int = parameter(
        1,
        (1, 2, 3, 4),
        "Warps along the rows of C, in each part of a work-group.",
        must={
            "the tma form is for float64": "plain and itemsize == 8",
            "the tma form is not for batches": "not batched",
        },
        tried=("tma",),
    )
    TBC: int = parameter(
        1, (1, 2, 3, 4), "Warps along the columns of C, in each part of a work-group.", tried=("2 <= TBR * TBC * KG <= 8",)
    )
    TRR: int = parameter(1, (1, 2, 3, 4, 5), "Blocks of 16 rows that each warp computes.")
    TCR: int = parameter(
        1,
        (1, 2, 3, 4, 5),
        "Blocks of 16 columns that each warp computes.",
        must={
            "TRR * TCR must be at most 8, so that the sums fit in registers": "TRR * TCR <= 8",
            "TBR * TRR and TBC * TCR must be at most 16: a box has at most 256 rows": "TBR * TRR <= 16 and TBC * TCR <= 16",
        },
    )
    KB: int = parameter(
        1,
        (16, 32),
        "Steps of k in a stage of local memory.",
        must={"KB must be 16, 32 or 64": "KB in (16, 32, 64)"},
    )
    STAGES: int = parameter(
        1,
        (3, 4, 5, 6, 8),
        "Stages of the pipeline: tiles in local memory that the TMA fills.",
        must={"STAGES must be a multiple of KG, and at least 2 KG": "STAGES >= 2 * KG and STAGES % KG == 0"},
        tried=(f"STAGES * (KB * 128 * (TBR * TRR + TBC * TCR) + 16) + {_ALIGNMENT} <= local_limit",),
    )
    COPIER: bool = parameter(
        True,
        (False, True),
        "A separate warp requests the copies; otherwise the multiplying warps do so in turn, which leaves registers for more work-groups.",
        must={"persistent work-groups (GROUPS > 0) need a COPIER": "COPIER or GROUPS == 0"},
    )
    DOUBLE: int = parameter(
        1,
        (1, 2),
        "Double buffering in registers, the operands of the next step of k that are loaded during the current one: 1 the smaller to a "
        "second set of registers, and the others in place as they are used up; 2 both to a second set.",
        must={"DOUBLE must be 1 or 2": "DOUBLE in (1, 2)"},
    )
    KG: int = parameter(
        1,
        (1, 2),
        "Parts of a work-group, which multiply the stages in turn and add up their sums in the end.",
        must={"KG > 1 needs GROUPS = 0: the parts add up their sums in the memory of the stages": "KG == 1 or GROUPS == 0"},
        tried=("KG == 1 or tiles <= 2 * compute_units",),
    )
    GROUPS: int = parameter(
        0,
        (0, 1, 2, 3),
        "Persistent work-groups on each multiprocessor, which take one tile after another; 0: one work-group for each tile.",
        must={"persistent work-groups (GROUPS > 0) do not split k": "GROUPS == 0 or SPLIT_K == 1"},
        tried=(f"GROUPS == 0 or {_TILES} > GROUPS * compute_units",),
    )
    SPLIT_K: int = parameter(
        1,
        (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 32, 48, 64),
        "Split k: work-groups that share the k of one tile. A second launch, or with JOIN the last group, adds their sums in a fixed "
        "order.",
        tried=(SHARES_K,),
    )
    JOIN: bool = parameter(
        False,
        (False, True),
        "Of the work-groups that share a tile's k, the last to finish adds all sums, in a fixed order: no second launch.",
        must={"JOIN needs work-groups that share k: SPLIT_K > 1": "not JOIN or SPLIT_K > 1"},
        tried=("not JOIN or joins", f"not JOIN or TBR * TRR * TBC * TCR * 2048 * SPLIT_K // CLUSTER ** 2 <= {JOINED}"),
    )
    CLUSTER: int = parameter(
        1,
        (1, 2, 4, 8),
        "Work-groups in a cluster: they share a tile's k and add up their sums through each other's local memory. 1: no clusters.",
        must={
            "CLUSTER > 1 must equal SPLIT_K, or divide it with JOIN": "CLUSTER == 1"
            " or (SPLIT_K % CLUSTER == 0 and JOIN == (SPLIT_K > CLUSTER))"
        },
        tried=("CLUSTER == 1 or clusters",),
    )
    RASTER: int = parameter(
        1,
        (1, 8),
        "Rows of tiles in a band, which neighbouring work-groups cover together; 0: all rows.",
        tried=("RASTER == 1 or tiles >= 64",),
    )

    @property
    def rows(self) -> int:
        """Rows of the tile of C that a work-group computes."""
        return _LINE * self.TRR * self.TBR

    @property
    def columns(self) -> int:
        """Columns of the tile of C that a work-group computes."""
        return _LINE * self.TCR * self.TBC

    @property
    def item_tile(self) -> tuple[int, int]:
        """Rows and columns of the block of C whose operands a warp reads from local memory together."""
        return _LINE * self.TRR, _LINE * self.TCR

    @property
    def warps(self) -> int:
        """Warps that multiply."""
        return self.TBR * self.TBC * self.KG

    @property
    def items(self) -> int:
        """Work-items of a work-group: the warps that multiply, and the COPIER."""
        return 32 * (self.warps + self.COPIER)

    @property
    def gathered(self) -> int:
        """The work-groups of a cluster that share a tile's k."""
        return self.CLUSTER

    def resident(self, units: int) -> int:
        """GROUPS on each multiprocessor; without GROUPS as many as there are tiles."""
        return self.GROUPS * units or 1 << 31

    def roundings(self, k: int) -> int:
        """The roundings of adding partial sums: those of work-groups and of a work-group's parts."""
        return self.SPLIT_K + self.KG

    def space(self, itemsize: int) -> int:
        """Bytes of the stages of both operands' tiles, or of the sums that parts or a cluster's work-groups exchange in the end."""
        shared = max(self.KG - 1, int(self.CLUSTER > 1))
        return itemsize * max(self.STAGES * self.KB * (self.rows + self.columns), shared * self.rows * self.columns)

    def local_bytes(self, itemsize: int, along: bool = True) -> int:
        """The stages and their barriers."""
        return _ALIGNMENT + self.space(itemsize) + 16 * self.STAGES

    def lowered(self, device: DeviceInfo) -> Tma:
        """The point without clusters if the device has none."""
        if self.CLUSTER == 1 or clusters(device):
            return self
        return replace(self, CLUSTER=1, JOIN=8 * self.rows * self.columns * self.SPLIT_K <= JOINED)

    def maps(self, problem: Problem, places: Mapping[str, OperandPlace]) -> tuple[Arg, ...]:
        """A tensor map of each operand. Its box is 16 steps of k x the tile's rows (or columns); with k slow 16 of
        these x KB steps of k.
        """
        made = []
        for name, across, tile in (("a", "m", self.rows), ("b", "n", self.columns)):
            place, words = places[name], problem.itemsize // _WORD
            columns, rows, high = problem.sizes["k"], problem.sizes[across], tile
            if not k_fast(problem, name):
                columns, rows, high = rows, columns, self.KB
            role: Role = "in" if place.buffer == name else "temporary"
            pitch, offset = place.layout.strides[0] * problem.itemsize, place.layout.offset * problem.itemsize
            made.append(
                Arg(place.buffer, "tensor_map", role, map=TensorMap(_WORD, words * columns, rows, pitch, words * _LINE, high, offset))
            )
        return tuple(made)

    def facts(self, problem: Problem, device: DeviceInfo, bare_sums: bool) -> dict[str, Value]:
        """The orientation of the operands' tiles, and whether tiles divide C. Raises ArgumentError for a device without a TMA."""
        if not device.can.tensor_maps:
            raise ArgumentError(f"gemm: {device.name} takes no tensor maps from the host, which the tma form needs")
        if not rows_aligned(problem):
            raise ArgumentError("gemm: the tma form needs rows of A and B that are aligned to 16 bytes; copy them, or take another form")
        if self.CLUSTER > 1 and not device.can.clusters:
            raise ArgumentError(f"gemm: {device.name} runs no clusters of work-groups: CLUSTER must be 1")
        m, n = problem.sizes["m"], problem.sizes["n"]
        a_along, b_along = (k_fast(problem, name) for name in "ab")
        target = packed_layout((m, n)) if bare_sums else problem.layout["c"]
        return {
            "A_ALONG": a_along,
            "B_ALONG": b_along,
            "FLIPPED": a_along or not b_along,
            "BARE": bare_sums,
            "C_VECTORS": n % 2 == 0 and target.vector_width(problem.itemsize) >= 2,
            "C_EDGE": m % self.rows != 0 or n % self.columns != 0,
            "SPACE": self.space(problem.itemsize),
            "local_bytes": self.local_bytes(problem.itemsize),
        }


def rows_aligned(problem: Problem) -> bool:
    """Whether the TMA can copy A and B from where they lie: their first rows and their row strides are aligned to 16 bytes."""
    return all(problem.layout[name].vector_width(problem.itemsize) * problem.itemsize >= 16 for name in "ab")
