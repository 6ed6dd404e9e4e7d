"""SYMM: C = alpha A B + beta C or alpha B A + beta C for a symmetric A with one stored triangle. One launch expands A, then a product runs;
or the product reads the triangle itself.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from portatile.records import Arg, Config, DeviceInfo, Launch, Layout, Plan, Problem, Temporary, Value
from portatile.space import ParameterSpace
from portatile.template import load
from portatile.workload import Cut, Expected, Inputs, Operand
from portatile.workloads import blocks, precisions, structured
from portatile.workloads.gemm.extras import Triangle
from portatile.workloads.gemm.reference import op

_SQUARE = 32  # the order of the square that a work-group copies to its place and across the diagonal


class Symm(structured.RealOrComplex):
    """Symmetric A: C (m x n) = alpha A B + beta C (``side="L"``, A of order m) or alpha B A + beta C (``"R"``, order n), row-major.

    Only the triangle ``uplo`` of A is read. With ``mirror="C"`` A is Hermitian; with "R" A is the conjugate of the stored Hermitian matrix.
    B is stored as m x n, or as n x m with ``trans_b="T"``; C and R conjugate, too. With beta = 0 C is not read, with alpha = 0 neither A
    nor B is. ``precision`` is that of the product.
    """

    name = "symm"
    meanings: Mapping[str, str] = {
        "WGS": "Work-items of a work-group of the kernel that expands A. It has no effect on a processor, nor where the product reads the "
        "triangle itself, as small or narrow products do on NVIDIA's GPUs. The product of the expanded A is a problem of gemm.",
    }
    products = True
    sizes: Mapping[str, str] = {"m": "rows of C", "n": "columns of C"}
    options: Mapping[str, tuple[Value, ...]] = {
        "side": ("L", "R"),
        "uplo": ("L", "U"),
        "trans_b": ("N", "T", "C", "R"),
        "mirror": ("T", "C", "R"),
        "precision": structured.PRECISIONS,
    }
    implied = frozenset({"mirror", "precision"})
    operands = (Operand("a"), Operand("b"), Operand("c", "inout"))
    scalars: Mapping[str, float] = {"alpha": 1.0, "beta": 0.0}

    def shapes(self, problem: Problem) -> dict[str, tuple[int, ...]]:
        """A is square, of the order that the side determines."""
        m, n = problem.sizes["m"], problem.sizes["n"]
        order = structured.order(problem)
        return {"a": (order, order), "b": (m, n) if problem.options["trans_b"] in ("N", "R") else (n, m), "c": (m, n)}

    def space(self, problem: Problem, device: DeviceInfo) -> ParameterSpace:
        """The work-group of the kernel that expands A, if there is one."""
        rules = ("WGS <= max_work_group_size", "device_kind != 'cpu' or WGS == 32", "alone == 0 or WGS == alone")
        alone = structured.largest_group(device) if reads_triangle(problem, device) else 0
        return ParameterSpace({"WGS": structured.GROUPS}, rules, {**device.facts(), "alone": alone})

    def default(self, problem: Problem, device: DeviceInfo) -> Config:
        """The largest work-group, so that all rows of a square are loaded at once; without effect if the product
        reads the triangle itself.
        """
        return {"WGS": 32 if device.kind == "cpu" else structured.largest_group(device)}

    def plan(self, problem: Problem, config: Config, device: DeviceInfo) -> Plan:
        """Expansion and product, or one product that reads the triangle; no step if C is empty."""
        blocks.check(problem)
        m, n, order = problem.sizes["m"], problem.sizes["n"], structured.order(problem)
        if m == 0 or n == 0:
            return Plan(())
        if not blocks.stacked(problem) and reads_triangle(problem, device):
            return blocks.mirrored(problem, *product_of(problem, _stored(problem)), device)
        full = Layout((blocks.padded(order), 1))
        upper = problem.options["uplo"] == "U"
        serial, group = device.kind == "cpu", int(config["WGS"])
        form: dict[str, Value] = {"SERIAL": True, "SQUARE": structured.CACHED} if serial else {"WGS": group, "SQUARE": _SQUARE}
        mirror, conjugated = str(problem.options.get("mirror", "T")), blocks.is_complex(problem)
        kinds = {"COMPLEX": conjugated, "HERMITIAN": conjugated and mirror != "T", "BATCH": blocks.stacked(problem)}
        source = load(__file__, "expand.cl", {**blocks.types(problem), "UPPER": upper, **form}, **kinds)
        squares, lines = -(-order // (structured.CACHED if serial else _SQUARE)), group // _SQUARE
        size = ((squares, 1, 1), (1, 1, 1)) if serial else (((squares + 1) * _SQUARE, -(-squares // 2) * lines, 1), (_SQUARE, lines, 1))
        workspace = (Arg("full", role="temporary"), blocks.long_integer("ldfull", full.strides[0]))
        known = (blocks.integer("order", order), blocks.scalar(problem, "alpha"), *blocks.matrix(problem, "a", "in"))
        expand = Launch(source, "symm_expand", *size, (*known, *workspace))
        product, _ = product_of(problem, {**_stored(problem), "a": ("full", full)})
        return Plan((expand, blocks.product(problem, product)), (Temporary("full", order * full.strides[0] * problem.itemsize),))

    def inputs(self, problem: Problem, rng: np.random.Generator) -> Inputs:
        """Random operands. The triangle that is not stored is NaN, and so is C if beta is 0."""
        inputs = structured.inputs(problem, self.shapes(problem), rng)
        structured.poison_unread(problem, inputs.operands["a"], self.shapes(problem)["a"])
        return inputs

    def reference(self, problem: Problem, inputs: Inputs, sample: np.random.Generator | None = None) -> dict[str, Expected]:
        """C in float64; with ``sample``, some of its rows and columns."""
        views = structured.views(problem, self.shapes(problem), inputs)
        mirror = problem.options.get("mirror", "T")
        full = structured.symmetric(views["a"], problem.options["uplo"] == "U", mirror != "T")
        full = full.conj() if mirror == "R" else full
        b = op(views["b"], str(problem.options["trans_b"]))
        left, right = (full, b) if problem.options["side"] == "L" else (b, full)
        return {"c": structured.product(problem, inputs, "c", left, right, sample)}

    def bound(self, problem: Problem, config: Config) -> float:
        """The bound of the product; see ``structured.bound``."""
        return structured.bound(problem, structured.order(problem))

    def flops(self, problem: Problem) -> float:
        """2 m n times the order of A, four times as many for complex numbers: the BLAS's convention."""
        return 2.0 * structured.operations(problem) * problem.sizes["m"] * problem.sizes["n"] * structured.order(problem)

    def traffic(self, problem: Problem) -> float:
        """The triangle and B read once, C written once."""
        return structured.traffic(problem)

    def reads(self, problem: Problem, scalars: Mapping[str, float]) -> frozenset[str]:
        """A and B unless alpha is 0, C unless beta is 0."""
        return structured.reads(scalars, "c")

    def cuts(self, problem: Problem, config: Config) -> tuple[Cut, ...]:
        """Cuts along the size that A does not have: columns of B and C if A is on the left, rows if it is on the right."""
        size, of_c, across = ("n", "columns", "rows") if problem.options["side"] == "L" else ("m", "rows", "columns")
        return (Cut(size, {"b": across if problem.options["trans_b"] in ("T", "C") else of_c, "c": of_c}),)

    def awkward(self, problem: Problem) -> list[Problem]:
        """Orders that no block divides, with padded rows and offsets."""
        return structured.awkward(self, problem, ((1, 1), (45, 37), (67, 20), (33, 130)))


