"""Float32 products on matrix units: each operand is split into two terms of 16 bits, and C is computed from three products of terms."""

from __future__ import annotations

from collections.abc import Mapping

from portatile.records import Config, DeviceInfo, Plan, Problem
from portatile.space import ParameterSpace
from portatile.workloads.gemm import plan as of_gemm
from portatile.workloads.gemm import reference
from portatile.workloads.gemm.product import Product
from portatile.workloads.gemm_terms import choice, error, points, steps

_PARTS = 67  # parts into which a native product may split k, at most, plus its last roundings


class GemmTerms(Product):
    """C (m x n) = alpha op(A) (m x k) op(B) (k x n) + beta C for float32, on matrix units that multiply float16.

    Each row of op(A) and column of op(B) is scaled by a power of two and split into a high and a low term. Sums of products leave the units
    often and are added with rounding to nearest, so that the error stays below the native product's if k is 256 or more. Rows and columns
    that two terms cannot represent are detected while they are split, and computed natively: those with infinities, NaN, or elements some
    2^28 times smaller than the largest. Overflow and denormals are as in the native product, except for intermediate sums that overflow.
    """

    name = "gemm_terms"
    meanings: Mapping[str, str] = {
        "FORM": "native: gemm's own product. matrix, hopper: the form that computes the product of the terms.",
        "TILE": "The tile of C of a work-group, rows x columns.",
        "STAGES": "Stages of the pipeline: tiles in local memory.",
        "SPLIT_K": "Work-groups that share the k of a tile.",
        "RASTER": "Rows of tiles in a band, which neighbouring work-groups cover together.",
    }
    dtypes: tuple[str, ...] = ("float32",)

    def space(self, problem: Problem, device: DeviceInfo) -> ParameterSpace:
        """The native product, and the tiles that fit the device; on devices without matrix units for small problems only."""
        return points.space(problem, device)

    def default(self, problem: Problem, device: DeviceInfo) -> Config:
        """The native product unless the terms' product is expected to be faster at an error bound that is no larger: see ``choice``."""
        return choice.default(problem, device)

    def wins(self, problem: Problem, device: DeviceInfo) -> bool:
        """Whether ``choice`` expects the terms' product to be faster."""
        return choice.wins(problem, device)

    def note(self, problem: Problem, config: Config, device: DeviceInfo) -> str:
        """The reason why the native product runs, if it does."""
        return choice.reason(problem, device) if points.read(config) is None else ""

    def plan(self, problem: Problem, config: Config, device: DeviceInfo) -> Plan:
        """The split into terms, their product, and a native product of rows and columns that terms cannot represent; or just a native
        product.
        """
        of_gemm.check(problem)
        if min(problem.sizes["m"], problem.sizes["n"]) == 0:
            return Plan(())
        point = points.read(config)
        return steps.native(problem) if point is None or problem.sizes["k"] == 0 else steps.build(problem, point, device)

    def bound(self, problem: Problem, config: Config) -> float:
        """The larger of ``error.bound`` and the native bound, since rows may be computed in either way."""
        k, point = problem.sizes["k"], points.read(config)
        native = reference.bound(problem, _PARTS if point is None else 1)
        return native if point is None else max(native, error.bound(k, point.CHUNK, point.SPLIT_K))


workload = GemmTerms()
