"""Accurate real and complex products from exact products of bytes: sums follow from their remainders modulo pairwise coprime numbers."""

from __future__ import annotations

from collections.abc import Mapping

from portatile.dtypes import product
from portatile.records import Config, DeviceInfo, Plan, Problem, Value
from portatile.space import ParameterSpace
from portatile.workloads.gemm import reference
from portatile.workloads.gemm.product import Product
from portatile.workloads.gemm_residues import choice, plan

_ROWS = 4  # rows of A or columns of B that a work-group converts to bytes


class GemmResidues(Product):
    """C (m x n) = alpha op(A) op(B) + beta C by Ozaki scheme II (arXiv 2504.08009), the same bits on every device and in every run.

    Rows of op(A) and columns of op(B) are scaled and rounded to integers with norms of 54.5 bits (float32: 27.3 bits). 14 products of bytes
    (float32: 7) give the product of these integers modulo as many numbers, from which it is reconstructed exactly. For complex numbers
    three products of bytes take the place of each one: modulo a number, adding the parts first loses nothing. One more product, of leading
    bits, bounds |A| |B| from below. An element for which rounding to integers may have cost more than (k - 7) u |A| |B|, or that has
    infinities, NaN or a sum that may be no normal number, is computed again as k multiply-adds in float64. Scaling and undoing the scales
    rounds seven times. So the error is at most gamma_(k + 3) |A| |B|, for complex numbers sqrt(2) gamma_(k + 7), as a native product's.
    Infinities and NaN come out where they do natively. Sums of more than 16384 terms are added piece by piece.
    """

    name = "gemm_residues"
    meanings: Mapping[str, str] = {
        "LANES": "Work-items along k of a group that converts to bytes, of four steps each.",
        "ROWS": "Rows of such a group. On GPUs it has fewer rows and more work-items along k where an operand has k fast.",
        "WGS": "Work-items of a group that reconstructs sums.",
        "REDUCE": "What the products of bytes write: 0, sums of 32 bits; 1, their remainders, a byte each.",
    }
    dtypes = ("float32", "float64", "complex64", "complex128")

    def space(self, problem: Problem, device: DeviceInfo) -> ParameterSpace:
        """Work-groups that the device takes, whose rows fit the local memory that a text may declare."""
        values: dict[str, tuple[Value, ...]] = {
            "LANES": (16, 32, 64, 128, 256),
            "ROWS": (1, 2, 4, 8, 16),
            "WGS": (64, 128, 256),
            "REDUCE": (0, 1),
        }
        rules = (
            "LANES * ROWS <= max_work_group_size",
            "LANES * ROWS >= 32",
            "ROWS * (LANES * lane_bytes + row_bytes) <= declared",
            "WGS <= max_work_group_size",
        )
        lane_bytes, row_bytes = plan.local_bytes(problem)
        facts = {**problem.facts(), **device.facts(), "lane_bytes": lane_bytes, "row_bytes": row_bytes, "declared": device.static_local}
        return ParameterSpace(values, rules, facts, later={"REDUCE": 0}, canonical=self.canonical)

    def canonical(self, config: Config) -> Config:
        """The configuration with REDUCE, which results lack that were recorded before this parameter existed."""
        return {**config, "REDUCE": config.get("REDUCE", 0)}

    def default(self, problem: Problem, device: DeviceInfo) -> Config:
        """On GPUs groups of few rows and many work-items, so that rows are read again while they are in the device's cache. With matrix
        units for bytes the products write remainders: with sums the whole product takes up to a tenth longer on an H200.
        """
        lane_bytes, row_bytes = plan.local_bytes(problem)
        lanes = 16 if device.kind == "cpu" else 64
        rows = _ROWS if device.kind == "cpu" or product(problem.dtype).complex else 2 * _ROWS
        while lanes > 16 and (rows * lanes > device.max_work_group_size or rows * (lanes * lane_bytes + row_bytes) > device.static_local):
            lanes //= 2
        wgs = min(128, device.max_work_group_size & -64 or 64)
        return {"LANES": lanes, "ROWS": rows, "WGS": wgs, "REDUCE": int("int8" in device.can.matrix_types)}

    def wins(self, problem: Problem, device: DeviceInfo) -> bool:
        """Whether the estimate in ``choice`` expects it to be faster than the native product."""
        return choice.wins(problem, device)

    def plan(self, problem: Problem, config: Config, device: DeviceInfo) -> Plan:
        """A and B to bytes, the products of bytes, sums from remainders, marked elements again; in pieces where memory is short."""
        return plan.build(problem, config, device)

    def note(self, problem: Problem, config: Config, device: DeviceInfo) -> str:
        """The expected time as a share of a native product's, or that it takes longer where there are no units for bytes."""
        if "int8" in device.can.matrix_types:
            return choice.expected(problem, device)
        return f"{device.name} has no units for products of bytes: this takes longer than the native product"

    def bound(self, problem: Problem, config: Config) -> float:
        """The bound of a native product whose sums are not split.

        Rounding to integers and scaling cost at most k u |A| |B| in each part of an element; otherwise the element is computed again with k
        roundings. One more rounding adds two pieces of k, and two (complex: four) are those of alpha and beta.
        """
        return reference.bound(problem, 1)


workload = GemmResidues()
