"""The steps of TRSM for a configuration: the blocks on the diagonal one after another, and the products between them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from portatile.records import Arg, Call, Config, DeviceInfo, Launch, Layout, Plan, Problem, Role, Source, Temporary, Value
from portatile.template import load
from portatile.workloads import blocks
from portatile.workloads.blocks import integer, long_integer
from portatile.workloads.structured import order

_REGISTERS = 8  # of vectors that a tile takes, a power of two
_REGISTERS_WIDE = 16  # the same where there are twice as many
_MAX_GROUPS = 65535  # of work-groups in the second dimension, CUDA's limit


def forward(problem: Problem) -> bool:
    """Whether the first unknowns are solved first: the lower triangle from the left, the upper one from the right."""
    lower = (problem.options["uplo"] == "L") != (problem.options["trans"] in ("T", "C"))
    return lower == (problem.options["side"] == "L")


@dataclass(frozen=True)
class Batch:
    """``count`` systems of one shape in one launch; from one to the next, A and B lie ``a`` and ``b`` elements on (A 0: shared)."""

    count: int
    a: int
    b: int


def plan(problem: Problem, config: Config, device: DeviceInfo, batch: Batch | None = None) -> Plan:
    """All steps; none for an empty B. Raises ArgumentError for operands whose rows are not contiguous.

    With ``batch``, ``problem`` is its first one, and every step works on all of them, by substitution.
    """
    blocks.check(problem)
    if problem.sizes["m"] == 0 or problem.sizes["n"] == 0:
        return Plan(())
    if batch is not None or config["METHOD"] == "substitute":
        return _Substitution(problem, config, device, batch).plan()
    return _Inverses(problem, config, device).plan()


@dataclass(frozen=True)
class _Block:
    """Unknowns ``start`` to ``start + size`` of the system."""

    start: int
    size: int


class _Recursion(ABC):
    """Solve half of the unknowns, take what they explain off the other half in one product, solve that half.

    The products are larger than those of a loop over blocks, for the same number of launches.
    """

    solution = ""  # the operand or temporary that holds what is solved

    def __init__(self, problem: Problem, config: Config, device: DeviceInfo, batch: Batch | None = None) -> None:
        self.problem, self.config, self.device, self.batch = problem, config, device, batch
        self.left = problem.options["side"] == "L"
        self.trans = str(problem.options["trans"])
        self.order, self.count = order(problem), problem.sizes["n" if self.left else "m"]
        self.nb = int(config["NB"])
        self.steps: list[Launch | Call] = []

    @abstractmethod
    def plan(self) -> Plan:
        """The plan with all steps and the workspace."""

    @abstractmethod
    def leaf(self, block: _Block, first: bool) -> None:
        """Append the steps that solve ``block``; its right-hand side is scaled by alpha if it is the ``first``."""

    @abstractmethod
    def solution_layout(self) -> Layout:
        """The layout of the solution in its memory."""

    def solve(self) -> None:
        """Append the steps that solve for all unknowns."""
        blocks = [_Block(start, min(self.nb, self.order - start)) for start in range(0, self.order, self.nb)]
        self._solve(blocks if forward(self.problem) else blocks[::-1], True)

    def _solve(self, blocks: list[_Block], first: bool) -> None:
        if len(blocks) == 1:
            self.leaf(blocks[0], first)
            return
        middle = (len(blocks) + 1) // 2
        self._solve(blocks[:middle], first)
        self._update(_together(blocks[:middle]), _together(blocks[middle:]), first)
        self._solve(blocks[middle:], False)

    def _update(self, known: _Block, rest: _Block, first: bool) -> None:
        """rest of B = scale * rest of B - op(A)[rest, known] X[known], or the mirror image of it from the right."""
        row, column = (rest, known) if self.left == (self.trans in "NR") else (known, rest)
        a = self.problem.layout["a"]
        between = Layout(a.strides, a.offset + row.start * a.strides[0] + column.start, a.alignment)
        solved = self.part(self.solution_layout(), known)
        target = self.part(self.problem.layout["b"], rest)
        self.product(("a", between), (self.solution, solved), ("b", target), rest.size, known.size, (-1.0, "alpha" if first else 1.0))

    def part(self, layout: Layout, block: _Block) -> Layout:
        """The unknowns of ``block`` in a matrix that is laid out like B."""
        step = layout.strides[0] if self.left else 1
        return Layout(layout.strides, layout.offset + block.start * step, layout.alignment)

    def product(
        self,
        matrix: tuple[str, Layout],
        known: tuple[str, Layout],
        target: tuple[str, Layout],
        size: int,
        depth: int,
        factors: tuple[float | str, float | str],
        *,
        natively: bool = False,
    ) -> None:
        """Append target = factors[0] op(matrix) known + factors[1] target, or known op(matrix) from the right.

        It is formed in the problem's precision, or ``natively``.
        """
        problem = blocks.natively(self.problem) if natively else self.problem
        if self.left:
            sizes, operands, trans = (size, self.count, depth), {"a": matrix, "b": known, "c": target}, (self.trans, "N")
        else:
            sizes, operands, trans = (self.count, size, depth), {"a": known, "b": matrix, "c": target}, ("N", self.trans)
        if self.batch is None:
            self.steps.append(blocks.product(problem, sizes, operands, trans, factors))
        else:
            lengths = {"a": self.batch.a, "b": self.batch.b}
            stacks = {
                name: (memory, replace(layout, strides=(lengths[memory], *layout.strides))) for name, (memory, layout) in operands.items()
            }
            self.steps.append(blocks.product(problem, sizes, stacks, trans, factors, self.batch.count))

    def source(self, file: str, defines: Mapping[str, Value]) -> Source:
        """The kernel text ``file`` with the definitions that every text here wants and ``defines``."""
        kinds = {"COMPLEX": blocks.is_complex(self.problem), "HERMITIAN": self.trans in "CR"}
        return load(
            __file__,
            file,
            {**blocks.types(self.problem), "UNIT": self.problem.options["diag"] == "U", **defines},
            BATCH=self.batch is not None,
            **kinds,
        )

    @property
    def alpha(self) -> Arg:
        """The caller's alpha."""
        return Arg("alpha", "scalar", dtype=self.problem.dtype)

    def matrix(self, name: str, role: Role) -> tuple[Arg, ...]:
        """An operand, its offset and its leading dimension."""
        layout = self.problem.layout[name]
        return (
            Arg(name, role=role),
            long_integer(f"{name}_offset", layout.offset),
            long_integer(f"ld{name}", layout.strides[0]),
        )


