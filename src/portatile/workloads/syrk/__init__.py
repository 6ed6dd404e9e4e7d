"""SYRK: one triangle of C = alpha op(A) op(A)^T + beta C: products below or above the diagonal, and the blocks on it all at once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from portatile.records import Arg, Call, Config, DeviceInfo, Launch, Layout, Plan, Problem, Temporary, Value
from portatile.space import ParameterSpace
from portatile.template import load
from portatile.workload import Expected, Inputs, Operand, Workload
from portatile.workloads import blocks, get, structured
from portatile.workloads.gemm.plan import Shape

_NO_TERMS = 32  # NB where there is nothing to multiply


class Syrk(Workload):
    """Rank-k update: the triangle ``uplo`` of C (n x n) = alpha op(A) op(A)^T + beta C, row-major; the other one is not touched.

    A is stored n x k, or k x n with ``trans="T"``. beta = 0 does not read C, alpha = 0 does not read A.

    Parameters: NB: order of the blocks on the diagonal, which are computed whole beside C and of which a triangle is
    kept; 0, on a processor: one product that leaves out the tiles of the other triangle. WGS: work-group of the kernel that does that.
    """

    name = "syrk"
    sizes: Mapping[str, str] = {"n": "order of C", "k": "terms of each sum"}
    options: Mapping[str, tuple[Value, ...]] = {"uplo": ("L", "U"), "trans": ("N", "T")}
    operands = (Operand("a"), Operand("c", "inout"))
    scalars: Mapping[str, float] = {"alpha": 1.0, "beta": 0.0}

    def shapes(self, problem: Problem) -> dict[str, tuple[int, ...]]:
        """A as it is stored, and C."""
        n, k = problem.sizes["n"], problem.sizes["k"]
        return {"a": (n, k) if problem.options["trans"] == "N" else (k, n), "c": (n, n)}

    def space(self, problem: Problem, device: DeviceInfo) -> ParameterSpace:
        """Blocks of at most twice the order."""
        return structured.space(problem, device, problem.sizes["n"])

    def default(self, problem: Problem, device: DeviceInfo) -> Config:
        """Blocks that keep the device busy."""
        return structured.blocked(problem.sizes["n"], device)

    def plan(self, problem: Problem, config: Config, device: DeviceInfo) -> Plan:
        """The blocks on the diagonal as one batch, a product for each block row beside it, and the triangles."""
        blocks.check(problem)
        n, nb, group = problem.sizes["n"], int(config["NB"]), int(config["WGS"])
        if n == 0:
            return Plan(())
        upper = problem.options["uplo"] == "U"
        if nb == 0 and problem.sizes["k"] > 0:
            plain, a = problem.options["trans"] == "N", ("a", problem.layout["a"])
            operands = {"a": a, "b": a, "c": ("c", problem.layout["c"])}
            trans, shape = ("N", "T") if plain else ("T", "N"), Shape("c", "below" if upper else "above")
            return blocks.whole(problem, (n, n, problem.sizes["k"]), operands, trans, ("alpha", "beta"), shape, device)
        nb = nb or _NO_TERMS
        steps: list[Launch | Call] = [*self._diagonal(problem, nb)]
        for start in range(0, n, nb):
            stop = min(start + nb, n)
            first, last = (stop, n) if upper else (0, start)
            if first < last:
                target = ("c", blocks.part(problem.layout["c"], start, first))
                steps.append(self._product(problem, (start, stop - start), (first, last - first), target, "beta"))
        source = load(__file__, "merge.cl", {**blocks.types(problem), "UPPER": upper, "NB": nb, "WGS": group})
        known = (blocks.integer("order", n), blocks.scalar(problem, "beta"), Arg("blocks", role="temporary"))
        sizes = blocks.lines(n, min(nb, n), group)
        steps.append(Launch(source, "syrk_merge", *sizes, (*known, *blocks.matrix(problem, "c", "inout"))))
        return Plan(tuple(steps), (Temporary("blocks", -(-n // nb) * nb * nb * problem.itemsize),))

    def _diagonal(self, problem: Problem, nb: int) -> list[Call]:
        """The whole blocks as a batch, and what is left of one."""
        n, k = problem.sizes["n"], problem.sizes["k"]
        count, rest = divmod(n, nb)
        steps = []
        if count:
            trans = problem.options["trans"]
            a = problem.layout["a"]
            stack = Layout((nb * a.strides[0] if trans == "N" else nb, *a.strides), a.offset, a.alignment)
            options: dict[str, Value] = {"trans_a": trans, "trans_b": "T" if trans == "N" else "N"}
            layout = {"a": stack, "b": stack, "c": Layout((nb * nb, nb, 1))}
            callee = get("gemm_batched").problem({"batch": count, "m": nb, "n": nb, "k": k}, problem.dtype, options, layout)
            steps.append(Call(callee, {"a": "a", "b": "a", "c": "blocks"}, {"alpha": "alpha", "beta": 0.0}))
        if rest:
            corner = (count * nb, rest)
            steps.append(self._product(problem, corner, corner, ("blocks", Layout((nb, 1), count * nb * nb)), 0.0))
        return steps

    def _product(
        self, problem: Problem, rows: tuple[int, int], columns: tuple[int, int], target: tuple[str, Layout], beta: float | str
    ) -> Call:
        """The product of two ranges (start, length) of the rows of op(A)."""
        plain, a = problem.options["trans"] == "N", problem.layout["a"]
        left, right = (blocks.part(a, start, 0) if plain else blocks.part(a, 0, start) for start in (rows[0], columns[0]))
        sizes, trans = (rows[1], columns[1], problem.sizes["k"]), ("N", "T") if plain else ("T", "N")
        return blocks.product(problem, sizes, {"a": ("a", left), "b": ("a", right), "c": target}, trans, ("alpha", beta))

    def inputs(self, problem: Problem, rng: np.random.Generator) -> Inputs:
        """Random operands; the triangle of C that is not touched is random too, the other one NaN where beta is 0."""
        return structured.inputs(problem, self.shapes(problem), rng)

    def reference(self, problem: Problem, inputs: Inputs, sample: np.random.Generator | None = None) -> dict[str, Expected]:
        """C in float64, and what it was beside the triangle; with ``sample``, some of its rows and columns."""
        views = structured.views(problem, self.shapes(problem), inputs)
        a = views["a"] if problem.options["trans"] == "N" else views["a"].T
        n = problem.sizes["n"]
        kept = np.tri(n, k=-1, dtype=bool) if problem.options["uplo"] == "U" else ~np.tri(n, dtype=bool)
        return {"c": structured.product(problem, inputs, "c", a, a.T, sample, kept)}

    def bound(self, problem: Problem, config: Config) -> float:
        """That of the products; see ``structured.bound``."""
        return structured.bound(problem, problem.sizes["k"])

    def flops(self, problem: Problem) -> float:
        """k n (n + 1), the BLAS's convention: the products of one triangle."""
        n, k = problem.sizes["n"], problem.sizes["k"]
        return float(k * n * (n + 1))

    def traffic(self, problem: Problem) -> float:
        """A read once, a triangle written once."""
        n, k = problem.sizes["n"], problem.sizes["k"]
        return float(problem.itemsize) * (n * k + n * (n + 1) // 2)

    def reads(self, problem: Problem, scalars: Mapping[str, float]) -> frozenset[str]:
        """A unless alpha is 0; C always, for the triangle that stays as it is."""
        return frozenset(("a", "c") if scalars["alpha"] != 0 else ("c",))

    def awkward(self, problem: Problem) -> list[Problem]:
        """Orders below, between and above the blocks, no terms, padded rows and offsets."""
        return structured.awkward(self, problem, ((1, 1), (7, 0), (45, 37), (140, 20), (77, 5)))


workload = Syrk()
