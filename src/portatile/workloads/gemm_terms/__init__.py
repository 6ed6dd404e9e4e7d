"""Float32 products from matrix units: operands are sums of two terms of 16 bits, and C comes from three products of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from portatile.records import Config, DeviceInfo, Layout, Plan, Problem, Value
from portatile.space import ParameterSpace
from portatile.workload import Cut, Expected, Inputs, Operand, Workload
from portatile.workloads import get
from portatile.workloads.gemm import plan as of_gemm
from portatile.workloads.gemm import reference
from portatile.workloads.gemm.passing import operand_shapes
from portatile.workloads.gemm.reals import without_conjugates
from portatile.workloads.gemm_terms import choice, error, points, steps

_PARTS = 67  # into which a native product may split k, at most, and its last roundings


class GemmTerms(Workload):
    """C (m x n) = alpha op(A) (m x k) op(B) (k x n) + beta C for float32, from matrix units that multiply float16.

    Each row of op(A) and column of op(B) is scaled by a power of two and split into a high and a low term. Sums of their products leave the
    units often, to be added to nearest, so that the error stays below the native product's where k is 256 or more. Rows and columns that
    two terms do not hold are found while they are split, and computed natively: those with infinities, NaN, or elements some 2^28 times
    smaller than the largest one. Overflow and denormals are as of the native product, but for sums that overflow only on their way.

    Parameters: FORM: native, which is ``gemm``'s own product, or the form of the product of the terms: matrix, hopper. TILE: of C, rows x
    columns. STAGES: tiles in local memory that take turns. SPLIT_K: groups that share the k of a tile. RASTER: rows of tiles that
    neighbouring groups cover together.
    """

    name = "gemm_terms"
    products = True
    sizes: Mapping[str, str] = {"m": "rows of C", "n": "columns of C", "k": "terms of each sum"}
    options: Mapping[str, tuple[Value, ...]] = {"trans_a": ("N", "T", "C", "R"), "trans_b": ("N", "T", "C", "R")}
    dtypes: tuple[str, ...] = ("float32",)
    operands: tuple[Operand, ...] = (Operand("a"), Operand("b"), Operand("c", "inout"))
    scalars: Mapping[str, float] = {"alpha": 1.0, "beta": 0.0}

    def problem(
        self,
        sizes: Mapping[str, int],
        dtype: str = "float32",
        options: Mapping[str, Value] | None = None,
        layout: Mapping[str, Layout] | None = None,
    ) -> Problem:
        """As of any workload; conjugates of real matrices are these themselves."""
        return super().problem(sizes, dtype, without_conjugates(dtype, options), layout)

    def shapes(self, problem: Problem) -> dict[str, tuple[int, ...]]:
        """The shapes of A, B and C as they are stored."""
        return dict(operand_shapes(problem))

    def space(self, problem: Problem, device: DeviceInfo) -> ParameterSpace:
        """The native product, and the tiles that fit the device; without units for small problems alone."""
        return points.space(problem, device)

    def default(self, problem: Problem, device: DeviceInfo) -> Config:
        """The native product where the terms' would not be faster, or less accurate: see ``choice``."""
        return choice.default(problem, device)

    def wins(self, problem: Problem, device: DeviceInfo) -> bool:
        """As ``choice`` estimates it."""
        return choice.wins(problem, device)

    def note(self, problem: Problem, config: Config, device: DeviceInfo) -> str:
        """Why the native product runs."""
        return choice.reason(problem, device) if points.read(config) is None else ""

    def plan(self, problem: Problem, config: Config, device: DeviceInfo) -> Plan:
        """Splitting, the product of the terms, and natively what they do not give; or the native product."""
        of_gemm.check(problem)
        if min(problem.sizes["m"], problem.sizes["n"]) == 0:
            return Plan(())
        point = points.read(config)
        return steps.native(problem) if point is None or problem.sizes["k"] == 0 else steps.build(problem, point, device)

    def inputs(self, problem: Problem, rng: np.random.Generator) -> Inputs:
        """Random operands; see ``gemm``."""
        return reference.inputs(problem, rng)

    def reference(self, problem: Problem, inputs: Inputs, sample: np.random.Generator | None = None) -> dict[str, Expected]:
        """C in float64, everywhere or where sampled rows meet sampled columns."""
        return {"c": reference.reference(problem, inputs, sample)}

    def bound(self, problem: Problem, config: Config) -> float:
        """Of the terms' product as ``error.bound`` derives it, or the native one's where that is larger: rows may be of either."""
        k, point = problem.sizes["k"], points.read(config)
        native = reference.bound(problem, _PARTS if point is None else 1)
        return native if point is None else max(native, error.bound(k, point.CHUNK, point.SPLIT_K))

    def flops(self, problem: Problem) -> float:
        """2 m n k, whatever is computed on the way."""
        return 2.0 * problem.sizes["m"] * problem.sizes["n"] * problem.sizes["k"]

    def traffic(self, problem: Problem) -> float:
        """A and B read once, C written once."""
        return get("gemm").traffic(problem)

    def reads(self, problem: Problem, scalars: Mapping[str, float]) -> frozenset[str]:
        """A and B unless alpha is 0, C unless beta is 0."""
        return get("gemm").reads(problem, scalars)

    def cuts(self, problem: Problem, config: Config) -> tuple[Cut, ...]:
        """By rows and by columns of C."""
        return get("gemm").cuts(problem, config)

    def awkward(self, problem: Problem) -> list[Problem]:
        """Shapes that nothing divides, with padded rows and offsets."""
        return reference.awkward(self, problem)


workload = GemmTerms()