class _Substitution(_Recursion):
    """A block on the diagonal is solved in place by one launch."""

    solution = "b"

    def plan(self) -> Plan:
        """Launches and products by turns; no workspace."""
        defines = {"IB": self.config["IB"], "WGS": self.config["WGS"]}
        self.serial = self.device.kind == "cpu" and not blocks.is_complex(self.problem)
        self.text = self.source("panel.cl", {**defines, **self._vectors()}) if self.serial else self.source("substitute.cl", defines)
        self.solve()
        return Plan(tuple(self.steps))

    def _vectors(self) -> Mapping[str, Value]:
        """The vectors of a processor, and how many of them, for each of IB rows, its registers hold beside what they are added to."""
        wide, itemsize = self.device.wide_vectors, self.problem.itemsize
        lanes = (64 if wide else 32) // itemsize
        together = max(1, (_REGISTERS_WIDE if wide else _REGISTERS) // int(self.config["IB"]))
        real = "float" if itemsize == 4 else "double"
        sides = int(self.config["WGS"]) // lanes
        return {"NB": self.nb, "VL": lanes, "VECTOR": f"{real}{lanes}", "ALIGNMENT": itemsize, "TOGETHER": min(together, sides)}

    def solution_layout(self) -> Layout:
        """B's own."""
        return self.problem.layout["b"]

    def leaf(self, block: _Block, first: bool) -> None:
        """The block as a lower triangle: transposed by its strides, and read backwards where the last unknown comes first."""
        a, b = self.problem.layout["a"], self.part(self.problem.layout["b"], block)
        across = self.left == (self.trans in "NR")  # whether the stored rows of A are the equations
        a_row, a_column = (a.strides[0], 1) if across else (1, a.strides[0])
        b_row, b_column = (b.strides[0], 1) if self.left else (1, b.strides[0])
        a_offset, b_offset = a.offset + block.start * (a.strides[0] + 1), b.offset
        if not forward(self.problem):
            a_offset += (block.size - 1) * (a_row + a_column)
            b_offset += (block.size - 1) * b_row
            a_row, a_column, b_row = -a_row, -a_column, -b_row
        arguments = (
            *(integer(name, value) for name, value in (("order", block.size), ("count", self.count), ("scaled", int(first)))),
            self.alpha,
            Arg("a"),
            *(long_integer(name, value) for name, value in (("a_offset", a_offset), ("a_row", a_row), ("a_column", a_column))),
            Arg("b", role="inout"),
            *(long_integer(name, value) for name, value in (("b_offset", b_offset), ("b_row", b_row), ("b_column", b_column))),
        )
        if self.batch is not None:
            arguments = (*arguments, long_integer("a_batch", self.batch.a), long_integer("b_batch", self.batch.b))
        group, systems = int(self.config["WGS"]), 1 if self.batch is None else self.batch.count
        groups = -(-self.count // group)
        if self.serial:
            self.steps.append(Launch(self.text, "triangular_panel", (groups, 1, systems), (1, 1, 1), arguments))
        else:
            self.steps.append(Launch(self.text, "triangular_substitute", (groups * group, 1, systems), (group, 1, 1), arguments))


class _Inverses(_Recursion):
    """All blocks on the diagonal are inverted first; then each is one product, out of place, and one launch writes X over B.

    With refinement, two more products correct each block of X by the inverse times its residual.
    """

    solution = "solution"

    def plan(self) -> Plan:
        """Inversion, doubling, products, writing back."""
        self.refine = self.config["METHOD"] == "refine"
        m, n, itemsize = self.problem.sizes["m"], self.problem.sizes["n"], self.problem.itemsize
        self.ld = -(-n // 32) * 32  # so that products may read and write wide
        defines = {name: self.config[name] for name in ("NB", "IB", "WGS", "PANEL")}
        self.text = self.source("invert.cl", {**defines, "UPPER": self.problem.options["uplo"] == "U"})
        self._invert()
        self.solve()
        group = int(self.config["WGS"])
        solution = (Arg("solution", role="temporary"), long_integer("ldx", self.ld))
        arguments = (integer("m", m), integer("n", n), self.alpha, *solution, *self.matrix("b", "inout"))
        size = (-(-n // group) * group, min(m, _MAX_GROUPS), 1)
        self.steps.append(Launch(self.text, "triangular_write", size, (group, 1, 1), arguments))
        names = ("inverses", "blocks") if self.refine else ("inverses",)
        squares = (Temporary(name, -(-self.order // self.nb) * self.nb**2 * itemsize) for name in names)
        return Plan(tuple(self.steps), (*squares, Temporary("solution", m * self.ld * itemsize)))

    def solution_layout(self) -> Layout:
        """Row-major with rows that begin on a vector."""
        return Layout((self.ld, 1))

    def leaf(self, block: _Block, first: bool) -> None:
        """X[block] = scale * op(inverse) B[block], or the mirror image from the right."""
        inverse = Layout((self.nb, 1), block.start * self.nb)
        known, target = self.part(self.problem.layout["b"], block), self.part(self.solution_layout(), block)
        scale = "alpha" if first else 1.0
        product = partial(self.product, natively=True)
        product(("inverses", inverse), ("b", known), ("solution", target), block.size, block.size, (scale, 0.0))
        if self.refine:  # B[block] becomes what X[block] leaves unexplained, and X[block] gets the solution for that
            product(("blocks", inverse), ("solution", target), ("b", known), block.size, block.size, (-1.0, scale))
            product(("inverses", inverse), ("b", known), ("solution", target), block.size, block.size, (1.0, 1.0))

    def _invert(self) -> None:
        size, group, panel = int(self.config["IB"]), int(self.config["WGS"]), int(self.config["PANEL"])
        known = (self.alpha, *self.matrix("a", "in"))
        if self.refine:
            everything = (-(-self.nb // group) * group, min(self.order, _MAX_GROUPS), 1)
            arguments = (integer("order", self.order), *known, Arg("blocks", role="temporary"))
            self.steps.append(Launch(self.text, "triangular_copy", everything, (group, 1, 1), arguments))
        rest = (*known, Arg("inverses", role="temporary"))
        padded = -(-self.order // self.nb) * self.nb
        self.steps.append(Launch(self.text, "triangular_invert", (padded, 1, 1), (size, 1, 1), (integer("order", self.order), *rest)))
        while size < self.nb and size < self.order:
            pairs = -(-(self.order - size) // (2 * size))
            arguments = (integer("order", self.order), integer("half_size", size), *rest)
            everything = (size // panel * group, pairs, 1)
            self.steps.append(Launch(self.text, "triangular_join", everything, (group, 1, 1), arguments))
            size *= 2


def _together(blocks: list[_Block]) -> _Block:
    """Neighbours, in rising or falling order, as one."""
    return _Block(min(block.start for block in blocks), sum(block.size for block in blocks))
