"""SYRK: one triangle of C = alpha op(A) op(A)^T + beta C: products below or above the diagonal, and the blocks on it all at once."""

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

_NO_TERMS = 32  # NB where there is nothing to multiply
_EMULATED = (*structured.ORDERS[1:], 2048, 4096)  # orders of the least square products that are emulated
_ROUND = 128  # rows to whose multiples a triangle is halved


class Syrk(structured.RealOrComplex):
    """Rank-k update: the triangle ``uplo`` of C (n x n) = alpha op(A) op(A)^T + beta C, row-major; the other one is not touched.

    A is stored n x k, or k x n with ``trans="T"``; C and R are conjugates. With ``mirror="C"`` C is Hermitian: alpha op(A) op(A)^H + beta C
    with real factors, and a diagonal without imaginary parts. beta = 0 does not read C, alpha = 0 does not read A. ``precision`` is that of
    the products.
    """

    name = "syrk"
    meanings: Mapping[str, str] = {
        "NB": "Order of the blocks on the diagonal, which are computed whole beside C and of which a triangle is kept. 0, on processors "
        "and NVIDIA's GPUs: one product that leaves out the tiles of the other triangle. With products by residues the triangle is "
        "halved, into a square product and two triangles, down to blocks of less than twice NB, which are native; 0: all of it is.",
        "WGS": "Work-items of a group of the kernel that keeps a triangle.",
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
    """The products that are added up, each of one operand and the transpose of another."""

    def shapes(self, problem: Problem) -> dict[str, tuple[int, ...]]:
        """The factors as they are stored, and C."""
        n, k = problem.sizes["n"], problem.sizes["k"]
        factors: dict[str, tuple[int, ...]] = {name: (n, k) if _plain(problem, name) else (k, n) for name, _ in self.pairs}
        return factors | {"c": (n, n)}

    def halves(self, problem: Problem) -> bool:
        """Whether the triangle is halved: with products by residues, of which only large ones are faster than native ones."""
        return blocks.precision(problem) == "emulated" and precisions.EMULATED[problem.dtype] == "gemm_residues"

    def space(self, problem: Problem, device: DeviceInfo) -> ParameterSpace:
        """Blocks of at most twice the order."""
        if not self.halves(problem):
            return structured.space(problem, device, problem.sizes["n"])
        values = {"NB": (0, *_EMULATED), "WGS": (structured.group(device),)}
        return ParameterSpace(values, ("NB == 0 or 2 * NB <= order",), {**device.facts(), "order": problem.sizes["n"]})

    def default(self, problem: Problem, device: DeviceInfo) -> Config:
        """Blocks that keep the device busy; with products by residues those from which on these are faster."""
        found = structured.blocked(problem, problem.sizes["n"], device)
        if not self.halves(problem):
            return found
        emulated = get(precisions.EMULATED[problem.dtype])
        sizes = {nb: {"m": nb, "n": nb, "k": problem.sizes["k"]} for nb in _EMULATED if 2 * nb <= max(problem.sizes["n"], 1)}
        winning = (nb for nb, of_product in sizes.items() if emulated.wins(emulated.problem(of_product, problem.dtype), device))
        return {**found, "NB": next(winning, 0)}

    def note(self, problem: Problem, config: Config, device: DeviceInfo) -> str:
        """Where all of an emulated computation is native."""
        native = self.halves(problem) and config["NB"] == 0
        return "emulated products are not expected to be faster here: native ones run" if native else ""

    def plan(self, problem: Problem, config: Config, device: DeviceInfo) -> Plan:
        """The blocks on the diagonal as one batch, a product for each block row beside it, and the triangles."""
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
        else:  # a product adds beta C itself, so that elements on the diagonal are rounded as those beside it
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
        """The triangle of C from ``start`` to ``stop`` on the diagonal: a product of one half and the other, and both halves' triangles."""
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
        """The blocks on the diagonal one by one, added to what ``blocks`` holds."""
        n, width = problem.sizes["n"], blocks.padded(nb)
        corners = [(start, min(nb, n - start)) for start in range(0, n, nb)]
        return [
            self._product(problem, self.pairs[0], corner, corner, ("blocks", Layout((width, 1), corner[0] * width)), "beta")
            for corner in corners
        ]

    def diagonal(self, problem: Problem, nb: int) -> list[Launch | Call]:
        """The first product's blocks of order ``nb`` on the diagonal, whole, one after another in ``blocks``: a batch, and the rest."""
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
        """The products of block rows of ``nb`` beside the blocks on the diagonal, added to C one after another."""
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
        """The product of two ranges (start, length) of the rows of a pair's op(A) and op(B)."""
        operands = {"c": target}
        for side, name, (start, _) in zip("ab", pair, (rows, columns), strict=True):
            stored = problem.layout[name]
            operands[side] = (name, blocks.part(stored, start, 0) if _plain(problem, name) else blocks.part(stored, 0, start))
        sizes = (rows[1], columns[1], problem.sizes["k"])
        return blocks.product(problem, blocks.BlockProduct(sizes, operands, op_of(problem, pair), ("alpha", beta)))

    def members(self, problem: Problem, first: int, past: int) -> tuple[Member, ...]:
        """The products beside the block on the diagonal, and its triangle."""
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
        """Random operands; the triangle of C that is not touched is random too, the other one NaN where beta is 0."""
        given = structured.inputs(problem, self.shapes(problem), rng, structured.computed_triangle(problem))
        if not hermitian(problem):
            return given
        real = ("beta",) if len(self.pairs) > 1 else ("alpha", "beta")
        return replace(given, scalars={name: value.real if name in real else value for name, value in given.scalars.items()})

    def reference(self, problem: Problem, inputs: Inputs, sample: np.random.Generator | None = None) -> dict[str, Expected]:
        """C in float64, and what it was beside the triangle; with ``sample``, some of its rows and columns."""
        views = structured.views(problem, self.shapes(problem), inputs)
        read = {name: op(views[name], _letter(problem, name)) for name, _ in self.pairs}
        left, right = (np.concatenate([read[pair[side]] for pair in self.pairs], axis=1) for side in range(2))
        right = right.conj().T if hermitian(problem) else right.T
        if hermitian(problem) and len(self.pairs) > 1:  # the second product has the conjugate of alpha
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
        """The bound of one sum of all products' terms, whatever their order; see ``structured.bound``."""
        return structured.bound(problem, len(self.pairs) * problem.sizes["k"])

    def flops(self, problem: Problem) -> float:
        """k n (n + 1) for each product, the BLAS's convention: those of one triangle."""
        n, k = problem.sizes["n"], problem.sizes["k"]
        return float(structured.operations(problem) * len(self.pairs) * k * n * (n + 1))

    def traffic(self, problem: Problem) -> float:
        """The factors read once, a triangle written once."""
        n, k = problem.sizes["n"], problem.sizes["k"]
        return float(problem.itemsize) * (len(self.pairs) * n * k + n * (n + 1) // 2)

    def reads(self, problem: Problem, scalars: Mapping[str, float]) -> frozenset[str]:
        """The factors unless alpha is 0; C always, for the triangle that stays as it is."""
        return frozenset(("c", *(name for name, _ in self.pairs if scalars["alpha"] != 0)))

    def awkward(self, problem: Problem) -> list[Problem]:
        """Orders below, between and above the blocks, no terms, padded rows and offsets."""
        return structured.awkward(self, problem, ((1, 1), (7, 0), (45, 37), (140, 20), (77, 5)))


def _plain(problem: Problem, name: str) -> bool:
    """Whether a factor is stored n x k; the letters of ``trans`` are those of A and B, one for both where there is one."""
    return _letter(problem, name) in ("N", "R")


def _letter(problem: Problem, name: str) -> str:
    """The letter by which a factor becomes op of it."""
    return str(problem.options["trans"])[-1 if name == "b" else 0]


def hermitian(problem: Problem) -> bool:
    """Whether C is Hermitian."""
    return problem.options.get("mirror") == "C"


def kinds(problem: Problem) -> dict[str, bool]:
    """What the kernel texts are told of the element type, and whether they work on stacks."""
    return {"COMPLEX": blocks.is_complex(problem), "HERMITIAN": hermitian(problem), "BATCH": blocks.stacked(problem)}


def unwanted(problem: Problem) -> Triangle:
    """The triangle of C that nobody wants."""
    return Triangle("c", "below" if problem.options["uplo"] == "U" else "above", mirrored=True, hermitian=hermitian(problem))


def op_of(problem: Problem, pair: tuple[str, str]) -> tuple[str, str]:
    """The letters of a pair of factors, of which the second is transposed."""
    return _letter(problem, pair[0]), blocks.transposed(_letter(problem, pair[1]), hermitian(problem))


workload = Syrk()
