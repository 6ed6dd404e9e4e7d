"""A product of 8-bit floats with block scales, one for every 128 steps of k, and an epilogue in the same launch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile import dtypes
from portatile.records import Problem, Value
from portatile.workload import packed_layout
from portatile.workloads.gemm.epilogue import block_of
from portatile.workloads.gemm.reals import EIGHT_BITS
from portatile.workloads.gemm_epilogue import GemmEpilogue

BLOCK = 128
"""Steps of k that share a scale: as many as are summed in matrix units."""
_SCALES = ("scale_a", "scale_b")


class GemmBlocks(GemmEpilogue):
    """C (m x n) = activation(alpha sum over blocks q of s_iq t_qj sum over l in q of op(A)_il op(B)_lj + beta C + bias).

    ``scale_a`` holds s, with a row for each row of op(A) and a column for each block of 128 steps of k; ``scale_b`` holds t, with a row for
    each block. Forms that pack operands apply the scales there; forms on matrix units multiply the sum of a block by them when it leaves
    the unit.
    """

    name = "gemm_blocks"
    options: Mapping[str, tuple[Value, ...]] = {**GemmEpilogue.options, **dict.fromkeys(_SCALES, ("none",)), "block": (BLOCK,)}
    dtypes = tuple(name for name in dtypes.PRODUCTS if name.partition(":")[0] in EIGHT_BITS)

    def shapes(self, problem: Problem) -> dict[str, tuple[int, ...]]:
        """As for ``gemm_epilogue``, and the scales: m rows for A, a row for each block of k for B."""
        m, n, k = (problem.sizes[s] for s in "mnk")
        blocks = -(-k // block_of(problem))
        return {**super().shapes(problem), "scale_a": (m, blocks), "scale_b": (blocks, n)}

    def reads(self, problem: Problem, scalars: Mapping[str, float]) -> frozenset[str]:
        """The operands that ``gemm_epilogue`` reads, and the scales if it reads A and B."""
        reads = super().reads(problem, scalars)
        return reads | frozenset(_SCALES if "a" in reads else ())

    def awkward(self, problem: Problem) -> list[Problem]:
        """The edge cases of ``gemm_epilogue``, with scales at offsets."""
        problems = []
        longer = self.problem({"m": 19, "n": 23, "k": 300}, problem.dtype, problem.options)
        for one in (*super().awkward(problem), longer):
            shapes, offset = self.shapes(one), one.layout["a"].offset
            layout = {name: replace(packed_layout(shapes[name]), offset=offset) for name in _SCALES}
            problems.append(self.problem(one.sizes, one.dtype, one.options, {**one.layout, **layout}))
        return problems

    def _scaled(
        self, problem: Problem, product: tuple[Any, Any], factors: Mapping[str, Any], chosen: tuple[NDArray[Any], NDArray[Any]]
    ) -> tuple[Any, Any]:
        (a, b), (rows, columns) = product, chosen
        of_step = np.arange(problem.sizes["k"]) // block_of(problem)
        return a * factors["scale_a"][rows][:, of_step], b * factors["scale_b"][:, columns][of_step]


workload = GemmBlocks()
