"""The steps of TRSM for a configuration: the blocks on the diagonal in order, and products between them."""

from __future__ import annotations

from portatile.records import Config, DeviceInfo, Launch, Layout, Plan, Problem, Temporary
from portatile.workloads import blocks
from portatile.workloads.blocks import integer, long_integer
from portatile.workloads.gemm.extras import Triangle
from portatile.workloads.structured import result
from portatile.workloads.triangular.inverses import Stack, inverses, joining, square
from portatile.workloads.triangular.recursion import Block, BlockPlace, Recursion, SystemBatch
from portatile.workloads.triangular.substitution import Substitution

_ZERO_GROUPS = 64  # rows of work-groups of a launch that usually has nothing to do


def plan(problem: Problem, config: Config, device: DeviceInfo, batch: SystemBatch | None = None) -> Plan:
    """All steps; none for an empty B. Raises ArgumentError for operands whose rows are not contiguous.

    With ``batch``, ``problem`` is the first system, and every step computes all of them.
    """
    blocks.check(problem)
    if problem.sizes["m"] == 0 or problem.sizes["n"] == 0:
        return Plan(())
    if config["METHOD"] == "substitute":
        return Substitution(problem, config, device, batch).plan()
    return _Inverses(problem, config, device, batch).plan()


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
        self.solution, self.rest = ("c", "rest") if self.apart else ("solution", "b")
        self.ld = blocks.padded(self.problem.sizes["n"])  # so that products may read and write wide
        size = square(self.problem, self.config, self.device)
        defines = {name: self.config[name] for name in ("NB", "IB", "WGS", "PANEL")} | joining(self.problem, self.nb, size, self.device)
        defines["SQUARE"] = size
        self.text = self.source("invert.cl", {**defines, "UPPER": self.problem.options["uplo"] == "U"})
        triangles = None if self.batch is None else Stack(self.batch.count if self.batch.a else 1, self.batch.a)
        self.steps, temporaries = inverses(self.problem, self.config, self.device, self.text, kept=self.refine, triangles=triangles)
        self.share(temporaries)
        changes = self.apart and (self.refine or self.order > self.nb)
        self.brings = changes and not self.refine and self.can_bring()
        if changes and not self.brings:
            self.copy(BlockPlace("b", self.problem.layout["b"], "in"), BlockPlace("rest", self.rest_layout(), "temporary"))
        self.solve()
        self._end()
        if changes or not self.apart:
            nbytes = self.systems * self.problem.sizes["m"] * self.ld * self.problem.itemsize
            self.share([Temporary("rest" if self.apart else "solution", nbytes)])
        return Plan(tuple(self.steps), tuple(self.shared.values()))

    def step(self, memory: str) -> int:
        """As for any recursion; a shared triangle has shared inverses."""
        if memory in ("inverses", "blocks"):
            return -(-self.order // self.nb) * self.nb**2 if self.batch is not None and self.batch.a else 0
        return self.problem.sizes["m"] * self.ld if memory in ("rest", "solution") else super().step(memory)

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
                self.take(blocks.small_stack(natively, self.stacks(asked), self._zeros(), self.device, self.batch.count))
            elif self.device.nvidia:
                self.take(blocks.whole(natively, asked, self._zeros(), self.device))
            else:
                self.multiply(asked, natively=True)

        product("inverses", (rest, known), (self.solution, target), (scale, 0.0))
        if self.refine:  # B[block] becomes the residual of X[block], and the solution for the residual is added to X[block]
            product("blocks", (self.solution, target), (rest, known), (-1.0, scale))
            product("inverses", (rest, known), (self.solution, target), (1.0, 1.0))
