"""Float32 products from matrix units: operands are sums of two terms of 16 bits, and C comes from three products of them."""

from __future__ import annotations

from collections.abc import Mapping

from portatile.records import Config, DeviceInfo, Plan, Problem
from portatile.space import ParameterSpace
from portatile.workloads.gemm import plan as of_gemm
from portatile.workloads.gemm import reference
from portatile.workloads.gemm.product import Product
from portatile.workloads.gemm_terms import choice, error, points, steps

_PARTS = 67  # into which a native product may split k, at most, and its last roundings


class GemmTerms(Product):
    """C (m x n) = alpha op(A) (m x k) op(B) (k x n) + beta C for float32, from matrix units that multiply float16.

    Each row of op(A) and column of op(B) is scaled by a power of two and split into a high and a low term. Sums of their products leave the
    units often, to be added to nearest, so that the error stays below the native product's where k is 256 or more. Rows and columns that
    two terms do not hold are found while they are split, and computed natively: those with infinities, NaN, or elements some 2^28 times
    smaller than the largest one. Overflow and denormals are as of the native product, but for sums that overflow only on their way.
    """

    name = "gemm_terms"
    meanings: Mapping[str, str] = {
        "FORM": "native, which is gemm's own product, or the form of the product of the terms: matrix or hopper.",
        "TILE": "The tile of C of a work-group, rows x columns.",
        "STAGES": "Tiles in local memory that take turns.",
        "SPLIT_K": "Work-groups that share the k of a tile.",
        "RASTER": "Rows of tiles that neighbouring groups cover together.",
    }
    dtypes: tuple[str, ...] = ("float32",)

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
        """The split into terms, their product, and a native product of the rows and columns that terms do not hold; or a native product."""
        of_gemm.check(problem)
        if min(problem.sizes["m"], problem.sizes["n"]) == 0:
            return Plan(())
        point = points.read(config)
        return steps.native(problem) if point is None or problem.sizes["k"] == 0 else steps.build(problem, point, device)

    def bound(self, problem: Problem, config: Config) -> float:
        """The larger of the bound that ``error.bound`` derives and the native bound: rows may be computed in either way."""
        k, point = problem.sizes["k"], points.read(config)
        native = reference.bound(problem, _PARTS if point is None else 1)
        return native if point is None else max(native, error.bound(k, point.CHUNK, point.SPLIT_K))


workload = GemmTerms()
