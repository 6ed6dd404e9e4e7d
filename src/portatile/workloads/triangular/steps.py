"""The steps of TRSM for a configuration: the blocks on the diagonal one after another, and the products between them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from portatile.records import Arg, Call, Config, DeviceInfo, Launch, Layout, Plan, Problem, Role, Source, Temporary, Value
from portatile.template import load
from portatile.workloads import blocks, precisions
from portatile.workloads.blocks import integer, long_integer
from portatile.workloads.gemm.plan import Triangle
from portatile.workloads.structured import order, result
from portatile.workloads.triangular.inverses import Stack, inverses, joining, square

_REGISTERS = 8  # of vectors that a tile takes, a power of two
_REGISTERS_WIDE = 16  # the same where there are twice as many
_ZERO_GROUPS = 64  # rows of groups of a launch that mostly does nothing


def forward(problem: Problem) -> bool:
    """Whether the first unknowns are solved first: the lower triangle from the left, the upper one from the right."""
    lower = (problem.options["uplo"] == "L") != (problem.options["trans"] in ("T", "C"))
    return lower == (problem.options["side"] == "L")


@dataclass(frozen=True)
class Batch:
    """``count`` systems of one shape in one launch; from one to the next, A, B and the result lie ``a``, ``b`` and ``c`` elements on (A 0:
    shared).
    """

    count: int
    a: int
    b: int
    c: int = 0


def plan(problem: Problem, config: Config, device: DeviceInfo, batch: Batch | None = None) -> Plan:
    """All steps; none for an empty B. Raises ArgumentError for operands whose rows are not contiguous.

    With ``batch``, ``problem`` is its first one, and every step works on all of them.
    """
    blocks.check(problem)
    if problem.sizes["m"] == 0 or problem.sizes["n"] == 0:
        return Plan(())
    if config["METHOD"] == "substitute":
        return _Substitution(problem, config, device, batch).plan()
    return _Inverses(problem, config, device, batch).plan()


@dataclass(frozen=True)
class _Block:
    """Unknowns ``start`` to ``start + size`` of the system."""

    start: int
    size: int


_Sizes = tuple[int, int, int]
_Operands = dict[str, tuple[str, Layout]]
"""Memory and layout of a product's operands."""


class _Place(NamedTuple):
    """A matrix in memory, and what a launch does there."""

    memory: str
    layout: Layout
    role: Role


