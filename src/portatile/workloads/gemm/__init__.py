"""GEMM: C = alpha op(A) op(B) + beta C, from the ten-parameter generator of Du et al. (table 4) to pipelined and register-tiled forms."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from portatile import dtypes
from portatile.records import Config, DeviceInfo, Plan, Problem, Value
from portatile.space import ParameterSpace
from portatile.workloads.gemm import foreign, forms, plan, presets, reference, space, waste
from portatile.workloads.gemm.product import Product
from portatile.workloads.gemm.reals import computed
from portatile.workloads.gemm.storage import takes_vectors, takes_vectors_along_k

_CONTENDERS = 12  # that are timed beside the default


class Gemm(Product):
    """Matrix product: C (m x n) = alpha op(A) (m x k) op(B) (k x n) + beta C for matrices with contiguous rows.

    A is stored m x k, or k x m with ``trans_a="T"``; B is stored k x n, or n x k with ``trans_b="T"``. C is the conjugate
    transpose, R the conjugate; of real matrices these are T and N. The dtype names the types of operands and result, as
    ``dtypes.PRODUCTS`` has them: ``float16:float32``. beta = 0 does not read C, alpha = 0 does not read A or B. Column-major
    operands are the transposed problem: C^T = op(B)^T op(A)^T.
    """

    name = "gemm"
    dtypes = dtypes.PRODUCTS

    presets = presets.PRESETS
    meanings = forms.meanings()

    def space(self, problem: Problem, device: DeviceInfo) -> ParameterSpace:
        """The configurations that are legal for the problem on the device."""
        return space.build(problem, device)

    def default(self, problem: Problem, device: DeviceInfo) -> Config:
        """The best known configuration for the kind of device and the size; always legal."""
        return forms.default(problem, device).config()

    def contenders(self, problem: Problem, device: DeviceInfo) -> list[Config]:
        """The configurations that the estimate ranks first, and other forms' defaults; none unless the GPU's constants are known."""
        candidates = forms.contenders(problem, device, 2 * _CONTENDERS)
        if not candidates:
            return []
        legal = self.space(problem, device)
        return list(islice((config for config in candidates if config in legal), _CONTENDERS))

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

    def bound(self, problem: Problem, config: Config) -> float:
        """Rounding of a sum of k products split into parts; see ``reference.bound``."""
        return reference.bound(problem, forms.read(config).roundings(problem.sizes["k"]))

    def waste(self, problem: Problem, config: Config, device: DeviceInfo) -> float:
        """Tiles past the edges of C, steps past k, and multiprocessors that wait for the last group."""
        return waste.waste(problem, forms.read(config), device)

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
