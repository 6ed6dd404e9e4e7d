"""Batched GEMM: C_i = alpha op(A_i) op(B_i) + beta C_i for many small problems of one shape, by the kernels of gemm, in one launch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from portatile.capabilities import MOST_GROUPS
from portatile.records import Config, DeviceInfo, Plan, Problem
from portatile.space import ParameterSpace
from portatile.workload import Cut, Expected, Inputs
from portatile.workloads import batched
from portatile.workloads.gemm import forms, plan, space, waste
from portatile.workloads.gemm import reference as single_reference
from portatile.workloads.gemm import workload as single
from portatile.workloads.gemm.extras import Extras
from portatile.workloads.gemm.passing import operand_shapes
from portatile.workloads.gemm.product import Product
from portatile.workloads.gemm.storage import Batch
from portatile.workloads.gemm_batched import reference


class GemmBatched(Product):
    """A stack of products: C_i (m x n) = alpha op(A_i) op(B_i) + beta C_i for ``batch`` problems of one shape, one launch for all.

    The operands are stacks: A is batch x m x k (batch x k x m with ``trans_a="T"``), B batch x k x n (batch x n x k), C batch x m x n, with
    any stride along the batch; with a stride of 0 all problems share one A or one B. The parameters are those of ``gemm``, except those of
    images, which hold one problem, and TAIL, since a batch has work-groups enough.
    """

    name = "gemm_batched"
    sizes: Mapping[str, str] = {"batch": "problems", "m": "rows of each C", "n": "columns of each C", "k": "terms of each sum"}
    dtypes = single.dtypes
    meanings = forms.meanings(batched=True)
    most_groups = MOST_GROUPS

    def shapes(self, problem: Problem) -> dict[str, tuple[int, ...]]:
        """The shapes of the stacks as stored."""
        return {name: (problem.sizes["batch"], *shape) for name, shape in super().shapes(problem).items()}

    def space(self, problem: Problem, device: DeviceInfo) -> ParameterSpace:
        """The configurations that are legal for the problem on the device."""
        return space.build(_first(problem), device, problem.sizes["batch"])

    def default(self, problem: Problem, device: DeviceInfo) -> Config:
        """The default of one problem, with tiles no larger than a problem if the batch alone fills the device; always legal."""
        return forms.default(_first(problem), device, max(problem.sizes["batch"], 1)).config(batched=True)

    def explained(self, config: Config) -> Mapping[str, str]:
        """The meaning of each parameter in the configuration's form, the values that are tried, and the rules that it must keep."""
        return forms.explained(config)

    def canonical(self, config: Config) -> Config:
        """The configuration with the parameters that have an effect in its form, whichever version recorded it."""
        return forms.canonical(config, batched=True)

    def plan(self, problem: Problem, config: Config, device: DeviceInfo) -> Plan:
        """The steps of one problem, each over the whole batch; a batch too long for a launch or its workspace is divided."""
        batched.check(problem)
        count = problem.sizes["batch"]
        if count == 0:
            return Plan(())
        first, point = _first(problem), forms.read(config)
        steps = {name: layout.strides[0] for name, layout in problem.layout.items()}
        one = plan.build(first, point, device, Extras(Batch(1, **steps)))
        parts = [
            plan.build(part, point, device, Extras(Batch(own, **steps)))
            for part, own in batched.parts(problem, first, one.workspace, self.most_groups)
        ]
        return Plan(tuple(step for part in parts for step in part.steps), parts[0].temporaries)

    def inputs(self, problem: Problem, rng: np.random.Generator) -> Inputs:
        """Random operands as for ``gemm``."""
        return reference.inputs(problem, self.shapes(problem), rng)

    def reference(self, problem: Problem, inputs: Inputs, sample: np.random.Generator | None = None) -> dict[str, Expected]:
        """Every C in float64, or sampled rows and columns of sampled problems."""
        return {"c": reference.reference(problem, self.shapes(problem), inputs, sample)}

    def bound(self, problem: Problem, config: Config) -> float:
        """The bound of each product."""
        return single.bound(_first(problem), config)

    def flops(self, problem: Problem) -> float:
        """2 m n k for each problem."""
        return problem.sizes["batch"] * super().flops(problem)

    def traffic(self, problem: Problem) -> float:
        """Every matrix once; a matrix that all problems share, once in total."""
        shapes = operand_shapes(problem)
        counts = {name: problem.sizes["batch"] if layout.strides[0] else 1 for name, layout in problem.layout.items()}
        bytes_of = {name: single_reference.element(problem, name).itemsize for name in shapes}
        return float(sum(bytes_of[name] * counts[name] * rows * columns for name, (rows, columns) in shapes.items()))

    def distance(self, one: Problem, other: Problem) -> float:
        """The distance as for ``gemm``, plus the number of doublings between the batches."""
        apart = single.distance(_first(one), _first(other))
        return apart + abs(float(np.log2((one.sizes["batch"] + 1) / (other.sizes["batch"] + 1))))

    def waste(self, problem: Problem, config: Config, device: DeviceInfo) -> float:
        """The waste as for ``gemm``, where the work-groups of the whole batch share the device."""
        return waste.waste(_first(problem), forms.read(config), device, problem.sizes["batch"])

    def cuts(self, problem: Problem, config: Config) -> tuple[Cut, ...]:
        """Cuts along the batch; an operand that all problems share stays whole."""
        return batched.cuts(problem)

    def awkward(self, problem: Problem) -> list[Problem]:
        """Short batches of shapes that no tile divides: gaps, interleaved matrices, operands that all problems share."""
        return reference.awkward(self, problem)


def _first(problem: Problem) -> Problem:
    """The first problem of the batch, with the alignment of the worst-aligned one."""
    sizes = {name: problem.sizes[name] for name in "mnk"}
    return replace(batched.one_of(problem), workload=single.name, sizes=sizes)


workload = GemmBatched()
