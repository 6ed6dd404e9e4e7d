"""The parameters of the matrix form: what each means, its values and its rules; and the geometry that follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from portatile.records import DeviceInfo, Problem, Value
from portatile.workloads.gemm import units
from portatile.workloads.gemm.parameters import SHARES_K, parameter
from portatile.workloads.gemm.point import Point

_FRAGMENT = 16  # rows, and columns, of a fragment of C
_SKEW = 8  # padding, in columns, of the rows of sums in local memory
_WHOLE = "must be a multiple of 64"


@dataclass(frozen=True)
class MatrixUnits(Point):
    """A work-group of TBR x TBC sub-groups computes a tile of C; each sub-group has TRR x TCR fragments of 16 x 16."""

    FORM: ClassVar[str] = "matrix"
    FILE: ClassVar[str] = __file__

    TBR: int = parameter(
        1,
        (1, 2, 4),
        "Sub-groups of a work-group along the rows of C.",
        must={
            f"16 * TRR * TBR {_WHOLE}": "TRR * TBR % 4 == 0",
            "the matrix form is for 16-bit and 8-bit floats, tfloat32 and int8": "unit_type",
        },
        tried=("unit or m * n * k * max(batch, 1) <= 1 << 20",),
    )
    TBC: int = parameter(
        1,
        (1, 2, 4),
        "Sub-groups of a work-group along the columns of C.",
        must={f"16 * TCR * TBC {_WHOLE}": "TCR * TBC % 4 == 0"},
        tried=("2 <= TBR * TBC <= min(8, max_work_group_size // 32)",),
    )
    TRR: int = parameter(1, (2, 4), "Fragments of 16 rows that each sub-group computes.")
    TCR: int = parameter(1, (2, 4), "Fragments of 16 columns that each sub-group computes.")
    STAGES: int = parameter(
        1,
        (2, 3, 4, 5),
        "Stages of the pipeline: tiles in local memory that asynchronous copies fill; each has 128 bytes along k.",
        must={"STAGES must be 2 or more": "STAGES >= 2"},
        tried=(
            "STAGES * (TRR * TBR + TCR * TBC) * 2048 <= local_limit",
            "TRR * TBR * (TCR * TBC * 16 + 8) * 64 <= local_limit",
            "device_kind != 'cpu' or STAGES == 2",
        ),
    )
    DOUBLE: int = parameter(
        0,
        (0, 1),
        "Double buffering in registers: fragments of the next 32 bytes along k are loaded during the current ones; 0 no, 1 yes.",
        tried=("device_kind != 'cpu' or DOUBLE == 0",),
    )
    SPLIT_K: int = parameter(
        1,
        (1, 2, 4, 8, 16, 32, 64),
        "Split k: work-groups that share the k of one tile; a second launch adds their sums in a fixed order.",
        tried=(SHARES_K,),
    )
    PROMOTE: int = parameter(
        0, (0, units.PROMOTED), units.MEANS_PROMOTE, must=units.MUST_PROMOTE, tried=("not PROMOTE or TRR * TCR <= 8",), later=True
    )
    RASTER: int = parameter(
        1,
        (1, 8),
        "Rows of tiles in a band, which neighbouring work-groups cover together; 0: all rows.",
        tried=("RASTER == 1 or tiles >= 64", "device_kind != 'cpu' or RASTER == 1"),
    )

    @property
    def rows(self) -> int:
        """Rows of the tile of C that a work-group computes."""
        return _FRAGMENT * self.TRR * self.TBR

    @property
    def columns(self) -> int:
        """Columns of the tile of C that a work-group computes."""
        return _FRAGMENT * self.TCR * self.TBC

    @property
    def item_tile(self) -> tuple[int, int]:
        """Rows and columns of C whose operands a work-item's sub-group loads."""
        return _FRAGMENT * self.TRR, _FRAGMENT * self.TCR

    @property
    def items(self) -> int:
        """Work-items of a work-group."""
        return 32 * self.TBR * self.TBC

    @property
    def block(self) -> int:
        """Steps of k that are never divided between work-groups: a stage of the smallest elements."""
        return units.LINE

    @property
    def rounded(self) -> int:
        """Steps of k to which the work is rounded up."""
        return units.LINE // 2

    def roundings(self, k: int) -> int:
        """See ``units.roundings``."""
        return units.roundings(k, self.SPLIT_K, self.PROMOTE)

    def lines(self, problem: Problem, name: str) -> int:
        """The row stride of the copy along k that is made of an operand which is not ``units.direct``."""
        return units.pitch(problem, name)

    def local_bytes(self, itemsize: int, along: bool = True) -> int:
        """The stages of both operands' tiles, or the sums on their way to C."""
        stages = self.STAGES * units.LINE * (self.rows + self.columns) * self.TERMS
        return max(stages, self.rows * (self.columns + _SKEW) * 4)

    def facts(self, problem: Problem, device: DeviceInfo, bare_sums: bool) -> dict[str, Value]:
        """The orientation of the operands' tiles, and which sizes no tile divides."""
        facts = units.facts(problem, device, (self.rows, self.columns), bare_sums, self.TERMS)
        return {**facts, "local_bytes": self.local_bytes(4)}


def tile(groups: tuple[int, int], fragments: tuple[int, int], stages: int, double: int = 1) -> MatrixUnits:
    """A point with ``groups`` sub-groups, each with ``fragments``; pairs are (rows, columns)."""
    (tbr, tbc), (trr, tcr) = groups, fragments
    return MatrixUnits(TBR=tbr, TBC=tbc, TRR=trr, TCR=tcr, STAGES=stages, DOUBLE=double)
