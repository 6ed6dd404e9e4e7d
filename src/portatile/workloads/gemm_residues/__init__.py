"""Accurate real and complex products from exact products of bytes: what sums are modulo pairwise coprime numbers says what they are."""

from __future__ import annotations

from portatile.records import Config, DeviceInfo, Plan, Problem, Value
from portatile.space import ParameterSpace
from portatile.workloads.gemm import reference
from portatile.workloads.gemm.product import Product
from portatile.workloads.gemm_residues import choice, plan


class GemmResidues(Product):
    """C (m x n) = alpha op(A) op(B) + beta C by Ozaki scheme II (arXiv 2504.08009), the same bits on every device and in every run.

    Rows of op(A) and columns of op(B), scaled by powers of two, become integers with norms of 58 bits, of float32 27; 15 products of bytes,
    of float32 7, give their product modulo as many numbers, from which it is put together exactly and rounded once. Of complex numbers
    three products of bytes take the place of each: modulo a number nothing is lost by adding parts. One more product, of leading bits,
    bounds |A| |B| from below: an element for which rounding to integers may have cost more than k u |A| |B|, or that has infinities, NaN or
    a sum that is no normal number, is computed again as k multiply-adds in float64. So the error is at most gamma_(k + 3) |A| |B|, of
    complex numbers sqrt(2) gamma_(k + 7), as a native product's. Infinities and NaN come out where they do natively. Sums of more than
    16384 terms are added piece by piece.

    Parameters: SLAB: steps of k that a work-group makes bytes of. LANES: work-items along k, of four steps each. ROWS: rows of the group.
    WGS: work-group that puts sums together. REDUCE: what the products write: 0 sums, of 32 bits; 1 their remainders, a byte each.
    """

    name = "gemm_residues"
    dtypes = ("float32", "float64", "complex64", "complex128")

    def space(self, problem: Problem, device: DeviceInfo) -> ParameterSpace:
        """Work-groups that the device takes, slabs of whole tiles."""
        values: dict[str, tuple[Value, ...]] = {
            "SLAB": (256, 512, 1024, 2048, 4096),
            "LANES": (8, 16, 32),
            "ROWS": (4, 8, 16),
            "WGS": (64, 128, 256),
            "REDUCE": (0, 1),
        }
        rules = ("LANES * ROWS <= max_work_group_size", "LANES * ROWS >= 32", "WGS <= max_work_group_size")
        return ParameterSpace(values, rules, {**problem.facts(), **device.facts()}, later={"REDUCE": 0}, canonical=self.canonical)

    def canonical(self, config: Config) -> Config:
        """The configuration with REDUCE, which those recorded before there were remainders do not name."""
        return {**config, "REDUCE": config.get("REDUCE", 0)}

    def default(self, problem: Problem, device: DeviceInfo) -> Config:
        """Groups of 256 work-items, and slabs so short that there are some groups for each compute unit. Matrix units of bytes leave
        remainders: of sums, reading and writing these takes up to a tenth longer on an H200.
        """
        rows = 16 if device.max_work_group_size >= 256 else 4
        lanes = 16 if device.max_work_group_size >= 64 else 8
        groups = -(-min(problem.sizes["m"], problem.sizes["n"]) // rows)
        slab = 1024 if groups * max(problem.sizes["k"] // 1024, 1) >= 4 * device.compute_units else 512
        wgs = min(256, device.max_work_group_size & -64 or 64)
        return {"SLAB": slab, "LANES": lanes, "ROWS": rows, "WGS": wgs, "REDUCE": int("int8" in device.can.matrix_types)}

    def wins(self, problem: Problem, device: DeviceInfo) -> bool:
        """As ``choice`` estimates it."""
        return choice.wins(problem, device)

    def plan(self, problem: Problem, config: Config, device: DeviceInfo) -> Plan:
        """Bytes of A and B, the products of bytes, sums put together, elements computed again; piece by piece where memory asks for it."""
        return plan.build(problem, config, device)

    def note(self, problem: Problem, config: Config, device: DeviceInfo) -> str:
        """Where bytes are multiplied without units, which takes longer than a native product."""
        if "int8" in device.can.matrix_types:
            return ""
        return f"{device.name} has no units for products of bytes: this takes longer than the native product"

    def bound(self, problem: Problem, config: Config) -> float:
        """That of a native product whose sum is not divided.

        Rounding to integers costs at most k u |A| |B| in each part of an element, else the element is computed again with k roundings; one
        more rounds the sum, or that of two pieces of k, and two (complex: four) come of alpha and beta.
        """
        return reference.bound(problem, 1)


workload = GemmResidues()
