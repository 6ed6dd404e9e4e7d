"""TRMM: B = alpha op(A) B or alpha B op(A) for a triangular A: the triangle with zeros beside it, then a product for each block row."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from portatile.records import Arg, Call, Config, DeviceInfo, Launch, Layout, Plan, Problem, Temporary
from portatile.space import ParameterSpace
from portatile.template import load
from portatile.workload import Expected, Inputs
from portatile.workloads import blocks, structured
from portatile.workloads.gemm.plan import Triangle
from portatile.workloads.gemm.reference import op


class Trmm(structured.TriangularOperand):
    """Triangular A: B (m x n) = alpha op(A) B (``side="L"``, A of order m) or alpha B op(A) (``"R"``, order n), row-major.

    ``uplo`` says which triangle of A is read, ``trans`` what op is, ``diag="U"`` that the diagonal counts as ones and is not
    read. alpha = 0 makes B zero whatever A and B hold. ``precision`` is that of the products.

    Parameters: NB: rows (side L) or columns of B that one product computes, with the part of A that is not zero for them; inside a
    block on the diagonal zeros are multiplied, so that an infinity in B may give NaN where BLAS does not. 0, on processors and NVIDIA's
    GPUs: one product whose tiles are the blocks. WGS: work-group of the kernels that expand A and copy B.
    """

    name = "trmm"

    def space(self, problem: Problem, device: DeviceInfo) -> ParameterSpace:
        """Blocks of at most twice the order."""
        return structured.space(problem, device, structured.order(problem))

    def default(self, problem: Problem, device: DeviceInfo) -> Config:
        """Blocks that keep the device busy."""
        return structured.blocked(problem, structured.order(problem), device)

    def plan(self, problem: Problem, config: Config, device: DeviceInfo) -> Plan:
        """Expansion, copy, and a product for each block; no step for an empty B."""
        blocks.check(problem)
        m, n, order = problem.sizes["m"], problem.sizes["n"], structured.order(problem)
        if m == 0 or n == 0:
            return Plan(())
        if config["NB"] == 0 and device.kind == "cpu":
            return self._whole(problem, device, ("a", problem.layout["a"]), ("b", problem.layout["b"]))
        full, copy = Layout((blocks.padded(order), 1)), Layout((blocks.padded(n), 1))
        upper, group = problem.options["uplo"] == "U", int(config["WGS"])
        defines = {**blocks.types(problem), "UPPER": upper, "UNIT": problem.options["diag"] == "U", "WGS": group}
        source, alpha = (
            load(__file__, "expand.cl", defines, COMPLEX=blocks.is_complex(problem), BATCH=blocks.stacked(problem)),
            blocks.scalar(problem, "alpha"),
        )
        spread = (Arg("full", role="temporary"), blocks.long_integer("ldfull", full.strides[0]))
        copied = (Arg("copy", role="temporary"), blocks.long_integer("ldcopy", copy.strides[0]))
        triangle = (blocks.integer("order", order), alpha, *blocks.matrix(problem, "a", "in"), *spread)
        old = (blocks.integer("m", m), blocks.integer("n", n), alpha, *blocks.matrix(problem, "b", "inout"), *copied)
        steps: list[Launch | Call] = [
            Launch(source, "trmm_expand", *blocks.lines(problem, order, order, group), triangle),
            Launch(source, "trmm_copy", *blocks.lines(problem, m, n, group), old),
        ]
        spaces = (("full", order * full.strides[0]), ("copy", m * copy.strides[0]))
        temporaries = tuple(Temporary(name, count * problem.itemsize) for name, count in spaces)
        if config["NB"] == 0:
            product = self._whole(problem, device, ("full", full), ("copy", copy))
            return Plan((*steps, *product.steps), (*temporaries, *product.temporaries))
        steps += [self._product(problem, start, int(config["NB"]), full, copy) for start in range(0, order, int(config["NB"]))]
        return Plan(tuple(steps), temporaries)

    def _whole(self, problem: Problem, device: DeviceInfo, triangle: tuple[str, Layout], full: tuple[str, Layout]) -> Plan:
        """One product of ``triangle`` and ``full`` that skips what is zero."""
        left, trans = problem.options["side"] == "L", str(problem.options["trans"])
        lower = (problem.options["uplo"] == "L") != (trans in "TC")  # op(A)
        factors = {"a": triangle, "b": full} if left else {"a": full, "b": triangle}
        operands = {**factors, "c": ("b", problem.layout["b"])}
        sizes = (problem.sizes["m"], problem.sizes["n"], structured.order(problem))
        zero = Triangle("a" if left else "b", "above" if lower else "below", triangle[0] == "a" and problem.options["diag"] == "U")
        op = (trans, "N") if left else ("N", trans)
        return blocks.whole(problem, sizes, operands, op, ("alpha", 0.0), zero, device)

    def _product(self, problem: Problem, start: int, nb: int, full: Layout, copy: Layout) -> Call:
        """The rows (side L) or columns (side R) of B from ``start`` on: a block of op(A) times what it does not make zero."""
        m, n, order = problem.sizes["m"], problem.sizes["n"], structured.order(problem)
        left, trans = problem.options["side"] == "L", str(problem.options["trans"])
        lower = (problem.options["uplo"] == "L") != (trans in "TC")  # op(A)
        stop = min(start + nb, order)
        first, last = (0, stop) if lower == left else (start, order)
        row, column = (start, first) if left == (trans in "NR") else (first, start)
        triangle = ("full", blocks.part(full, row, column))
        if left:
            operands = {"a": triangle, "b": ("copy", blocks.part(copy, first, 0)), "c": ("b", blocks.part(problem.layout["b"], start, 0))}
            return blocks.product(problem, (stop - start, n, last - first), operands, (trans, "N"), ("alpha", 0.0))
        operands = {"a": ("copy", blocks.part(copy, 0, first)), "b": triangle, "c": ("b", blocks.part(problem.layout["b"], 0, start))}
        return blocks.product(problem, (m, stop - start, last - first), operands, ("N", trans), ("alpha", 0.0))

    def inputs(self, problem: Problem, rng: np.random.Generator) -> Inputs:
        """Random operands; what must not be read of A is NaN."""
        inputs = structured.inputs(problem, self.shapes(problem), rng)
        structured.hide(problem, inputs.operands["a"], self.shapes(problem)["a"], problem.options["diag"] == "U")
        return inputs

    def reference(self, problem: Problem, inputs: Inputs, sample: np.random.Generator | None = None) -> dict[str, Expected]:
        """B in float64; with ``sample``, some of its rows and columns."""
        views = structured.views(problem, self.shapes(problem), inputs)
        a = structured.triangle(views["a"], problem.options["uplo"] == "U", problem.options["diag"] == "U")
        a = op(a, str(problem.options["trans"]))
        left, right = (a, views["b"]) if problem.options["side"] == "L" else (views["b"], a)
        return {"b": structured.product(problem, inputs, "b", left, right, sample)}

    def bound(self, problem: Problem, config: Config) -> float:
        """The bound of the products; see ``structured.bound``."""
        return structured.bound(problem, structured.order(problem))

    def reads(self, problem: Problem, scalars: Mapping[str, float]) -> frozenset[str]:
        """The operands that are read: none where alpha is 0."""
        return frozenset(("a", "b") if scalars["alpha"] != 0 else ())

    def awkward(self, problem: Problem) -> list[Problem]:
        """Orders below, between and above the blocks, with padded rows and offsets."""
        return structured.awkward(self, problem, ((1, 1), (7, 5), (45, 37), (77, 140), (150, 13)))


workload = Trmm()
