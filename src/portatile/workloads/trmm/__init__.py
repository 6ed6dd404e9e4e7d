"""TRMM: B = alpha op(A) B or alpha B op(A) for a triangular A: one product that skips zeros, or one for each block row of the triangle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from portatile.records import Arg, Call, Config, DeviceInfo, Launch, Layout, Plan, Problem, Source, Temporary
from portatile.space import ParameterSpace
from portatile.template import load
from portatile.workload import Expected, Inputs
from portatile.workloads import blocks, structured
from portatile.workloads.gemm.extras import Triangle
from portatile.workloads.gemm.reference import op


class _Prepared(NamedTuple):
    """An operand that a launch copies or expands before the products."""

    launch: Launch
    temporary: Temporary
    layout: Layout

    @property
    def operand(self) -> tuple[str, Layout]:
        """The memory and the layout that the products read."""
        return self.temporary.name, self.layout


class Trmm(structured.TriangularOperand):
    """Triangular A: B (m x n) = alpha op(A) B (``side="L"``, A of order m) or alpha B op(A) (``"R"``, order n), row-major.

    ``uplo``: the triangle of A that is read. ``trans``: op. With ``diag="U"`` the diagonal counts as ones and is not read. With alpha = 0 B
    becomes zero whatever A and B hold. With ``apart`` the result is C (m x n), and B is only read. ``precision`` is that of the products.
    """

    name = "trmm"
    meanings: Mapping[str, str] = {
        "NB": "Rows (side L) or columns of B that one product computes, with the part of A that is not zero for them. Inside a block on "
        "the diagonal zeros are multiplied, so that an infinity in B may give NaN where the BLAS gives none. 0, on processors and "
        "NVIDIA's GPUs: one product that skips tiles of zeros.",
        "WGS": "Work-items of a work-group of the kernels that expand A and copy B.",
    }

    def space(self, problem: Problem, device: DeviceInfo) -> ParameterSpace:
        """Blocks of at most twice the order."""
        return structured.space(problem, device, structured.order(problem))

    def default(self, problem: Problem, device: DeviceInfo) -> Config:
        """Blocks that keep the device busy."""
        return structured.blocked(problem, structured.order(problem), device)

    def wins(self, problem: Problem, device: DeviceInfo) -> bool:
        """Never: triangles are often much larger on their diagonal than off it, and two terms do not hold both. Such rows would be computed
        natively again, which takes twice as long as computing natively at once.
        """
        return False

    def plan(self, problem: Problem, config: Config, device: DeviceInfo) -> Plan:
        """A copy of B if the result overwrites it, the expansion of A, and a product for each block; or just one product that skips zeros.
        No step if B is empty.
        """
        blocks.check(problem)
        nb = int(config["NB"])
        if problem.sizes["m"] == 0 or problem.sizes["n"] == 0:
            return Plan(())
        a, b = ("a", problem.layout["a"]), ("b", problem.layout["b"])
        prepared: list[_Prepared] = []
        if nb > 0:
            prepared.append(self._expand(problem, int(config["WGS"])))
            a = prepared[-1].operand
        if not problem.options.get("apart") and (nb > 0 or device.kind != "cpu"):
            prepared.append(copy_of_b(problem, int(config["WGS"])))
            b = prepared[-1].operand
        steps: list[Launch | Call] = [one.launch for one in prepared]
        temporaries = tuple(one.temporary for one in prepared)
        if nb == 0:
            found = blocks.whole(problem, *product_of(problem, a, b), device)
            return Plan((*steps, *found.steps), (*temporaries, *found.temporaries))
        steps += [self._product(problem, start, nb, a, b) for start in range(0, structured.order(problem), nb)]
        return Plan(tuple(steps), temporaries)

    def _expand(self, problem: Problem, group: int) -> _Prepared:
        """The launch that expands the triangle to a full matrix with zeros."""
        order = structured.order(problem)
        full = Layout((blocks.padded(order), 1))
        args = (blocks.integer("order", order), blocks.scalar(problem, "alpha"), *blocks.matrix(problem, "a", "in"))
        spread = (Arg("full", role="temporary"), blocks.long_integer("ldfull", full.strides[0]))
        launch = Launch(_source(problem, group), "trmm_expand", *blocks.lines(problem, order, order, group), (*args, *spread))
        return _Prepared(launch, Temporary("full", order * full.strides[0] * problem.itemsize), full)

    def _product(self, problem: Problem, start: int, nb: int, full: tuple[str, Layout], source: tuple[str, Layout]) -> Call:
        """The product for rows (side L) or columns (side R) of the result from ``start`` on: a block of op(A), and the part of B that it
        needs.
        """
        m, n, order = problem.sizes["m"], problem.sizes["n"], structured.order(problem)
        left, trans = problem.options["side"] == "L", str(problem.options["trans"])
        lower = (problem.options["uplo"] == "L") != (trans in "TC")  # op(A)
        stop = min(start + nb, order)
        first, last = (0, stop) if lower == left else (start, order)
        row, column = (start, first) if left == (trans in "NR") else (first, start)
        place = (start, 0) if left else (0, start)
        target = structured.result(problem)
        triangle = (full[0], blocks.part(full[1], row, column))
        known = (source[0], blocks.part(source[1], *((first, 0) if left else (0, first))))
        written = (target, blocks.part(problem.layout[target], *place))
        if left:
            operands = {"a": triangle, "b": known, "c": written}
            return blocks.product(problem, blocks.BlockProduct((stop - start, n, last - first), operands, (trans, "N"), ("alpha", 0.0)))
        operands = {"a": known, "b": triangle, "c": written}
        return blocks.product(problem, blocks.BlockProduct((m, stop - start, last - first), operands, ("N", trans), ("alpha", 0.0)))

    def inputs(self, problem: Problem, rng: np.random.Generator) -> Inputs:
        """Random operands; elements of A that must not be read are NaN."""
        shapes = self.shapes(problem)
        inputs = structured.inputs(problem, {name: shapes[name] for name in "ab"}, rng)
        inputs.operands.update(self.separate_result(problem))
        structured.poison_unread(problem, inputs.operands["a"], shapes["a"], problem.options["diag"] == "U")
        return inputs

    def reference(self, problem: Problem, inputs: Inputs, sample: np.random.Generator | None = None) -> dict[str, Expected]:
        """The result in float64; with ``sample``, some of its rows and columns."""
        views = structured.views(problem, self.shapes(problem), inputs)
        a = structured.triangle(views["a"], problem.options["uplo"] == "U", problem.options["diag"] == "U")
        a = op(a, str(problem.options["trans"]))
        left, right = (a, views["b"]) if problem.options["side"] == "L" else (views["b"], a)
        name = structured.result(problem)
        return {name: structured.product(problem, inputs, name, left, right, sample)}

    def bound(self, problem: Problem, config: Config) -> float:
        """The bound of the products; see ``structured.bound``."""
        return structured.bound(problem, structured.order(problem))

    def reads(self, problem: Problem, scalars: Mapping[str, float]) -> frozenset[str]:
        """The operands that are read; none if alpha is 0."""
        return frozenset(("a", "b") if scalars["alpha"] != 0 else ())

    def awkward(self, problem: Problem) -> list[Problem]:
        """Orders below, between and above the blocks, with padded rows and offsets."""
        return structured.awkward(self, problem, ((1, 1), (7, 5), (45, 37), (77, 140), (150, 13)))


def copy_of_b(problem: Problem, group: int) -> _Prepared:
    """The launch that copies B before the result overwrites it."""
    m, n = problem.sizes["m"], problem.sizes["n"]
    copy = Layout((blocks.padded(n), 1))
    sizes = (blocks.integer("m", m), blocks.integer("n", n), blocks.scalar(problem, "alpha"))
    kept = (Arg("copy", role="temporary"), blocks.long_integer("ldcopy", copy.strides[0]))
    args = (*sizes, *blocks.matrix(problem, "b", "inout"), *kept)
    launch = Launch(_source(problem, group), "trmm_copy", *blocks.lines(problem, m, n, group), args)
    return _Prepared(launch, Temporary("copy", m * copy.strides[0] * problem.itemsize), copy)


def product_of(problem: Problem, triangle: tuple[str, Layout], full: tuple[str, Layout]) -> tuple[blocks.BlockProduct, Triangle]:
    """The product of ``triangle`` and ``full``, and the triangle of zeros."""
    left, trans = problem.options["side"] == "L", str(problem.options["trans"])
    lower = (problem.options["uplo"] == "L") != (trans in "TC")  # op(A)
    factors = {"a": triangle, "b": full} if left else {"a": full, "b": triangle}
    target = structured.result(problem)
    operands = {**factors, "c": (target, problem.layout[target])}
    sizes = (problem.sizes["m"], problem.sizes["n"], structured.order(problem))
    zero = Triangle("a" if left else "b", "above" if lower else "below", problem.options["diag"] == "U")
    return blocks.BlockProduct(sizes, operands, (trans, "N") if left else ("N", trans), ("alpha", 0.0)), zero


def _source(problem: Problem, group: int) -> Source:
    """The text of the kernels that expand A and copy B."""
    defines = {
        **blocks.types(problem),
        "UPPER": problem.options["uplo"] == "U",
        "UNIT": problem.options["diag"] == "U",
        "WGS": group,
    }
    return load(__file__, "expand.cl", defines, COMPLEX=blocks.is_complex(problem), BATCH=blocks.stacked(problem))


workload = Trmm()
