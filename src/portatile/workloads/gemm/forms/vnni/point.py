"""The parameters of the vnni form: what each means, its values and its rules; and the geometry that follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from portatile.records import DeviceInfo, Problem, Value
from portatile.workloads.gemm.parameters import SHARES_K, parameter
from portatile.workloads.gemm.point import RegisterTile
from portatile.workloads.gemm.reals import for_dots, types_of

WORD = 4
"""Bytes of a word: the neighbours along k (two bfloat16 or four int8) that one lane multiplies in an instruction."""
_LANES = 16  # lanes of a vector of 512 bits


def dots(problem: Problem, device: DeviceInfo) -> bool:
    """Whether the device has the dot-product instruction for the problem's operands."""
    return for_dots(problem) and types_of(problem).operand.name in device.can.dot_types


def space_facts(problem: Problem, device: DeviceInfo) -> dict[str, Value]:
    """Facts for rules: whether the device has the dot-product instruction."""
    return {"dots": dots(problem, device)}


@dataclass(frozen=True)
class Vnni(RegisterTile):
    """A work-item keeps a tile of TR rows x TC columns of C in vector registers; a lane adds up the products of words along k."""

    FORM: ClassVar[str] = "vnni"
    FILE: ClassVar[str] = __file__
    PANELS: ClassVar[bool] = True

    TR: int = parameter(
        1,
        (2, 4, 6, 8, 10, 12, 14),
        "Rows of the register tile.",
        must={"the vnni form is for bfloat16 and int8": "dot_type"},
        tried=("dots or m * n * k * max(batch, 1) <= 1 << 20", "TR <= 2 or TR < m + 2"),
        defines=("vnni",),
    )
    TC: int = parameter(
        1,
        (16, 32, 48, 64),
        "Columns of the register tile, in vectors of 16.",
        must={
            "TC must be 16, 32, 48 or 64": "TC in (16, 32, 48, 64)",
            "(TR + 1) * (TC / 16) + 2 must be at most 32: sums, columns of B and two elements of A fit in 32 registers": ""
            "(TR + 1) * (TC // 16) + 2 <= 32",
        },
        tried=("TC < n + 16",),
        defines=("vnni",),
    )
    UNROLL: int = parameter(1, (1, 2, 4), "Words along k that are unrolled.")
    SPLIT_K: int = parameter(
        1,
        (1, 2, 4, 8, 16, 32, 64),
        "Split k: work-groups that share the k of one tile; a second launch adds their sums in a fixed order.",
        tried=(SHARES_K,),
    )
    RASTER: int = parameter(
        1,
        (0, 8, 32),
        "Rows of tiles in a band, which neighbouring work-groups go through column by column; 0: all.",
        defines=("vnni",),
    )

    @property
    def block(self) -> int:
        """Steps of k that are never divided between work-groups: a word of the smallest elements."""
        return WORD

    def packs(self, name: str) -> bool:
        """Always: both operands are packed into panels of words."""
        return True

    def depth(self, problem: Problem) -> int:
        """Words along k, and one further word of the panel's own (the sum or the exponent of its elements)."""
        return -(-problem.sizes["k"] * types_of(problem).operand.itemsize // WORD) + 1

    def facts(self, problem: Problem, device: DeviceInfo, bare_sums: bool) -> dict[str, Value]:
        """The neighbours along k in a word, and whether the text may use the instruction."""
        return {"NEIGHBOURS": WORD // types_of(problem).operand.itemsize, "ASSEMBLY": dots(problem, device)}
