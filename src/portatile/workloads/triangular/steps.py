"""The steps of TRSM for a configuration: the blocks on the diagonal in order, and products between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from portatile.records import Arg, Config, DeviceInfo, Launch, Layout, Plan, Problem, Temporary, Value
from portatile.workloads import blocks, precisions
from portatile.workloads.blocks import integer, long_integer
from portatile.workloads.gemm.extras import Triangle
from portatile.workloads.structured import result
from portatile.workloads.triangular.inverses import Stack, inverses, joining, square
from portatile.workloads.triangular.recursion import Block, BlockPlace, Recursion, SystemBatch, forward

_REGISTERS = 8  # vector registers for a processor's tile, a power of two
_REGISTERS_WIDE = 16  # the same for processors with twice as many registers
_ZERO_GROUPS = 64  # rows of work-groups of a launch that usually has nothing to do


def plan(problem: Problem, config: Config, device: DeviceInfo, batch: SystemBatch | None = None) -> Plan:
    """All steps; none for an empty B. Raises ArgumentError for operands whose rows are not contiguous.

    With ``batch``, ``problem`` is the first system, and every step computes all of them.
    """
    blocks.check(problem)
    if problem.sizes["m"] == 0 or problem.sizes["n"] == 0:
        return Plan(())
    if config["METHOD"] == "substitute":
        return _Substitution(problem, config, device, batch).plan()
    return _Inverses(problem, config, device, batch).plan()


class _Substitution(Recursion):
    """One launch solves each block on the diagonal in place; on GPUs it may solve a system of one block out of place."""

    def plan(self) -> Plan:
        """Launches and products in turn, over a copy of B if the result is apart, unless a single launch reads B; no workspace."""
        self.solution = self.rest = result(self.problem)
        defines = {"IB": self.config["IB"], "WGS": self.config["WGS"]}
        self.serial = self.device.kind == "cpu"
        self.reads_b = self.solution != "b" and not self.serial and self.order <= self.nb
        if self.solution != "b" and not self.reads_b:
            self.copy(BlockPlace("b", self.problem.layout["b"], "in"), BlockPlace("c", self.solution_layout(), "out"))
        if self.serial:
            self.text = self.source("panel.cl", {**defines, **self._vectors()})
        else:
            self.text = self.source("substitute.cl", defines, APART=self.reads_b)
        self.solve()
        return Plan(tuple(self.steps))

    def _vectors(self) -> Mapping[str, Value]:
        """The vectors of a processor, and how many of them its registers hold for each of IB rows, beside the vectors to which they are
        added.

        Vectors of complex elements hold real or imaginary parts only; OpenCL C has a vector type for both together.
        """
        wide, itemsize, parts = self.device.wide_vectors, self.problem.itemsize, 2 if blocks.is_complex(self.problem) else 1
        lanes = min((64 if wide else 32) * parts // itemsize, 16 // parts, int(self.config["WGS"]))
        together = max(1, (_REGISTERS_WIDE if wide else _REGISTERS) // int(self.config["IB"]))
        real = "float" if itemsize == 4 * parts else "double"
        sides = int(self.config["WGS"]) // lanes
        vectors: dict[str, Value] = {"NB": self.nb, "VL": lanes, "VECTOR": f"{real}{lanes}", "ALIGNMENT": itemsize}
        return {**vectors, **({"WIDE": f"{real}{2 * lanes}", "PART": real} if parts > 1 else {"TOGETHER": min(together, sides)})}

    def solution_layout(self) -> Layout:
        """The layout of the operand that receives the solution."""
        return self.problem.layout[self.solution]

    rest_layout = solution_layout

    def leaf(self, block: Block, first: bool) -> None:
        """The block as a lower triangle: transposed by its strides, and reversed if its last unknown comes first."""
        a = self.problem.layout["a"]
        across = self.left == (self.trans in "NR")  # whether the stored rows of A are the equations
        a_row, a_column = (a.strides[0], 1) if across else (1, a.strides[0])
        a_offset = a.offset + block.start * (a.strides[0] + 1)
        if not forward(self.problem):
            a_offset += (block.size - 1) * (a_row + a_column)
            a_row, a_column = -a_row, -a_column
        arguments = (
            *(integer(name, value) for name, value in (("order", block.size), ("count", self.count), ("scaled", int(first)))),
            *(self.alpha, Arg("a")),
            *(long_integer(name, value) for name, value in (("a_offset", a_offset), ("a_row", a_row), ("a_column", a_column))),
            *self._sides("b", Arg(self.solution, role="inout"), self.part(self.solution_layout(), block), block),
        )
        operands = ["a", self.solution]
        if self.reads_b:
            arguments = (*arguments, *self._sides("right", Arg("b"), self.problem.layout["b"], block))
            operands.append("b")
        if self.batch is not None:
            names = zip(("a", "b", "right"), operands, strict=False)
            arguments = (*arguments, *(long_integer(f"{name}_batch", self.step(operand)) for name, operand in names))
        group = int(self.config["WGS"])
        groups = -(-self.count // group)
        if self.serial:
            self.steps.append(Launch(self.text, "triangular_panel", (groups, 1, self.systems), (1, 1, 1), arguments))
        else:
            self.steps.append(Launch(self.text, "triangular_substitute", (groups * group, 1, self.systems), (group, 1, 1), arguments))

    def _sides(self, name: str, memory: Arg, layout: Layout, block: Block) -> tuple[Arg, ...]:
        """The arguments for right-hand sides or the solution: the place of the block's first unknown, and the strides to the next unknown
        and side.
        """
        row, column = (layout.strides[0], 1) if self.left else (1, layout.strides[0])
        backwards = not forward(self.problem)
        offset, row = (layout.offset + (block.size - 1) * row, -row) if backwards else (layout.offset, row)
        places = zip((f"{name}_offset", f"{name}_row", f"{name}_column"), (offset, row, column), strict=True)
        return memory, *(long_integer(place, value) for place, value in places)


class _Inverses(Recursion):
    """All blocks on the diagonal are inverted first; then each is solved by one product, out of place.

    If the solution overwrites B, it is computed in a workspace and copied to B in the end. If the result is apart, B is only read, and the
    right-hand sides that products change lie in the workspace ``rest``: the first product with each of them reads B and writes ``rest``,
    or, on devices without such products, B is copied first. The block that is solved first needs no copy.

    With refinement, two further products correct each block of X by the inverse times its residual.
    """

    def plan(self) -> Plan:
        """Inversion, joining, products, and the copy of the result."""
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
            self.copy(BlockPlace("b", self.problem.layout["b"], "in"), BlockPlace("rest", self.rest_layout(), "temporary"))
        self.solve()
        self._end()
        if changes or not self.apart:
            nbytes = self.systems * self.problem.sizes["m"] * self.ld * self.problem.itemsize
            self._share([Temporary("rest" if self.apart else "solution", nbytes)])
        return Plan(tuple(self.steps), tuple(self.shared.values()))

    def step(self, memory: str) -> int:
        """As for any recursion; a shared triangle has shared inverses."""
        if memory in ("inverses", "blocks"):
            return -(-self.order // self.nb) * self.nb**2 if self.batch is not None and self.batch.a else 0
        return self.problem.sizes["m"] * self.ld if memory in ("rest", "solution") else super().step(memory)

    def _update(self, known: Block, rest: Block, first: bool) -> None:
        """As for any recursion, but the first update of right-hand sides reads them from B."""
        if not (first and self.brings):
            super()._update(known, rest, first)
            return
        given = ("b", self.part(self.problem.layout["b"], rest))
        self._take(blocks.added(self.problem, self.contribution(known, rest, "alpha"), given, self.device))

    def _take(self, plan: Plan) -> None:
        """Append the launches of a product. All products share their temporaries, since they run one after another."""
        self.steps += plan.steps
        self._share(plan.temporaries)

    def _share(self, temporaries: Iterable[Temporary]) -> None:
        """Declare temporaries, each as large as the largest of its name."""
        for one in temporaries:
            if one.name not in self.shared or self.shared[one.name].nbytes < one.nbytes:
                self.shared[one.name] = one

    def _zeros(self) -> Triangle:
        """The triangle of zeros that a product with an inverse, or with a block on the diagonal, may skip."""
        lower = (self.problem.options["uplo"] == "L") != (self.trans in "TC")
        return Triangle("a" if self.left else "b", "above" if lower else "below")

    def _end(self) -> None:
        """Copy the solution to B; or, if the result is apart, write zeros for alpha = 0, unless a single product has done so."""
        if not self.apart:
            solution = BlockPlace("solution", self.solution_layout(), "temporary")
            self.copy(solution, BlockPlace("b", self.problem.layout["b"], "inout"))
            return
        if self.order <= self.nb and not self.refine:
            return
        m, n, group = self.problem.sizes["m"], self.problem.sizes["n"], int(self.config["WGS"])
        size = (-(-n // group) * group, min(m, max(_ZERO_GROUPS // self.systems, 1)), self.systems)
        moved = () if self.batch is None else (long_integer("c_batch", self.batch.c),)
        arguments = (integer("m", m), integer("n", n), self.alpha, *self.matrix("c", "out"), *moved)
        self.steps.append(Launch(self.text, "triangular_zero", size, (group, 1, 1), arguments))

    def solution_layout(self) -> Layout:
        """C's layout, or row-major with rows aligned for vectors."""
        return self.problem.layout["c"] if self.apart else Layout((self.ld, 1))

    def rest_layout(self) -> Layout:
        """B's layout, or row-major with rows aligned for vectors."""
        return Layout((self.ld, 1)) if self.apart else self.problem.layout["b"]

    def leaf(self, block: Block, first: bool) -> None:
        """X[block] = scale * op(inverse) B[block], or the mirror image from the right."""
        inverse = Layout((self.nb, 1), block.start * self.nb)
        target = self.part(self.solution_layout(), block)
        untouched = first and not self.refine  # B is still the caller's
        rest, layout = ("b", self.problem.layout["b"]) if untouched else (self.rest, self.rest_layout())
        known = self.part(layout, block)
        scale = "alpha" if first else 1.0

        def product(name: str, given: tuple[str, Layout], made: tuple[str, Layout], factors: tuple[float | str, float | str]) -> None:
            asked, natively = self.sided((name, inverse), given, made, (block.size, block.size), factors), blocks.natively(self.problem)
            if self.device.nvidia and self.batch is not None:
                self._take(blocks.small_stack(natively, self.stacks(asked), self._zeros(), self.device, self.batch.count))
            elif self.device.nvidia:
                self._take(blocks.whole(natively, asked, self._zeros(), self.device))
            else:
                self.multiply(asked, natively=True)

        product("inverses", (rest, known), (self.solution, target), (scale, 0.0))
        if self.refine:  # B[block] becomes the residual of X[block], and the solution for the residual is added to X[block]
            product("blocks", (self.solution, target), (rest, known), (-1.0, scale))
            product("inverses", (rest, known), (self.solution, target), (1.0, 1.0))
