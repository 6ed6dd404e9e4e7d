"""Recursive substitution, shared by all methods for triangular systems: two halves of the unknowns, and a product between them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from portatile.records import Arg, Call, Config, DeviceInfo, Launch, Layout, Plan, Problem, Role, Source, Temporary, Value
from portatile.template import load
from portatile.workloads import blocks, precisions
from portatile.workloads.blocks import integer, long_integer
from portatile.workloads.structured import order


def forward(problem: Problem) -> bool:
    """Whether the first unknowns are solved first: the lower triangle from the left, the upper one from the right."""
    lower = (problem.options["uplo"] == "L") != (problem.options["trans"] in ("T", "C"))
    return lower == (problem.options["side"] == "L")


@dataclass(frozen=True)
class SystemBatch:
    """``count`` systems of one shape in one launch; ``a``, ``b``, ``c``: elements from one A, B and result to the
    next, 0 for a shared A.
    """

    count: int
    a: int
    b: int
    c: int = 0


@dataclass(frozen=True)
class Block:
    """Unknowns ``start`` to ``start + size`` of the system."""

    start: int
    size: int


class BlockPlace(NamedTuple):
    """A matrix in memory, and whether a launch reads or writes it."""

    memory: str
    layout: Layout
    role: Role


class Recursion(ABC):
    """Solve half of the unknowns, subtract their contribution from the other half's right-hand sides in one product, solve the other half.

    The products are larger than those of a loop over blocks, for the same number of launches.
    """

    solution = ""  # the operand or temporary that holds the solution
    rest = ""  # the operand or temporary that holds the right-hand sides, from which products subtract contributions
    brings = False  # whether the first product with right-hand sides reads them from B

    def __init__(self, problem: Problem, config: Config, device: DeviceInfo, batch: SystemBatch | None = None) -> None:
        self.problem, self.config, self.device, self.batch = problem, config, device, batch
        self.left = problem.options["side"] == "L"
        self.trans = str(problem.options["trans"])
        self.order, self.count = order(problem), problem.sizes["n" if self.left else "m"]
        self.nb = int(config["NB"])
        self.steps: list[Launch | Call] = []
        self.shared: dict[str, Temporary] = {}

    @abstractmethod
    def plan(self) -> Plan:
        """The plan with all steps and the workspace."""

    @abstractmethod
    def leaf(self, block: Block, first: bool) -> None:
        """Append the steps that solve ``block``; its right-hand side is scaled by alpha if it is the ``first``."""

    @abstractmethod
    def solution_layout(self) -> Layout:
        """The layout of the solution in its memory."""

    @abstractmethod
    def rest_layout(self) -> Layout:
        """The layout of the right-hand sides in their memory."""

    def solve(self) -> None:
        """Append the steps that solve for all unknowns."""
        blocks = [Block(start, min(self.nb, self.order - start)) for start in range(0, self.order, self.nb)]
        self._solve(blocks if forward(self.problem) else blocks[::-1], True)

    def _solve(self, blocks: list[Block], first: bool) -> None:
        if len(blocks) == 1:
            self.leaf(blocks[0], first)
            return
        middle = (len(blocks) + 1) // 2
        self._solve(blocks[:middle], first)
        self._update(_together(blocks[:middle]), _together(blocks[middle:]), first)
        self._solve(blocks[middle:], False)

    def _update(self, known: Block, rest: Block, first: bool) -> None:
        """rest = scale * rest - op(A)[rest, known] X[known], or the mirror image of it from the right; the first time that right-hand sides
        change they may come from B.
        """
        contribution = self.contribution(known, rest, "alpha" if first else 1.0)
        if first and self.brings:
            given = ("b", self.part(self.problem.layout["b"], rest))
            self.take(blocks.added(self.problem, contribution, given, self.device))
        else:
            self.multiply(contribution)

    def can_bring(self) -> bool:
        """Whether products may read right-hand sides in one place and write them in another."""
        return blocks.precision(self.problem) == precisions.NATIVE and self.device.nvidia and self.batch is None

    def take(self, plan: Plan) -> None:
        """Append the launches of a product; all of them share their temporaries, since they run one after another."""
        self.steps += plan.steps
        self.share(plan.temporaries)

    def share(self, temporaries: Iterable[Temporary]) -> None:
        """Declare temporaries, each as large as the largest of its name."""
        for one in temporaries:
            if one.name not in self.shared or self.shared[one.name].nbytes < one.nbytes:
                self.shared[one.name] = one

    def contribution(self, known: Block, rest: Block, scale: blocks.Factor) -> blocks.BlockProduct:
        """The product that subtracts the contribution of the ``known`` unknowns from the scaled ``rest``."""
        row, column = (rest, known) if self.left == (self.trans in "NR") else (known, rest)
        between = blocks.part(self.problem.layout["a"], row.start, column.start)
        solved = (self.solution, self.part(self.solution_layout(), known))
        target = (self.rest, self.part(self.rest_layout(), rest))
        return self.sided(("a", between), solved, target, (rest.size, known.size), (-1.0, scale))

    def part(self, layout: Layout, block: Block) -> Layout:
        """The part of a matrix with the layout of B that belongs to the unknowns of ``block``."""
        step = layout.strides[0] if self.left else 1
        return Layout(layout.strides, layout.offset + block.start * step, layout.alignment)

    def sided(
        self,
        matrix: tuple[str, Layout],
        known: tuple[str, Layout],
        target: tuple[str, Layout],
        shape: tuple[int, int],
        factors: tuple[blocks.Factor, blocks.Factor],
    ) -> blocks.BlockProduct:
        """target = factors[0] op(matrix) known + factors[1] target, or with known op(matrix) if A is on the right; op(matrix) has this
        ``shape`` or its transpose.
        """
        size, depth = shape
        if self.left:
            return blocks.BlockProduct((size, self.count, depth), {"a": matrix, "b": known, "c": target}, (self.trans, "N"), factors)
        return blocks.BlockProduct((self.count, size, depth), {"a": known, "b": matrix, "c": target}, ("N", self.trans), factors)

    def multiply(self, product: blocks.BlockProduct, *, natively: bool = False) -> None:
        """Append a product (of all systems of a batch) in the problem's precision, or ``natively``."""
        problem = blocks.natively(self.problem) if natively else self.problem
        if self.batch is None:
            self.steps.append(blocks.product(problem, product))
            return
        self.steps.append(blocks.product(problem, self.stacks(product), self.batch.count))

    def stacks(self, product: blocks.BlockProduct) -> blocks.BlockProduct:
        """The first system's product, extended to stacks of all systems."""
        operands = {
            name: (memory, replace(layout, strides=(self.step(memory), *layout.strides)))
            for name, (memory, layout) in product.operands.items()
        }
        return replace(product, operands=operands)

    def step(self, memory: str) -> int:
        """Elements from an operand or temporary of one system of the batch to that of the next."""
        assert self.batch is not None
        return {"a": self.batch.a, "b": self.batch.b, "c": self.batch.c}[memory]

    @property
    def systems(self) -> int:
        """The number of systems."""
        return 1 if self.batch is None else self.batch.count

    def copy(self, source: BlockPlace, target: BlockPlace) -> None:
        """Append a copy between two matrices of B's shape, in vectors if both allow them; for alpha = 0 it writes zeros."""
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

    def source(self, file: str, defines: Mapping[str, Value], **facts: bool) -> Source:
        """The kernel text ``file`` with the definitions that every text here wants, ``defines``, and ``facts`` for its template."""
        kinds = {"COMPLEX": blocks.is_complex(self.problem), "HERMITIAN": self.trans in "CR", "DOUBLE": self.problem.dtype == "complex128"}
        return load(
            __file__,
            file,
            {**blocks.types(self.problem), "UNIT": self.problem.options["diag"] == "U", **defines},
            BATCH=self.batch is not None,
            **kinds,
            **facts,
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


def _together(blocks: list[Block]) -> Block:
    """Neighbouring blocks, in ascending or descending order, as one."""
    return Block(min(block.start for block in blocks), sum(block.size for block in blocks))
