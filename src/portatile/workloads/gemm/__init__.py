"""GEMM: C = alpha op(A) op(B) + beta C, from the ten-parameter generator of Du et al. (table 4) to pipelined and register-tiled forms."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from portatile import dtypes
from portatile.records import Config, DeviceInfo, Layout, Plan, Problem, Value
from portatile.space import ParameterSpace
from portatile.workload import Cut, Expected, Inputs, Operand, Workload
from portatile.workloads.gemm import foreign, forms, plan, presets, reference, space, waste
from portatile.workloads.gemm.passing import operand_shapes
from portatile.workloads.gemm.reals import computed, without_conjugates
from portatile.workloads.gemm.storage import takes_vectors, takes_vectors_along_k


class Gemm(Workload):
    """Matrix product: C (m x n) = alpha op(A) (m x k) op(B) (k x n) + beta C for matrices with contiguous rows.

    A is stored m x k, or k x m with ``trans_a="T"``; B is stored k x n, or n x k with ``trans_b="T"``. C is the conjugate
    transpose, R the conjugate; of real matrices these are T and N. The dtype names the types of operands and result, as
    ``dtypes.PRODUCTS`` has them: ``float16:float32``. beta = 0 does not read C, alpha = 0 does not read A or B. Column-major
    operands are the transposed problem: C^T = op(B)^T op(A)^T.
    """

    name = "gemm"
    products = True
    sizes = {"m": "rows of C", "n": "columns of C", "k": "terms of each sum"}
    options = {"trans_a": ("N", "T", "C", "R"), "trans_b": ("N", "T", "C", "R")}
    dtypes = dtypes.PRODUCTS
    operands = (Operand("a"), Operand("b"), Operand("c", "inout"))
    scalars = {"alpha": 1.0, "beta": 0.0}

    presets = presets.PRESETS
    meanings = forms.meanings()

    def problem(
        self,
        sizes: Mapping[str, int],
        dtype: str = "float32",
        options: Mapping[str, Value] | None = None,
        layout: Mapping[str, Layout] | None = None,
    ) -> Problem:
        """A problem as of any workload; conjugates of real matrices are the matrices themselves."""
        return super().problem(sizes, dtype, without_conjugates(dtype, options), layout)

    def shapes(self, problem: Problem) -> dict[str, tuple[int, ...]]:
        """The shapes of A, B and C as they are stored."""
        return dict(operand_shapes(problem))

    def element(self, problem: Problem, operand: str) -> str:
        """The operands' type, or the result's."""
        return reference.element(problem, operand).name

    def space(self, problem: Problem, device: DeviceInfo) -> ParameterSpace:
        """The configurations that are legal for the problem on the device."""
        return space.build(problem, device)

    def default(self, problem: Problem, device: DeviceInfo) -> Config:
        """The best known configuration for the kind of device and the size; always legal."""
        return forms.default(problem, device).config()

    def plan(self, problem: Problem, config: Config, device: DeviceInfo) -> Plan:
        """Packing where asked for, the product, and with split k the reduction."""
        return plan.build(problem, forms.read(config), device)

    def preset(self, name: str, problem: Problem) -> Config:
        """The published blocking of that name, in the problem's element type."""
        return presets.preset(name, problem.dtype)

    def translated(self, config: Config) -> Mapping[str, Value]:
        """CLBlast's parameters in those of this workload."""
        return foreign.translated(config)

    def explained(self, config: Config) -> Mapping[str, str]:
        """The meaning of each parameter in the configuration's form, the values that are tried, and the rules that it must keep."""
        return forms.explained(config)

    def canonical(self, config: Config) -> Config:
        """The configuration with the parameters that do something in its form, whenever it was recorded."""
        return forms.canonical(config)

    def lowered(self, config: Config, device: DeviceInfo) -> Config:
        """The configuration without instructions and local memory that the device lacks, as its form says."""
        return forms.read(config).lowered(device).config()

    def inputs(self, problem: Problem, rng: np.random.Generator) -> Inputs:
        """Random operands; see ``reference.inputs``."""
        return reference.inputs(problem, rng)

    def reference(self, problem: Problem, inputs: Inputs, sample: np.random.Generator | None = None) -> dict[str, Expected]:
        """C in float64, everywhere or where sampled rows meet sampled columns."""
        return {"c": reference.reference(problem, inputs, sample)}

    def bound(self, problem: Problem, config: Config) -> float:
        """Rounding of a sum of k products split into parts; see ``reference.bound``."""
        return reference.bound(problem, forms.read(config).roundings(problem.sizes["k"]))

    def flops(self, problem: Problem) -> float:
        """2 m n k, of complex numbers 8 m n k, the BLAS's convention: scaling by alpha and beta is not counted."""
        return (8.0 if dtypes.product(problem.dtype).complex else 2.0) * problem.sizes["m"] * problem.sizes["n"] * problem.sizes["k"]

    def traffic(self, problem: Problem) -> float:
        """A and B read once, C written once."""
        m, n, k = (problem.sizes[s] for s in "mnk")
        types = dtypes.product(problem.dtype)
        return float(types.operand.itemsize) * (m * k + k * n) + float(types.result.itemsize) * m * n

    def waste(self, problem: Problem, config: Config, device: DeviceInfo) -> float:
        """Tiles past the edges of C, steps past k, and multiprocessors that wait for the last group."""
        return waste.waste(problem, forms.read(config), device)

    def loss(self, problem: Problem, device: DeviceInfo) -> float:
        """Little where the default comes from an estimate that was fitted to timings of such a device."""
        return forms.loss(problem, device)

    def loads(self, problem: Problem, config: Config) -> float:
        """The loads of a work-item: for each step of k a column of its tile of A and a row of its tile of B."""
        return waste.loads(problem, forms.read(config))

    def reads(self, problem: Problem, scalars: Mapping[str, float]) -> frozenset[str]:
        """A and B unless alpha is 0, C unless beta is 0."""
        return frozenset(("a", "b") if scalars["alpha"] != 0 else ()) | frozenset(("c",) if scalars["beta"] != 0 else ())

    def distance(self, one: Problem, other: Problem) -> float:
        """As for any workload, and infinite where one allows vector copies of an operand that the other does not: tiles for aligned
        operands are not those for others.
        """
        one_view, other_view = computed(one), computed(other)
        alike = all(
            check(one_view, name) == check(other_view, name) for check in (takes_vectors, takes_vectors_along_k) for name in ("a", "b")
        )
        return super().distance(one, other) if alike else float("inf")

    def cuts(self, problem: Problem, config: Config) -> tuple[Cut, ...]:
        """By rows and by columns of C. With TAIL a part splits other sums than the whole does: equal within the bound, not bit for bit."""
        a = "columns" if problem.options["trans_a"] in ("T", "C") else "rows"
        b = "rows" if problem.options["trans_b"] in ("T", "C") else "columns"
        return Cut("m", {"a": a, "c": "rows"}), Cut("n", {"b": b, "c": "columns"})

    def awkward(self, problem: Problem) -> list[Problem]:
        """Shapes that nothing divides, with padded rows and offsets."""
        return reference.awkward(self, problem)


workload = Gemm()
