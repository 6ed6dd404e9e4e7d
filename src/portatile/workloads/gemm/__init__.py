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

_CONTENDERS = 12  # configurations that are timed beside the default


class Gemm(ProductByForms):
    """Matrix product: C (m x n) = alpha op(A) (m x k) op(B) (k x n) + beta C for matrices with contiguous rows.

    A is stored as m x k, or as k x m with ``trans_a="T"``; B is stored as k x n, or as n x k with ``trans_b="T"``. The letter C stands for
    the conjugate transpose and R for the conjugate; for real matrices they equal T and N. The dtype names the types of operands and result
    as ``dtypes.PRODUCTS`` lists them, for instance ``float16:float32``. With beta = 0 C is not read, with alpha = 0 neither A nor B is. A
    product of column-major matrices is the transposed problem: C^T = op(B)^T op(A)^T.
    """

    name = "gemm"
    dtypes = dtypes.PRODUCTS

    presets = presets.PRESETS

    def contenders(self, problem: Problem, device: DeviceInfo) -> list[Config]:
        """The configurations that the estimate ranks first, and the defaults of other forms; empty unless the GPU's constants are known."""
        candidates = forms.contenders(problem, device, 2 * _CONTENDERS)
        if not candidates:
            return []
        legal = self.space(problem, device)
        return list(islice((config for config in candidates if config in legal), _CONTENDERS))

    def preset(self, name: str, problem: Problem) -> Config:
        """The published blocking called ``name``, in the problem's element type."""
        return presets.preset(name, problem.dtype)

    def translated(self, config: Config) -> Mapping[str, Value]:
        """A configuration in CLBlast's parameters, in those of this workload."""
        return foreign.translated(config)

    def bound(self, problem: Problem, config: Config) -> float:
        """The rounding error of a sum of k products that is split into parts; see ``reference.bound``."""
        return reference.bound(problem, forms.read(config).roundings(problem.sizes["k"]))

    def loss(self, problem: Problem, device: DeviceInfo) -> float:
        """Close to 1 where an estimate that was fitted to timings on such a device chooses the default; see ``Form.loss``."""
        return forms.loss(problem, device)

    def loads(self, problem: Problem, config: Config) -> float:
        """The bytes that work-items load: for each step of k a column of the register tile's A and a row of its B."""
        return waste.loads(problem, forms.read(config))

    def distance(self, one: Problem, other: Problem) -> float:
        """As for any workload, but infinite if only one of the problems allows vector loads of an operand: their best tiles differ."""
        one_view, other_view = computed(one), computed(other)
        same_options = all(
            check(one_view, name) == check(other_view, name) for check in (takes_vectors, takes_vectors_along_k) for name in ("a", "b")
        )
        return super().distance(one, other) if same_options else float("inf")


workload = Gemm()
