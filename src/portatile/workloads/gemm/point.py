"""``Point``: a configuration of one kernel form as a typed record, and the geometry that follows from its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from portatile.errors import ArgumentError
from portatile.records import Arg, DeviceInfo, Launch, Layout, Problem, Temporary, Value
from portatile.workloads.gemm.capabilities import usable_multiprocessors
from portatile.workloads.gemm.parameters import declaration
from portatile.workloads.gemm.reals import computed


@dataclass(frozen=True)
class Passes:
    """How k is divided: ``parts`` work-groups take ``chunk`` steps each, in one launch for each of the ``starts`` (steps of k)."""

    chunk: int
    parts: int
    starts: tuple[int, ...] = (0,)


@dataclass(frozen=True)
class TailCut:
    """A stream-K tail: the first ``above`` rows of C are computed in whole tiles; below them ``parts`` work-groups share the k of each
    tile.

    ``saved`` is the share of the time that the tail is expected to save.
    """

    above: int
    parts: int
    saved: float


@dataclass(frozen=True)
class OperandPlace:
    """Where a product reads A or B: the ``buffer``, the layout in it, and for a batch the ``count`` of matrices, ``step`` elements apart.

    With a step of 0 all problems of the batch share one matrix.
    """

    buffer: str
    layout: Layout
    count: int = 0
    step: int = 0


class Point:
    """A configuration of one form: a frozen record whose fields are the form's parameters, and the geometry that follows from them.

    Class attributes say what holds for every configuration of the form:

    - ``FORM``: the form's name. ``FILE``: a file in the folder of its kernel texts. ``OPTIONS``: build options of its text.
    - ``SERIAL``: one work-item packs a whole slice of a panel, which suits processors.
    - ``PANELS``: the form has its own pack.cl, whose work-items pack whole panels.
    - ``PERSISTENT``: work-groups take one tile after another, so there are at most as many as run at once.
    - ``SCRATCH``: bytes of global memory that each work-group has for itself.
    - ``TERMS``: the number of narrow matrices whose sum an operand is.
    - ``IDLE``: values of other forms' parameters that old configurations of this form may contain; see ``forms.canonical``.
    """

    FORM: ClassVar[str]
    FILE: ClassVar[str]
    SERIAL: ClassVar[bool] = False
    IDLE: ClassVar[Mapping[str, tuple[Value, ...]]] = {}
    OPTIONS: ClassVar[tuple[str, ...]] = ()
    PANELS: ClassVar[bool] = False
    PERSISTENT: ClassVar[bool] = False
    SCRATCH: ClassVar[int] = 0
    TERMS: ClassVar[int] = 1
    CLUSTER: int = 1
    SPLIT_K: int

    @classmethod
    def view(cls, problem: Problem) -> Problem:
        """The problem in the real numbers that the form's kernels compute with; unchanged for a form that handles other types itself."""
        return computed(problem)

    def config(self, batched: bool = False) -> dict[str, Value]:
        """The configuration as names and values: the form, and every parameter that has an effect (for a batch, if ``batched``)."""
        declared, values = declaration(type(self)), self.values()
        there = (name for name, one in declared.parameters.items() if (one.batched or not batched) and declared.acts(name, values))
        return {"FORM": self.FORM, **{name: values[name] for name in there}}

    def values(self) -> dict[str, Value]:
        """Every parameter with its value, including those without an effect."""
        return {name: getattr(self, name) for name in declaration(type(self)).parameters}

    def check(self, facts: Mapping[str, Value] | None = None) -> None:
        """Raise ArgumentError, with the rule in words, if the parameters contradict each other or, if given, the ``facts``."""
        declared, values = declaration(type(self)), self.values()
        for name, one in declared.parameters.items():
            if isinstance(one.default, str) and values[name] not in one.values:
                raise ArgumentError(f"gemm: {name} must be one of {', '.join(map(str, one.values))}; the configuration is {self.config()}")
        bound = values if facts is None else {**facts, **values}
        for words, rule, alone in declared.rules:
            if alone == (facts is None) and not rule.check(bound):
                raise ArgumentError(f"gemm: {words}; the configuration is {self.config()}")

    @property
    def rows(self) -> int:
        """Rows of the tile of C that a work-group computes."""
        raise NotImplementedError

    @property
    def columns(self) -> int:
        """Columns of the tile of C that a work-group computes."""
        raise NotImplementedError

    @property
    def items(self) -> int:
        """Work-items of a work-group."""
        raise NotImplementedError

    @property
    def item_tile(self) -> tuple[int, int]:
        """Rows and columns of C that a work-item computes."""
        raise NotImplementedError

    @property
    def text(self) -> str:
        """The kernel text's file, without its suffix."""
        return self.FORM

    @property
    def block(self) -> int:
        """The steps of k that one work-group always computes together; its share of k is a multiple of them."""
        return 1

    @property
    def rounded(self) -> int:
        """The multiple of steps of k to which the work is rounded up."""
        return 1

    @property
    def transposes(self) -> bool:
        """Whether the kernel computes C^T = op(B)^T op(A)^T."""
        return False

    @property
    def joins(self) -> bool:
        """Whether the last of the work-groups that share a tile's k adds up the partial sums of all; otherwise a second launch does."""
        return bool(getattr(self, "JOIN", False))

    @property
    def gathered(self) -> int:
        """The work-groups of a cluster that share a tile's k and add up their sums through each other's local
        memory; 1 without clusters.
        """
        return 1

    def packs(self, name: str) -> bool:
        """Whether a launch before the product packs operand ``name`` (a or b) into panels."""
        return bool(getattr(self, f"PACK_{name.upper()}", False))

    def depth(self, problem: Problem) -> int:
        """Rows of a packed panel (k rounded up), in elements of the type that the kernels compute with."""
        return -(-problem.sizes["k"] // self.block) * self.block

    def source(self, name: str) -> str:
        """What the kernel reads operand ``name`` from: "memory" or "panel"."""
        return "panel" if self.packs(name) else "memory"

    def group(self, along: bool) -> tuple[int, int, int]:
        """The shape of a work-group: one row of work-items, which the kernel text places. ``along``: op(A) is contiguous along k."""
        return (self.items, 1, 1)

    def groups(self, problem: Problem) -> int:
        """The tiles of C, one work-group each (more with split k). The problem is the transposed one if the point ``transposes``."""
        return -(-problem.sizes["m"] // self.rows) * -(-problem.sizes["n"] // self.columns)

    def groups_of_triangle(self, problem: Problem, zeros: str) -> int:
        """As ``groups``, if C is not wanted on the side of the diagonal ("above" or "below") that ``zeros`` names; by default it covers all
        of C.
        """
        return self.groups(problem)

    def resident(self, units: int) -> int:
        """The work-groups of a persistent form that run at once, one on each of ``units`` compute units, in whole clusters.

        One cluster more would begin when the others end, and double the time.
        """
        usable = int(usable_multiprocessors(units, self.CLUSTER))
        return max(usable // self.CLUSTER, 1) * self.CLUSTER

    def passes(self, k: int) -> Passes:
        """How ``k`` steps are divided between the work-groups that share a tile's k."""
        share = -(-k // self.SPLIT_K)
        chunk = -(-share // self.block) * self.block
        return Passes(chunk, -(-k // chunk))

    def roundings(self, k: int) -> int:
        """The roundings of a sum beyond those of its k terms: one for each partial sum, and one more."""
        return self.SPLIT_K + 1

    def cut(self, problem: Problem, device: DeviceInfo) -> TailCut | None:
        """Where C is cut for a stream-K tail; None if all tiles are computed in the same way."""
        return None

    def slots(self, units: int) -> int:
        """The work-groups that ``units`` multiprocessors hold at once, as ``cut`` counts them."""
        return units

    def bare(self, parts: int) -> Point:
        """The configuration for the part below a ``cut``: ``parts`` work-groups share the k of a tile, and C is not cut again."""
        raise NotImplementedError

    def local_bytes(self, itemsize: int, along: bool = True) -> int:
        """Bytes of local memory of a work-group. ``along``: op(A) is contiguous along k, which may need more."""
        return 0

    def local_beside(self, problem: Problem) -> int:
        """Further bytes of local memory that properties of the problem require."""
        return 0

    def lowered(self, device: DeviceInfo) -> Point:
        """The point without instructions that the device lacks."""
        return self

    def lines(self, problem: Problem, name: str) -> int:
        """The row stride, in elements, of the copy of A or B that is contiguous along k, with zeros past k; 0 if no such copy is made."""
        return 0

    def aligned(self, problem: Problem, name: str) -> int:
        """The row stride, in elements, of the copy of A or B in the same order but with aligned rows; 0 if no such copy is made."""
        return 0

    def operand(self, problem: Problem, name: str, device: DeviceInfo) -> tuple[Arg, ...] | None:
        """The kernel's arguments for A or B if it is passed as something other than a buffer (an image, for instance); otherwise None."""
        return None

    def spans_batch(self) -> bool:
        """Whether the work-groups of one product loop over all problems of a batch; their number is then an argument."""
        return False

    def maps(self, problem: Problem, places: Mapping[str, OperandPlace]) -> tuple[Arg, ...]:
        """The tensor maps of A and B, which lie at ``places``; the host makes them."""
        return ()

    def further_arguments(self) -> tuple[Arg, ...]:
        """Further arguments of the kernel that stores C, after operands and epilogue."""
        return ()

    def staged(self, problem: Problem, name: str, device: DeviceInfo) -> tuple[Launch, Temporary] | None:
        """The launch that converts an unpacked A or B to what the kernel reads (an image), and its temporary; None if the kernel reads it
        directly.
        """
        return None

    def facts(self, problem: Problem, device: DeviceInfo, bare_sums: bool) -> dict[str, Value]:
        """Values that the template reads beside the parameters. ``bare_sums``: the kernel stores partial sums to planes rather than C."""
        return {}


class RegisterTile(Point):
    """A point for processors: a work-group is one work-item, which keeps a tile of TR rows x TC columns of C in vector registers."""

    SERIAL: ClassVar[bool] = True
    TR: int
    TC: int

    @property
    def rows(self) -> int:
        """Rows of the register tile, the work-group's tile."""
        return self.TR

    @property
    def columns(self) -> int:
        """Columns of the register tile, the work-group's tile."""
        return self.TC

    @property
    def item_tile(self) -> tuple[int, int]:
        """Rows and columns of C that a work-item computes."""
        return self.TR, self.TC

    @property
    def items(self) -> int:
        """One work-item."""
        return 1


class StagedTile(Point):
    """A point whose work-groups bring stages of KB steps of k to local memory, and always compute whole stages."""

    KB: int

    @property
    def block(self) -> int:
        """Steps of k in a stage."""
        return self.KB

    @property
    def rounded(self) -> int:
        """Steps of k in a stage."""
        return self.KB


class BlockedTile(StagedTile):
    """A staged tile of TBR x TBC work-items, each of which computes TRR x TCR blocks of TR x TC elements of C."""

    TR: int
    TC: int
    TBR: int
    TBC: int
    TRR: int
    TCR: int

    @property
    def rows(self) -> int:
        """Rows of the tile of C that a work-group computes."""
        return self.TBR * self.TR * self.TRR

    @property
    def columns(self) -> int:
        """Columns of the tile of C that a work-group computes."""
        return self.TBC * self.TC * self.TCR

    @property
    def item_tile(self) -> tuple[int, int]:
        """Rows and columns of C that a work-item computes."""
        return self.TR * self.TRR, self.TC * self.TCR

    @property
    def items(self) -> int:
        """Work-items of a work-group."""
        return self.TBR * self.TBC
