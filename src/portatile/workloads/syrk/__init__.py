"""SYRK: one triangle of C = alpha op(A) op(A)^T + beta C. Products compute the blocks off the diagonal, and one batch those on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from portatile.records import Arg, Call, Config, DeviceInfo, Launch, Layout, Plan, Problem, Temporary, Value
from portatile.space import ParameterSpace
from portatile.template import load
from portatile.workload import CONJUGATE, Expected, Inputs, Member, Operand
from portatile.workloads import blocks, get, operands, precisions, structured
from portatile.workloads.gemm.extras import Triangle
from portatile.workloads.gemm.reference import op

_NO_TERMS = 32  # NB if k = 0
_EMULATED = (*structured.ORDERS[1:], 2048, 4096)  # orders of the smallest square products that are emulated
_ROUND = 128  # a triangle is halved at a multiple of so many rows


class Syrk(structured.RealOrComplex):
    """Rank-k update: the triangle ``uplo`` of C (n x n) = alpha op(A) op(A)^T + beta C, row-major; the other triangle is not touched.

    A is stored as n x k, or as k x n with ``trans="T"``; C and R conjugate, too. With ``mirror="C"`` C is Hermitian: alpha op(A) op(A)^H +
    beta C with real factors, and a real diagonal. With beta = 0 C is not read, with alpha = 0 A is not. ``precision`` is that of the
    products.
    """

    name = "syrk"
    meanings: Mapping[str, str] = {
        "NB": "Order of the blocks on the diagonal, which are computed whole in a workspace; one triangle of each is then added to C. 0, "
        "on processors and NVIDIA's GPUs: one product that skips the tiles of the other triangle. If products are emulated by residues, "
        "the triangle is halved into a square product and two triangles, down to blocks smaller than twice NB, which are native; 0: all "
        "of it is native.",
        "WGS": "Work-items of a work-group of the kernel that adds a triangle of each block to C.",
    }
    products = True
    triangle = "n"
    sizes: Mapping[str, str] = {"n": "order of C", "k": "terms of each sum"}
    options: Mapping[str, tuple[Value, ...]] = {
        "uplo": ("L", "U"),
        "trans": ("N", "T", "C", "R"),
        "mirror": ("T", "C"),
        "precision": structured.PRECISIONS,
    }
    implied = frozenset({"mirror", "precision"})
    operands: tuple[Operand, ...] = (Operand("a"), Operand("c", "inout"))
    scalars: Mapping[str, float] = {"alpha": 1.0, "beta": 0.0}
    pairs: tuple[tuple[str, str], ...] = (("a", "a"),)
    """The products that are added up: each of one operand and the transpose of another."""

    def shapes(self, problem: Problem) -> dict[str, tuple[int, ...]]:
        """The factors as stored, and C."""
        n, k = problem.sizes["n"], problem.sizes["k"]
        factors: dict[str, tuple[int, ...]] = {name: (n, k) if _plain(problem, name) else (k, n) for name, _ in self.pairs}
        return factors | {"c": (n, n)}

    def halves(self, problem: Problem) -> bool:
        """Whether the triangle is halved recursively: if products are emulated by residues, because only large ones
        beat native products.
        """
        return blocks.precision(problem) == "emulated" and precisions.EMULATED[problem.dtype] == "gemm_residues"

    def space(self, problem: Problem, device: DeviceInfo) -> ParameterSpace:
        """Blocks of at most twice the order, and a work-group."""
        if not self.halves(problem):
            return structured.space(problem, device, problem.sizes["n"])
        values = {"NB": (0, *_EMULATED), "WGS": (structured.group(device),)}
        return ParameterSpace(values, ("NB == 0 or 2 * NB <= order",), {**device.facts(), "order": problem.sizes["n"]})

    def default(self, problem: Problem, device: DeviceInfo) -> Config:
        """Blocks that keep the device busy; for products by residues, the smallest blocks for which these are faster than native ones."""
        found = structured.blocked(problem, problem.sizes["n"], device)
        if not self.halves(problem):
            return found
        emulated = get(precisions.EMULATED[problem.dtype])
        sizes = {nb: {"m": nb, "n": nb, "k": problem.sizes["k"]} for nb in _EMULATED if 2 * nb <= max(problem.sizes["n"], 1)}
        winning = (nb for nb, of_product in sizes.items() if emulated.wins(emulated.problem(of_product, problem.dtype), device))
        return {**found, "NB": next(winning, 0)}

    def note(self, problem: Problem, config: Config, device: DeviceInfo) -> str:
        """A note if a computation that should be emulated runs natively."""
        native = self.halves(problem) and config["NB"] == 0
        return "emulated products are not expected to be faster here: native ones run" if native else ""

    def plan(self, problem: Problem, config: Config, device: DeviceInfo) -> Plan:
        """The blocks on the diagonal as one batch, one product for each block row off the diagonal, and the merge of the diagonal's
        triangles.
        """
        blocks.check(problem)
        n, nb, group = problem.sizes["n"], int(config["NB"]), int(config["WGS"])
        if n == 0:
            return Plan(())
        if self.halves(problem):
            return Plan(tuple(self._halved(problem, 0, n, nb)))
        upper = problem.options["uplo"] == "U"
        if nb == 0 and problem.sizes["k"] > 0:
            a = ("a", problem.layout["a"])
            operands = {"a": a, "b": a, "c": ("c", problem.layout["c"])}
            product = blocks.BlockProduct((n, n, problem.sizes["k"]), operands, op_of(problem, ("a", "a")), ("alpha", "beta"))
            return blocks.whole(problem, product, unwanted(problem), device)
        nb = nb or _NO_TERMS
        defines: dict[str, Value] = {**blocks.types(problem), "UPPER": upper, "NB": nb, "WGS": group}
        source, beta = load(__file__, "merge.cl", defines, **kinds(problem)), blocks.scalar(problem, "beta")
        sizes, order, kept = blocks.lines(problem, n, min(nb, n), group), blocks.integer("order", n), Arg("blocks", role="temporary")
        if blocks.precision(problem) == precisions.NATIVE:
            first = self.diagonal(problem, nb)
        else:  # here products add beta C themselves, so that elements on the diagonal are rounded as those off it
            taking = load(__file__, "take.cl", defines, **kinds(problem))
            first = [
                Launch(taking, "syrk_take", *sizes, (order, beta, *blocks.matrix(problem, "c", "in"), kept)),
                *self.alone(problem, nb),
            ]
            beta = replace(beta, value=0.0)
        steps: list[Launch | Call] = [*first, *self.off_diagonal(problem, nb)]
        steps.append(Launch(source, "syrk_merge", *sizes, (order, beta, kept, *blocks.matrix(problem, "c", "inout"))))
        return Plan(tuple(steps), (Temporary("blocks", -(-n // nb) * nb * nb * problem.itemsize),))

    def _halved(self, problem: Problem, start: int, stop: int, nb: int) -> Iterator[Call]:
        """Rows and columns ``start`` to ``stop`` of the triangle: the product of the two halves, and the triangle of each half."""
        size = stop - start
        if nb == 0 or size < 2 * nb or problem.sizes["k"] == 0:
            native = blocks.natively(problem)
            a = problem.layout["a"]
            layout = {"a": blocks.part(a, start, 0) if _plain(problem, "a") else blocks.part(a, 0, start)}
            layout["c"] = blocks.part(problem.layout["c"], start, start)
            callee = self.problem({**problem.sizes, "n": size}, problem.dtype, native.options, layout)
            yield Call(callee, {"a": "a", "c": "c"}, {"alpha": "alpha", "beta": "beta"})
            return
        rows = min(nb, _ROUND)
        middle = start + -(-size // (2 * rows)) * rows
        yield from self._halved(problem, start, middle, nb)
        halves = ((start, middle - start), (middle, stop - middle))
        first, second = halves if problem.options["uplo"] == "U" else halves[::-1]
        target = ("c", blocks.part(problem.layout["c"], first[0], second[0]))
        yield self._product(problem, self.pairs[0], first, second, target, "beta")
        yield from self._halved(problem, middle, stop, nb)

    def alone(self, problem: Problem, nb: int) -> list[Launch | Call]:
        """The blocks on the diagonal one by one, added to the content of the workspace ``blocks``."""
        n, width = problem.sizes["n"], blocks.padded(nb)
        corners = [(start, min(nb, n - start)) for start in range(0, n, nb)]
        return [
            self._product(problem, self.pairs[0], corner, corner, ("blocks", Layout((width, 1), corner[0] * width)), "beta")
            for corner in corners
        ]

    def diagonal(self, problem: Problem, nb: int) -> list[Launch | Call]:
        """The first product's blocks of order ``nb`` on the diagonal, whole, one after another in ``blocks``: a batch, and a smaller last
        one.
        """
        pair, width = self.pairs[0], blocks.padded(nb)
        n, k = problem.sizes["n"], problem.sizes["k"]
        count, rest = divmod(n, nb)
        steps: list[Launch | Call] = []
        if count > 1:
            layout = {"c": Layout((nb * width, width, 1))}
            for side, name in zip("ab", pair, strict=True):
                stored = problem.layout[name]
                step = nb * stored.strides[0] if _plain(problem, name) else nb
                layout[side] = Layout((step, *stored.strides), stored.offset, stored.alignment)
            options: dict[str, Value] = dict(zip(("trans_a", "trans_b"), op_of(problem, pair), strict=True))
            callee = get("gemm_batched").problem({"batch": count, "m": nb, "n": nb, "k": k}, problem.dtype, options, layout)
            steps.append(Call(callee, {"a": pair[0], "b": pair[1], "c": "blocks"}, {"alpha": "alpha", "beta": 0.0}))
        singles = [(0, nb)] if count == 1 else []
        singles += [(count * nb, rest)] if rest else []
        for corner in singles:
            target = ("blocks", Layout((width, 1), corner[0] * width))
            steps.append(self._product(problem, pair, corner, corner, target, 0.0))
        return steps

    def off_diagonal(self, problem: Problem, nb: int) -> list[Call]:
        """The products for block rows of ``nb`` off the diagonal, added to C one after another."""
        n, steps = problem.sizes["n"], []
        for start in range(0, n, nb):
            stop = min(start + nb, n)
            first, last = (stop, n) if problem.options["uplo"] == "U" else (0, start)
            if first < last:
                target, rows, columns = ("c", blocks.part(problem.layout["c"], start, first)), (start, stop - start), (first, last - first)
                factors: tuple[float | str, ...] = ("beta", *(1.0,) * (len(self.pairs) - 1))
                steps += [self._product(problem, pair, rows, columns, target, beta) for pair, beta in zip(self.pairs, factors, strict=True)]
        return steps

    def _product(
        self,
        problem: Problem,
        pair: tuple[str, str],
        rows: tuple[int, int],
        columns: tuple[int, int],
        target: tuple[str, Layout],
        beta: float | str,
    ) -> Call:
        """The product of a range of rows of a pair's first op and a range of rows of its second; ranges are (start, length)."""
        operands = {"c": target}
        for side, name, (start, _) in zip("ab", pair, (rows, columns), strict=True):
            stored = problem.layout[name]
            operands[side] = (name, blocks.part(stored, start, 0) if _plain(problem, name) else blocks.part(stored, 0, start))
        sizes = (rows[1], columns[1], problem.sizes["k"])
        return blocks.product(problem, blocks.BlockProduct(sizes, operands, op_of(problem, pair), ("alpha", beta)))

    def members(self, problem: Problem, first: int, past: int) -> tuple[Member, ...]:
        """The products off the diagonal for these rows, and the triangle of the block on the diagonal."""
        n, k = problem.sizes["n"], problem.sizes["k"]
        beside = (past, n) if problem.options["uplo"] == "U" else (0, first)

        def factor(name: str, lines: tuple[int, int]) -> tuple[str, tuple[int, int], tuple[int, int]]:
            return (name, lines, (0, k)) if _plain(problem, name) else (name, (0, k), lines)

        made: list[Member] = []
        for place, pair in enumerate(self.pairs if beside[0] < beside[1] and first < past else ()):
            options: dict[str, Value] = dict(zip(("trans_a", "trans_b"), op_of(problem, pair), strict=True))
            parts = {"a": factor(pair[0], (first, past)), "b": factor(pair[1], beside), "c": ("c", (first, past), beside)}
            alpha = f"alpha{CONJUGATE}" if place and hermitian(problem) else "alpha"
            sizes = {"m": past - first, "n": beside[1] - beside[0], "k": k}
            product = precisions.computed(blocks.precision(problem), "gemm", problem.dtype)
            made.append(Member(product.workload, product.dtype, sizes, options, parts, {"alpha": alpha, "beta": 1.0 if place else "beta"}))
        if first < past:
            own = {name: factor(name, (first, past)) for name, _ in self.pairs} | {"c": ("c", (first, past), (first, past))}
            scalars = {"alpha": "alpha", "beta": "beta"}
            made.append(Member(self.name, problem.dtype, {"n": past - first, "k": k}, problem.options, own, scalars))
        return tuple(made)

    def inputs(self, problem: Problem, rng: np.random.Generator) -> Inputs:
        """Random operands. The triangle of C that is not touched is random, too; the other one is NaN if beta is 0."""
        given = structured.inputs(problem, self.shapes(problem), rng, structured.computed_triangle(problem))
        if not hermitian(problem):
            return given
        real = ("beta",) if len(self.pairs) > 1 else ("alpha", "beta")
        return replace(given, scalars={name: value.real if name in real else value for name, value in given.scalars.items()})

    def reference(self, problem: Problem, inputs: Inputs, sample: np.random.Generator | None = None) -> dict[str, Expected]:
        """C in float64, with the other triangle unchanged; with ``sample``, only some of its rows and columns."""
        views = structured.views(problem, self.shapes(problem), inputs)
        read = {name: op(views[name], _letter(problem, name)) for name, _ in self.pairs}
        left, right = (np.concatenate([read[pair[side]] for pair in self.pairs], axis=1) for side in range(2))
        right = right.conj().T if hermitian(problem) else right.T
        if hermitian(problem) and len(self.pairs) > 1:  # the second product has the conjugate of alpha as its factor
            alpha = complex(inputs.scalars["alpha"])
            terms = problem.sizes["k"]
            left = np.concatenate([operands.wide(left[:, :terms]) * alpha, operands.wide(left[:, terms:]) * alpha.conjugate()], axis=1)
            inputs = replace(inputs, scalars={**inputs.scalars, "alpha": 1.0 if alpha else 0.0})
        if hermitian(problem):
            inputs = replace(inputs, operands={**inputs.operands, "c": inputs.operands["c"].copy()})
            c = structured.views(problem, self.shapes(problem), inputs)["c"]
            np.fill_diagonal(c, c.diagonal().real)
        return {"c": structured.product(problem, inputs, "c", left, right, sample, ~structured.computed_triangle(problem))}

    def bound(self, problem: Problem, config: Config) -> float:
        """The bound of one sum of the terms of all products, in any order; see ``structured.bound``."""
        return structured.bound(problem, len(self.pairs) * problem.sizes["k"])

    def flops(self, problem: Problem) -> float:
        """k n (n + 1) for each product, the BLAS's convention for one triangle."""
        n, k = problem.sizes["n"], problem.sizes["k"]
        return float(structured.operations(problem) * len(self.pairs) * k * n * (n + 1))

    def traffic(self, problem: Problem) -> float:
        """The factors read once, and one triangle written once."""
        n, k = problem.sizes["n"], problem.sizes["k"]
        return float(problem.itemsize) * (len(self.pairs) * n * k + n * (n + 1) // 2)

    def reads(self, problem: Problem, scalars: Mapping[str, float]) -> frozenset[str]:
        """The factors unless alpha is 0; C always, because one triangle keeps its content."""
        return frozenset(("c", *(name for name, _ in self.pairs if scalars["alpha"] != 0)))

    def awkward(self, problem: Problem) -> list[Problem]:
        """Orders below, between and above the blocks, k = 0, padded rows and offsets."""
        return structured.awkward(self, problem, ((1, 1), (7, 0), (45, 37), (140, 20), (77, 5)))


def _plain(problem: Problem, name: str) -> bool:
    """Whether a factor is stored as n x k. ``trans`` has one letter for each of A and B, or one for both."""
    return _letter(problem, name) in ("N", "R")


def _letter(problem: Problem, name: str) -> str:
    """The letter of op for a factor."""
    return str(problem.options["trans"])[-1 if name == "b" else 0]


def hermitian(problem: Problem) -> bool:
    """Whether C is Hermitian."""
    return problem.options.get("mirror") == "C"


def kinds(problem: Problem) -> dict[str, bool]:
    """What the kernel texts must know: whether elements are complex, whether C is Hermitian, whether they work on stacks."""
    return {"COMPLEX": blocks.is_complex(problem), "HERMITIAN": hermitian(problem), "BATCH": blocks.stacked(problem)}


def unwanted(problem: Problem) -> Triangle:
    """The triangle of C that is not wanted."""
    return Triangle("c", "below" if problem.options["uplo"] == "U" else "above", mirrored=True, hermitian=hermitian(problem))


def op_of(problem: Problem, pair: tuple[str, str]) -> tuple[str, str]:
    """The letters of op for a pair of factors, the second transposed."""
    return _letter(problem, pair[0]), blocks.transposed(_letter(problem, pair[1]), hermitian(problem))


workload = Syrk()
