"""Stacks of small level-3 problems of one shape: each launch of one problem spans the whole stack, and its products become batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import gcd
from typing import ClassVar

import msgspec
import numpy as np

from portatile.capabilities import MOST_GROUPS
from portatile.errors import ArgumentError
from portatile.records import Call, Config, DeviceInfo, Launch, Layout, Plan, Problem, Value
from portatile.space import ParameterSpace
from portatile.workload import Cut, Expected, Inputs, Workload, packed_layout
from portatile.workloads import blocks, get, operands, structured

_WORKSPACE = 1 << 28  # bytes of workspace, at most; a stack that needs more is divided between several launches
_SAMPLE = 16  # problems of a sampled reference
Strides = Mapping[str, int]


class Batched(Workload):
    """A stack of problems of the workload ``single``, whose class comes second among the bases.

    Each operand is a stack, with a first dimension of any stride; with a stride of 0 all problems share one matrix that is only read. Every
    matrix is computed as one block, so this is for small orders.
    """

    single: ClassVar[Workload]
    triangle = ""
    meanings: Mapping[str, str] = {
        "WGS": "Work-items of a work-group of the kernels beside the product, which is a problem of gemm_batched. It has no effect on a "
        "processor."
    }

    def shapes(self, problem: Problem) -> dict[str, tuple[int, ...]]:
        """Stacks of the matrices of one problem."""
        return {name: (problem.sizes["batch"], *shape) for name, shape in self.single.shapes(problem).items()}

    def space(self, problem: Problem, device: DeviceInfo) -> ParameterSpace:
        """The work-group of the kernels beside the products, if there are any."""
        rules = ("WGS <= max_work_group_size", "device_kind != 'cpu' or WGS == 32", "products_alone == 0 or WGS == products_alone")
        alone = structured.group(device) if self.products_alone(problem, device) else 0
        return ParameterSpace({"WGS": structured.GROUPS}, rules, {**device.facts(), "products_alone": alone})

    def products_alone(self, problem: Problem, device: DeviceInfo) -> bool:
        """Whether products are the only launches."""
        return False

    def default(self, problem: Problem, device: DeviceInfo) -> Config:
        """A work-group of one warp on processors, of one or two elsewhere."""
        return {"WGS": 32 if device.kind == "cpu" else structured.group(device)}

    def plan(self, problem: Problem, config: Config, device: DeviceInfo) -> Plan:
        """The steps of one problem as one block, each over the whole stack; a stack too long for a launch or its workspace is divided."""
        check(problem)
        count = problem.sizes["batch"]
        if count == 0:
            return Plan(())
        order = max(value for name, value in problem.sizes.items() if name != "batch")
        whole = {"JOIN": False, "NB": max(blocks.padded(order), 32), **config}
        steps = {name: layout.strides[0] for name, layout in problem.layout.items()}
        first = one_of(problem)
        spread = []
        for moved, own in parts(problem, first, self.single.plan(first, whole, device).workspace):
            part = replace(moved, sizes={**first.sizes, "batch": own})
            spread.append(spread_over(self.single.plan(part, whole, device), part, steps))
        return Plan(tuple(step for plan in spread for step in plan.steps), spread[0].temporaries)

    def in_parts(self, problem: Problem, made: Callable[[Problem, Strides, int], Plan]) -> Plan:
        """The plans of ``made``, in order. It is called for each part of the stack with the part's first problem, the stride of each
        operand along the stack, and the number of problems.
        """
        check(problem)
        if problem.sizes["batch"] == 0:
            return Plan(())
        steps, first = {name: layout.strides[0] for name, layout in problem.layout.items()}, one_of(problem)
        plans = [made(moved, steps, own) for moved, own in parts(problem, first, made(first, steps, 1).workspace)]
        return Plan(tuple(step for plan in plans for step in plan.steps), plans[0].temporaries)

    def reference(self, problem: Problem, inputs: Inputs, sample: np.random.Generator | None = None) -> dict[str, Expected]:
        """The result of each problem in float64; with ``sample``, of some problems."""
        count, shapes, single = problem.sizes["batch"], self.shapes(problem), self.single.shapes(problem)
        chosen = np.arange(count) if sample is None else operands.lines(sample, count, _SAMPLE)
        output = self.operands_of(problem.options)[-1].name
        packed = replace(problem, layout={name: packed_layout(shape) for name, shape in single.items()})
        stored = {name: operands.view(inputs.operands[name], problem.layout[name], shape) for name, shape in shapes.items()}
        expected = []
        for at in chosen:
            of_problem = replace(inputs, operands={name: stack[at].flatten() for name, stack in stored.items()})
            expected.append(self.single.reference(packed, of_problem)[output])
        shape = (len(chosen), *single[output])
        values, scale = (
            np.array([getattr(outcome, part)[: np.prod(shape[1:], dtype=int)] for outcome in expected]) for part in ("values", "scale")
        )
        layout = problem.layout[output]
        if sample is None:
            return {output: operands.whole(inputs.operands[output], layout, values.reshape(shape), scale.reshape(shape))}
        places = operands.places(layout, chosen[:, None, None], *np.ogrid[: shape[1], : shape[2]])
        return {output: Expected(values.ravel(), scale.ravel(), places.ravel())}

    def flops(self, problem: Problem) -> float:
        """The operations of all problems."""
        return problem.sizes["batch"] * self.single.flops(problem)

    def traffic(self, problem: Problem) -> float:
        """The traffic of all problems, as if no matrix were shared."""
        return problem.sizes["batch"] * self.single.traffic(problem)

    def cuts(self, problem: Problem, config: Config) -> tuple[Cut, ...]:
        """Cuts along the stack; a matrix that all problems share stays whole."""
        return cuts(problem)

    def awkward(self, problem: Problem) -> list[Problem]:
        """Problems with gaps between rows and between matrices, offsets, a shared first operand, and orders that no block divides."""
        problems = []
        cases = ((1, 1, 1, 0, False), (5, 7, 3, 3, False), (3, 45, 17, 0, True), (2, 66, 34, 4, False))
        for count, first, second, pad, shared in cases:
            bare = self.problem(dict(zip(self.sizes, (count, first, second), strict=True)), problem.dtype, problem.options)
            layout = {}
            for name, (_, rows, columns) in self.shapes(bare).items():
                step = 0 if shared and name == "a" else rows * (columns + pad) + 3 * pad
                layout[name] = Layout((step, columns + pad, 1), pad, 16 if pad % 4 else 128)
            problems.append(self.problem(bare.sizes, problem.dtype, problem.options, layout))
        return problems


def native(options: Mapping[str, tuple[Value, ...]], *, apart: bool = False) -> dict[str, tuple[Value, ...]]:
    """The options without ``precision``, since products in other precisions are computed matrix by matrix, and without ``apart`` unless
    asked for.
    """
    left_out = ("precision",) if apart else ("apart", "precision")
    return {name: values for name, values in options.items() if name not in left_out}


def cuts(problem: Problem) -> tuple[Cut, ...]:
    """Cuts along the stack; a matrix that all problems share stays whole."""
    return (Cut("batch", {name: "matrices" for name, layout in problem.layout.items() if layout.strides[0]}),)


def parts(problem: Problem, first: Problem, workspace: int = 0, most_groups: int = MOST_GROUPS) -> Iterator[tuple[Problem, int]]:
    """(first problem, number of problems) of each launch, if one problem takes ``workspace`` bytes and is the ``first`` of the stack."""
    count = problem.sizes["batch"]
    most = max(1, min(count, most_groups, _WORKSPACE // max(workspace, 1)))
    for start in range(0, count, most):
        layout = {name: replace(own, offset=own.offset + start * problem.layout[name].strides[0]) for name, own in first.layout.items()}
        yield replace(first, layout=layout), min(most, count - start)


def one_of(problem: Problem) -> Problem:
    """The problem of the first matrices of the stacks, with the alignment of the worst-aligned matrix."""
    layout = {}
    for name, stored in problem.layout.items():
        step, *strides = stored.strides
        layout[name] = Layout(tuple(strides), stored.offset, gcd(stored.alignment, step * problem.itemsize))
    return replace(problem, layout=layout)


def check(problem: Problem) -> None:
    """Raise ArgumentError for layouts that are not stacks of matrices, or whose results overlap."""
    for name, layout in problem.layout.items():
        if len(layout.strides) != 3 or layout.strides[0] < 0:
            raise ArgumentError(f"{problem.workload}: operand {name} must be a stack of matrices, its strides are {layout.strides}")
    workload = get(problem.workload)
    name = workload.operands_of(problem.options)[-1].name
    count, rows, columns = workload.shapes(problem)[name]
    step, stride, _ = problem.layout[name].strides
    disjoint = step >= (rows - 1) * stride + columns or (step >= columns and stride >= (count - 1) * step + columns)
    if count > 1 and rows and columns and not disjoint:
        raise ArgumentError(
            f"{problem.workload}: the matrices of {name} overlap: {rows} x {columns} elements with strides {(step, stride)}"
        )


def stack_of(layout: Layout, step: int) -> Layout:
    """The layout of a stack whose matrices lie ``step`` elements apart."""
    return replace(layout, strides=(step, *layout.strides))


def spread_over(plan: Plan, problem: Problem, steps: Mapping[str, int]) -> Plan:
    """The plan of one problem, extended to the whole stack; ``steps``: the stride of each operand along it."""
    count = problem.sizes["batch"]
    apart = {**steps, **{temporary.name: temporary.nbytes // problem.itemsize for temporary in plan.temporaries}}
    spread: list[Launch | Call] = []
    for step in plan.steps:
        if isinstance(step, Launch):
            moved = tuple(blocks.long_integer(f"{arg.name}_batch", apart[arg.name]) for arg in step.args if arg.kind == "buffer")
            spread.append(msgspec.structs.replace(step, global_size=(*step.global_size[:2], count), args=(*step.args, *moved)))
        else:
            inner = step.problem
            layout = {name: replace(own, strides=(apart[step.operands[name]], *own.strides)) for name, own in inner.layout.items()}
            together = get(f"{inner.workload}_batched").problem({"batch": count, **inner.sizes}, inner.dtype, inner.options, layout)
            spread.append(msgspec.structs.replace(step, problem=together))
    return Plan(tuple(spread), tuple(replace(temporary, nbytes=temporary.nbytes * count) for temporary in plan.temporaries))