def reads_triangle(problem: Problem, device: DeviceInfo, count: int = 1) -> bool:
    """Whether a product (each of a stack of ``count`` like this one) reads every element of the symmetric matrix from the stored triangle:
    on NVIDIA's GPUs, if that is estimated to be faster than expanding the matrices.
    """
    symmetric = problem.options.get("mirror", "T") == "T"  # the kernel does not conjugate what it reads
    aligned = problem.layout["a"].alignment % problem.itemsize == 0  # a complex element is copied at once
    native = blocks.precision(problem) == precisions.NATIVE
    if not (device.nvidia and symmetric and aligned and native) or 0 in problem.sizes.values():
        return False
    return blocks.reads_triangle(problem, *product_of(problem, _stored(problem)), device, count)


def _stored(problem: Problem) -> blocks.Operands:
    """The operands as the caller stores them."""
    return {name: (name, layout) for name, layout in problem.layout.items()}


def product_of(problem: Problem, stored: blocks.Operands) -> tuple[blocks.BlockProduct, Triangle]:
    """The product of A and B, and the triangle of A that is not stored."""
    left, mirror = problem.options["side"] == "L", str(problem.options.get("mirror", "T"))
    letters = ("R" if mirror == "R" else "N", str(problem.options["trans_b"]))
    a, b, how = (stored["a"], stored["b"], letters) if left else (stored["b"], stored["a"], letters[::-1])
    missing = Triangle("a" if left else "b", "below" if problem.options["uplo"] == "U" else "above", symmetric=True)
    sizes = (problem.sizes["m"], problem.sizes["n"], structured.order(problem))
    return blocks.BlockProduct(sizes, {"a": a, "b": b, "c": stored["c"]}, (how[0], how[1]), ("alpha", "beta")), missing


workload = Symm()