class _Recursion(ABC):
    """Solve half of the unknowns, take what they explain off the other half in one product, solve that half.

    The products are larger than those of a loop over blocks, for the same number of launches.
    """

    solution = ""  # the operand or temporary that holds what is solved
    rest = ""  # that of the right-hand sides, from which products take what is known

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

    @abstractmethod
    def rest_layout(self) -> Layout:
        """The layout of the right-hand sides in theirs."""

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
        """rest = scale * rest - op(A)[rest, known] X[known], or the mirror image of it from the right."""
        self.multiply(*self.factors(known, rest), (-1.0, "alpha" if first else 1.0))

    def factors(self, known: _Block, rest: _Block) -> tuple[_Sizes, _Operands, tuple[str, str]]:
        """Sizes, operands and transpositions of the product that takes off ``rest`` what ``known`` unknowns explain."""
        row, column = (rest, known) if self.left == (self.trans in "NR") else (known, rest)
        between = blocks.part(self.problem.layout["a"], row.start, column.start)
        solved = (self.solution, self.part(self.solution_layout(), known))
        return self.sided(("a", between), solved, (self.rest, self.part(self.rest_layout(), rest)), rest.size, known.size)

    def part(self, layout: Layout, block: _Block) -> Layout:
        """The unknowns of ``block`` in a matrix that is laid out like B."""
        step = layout.strides[0] if self.left else 1
        return Layout(layout.strides, layout.offset + block.start * step, layout.alignment)

    def sided(
        self, matrix: tuple[str, Layout], known: tuple[str, Layout], target: tuple[str, Layout], size: int, depth: int
    ) -> tuple[_Sizes, _Operands, tuple[str, str]]:
        """Sizes, operands and transpositions of target = op(matrix) known, or of known op(matrix) from the right."""
        if self.left:
            return (size, self.count, depth), {"a": matrix, "b": known, "c": target}, (self.trans, "N")
        return (self.count, size, depth), {"a": known, "b": matrix, "c": target}, ("N", self.trans)

    def multiply(
        self,
        sizes: _Sizes,
        operands: _Operands,
        trans: tuple[str, str],
        factors: tuple[float | str, float | str],
        *,
        natively: bool = False,
    ) -> None:
        """Append a product, of all systems of the batch where there is one, in the problem's precision or ``natively``."""
        problem = blocks.natively(self.problem) if natively else self.problem
        if self.batch is None:
            self.steps.append(blocks.product(problem, sizes, operands, trans, factors))
            return
        self.steps.append(blocks.product(problem, sizes, self.stacks(operands), trans, factors, self.batch.count))

    def stacks(self, operands: _Operands) -> _Operands:
        """The operands of the first system's product as those of all systems."""
        return {
            name: (memory, replace(layout, strides=(self.step(memory), *layout.strides))) for name, (memory, layout) in operands.items()
        }

    def step(self, memory: str) -> int:
        """Elements from an operand or temporary of one system of the batch to the next one's."""
        assert self.batch is not None
        return {"a": self.batch.a, "b": self.batch.b, "c": self.batch.c}[memory]

    @property
    def systems(self) -> int:
        """How many there are."""
        return 1 if self.batch is None else self.batch.count

    def copy(self, source: _Place, target: _Place) -> None:
        """Append the copy of one matrix of the shape of B to another, in vectors where both have them; of zeros for alpha = 0."""
        m, n, itemsize = self.problem.sizes["m"], self.problem.sizes["n"], self.problem.itemsize
        group, definitions = int(self.config["WGS"]), blocks.types(self.problem)
        wide = max(1, 16 // itemsize)
        if n % wide or any(place.layout.vector_width(itemsize) < wide for place in (source, target)):
            wide = 1
        parts = wide * (2 if blocks.is_complex(self.problem) else 1)
        steps = () if self.batch is None else tuple(self.step(place.memory) for place in (source, target))
        if any(step % wide for step in steps):
            wide, parts = 1, parts // wide
        vector = str(definitions["REAL"]).rstrip("2") + (str(parts) if parts > 1 else "")
        kinds = {"COMPLEX": blocks.is_complex(self.problem), "BATCH": self.batch is not None}
        text = load(__file__, "copy.cl", {**definitions, "WGS": group, "VECTOR": vector}, **kinds)
        places = [
            arg
            for name, place in (("from", source), ("to", target))
            for arg in (
                Arg(place.memory, role=place.role),
                long_integer(f"{name}_offset", place.layout.offset // wide),
                long_integer(f"{name}_row", place.layout.strides[0] // wide),
            )
        ]
        moved = (long_integer(name, step // wide) for name, step in zip(("from_batch", "to_batch"), steps, strict=False))
        arguments = (integer("m", m), integer("n", n // wide), self.alpha, *places, *moved)
        (across, down, _), local = blocks.lines(self.problem, m, n // wide, group)
        self.steps.append(Launch(text, "triangular_copy", (across, down, self.systems), local, arguments))

    def source(self, file: str, defines: Mapping[str, Value]) -> Source:
        """The kernel text ``file`` with the definitions that every text here wants and ``defines``."""
        kinds = {"COMPLEX": blocks.is_complex(self.problem), "HERMITIAN": self.trans in "CR", "DOUBLE": self.problem.dtype == "complex128"}
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

    def plan(self) -> Plan:
        """Launches and products by turns, over a copy of B where the solution is apart; no workspace."""
        self.solution = self.rest = result(self.problem)
        defines = {"IB": self.config["IB"], "WGS": self.config["WGS"]}
        if self.solution != "b":
            self.copy(_Place("b", self.problem.layout["b"], "in"), _Place("c", self.solution_layout(), "out"))
        self.serial = self.device.kind == "cpu"
        self.text = self.source("panel.cl", {**defines, **self._vectors()}) if self.serial else self.source("substitute.cl", defines)
        self.solve()
        return Plan(tuple(self.steps))

    def _vectors(self) -> Mapping[str, Value]:
        """The vectors of a processor, and how many of them, for each of IB rows, its registers hold beside what they are added to.

        Of complex elements a vector has real parts or imaginary ones, and both together are one that OpenCL has.
        """
        wide, itemsize, parts = self.device.wide_vectors, self.problem.itemsize, 2 if blocks.is_complex(self.problem) else 1
        lanes = min((64 if wide else 32) * parts // itemsize, 16 // parts, int(self.config["WGS"]))
        together = max(1, (_REGISTERS_WIDE if wide else _REGISTERS) // int(self.config["IB"]))
        real = "float" if itemsize == 4 * parts else "double"
        sides = int(self.config["WGS"]) // lanes
        vectors: dict[str, Value] = {"NB": self.nb, "VL": lanes, "VECTOR": f"{real}{lanes}", "ALIGNMENT": itemsize}
        return {**vectors, **({"WIDE": f"{real}{2 * lanes}", "PART": real} if parts > 1 else {"TOGETHER": min(together, sides)})}

    def solution_layout(self) -> Layout:
        """The operand's own."""
        return self.problem.layout[self.solution]

    rest_layout = solution_layout

    def leaf(self, block: _Block, first: bool) -> None:
        """The block as a lower triangle: transposed by its strides, and read backwards where the last unknown comes first."""
        a, b = self.problem.layout["a"], self.part(self.solution_layout(), block)
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
            Arg(self.solution, role="inout"),
            *(long_integer(name, value) for name, value in (("b_offset", b_offset), ("b_row", b_row), ("b_column", b_column))),
        )
        if self.batch is not None:
            arguments = (*arguments, long_integer("a_batch", self.batch.a), long_integer("b_batch", self.step(self.solution)))
        group = int(self.config["WGS"])
        groups = -(-self.count // group)
        if self.serial:
            self.steps.append(Launch(self.text, "triangular_panel", (groups, 1, self.systems), (1, 1, 1), arguments))
        else:
            self.steps.append(Launch(self.text, "triangular_substitute", (groups * group, 1, self.systems), (group, 1, 1), arguments))


class _Inverses(_Recursion):
    """All blocks on the diagonal are inverted first; then each is one product, out of place.

    Where the solution overwrites B, it comes into being beside B and is written there in the end. Where it is apart, B is only read, and
    right-hand sides that products change lie in ``rest``: the first product with each of them brings them there from B, or, on
    devices without such products, they are copied first. The block that is solved first has no need of that.

    With refinement, two more products correct each block of X by the inverse times its residual.
    """

    def plan(self) -> Plan:
        """Inversion, doubling, products, writing back."""
        self.refine, self.apart = self.config["METHOD"] == "refine", result(self.problem) != "b"
        self.shared: dict[str, Temporary] = {}
        self.solution, self.rest = ("c", "rest") if self.apart else ("solution", "b")
        self.ld = blocks.padded(self.problem.sizes["n"])  # so that products may read and write wide
        size = square(self.problem, self.config, self.device)
        defines = {name: self.config[name] for name in ("NB", "IB", "WGS", "PANEL")} | joining(self.problem, self.nb, size, self.device)
        defines["SQUARE"] = size
        self.text = self.source("invert.cl", {**defines, "UPPER": self.problem.options["uplo"] == "U"})
        triangles = None if self.batch is None else Stack(self.batch.count if self.batch.a else 1, self.batch.a)
        self.steps, temporaries = inverses(self.problem, self.config, self.device, self.text, kept=self.refine, triangles=triangles)
        self._share(temporaries)
        changes = self.apart and (self.refine or self.order > self.nb)
        native = blocks.precision(self.problem) == precisions.NATIVE
        self.brings = changes and not self.refine and native and self.device.nvidia and self.batch is None
        if changes and not self.brings:
            self.copy(_Place("b", self.problem.layout["b"], "in"), _Place("rest", self.rest_layout(), "temporary"))
        self.solve()
        self._end()
        if changes or not self.apart:
            nbytes = self.systems * self.problem.sizes["m"] * self.ld * self.problem.itemsize
            self._share([Temporary("rest" if self.apart else "solution", nbytes)])
        return Plan(tuple(self.steps), tuple(self.shared.values()))

    def step(self, memory: str) -> int:
        """As of any recursion; triangles that are shared have shared inverses."""
        if memory in ("inverses", "blocks"):
            return -(-self.order // self.nb) * self.nb**2 if self.batch is not None and self.batch.a else 0
        return self.problem.sizes["m"] * self.ld if memory in ("rest", "solution") else super().step(memory)

    def _update(self, known: _Block, rest: _Block, first: bool) -> None:
        """As of any recursion; the first time that right-hand sides change they come from B."""
        if not (first and self.brings):
            super()._update(known, rest, first)
            return
        sizes, operands, trans = self.factors(known, rest)
        operands["d"] = ("b", self.part(self.problem.layout["b"], rest))
        self._take(blocks.added(self.problem, sizes, operands, trans, (-1.0, "alpha"), self.device))

    def _take(self, plan: Plan) -> None:
        """Append the launches of a product; all of them share their temporaries, since they run one after another."""
        self.steps += plan.steps
        self._share(plan.temporaries)

    def _share(self, temporaries: Iterable[Temporary]) -> None:
        """Declare temporaries, each as large as the largest of its name."""
        for one in temporaries:
            if one.name not in self.shared or self.shared[one.name].nbytes < one.nbytes:
                self.shared[one.name] = one

    def _zeros(self) -> Triangle:
        """What a product with an inverse, or with a block on the diagonal, may skip."""
        lower = (self.problem.options["uplo"] == "L") != (self.trans in "TC")
        return Triangle("a" if self.left else "b", "above" if lower else "below")

    def _end(self) -> None:
        """Write the solution over B, or zeros for alpha = 0 where it lies already: one product alone has left them there."""
        if not self.apart:
            solution = _Place("solution", self.solution_layout(), "temporary")
            self.copy(solution, _Place("b", self.problem.layout["b"], "inout"))
            return
        if self.order <= self.nb and not self.refine:
            return
        m, n, group = self.problem.sizes["m"], self.problem.sizes["n"], int(self.config["WGS"])
        size = (-(-n // group) * group, min(m, max(_ZERO_GROUPS // self.systems, 1)), self.systems)
        moved = () if self.batch is None else (long_integer("c_batch", self.batch.c),)
        arguments = (integer("m", m), integer("n", n), self.alpha, *self.matrix("c", "out"), *moved)
        self.steps.append(Launch(self.text, "triangular_zero", size, (group, 1, 1), arguments))

    def solution_layout(self) -> Layout:
        """C's own, or row-major with rows that begin on a vector."""
        return self.problem.layout["c"] if self.apart else Layout((self.ld, 1))

    def rest_layout(self) -> Layout:
        """B's own, or row-major with rows that begin on a vector."""
        return Layout((self.ld, 1)) if self.apart else self.problem.layout["b"]

    def leaf(self, block: _Block, first: bool) -> None:
        """X[block] = scale * op(inverse) B[block], or the mirror image from the right."""
        inverse = Layout((self.nb, 1), block.start * self.nb)
        target = self.part(self.solution_layout(), block)
        untouched = first and not self.refine  # B as it was given
        rest, layout = ("b", self.problem.layout["b"]) if untouched else (self.rest, self.rest_layout())
        known = self.part(layout, block)
        scale = "alpha" if first else 1.0

        def product(name: str, given: tuple[str, Layout], made: tuple[str, Layout], factors: tuple[float | str, float | str]) -> None:
            sizes, operands, trans = called = self.sided((name, inverse), given, made, block.size, block.size)
            if self.device.nvidia and self.batch is not None:
                stacks, natively = self.stacks(operands), blocks.natively(self.problem)
                self._take(blocks.small_stack(natively, sizes, stacks, trans, factors, self._zeros(), self.device, self.batch.count))
            elif self.device.nvidia:
                self._take(blocks.whole(blocks.natively(self.problem), *called, factors, self._zeros(), self.device))
            else:
                self.multiply(*called, factors, natively=True)

        product("inverses", (rest, known), (self.solution, target), (scale, 0.0))
        if self.refine:  # B[block] becomes what X[block] leaves unexplained, and X[block] gets the solution for that
            product("blocks", (self.solution, target), (rest, known), (-1.0, scale))
            product("inverses", (rest, known), (self.solution, target), (1.0, 1.0))


def _together(blocks: list[_Block]) -> _Block:
    """Neighbours, in rising or falling order, as one."""
    return _Block(min(block.start for block in blocks), sum(block.size for block in blocks))
