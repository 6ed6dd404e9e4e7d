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
    """A division of k between ``parts`` work-groups of ``chunk`` steps each; one launch for each of the ``starts`` (in steps of k)."""

    chunk: int
    parts: int
    starts: tuple[int, ...] = (0,)


@dataclass(frozen=True)
class TailCut:
    """A stream-K tail: the first ``above`` rows of C in whole tiles; below them ``parts`` groups share the k of each tile.

    ``saved`` is the share of the time that this is expected to save.
    """

    above: int
    parts: int
    saved: float


@dataclass(frozen=True)
class OperandPlace:
    """Where a product reads A or B: the ``buffer``, the layout there, and of a batch the ``count`` of matrices, ``step`` elements apart.

    With a step of 0 all problems of the batch share one.
    """

    buffer: str
    layout: Layout
    count: int = 0
    step: int = 0


class Point:
    """A configuration of one form: a frozen record whose fields are the form's parameters, and the geometry that follows from them.

    Class attributes say what holds for every configuration of the form:

    - ``FORM``: its name. ``FILE``: a file in the folder of its kernel texts. ``OPTIONS``: build options of its text.
    - ``SERIAL``: one work-item packs a whole slice of a panel, which suits processors.
    - ``PANELS``: the folder has a pack.cl of its own, whose work-items pack whole panels.
    - ``PERSISTENT``: groups go from tile to tile, so there are at most as many as compute units.
    - ``SCRATCH``: bytes of global memory that each group has to itself.
    - ``TERMS``: the number of matrices of fewer bits whose sum an operand is.
    - ``IDLE``: further values of parameters of other forms that old configurations may name; see ``forms.canonical``.
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
        """The problem in the real numbers that the form's kernels calculate with; unchanged for a form that knows the types itself."""
        return computed(problem)

    def config(self, batched: bool = False) -> dict[str, Value]:
        """The configuration as names and values: the form, and every parameter that has an effect, in a batch or without."""
        declared, values = declaration(type(self)), self.values()
        there = (name for name, one in declared.parameters.items() if (one.batched or not batched) and declared.acts(name, values))
        return {"FORM": self.FORM, **{name: values[name] for name in there}}

    def values(self) -> dict[str, Value]:
        """Every parameter with its value, also those without an effect."""
        return {name: getattr(self, name) for name in declaration(type(self)).parameters}

    def check(self, facts: Mapping[str, Value] | None = None) -> None:
        """Raise ArgumentError, with the rule in words, where parameters contradict each other or, if given, the ``facts``."""
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
        """Work-items of a group."""
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
        """The number of steps of k that one group always does together; shares of k are multiples of it."""
        return 1

    @property
    def rounded(self) -> int:
        """Steps of k to which the work is rounded up."""
        return 1

    @property
    def transposes(self) -> bool:
        """Whether C^T = op(B)^T op(A)^T is computed."""
        return False

    @property
    def joins(self) -> bool:
        """Whether the last of the groups that share a tile's k adds up what all of them computed; else a second launch does."""
        return bool(getattr(self, "JOIN", False))

    @property
    def gathered(self) -> int:
        """The groups of a cluster that share a tile's k and add up their sums in each other's local memory; 1 where none do."""
        return 1

    def packs(self, name: str) -> bool:
        """Whether operand ``name`` (a or b) is packed into panels before."""
        return bool(getattr(self, f"PACK_{name.upper()}", False))

    def depth(self, problem: Problem) -> int:
        """Rows of a panel that an operand is packed into: elements of the type that the kernels calculate with, one below the other."""
        return -(-problem.sizes["k"] // self.block) * self.block

    def source(self, name: str) -> str:
        """The source of operand ``name`` for the kernel: memory or panel."""
        return "panel" if self.packs(name) else "memory"

    def group(self, along: bool) -> tuple[int, int, int]:
        """The shape of a work-group: a row whose work-items the text places. ``along``: op(A) has k fast."""
        return (self.items, 1, 1)

    def groups(self, problem: Problem) -> int:
        """Work-groups that share C, without those that share its k; the problem is transposed already where the point asks for it."""
        return -(-problem.sizes["m"] // self.rows) * -(-problem.sizes["n"] // self.columns)

    def groups_of_triangle(self, problem: Problem, zeros: str) -> int:
        """The same where of C nothing "above" or "below" the diagonal is wanted, as ``zeros`` says; here groups come for all of it."""
        return self.groups(problem)

    def resident(self, units: int) -> int:
        """The groups of a persistent form that run at the same time, one on each of so many compute units: whole clusters.

        One cluster more would begin when the others end, and double the time.
        """
        usable = int(usable_multiprocessors(units, self.CLUSTER))
        return max(usable // self.CLUSTER, 1) * self.CLUSTER

    def passes(self, k: int) -> Passes:
        """The division of ``k`` steps."""
        share = -(-k // self.SPLIT_K)
        chunk = -(-share // self.block) * self.block
        return Passes(chunk, -(-k // chunk))

    def roundings(self, k: int) -> int:
        """Roundings of a sum beside those of its terms: one for each part of it, and one more."""
        return self.SPLIT_K + 1

    def cut(self, problem: Problem, device: DeviceInfo) -> TailCut | None:
        """The cut of C for a stream-K tail; None where all tiles are computed in the same way."""
        return None

    def slots(self, units: int) -> int:
        """The number of groups that ``units`` multiprocessors hold at once, as ``cut`` counts them."""
        return units

    def bare(self, parts: int) -> Point:
        """The configuration for the part below a ``cut``: ``parts`` groups share the k of a tile, and it is not cut again."""
        raise NotImplementedError

    def local_bytes(self, itemsize: int, along: bool = True) -> int:
        """Local memory of a work-group; ``along``: op(A) has k fast, which may take more."""
        return 0

    def local_beside(self, problem: Problem) -> int:
        """Local memory beside that, which more of the problem asks for."""
        return 0

    def lowered(self, device: DeviceInfo) -> Point:
        """The point without the instructions that the device lacks."""
        return self

    def lines(self, problem: Problem, name: str) -> int:
        """The row stride, in elements, of a copy of A or B contiguous along k, with zeros past k; 0 where no copy is made."""
        return 0

    def aligned(self, problem: Problem, name: str) -> int:
        """The row stride, in elements, of a copy of A or B as it lies with rows that memory reads whole; 0 where no copy is made."""
        return 0

    def operand(self, problem: Problem, name: str, device: DeviceInfo) -> tuple[Arg, ...] | None:
        """The kernel's arguments for A or B where those are neither memory nor a panel; else None."""
        return None

    def spans_batch(self) -> bool:
        """Whether the groups of one product go through all problems of a batch; their number is an argument then."""
        return False

    def maps(self, problem: Problem, places: Mapping[str, OperandPlace]) -> tuple[Arg, ...]:
        """The tensor maps that the host makes of A and B, which lie at ``places``."""
        return ()

    def further_arguments(self) -> tuple[Arg, ...]:
        """Further arguments of the kernel that stores C, beside operands and epilogue."""
        return ()

    def staged(self, problem: Problem, name: str, device: DeviceInfo) -> tuple[Launch, Temporary] | None:
        """The launch that brings A or B to where the kernel reads it, if it is not packed, and where that is."""
        return None

    def facts(self, problem: Problem, device: DeviceInfo, bare_sums: bool) -> dict[str, Value]:
        """The values that the template reads beside the parameters; ``bare_sums``: the kernel stores them to planes."""
        return {}


class RegisterTile(Point):
    """A point for processors: a group is one work-item, which keeps a tile of TR rows x TC columns of C in vector registers."""

    SERIAL: ClassVar[bool] = True
    TR: int
    TC: int

    @property
    def rows(self) -> int:
        """Rows of the register tile, which is a group's."""
        return self.TR

    @property
    def columns(self) -> int:
        """Columns of the register tile, which is a group's."""
        return self.TC

    @property
    def item_tile(self) -> tuple[int, int]:
        """Rows and columns of C that a work-item computes."""
        return self.TR, self.TC

    @property
    def items(self) -> int:
        """One work-item to a group."""
        return 1


class StagedTile(Point):
    """A point whose groups bring KB steps of k to local memory at a time, and compute whole ones of them."""

    KB: int

    @property
    def block(self) -> int:
        """The steps of a stage."""
        return self.KB

    @property
    def rounded(self) -> int:
        """The steps of a stage."""
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
        """Work-items of a group."""
        return self.TBR * self.TBC
