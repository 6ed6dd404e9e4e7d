"""GEMM: C = alpha op(A) op(B) + beta C, from the ten-parameter generator of Du et al. (table 4) to pipelined and register-tiled forms."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from portatile import dtypes
from portatile.records import Config, DeviceInfo, Problem, Value
from portatile.workloads.gemm import foreign, forms, presets, reference, waste
from portatile.workloads.gemm.by_forms import ProductByForms
from portatile.workloads.gemm.reals import computed
from portatile.workloads.gemm.storage import takes_vectors, takes_vectors_along_k

_CONTENDERS = 12  # that are timed beside the default


class Gemm(ProductByForms):
    """Matrix product: C (m x n) = alpha op(A) (m x k) op(B) (k x n) + beta C for matrices with contiguous rows.

    A is stored m x k, or k x m with ``trans_a="T"``; B is stored k x n, or n x k with ``trans_b="T"``. C is the conjugate
    transpose, R the conjugate; of real matrices these are T and N. The dtype names the types of operands and result, as
    ``dtypes.PRODUCTS`` has them: ``float16:float32``. beta = 0 does not read C, alpha = 0 does not read A or B. Column-major
    operands are the transposed problem: C^T = op(B)^T op(A)^T.
    """

    name = "gemm"
    dtypes = dtypes.PRODUCTS

    presets = presets.PRESETS

    def contenders(self, problem: Problem, device: DeviceInfo) -> list[Config]:
        """The configurations that the estimate ranks first, and other forms' defaults; none unless the GPU's constants are known."""
        candidates = forms.contenders(problem, device, 2 * _CONTENDERS)
        if not candidates:
            return []
        legal = self.space(problem, device)
        return list(islice((config for config in candidates if config in legal), _CONTENDERS))

    def preset(self, name: str, problem: Problem) -> Config:
        """The published blocking of that name, in the problem's element type."""
        return presets.preset(name, problem.dtype)

    def translated(self, config: Config) -> Mapping[str, Value]:
        """CLBlast's parameters in those of this workload."""
        return foreign.translated(config)

    def bound(self, problem: Problem, config: Config) -> float:
        """Rounding of a sum of k products split into parts; see ``reference.bound``."""
        return reference.bound(problem, forms.read(config).roundings(problem.sizes["k"]))

    def loss(self, problem: Problem, device: DeviceInfo) -> float:
        """Little where the default comes from an estimate that was fitted to timings of such a device."""
        return forms.loss(problem, device)

    def loads(self, problem: Problem, config: Config) -> float:
        """The loads of a work-item: for each step of k a column of its tile of A and a row of its tile of B."""
        return waste.loads(problem, forms.read(config))

    def distance(self, one: Problem, other: Problem) -> float:
        """As for any workload, and infinite where one allows vector copies of an operand that the other does not: tiles for aligned
        operands are not those for others.
        """
        one_view, other_view = computed(one), computed(other)
        same_options = all(
            check(one_view, name) == check(other_view, name) for check in (takes_vectors, takes_vectors_along_k) for name in ("a", "b")
        )
        return super().distance(one, other) if same_options else float("inf")


workload = Gemm()
