"""The parameters of the generic form: what each means, its values and its rules; and the geometry that follows from them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from portatile.records import Arg, DeviceInfo, Launch, Problem, Temporary, Value
from portatile.workloads.gemm.forms.generic import images
from portatile.workloads.gemm.parameters import SHARES_K, parameter
from portatile.workloads.gemm.point import BlockedTile

OPERANDS = ("AB", "A", "B")

# Operands that are staged differently, viewed or packed are tried only with these values of other parameters, not in every combination.
_ALIKE = "(TXC_OF == 'AB' and not VIEW_A and not VIEW_B and SM_OF == 'AB')"
# The terms stand in the order in which a search binds the parameters: an expression is evaluated as far as its parameters are bound.
_SQUARE = "SCALARS and VL * itemsize == 16 and TR <= 8 and TR % VL == 0 and TC <= 8 and TRR == 1 and TCR == 1 and KB in (8, 16)"
_BARE = "not LDG and not SHUFFLE and MAD == 'a*b+c' and UNROLL == KB and PAD == 0 and SPLIT_K == 1"
_TENS = ("TRR == 1", "TCR == 1", "TBR == 16", "TBC == 16", "PAD == 0", "SPLIT_K == 1")
_PIXEL = "TXC reads pixels of 16 bytes: the tile must be a multiple of them; without SM, TR must be, and VL must be one pixel"


@dataclass(frozen=True)
class Generic(BlockedTile):
    """A work-group of TBR x TBC work-items computes TRR x TCR blocks of C; a work-item has TR x TC elements of each block."""

    FORM: ClassVar[str] = "generic"
    FILE: ClassVar[str] = __file__

    VL: int = parameter(
        1,
        (1, 2, 4, 8),
        "Elements of a vector, along a row of C.",
        must={"complex elements need even VL and TR: each is two reals": "not complex or VL % 2 == TR % 2 == 0"},
        defines=("generic",),
    )
    TC: int = parameter(
        1,
        (1, 2, 4, 8, 10),
        "Columns of a work-item's part of one block.",
        must={"VL must divide TC": "TC % VL == 0"},
        tried=("(TR == 10) == (TC == 10)",),
        defines=("generic",),
    )
    TR: int = parameter(
        1,
        (1, 2, 4, 8, 10),
        "Rows of a work-item's part of one block.",
        tried=(
            "4 <= TR * TRR * TC * TCR <= 72 or TR == TC == 10",
            "(TR == 10) == (KB == 10)",
            "TR != 10 or (VL == 2 and SM and not TXC)",
            *(f"TR != 10 or {rule}" for rule in _TENS),
        ),
        defines=("generic",),
    )
    TBC: int = parameter(
        1,
        (8, 16, 32),
        "Work-items of a work-group along the columns of C.",
        tried=("64 <= TBR * TBC <= min(256, max_work_group_size)",),
        defines=("generic",),
    )
    TBR: int = parameter(
        1,
        (8, 16, 32),
        "Work-items of a work-group along the rows of C.",
        # on a processor ten times slower than register tiles: legal if a trial takes little time
        tried=("device_kind != 'cpu' or m * n * k * max(batch, 1) <= 1 << 22",),
        defines=("generic",),
    )
    TCR: int = parameter(
        1, (1, 2, 3, 4), "Blocks of the tile along the columns of C.", tried=("TCR == 1 or TCR * TC <= 8",), defines=("generic",)
    )
    TRR: int = parameter(
        1, (1, 2, 3, 4), "Blocks of the tile along the rows of C.", tried=("TRR == 1 or TRR * TR <= 8",), defines=("generic",)
    )
    KB: int = parameter(
        1,
        (6, 8, 10, 16),
        "Steps of k in a tile of local memory, or without SM between two tests for the end of k.",
        must={"KB must be 1 or more in the generic form": "KB > 0"},
        tried=("not SM or KB * (TBR * TR * TRR + TBC * TC * TCR) * itemsize <= local_memory",),
        defines=("generic",),
    )
    TXC: bool = parameter(
        False,
        (False, True),
        "A and B are read through images, which launches before the product write, unless VIEW_A and VIEW_B make them views.",
        must={
            "images hold the operands of one problem: set TXC = False for a batch": "not TXC or not batched",
            "images hold float32 and float64: set TXC = False": "not TXC or plain",
            f"{_PIXEL} (A)": "not TXC or TXC_OF == 'B' or VIEW_A"
            " or (TBR * TR * TRR if SM and SM_OF != 'B' else TR) % (16 // itemsize) == 0",
            f"{_PIXEL} (B)": "not TXC or TXC_OF == 'A' or VIEW_B"
            " or (TBC * TC * TCR % (16 // itemsize) == 0 if SM and SM_OF != 'A' else VL == 16 // itemsize)",
        },
        tried=(
            "not TXC or images",
            "not TXC or VIEW_A or TXC_OF == 'B' or (k <= image_width and m * itemsize // 16 < image_height)",
            "not TXC or VIEW_B or TXC_OF == 'A' or (k <= image_width and n * itemsize // 16 < image_height)",
            "not TXC or SM or (VL * itemsize == 16 and TR * itemsize % 16 == 0)",
            "not TXC or TBR * TR * TRR * itemsize % 16 == TBC * TC * TCR * itemsize % 16 == 0",
            "not TXC or SPLIT_K == 1",
            "not TXC or SCALARS",
        ),
        batched=False,
    )
    SM: bool = parameter(False, (False, True), "A and B are staged in local memory.")
    UNROLL: int = parameter(
        1, (1, 6, 8, 10, 16), "Steps of k that are unrolled.", tried=("UNROLL in (1, KB)", "device_kind != 'cpu' or UNROLL == KB")
    )
    MAD: str = parameter(
        "fma",
        ("fma", "mad", "a*b+c"),
        "How a multiply-add is written: fma, mad or a*b+c.",
        tried=("MAD == 'a*b+c' or (device_kind != 'cpu' and SCALARS and UNROLL == KB and PAD == 0 and SPLIT_K == 1)",),
    )
    SCALARS: bool = parameter(
        True,
        (False, True),
        "The register tile consists of named scalar variables, not of an array.",
        tried=("device_kind != 'cpu' or SCALARS",),
    )
    PAD: int = parameter(
        0,
        (0, 1, 4),
        "Padding, in elements, of the rows of a tile in local memory: avoids bank conflicts between columns.",
        must={"PAD must be a multiple of VL": "PAD % VL == 0"},
        tried=(
            "PAD == 0 or (SM and KB * (TBR * TR * TRR + TBC * TC * TCR + 2 * PAD) * itemsize <= local_memory)",
            "device_kind != 'cpu' or PAD == 0",
        ),
        defines=("generic",),
    )
    PACK_A: bool = parameter(
        False,
        (False, True),
        "A launch before the product packs A into panels.",
        must={
            "PACK_A and an image of A (TXC) exclude each other": "not PACK_A or not TXC or TXC_OF == 'B'",
            "block scales are applied when operands are packed: set PACK_A and PACK_B": "not block or (PACK_A and PACK_B)",
        },
        tried=(
            f"not (PACK_A or PACK_B) or ({_SQUARE})",
            f"not (PACK_A or PACK_B) or ({_BARE})",
            f"device_kind != 'cpu' or ({_ALIKE} and not (PACK_A or PACK_B)) or TBR * TBC == 64",
        ),
    )
    PACK_B: bool = parameter(
        False,
        (False, True),
        "A launch before the product packs B into panels.",
        must={"PACK_B and an image of B (TXC) exclude each other": "not PACK_B or not TXC or TXC_OF == 'A'"},
    )
    SPLIT_K: int = parameter(
        1,
        (1, 2, 4, 8, 16, 32, 64),
        "Split k: work-groups that share the k of one tile; a second launch adds their sums in a fixed order.",
        tried=(SHARES_K,),
    )
    LDG: bool = parameter(
        False,
        (False, True),
        "Operands are read from global memory through the read-only cache; otherwise the compiler chooses. NVIDIA only.",
        must={"LDG is for float32 and float64": "not LDG or plain"},
        tried=("not LDG or (nvidia and not TXC and SCALARS and UNROLL == KB and PAD == 0 and MAD == 'a*b+c')",),
        later=True,
    )
    SHUFFLE: bool = parameter(
        False,
        (False, True),
        "Each work-item reads one element of A from local memory, and the warp exchanges them by shuffles. NVIDIA only.",
        must={
            "SHUFFLE replaces reads of A from local memory: SM must hold for A": "not SHUFFLE or (SM and SM_OF != 'B')",
            "SHUFFLE needs whole warps, TBC must divide 32, and TR * TRR must be at most TBC": "not SHUFFLE"
            " or (32 % TBC == TBR * TBC % 32 == 0 and TR * TRR <= TBC)",
        },
        tried=("not SHUFFLE or (nvidia and SM and SCALARS and UNROLL == KB and PAD == 0 and MAD == 'a*b+c')",),
        later=True,
    )
    SM_OF: str = parameter(
        "AB",
        OPERANDS,
        "The operands for which SM holds, AB for both; every work-item reads the other one from global memory, a panel or an image.",
        when="SM",
        tried=(f"{_ALIKE} or ({_SQUARE})", f"{_ALIKE} or ({_BARE})"),
        later=True,
    )
    TXC_OF: str = parameter(
        "AB",
        OPERANDS,
        "The operands for which TXC holds, AB for both; the other one is read from global memory or, with PACK_A or PACK_B, from panels.",
        when="TXC",
        batched=False,
        later=True,
    )
    VIEW_A: bool = parameter(
        False,
        (False, True),
        "The image of A is a view of A's memory, at no cost, instead of a copy.",
        when="TXC and TXC_OF != 'B'",
        tried=("not VIEW_A or shown_a",),
        batched=False,
        later=True,
    )
    VIEW_B: bool = parameter(
        False,
        (False, True),
        "The image of B is a view of B's memory, at no cost, instead of a copy.",
        when="TXC and TXC_OF != 'A'",
        tried=("not VIEW_B or shown_b",),
        batched=False,
        later=True,
    )

    def through_local(self, name: str) -> bool:
        """Whether operand ``name`` (a or b) goes through local memory."""
        return self.SM and name.upper() in self.SM_OF

    def source(self, name: str) -> str:
        """The source of operand ``name``: memory, panel, image (a copy) or view (an image of the memory itself)."""
        if self.TXC and name.upper() in self.TXC_OF:
            return "view" if (self.VIEW_A if name == "a" else self.VIEW_B) else "image"
        return super().source(name)

    def group(self, along: bool) -> tuple[int, int, int]:
        """TBC neighbours along a row of C, in TBR rows."""
        return (self.TBC, self.TBR, 1)

    def local_bytes(self, itemsize: int, along: bool = True) -> int:
        """Local memory of a work-group."""
        if not self.SM:
            return 0
        sides = (self.rows if "A" in self.SM_OF else 0) + (self.columns if "B" in self.SM_OF else 0)
        return self.KB * (sides + len(self.SM_OF) * self.PAD) * itemsize

    def lowered(self, device: DeviceInfo) -> Generic:
        """The point without NVIDIA's instructions, for other devices."""
        return self if device.nvidia else replace(self, LDG=False, SHUFFLE=False)

    def operand(self, problem: Problem, name: str, device: DeviceInfo) -> tuple[Arg, ...] | None:
        """The image of the operand; a view also with offset and row stride."""
        source = self.source(name)
        if source == "image":
            return (Arg(f"{name}_image", "image", "temporary"),)
        return images.shown(problem, name, device, self._pixel(problem, name)) if source == "view" else None

    def staged(self, problem: Problem, name: str, device: DeviceInfo) -> tuple[Launch, Temporary] | None:
        """The launch that writes the operand's image, if it is not a view."""
        return images.copied(problem, name, device) if self.source(name) == "image" else None

    def facts(self, problem: Problem, device: DeviceInfo, bare_sums: bool) -> dict[str, Value]:
        """The sources of the operands, and the pixels of views."""
        facts: dict[str, Value] = {"HALVES": images.halves(problem, device)}
        for name in "ab":
            upper = name.upper()
            facts |= {f"{upper}_FROM": self.source(name), f"{upper}_LOCAL": self.through_local(name)}
            facts[f"{upper}_PIXEL"] = self._pixel(problem, name)
        return facts

    def _pixel(self, problem: Problem, name: str) -> int:
        """Elements in a pixel of a view of A or B."""
        side, unit = (self.rows, self.TR) if name == "a" else (self.columns, self.VL)
        return images.pixel_elements(problem, name, (self.KB, side) if self.through_local(name) else None, unit)


def tile(vl: int, block: tuple[int, int], group: tuple[int, int], blocks: tuple[int, int], kb: int, sm: bool) -> Generic:
    """A point in the generator's ten parameters; pairs are (rows, columns)."""
    (tr, tc), (tbr, tbc), (trr, tcr) = block, group, blocks
    return Generic(VL=vl, TR=tr, TC=tc, TBR=tbr, TBC=tbc, TRR=trr, TCR=tcr, KB=kb, UNROLL=kb, SM=sm, MAD="a*b+c")


MEDIUM = tile(4, (4, 4), (16, 16), (1, 1), 16, True)
"""A tile of 64 x 64 that performs decently on every GPU."""
