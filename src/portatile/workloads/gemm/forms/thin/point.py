"""The parameters of the thin form: what each means, its values and its rules; and the geometry that follows from them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd
from typing import ClassVar

from portatile.records import DeviceInfo, Problem, Value
from portatile.workloads.gemm.capabilities import JOINED, joins
from portatile.workloads.gemm.parameters import SHARES_K, parameter
from portatile.workloads.gemm.point import Point
from portatile.workloads.gemm.storage import k_fast

_WHOLE = 16  # shares of k are multiples of so many steps, so that vectors stay aligned
_SUMS = 16384  # bytes of local memory for the sums that work-items add up at a time
_ALONG = "(trans_b == 'T' if TURN else trans_a == 'N')"  # the large operand has k fast
_POWER = "{0} > 0 and {0} & ({0} - 1) == 0"


@dataclass(frozen=True)
class Thin(Point):
    """A work-group computes TBR blocks of TR rows x TC columns of C; KG work-items share the k of each block.

    A is the large operand, B the small one. With TURN C is computed transposed.
    """

    FORM: ClassVar[str] = "thin"
    FILE: ClassVar[str] = __file__
    IDLE: ClassVar = {"MAD": ("a*b+c",)}

    VL: int = parameter(
        1,
        (1, 2, 4),
        "Elements of a vector of A.",
        must={"VL must be a power of two in the thin form": _POWER.format("VL"), "the thin form is for float32 and float64": "plain"},
        tried=("VL * itemsize <= 16",),
    )
    TC: int = parameter(
        1,
        (1, 2, 4, 8),
        "Columns of C that a work-item computes.",
        must={"TC must be a power of two in the thin form": _POWER.format("TC")},
        tried=("TC == 1 or TC < 2 * (m if TURN else n)",),
        defines=("thin",),
    )
    TR: int = parameter(
        1,
        (1, 2, 4, 8),
        "Rows of C that a work-item computes.",
        must={"TR must be a power of two in the thin form": _POWER.format("TR")},
        tried=(f"TR % VL == 0 or {_ALONG}", "TR * TC * itemsize <= 256"),
        defines=("thin",),
    )
    TBR: int = parameter(
        1,
        (1, 2, 4, 8, 16, 32, 64),
        "Blocks of rows in a work-group's tile.",
        must={"TBR must be a power of two in the thin form": _POWER.format("TBR")},
        defines=("thin",),
    )
    KG: int = parameter(
        1,
        (1, 2, 4, 8, 16, 32, 64, 128, 256),
        "Work-items that share the k of a block, and add up their sums in the end.",
        must={"KG must be a power of two in the thin form": _POWER.format("KG")},
        tried=("64 <= TBR * KG <= min(1024, max_work_group_size)",),
        defines=("thin",),
    )
    KB: int = parameter(
        1,
        (64, 128, 256, 512, 1024, 2048),
        "Steps of k of B's columns that local memory holds.",
        when="SM",
        must={
            "with SM, KB must be a multiple of KG * UNROLL * VL in the thin form": "not SM or (KB > 0 and KB % (KG * UNROLL * VL) == 0)",
        },
        tried=("not SM or TC * (KB * itemsize + 16) <= min(local_memory, 49152)",),
        defines=("thin",),
    )
    SM: bool = parameter(False, (False, True), "A work-group keeps its columns of B in local memory; otherwise they come from the cache.")
    UNROLL: int = parameter(
        1,
        (1, 2, 4, 8, 16),
        "Vectors of A that a work-item has in flight for each row.",
        must={"UNROLL must be a power of two in the thin form": _POWER.format("UNROLL")},
        tried=(f"TR * UNROLL * (VL if {_ALONG} else 1) * itemsize <= 256",),
    )
    STAGES: int = parameter(
        1,
        (1, 2, 3, 4),
        "Stages of the pipeline: blocks of UNROLL vectors of A in local memory that asynchronous copies fill; 1: in registers.",
        tried=(
            "STAGES == 1 or (TC * (KB * itemsize + 16) if SM else 0) + STAGES * TBR * KG * TR * UNROLL"
            f" * (VL if {_ALONG} else 1) * itemsize <= min(local_limit, 131072)",
        ),
    )
    TURN: bool = parameter(
        False,
        (False, True),
        "C is computed transposed, as it must be if rows are few: in all other parameters rows and columns, and A and B, change places.",
        tried=("device_kind != 'cpu' and (m if TURN else n) <= 16", "TURN == (m < n)"),
    )
    SPLIT_K: int = parameter(
        1,
        (1, 2, 4, 8, 16, 32, 64),
        "Split k: work-groups that share the k of one tile. A second launch, or with JOIN the last group, adds their sums in a fixed "
        "order.",
        tried=(SHARES_K,),
    )
    JOIN: bool = parameter(
        False,
        (False, True),
        "Of the work-groups that share a tile's k, the last to finish adds all sums, in a fixed order: no second launch. NVIDIA's GPUs "
        "and processors.",
        must={"JOIN needs work-groups that share k: SPLIT_K > 1": "not JOIN or SPLIT_K > 1"},
        tried=("not JOIN or joins", f"not JOIN or TBR * TR * TC * SPLIT_K * itemsize <= {JOINED}"),
        later=True,
    )

    @property
    def rows(self) -> int:
        """Rows of the tile of C that a work-group computes."""
        return self.TBR * self.TR

    @property
    def columns(self) -> int:
        """Columns of the tile of C that a work-group computes."""
        return self.TC

    @property
    def item_tile(self) -> tuple[int, int]:
        """Rows and columns of C that a work-item computes."""
        return self.TR, self.TC

    @property
    def items(self) -> int:
        """Work-items of a work-group."""
        return self.TBR * self.KG

    @property
    def block(self) -> int:
        """Steps of k that are never divided between work-groups."""
        return _WHOLE

    @property
    def transposes(self) -> bool:
        """Whether the kernel computes C^T = op(B)^T op(A)^T."""
        return self.TURN

    def group(self, along: bool) -> tuple[int, int, int]:
        """Neighbouring work-items read contiguous elements, along k or across it, so that loads are coalesced."""
        return (self.KG, self.TBR, 1) if along else (self.TBR, self.KG, 1)

    @property
    def adders(self) -> int:
        """Work-items that add up one sum over its KG parts: about as many as the parts that each of them adds."""
        return 1 << (self.KG.bit_length() - 1) // 2

    def together(self, itemsize: int) -> int:
        """Sums of each work-item that the work-group adds up at a time."""
        each = self.TBR * (self.KG + 2 * self.adders) * itemsize
        fitting = [count for count in (64, 32, 16, 8, 4, 2, 1) if count <= self.TR * self.TC and count * each <= _SUMS]
        return next(iter(fitting), 1)

    def local_bytes(self, itemsize: int, along: bool = True) -> int:
        """Columns of B and the stages of A, or the sums that are added up after the product."""
        small = self.TC * (self.KB * itemsize + 16) if self.SM else 0
        if self.STAGES > 1:
            small += self.STAGES * self.items * self.TR * self.UNROLL * (self.VL if along else 1) * itemsize
        sums = self.together(itemsize) * self.TBR * (self.KG + 2 * self.adders) * itemsize if self.KG > 1 else 0
        return max(small, sums)

    def lowered(self, device: DeviceInfo) -> Thin:
        """The point with a second launch for the sums if work-groups cannot detect which of them is last."""
        return self if joins(device) else replace(self, JOIN=False)

    def facts(self, problem: Problem, device: DeviceInfo, bare_sums: bool) -> dict[str, Value]:
        """How the operands are read, the size of local memory, and how many sums a work-group adds up at a time."""
        itemsize, a, b = problem.itemsize, problem.layout["a"], problem.layout["b"]
        along, fast = k_fast(problem, "a"), k_fast(problem, "b")
        widest = min(self.VL, self.VL if along else self.TR, 16 // itemsize if self.STAGES > 1 else self.VL)
        width = a.vector_width(itemsize, widest)
        if not fast and problem.sizes["n"] == 1 and b.strides[0] == 1:  # a contiguous column is stored as a row is
            fast, b = True, replace(b, strides=(0, 1))
        together = self.together(itemsize)
        return {
            "K_FAST": along,
            "W": width if along else gcd(width, problem.sizes["m"]),
            "B_FAST": fast,
            "B_WIDTH": b.vector_width(itemsize) if fast else 1,
            "together": together,
            "adders": min(self.adders, max(self.items // (together * self.TBR), 1)),
            "space": self.local_bytes(itemsize, along) // itemsize,
        }


def column(vl: int, block: tuple[int, int], places: int, parts: int, unroll: int, staged: int = 0, split: int = 1) -> Thin:
    """A point for few columns of C: ``places`` blocks of rows x columns (``block``) to a work-group. ``parts`` work-items share the k of
    each block and have ``unroll`` vectors of ``vl`` elements in flight. ``staged``: steps of k of B in local memory, 0 for none.
    """
    (tr, tc), sm = block, staged > 0
    return Thin(VL=vl, TR=tr, TC=tc, TBR=places, KG=parts, UNROLL=unroll, SM=sm, KB=staged or 1, SPLIT_K=split)
