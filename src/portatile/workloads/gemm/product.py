"""The base class of workloads that compute C = alpha op(A) op(B) + beta C: problems, inputs, reference and costs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from portatile import dtypes
from portatile.records import Config, DeviceInfo, Problem, Value
from portatile.workload import Cut, Expected, Inputs, Operand, Workload
from portatile.workloads.gemm import reference, units
from portatile.workloads.gemm.passing import operand_shapes
from portatile.workloads.gemm.reals import without_conjugates


class Product(Workload):
    """C (m x n) = alpha op(A) (m x k) op(B) (k x n) + beta C, by whatever algorithm."""

    products = True
    sizes: Mapping[str, str] = {"m": "rows of C", "n": "columns of C", "k": "terms of each sum"}
    options: Mapping[str, tuple[Value, ...]] = {"trans_a": ("N", "T", "C", "R"), "trans_b": ("N", "T", "C", "R")}
    operands: tuple[Operand, ...] = (Operand("a"), Operand("b"), Operand("c", "inout"))
    scalars: Mapping[str, float] = {"alpha": 1.0, "beta": 0.0}

    def normalised(self, dtype: str, options: Mapping[str, Value]) -> Mapping[str, Value]:
        """Conjugates of real matrices are the matrices themselves."""
        return without_conjugates(dtype, options)

    def shapes(self, problem: Problem) -> dict[str, tuple[int, ...]]:
        """The shapes of A, B and C as they are stored."""
        return dict(operand_shapes(problem))

    def element(self, problem: Problem, operand: str) -> str:
        """The type of the operands, or for C that of the result."""
        return reference.element(problem, operand).name

    def inputs(self, problem: Problem, rng: np.random.Generator) -> Inputs:
        """Random operands; see ``reference.inputs``."""
        return reference.inputs(problem, rng)

    def reference(self, problem: Problem, inputs: Inputs, sample: np.random.Generator | None = None) -> dict[str, Expected]:
        """C in float64, everywhere or in sampled rows and columns."""
        return {"c": reference.reference(problem, inputs, sample)}

    def flops(self, problem: Problem) -> float:
        """2 m n k, or 8 m n k for complex numbers, by the BLAS's convention: scaling by alpha and beta is not counted."""
        return (8.0 if dtypes.product(problem.dtype).complex else 2.0) * problem.sizes["m"] * problem.sizes["n"] * problem.sizes["k"]

    def traffic(self, problem: Problem) -> float:
        """A and B read once, C written once."""
        m, n, k = (problem.sizes[s] for s in "mnk")
        types = dtypes.product(problem.dtype)
        return float(types.operand.itemsize) * (m * k + k * n) + float(types.result.itemsize) * m * n

    def reads(self, problem: Problem, scalars: Mapping[str, float]) -> frozenset[str]:
        """A and B unless alpha is 0, C unless beta is 0."""
        return frozenset(("a", "b") if scalars["alpha"] != 0 else ()) | frozenset(("c",) if scalars["beta"] != 0 else ())

    def cuts(self, problem: Problem, config: Config) -> tuple[Cut, ...]:
        """Cuts by rows and by columns of C. Parts equal the whole only within the error bound, because a part may
        use another split of k.
        """
        a = "columns" if problem.options["trans_a"] in ("T", "C") else "rows"
        b = "rows" if problem.options["trans_b"] in ("T", "C") else "columns"
        return Cut("m", {"a": a, "c": "rows"}), Cut("n", {"b": b, "c": "columns"})

    def note(self, problem: Problem, config: Config, device: DeviceInfo) -> str:
        """A note if the device has no matrix units for the type of the operands."""
        return units.note(problem, config, device)

    def awkward(self, problem: Problem) -> list[Problem]:
        """Sizes that no tile divides, with padded rows and offsets."""
        return reference.awkward(self, problem)
