"""Batched TRSM: op(A_i) X_i = alpha B_i for many small triangles of one order, by substitution, in few launches for all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import gcd

import numpy as np

from portatile.errors import ArgumentError
from portatile.records import Config, DeviceInfo, Layout, Plan, Problem, Value
from portatile.space import ParameterSpace
from portatile.workload import Cut, Expected, Inputs
from portatile.workloads import get, operands
from portatile.workloads.blocks import is_complex
from portatile.workloads.structured import order
from portatile.workloads.triangular import Triangular, reference, steps
from portatile.workloads.triangular.steps import Batch

_SAMPLE = 16  # systems of a sampled reference
_GROUPS = 65535  # of work-groups in the third dimension of a launch, CUDA's limit
_BLOCKS = (16, 32, 64, 128)
_SIDES = (16, 32, 64, 128, 256)


class TriangularBatched(Triangular):
    """A stack of triangular systems, X_i over B_i (m x n): op(A_i) X_i = alpha B_i, or X_i op(A_i) = alpha B_i, for ``batch`` of one shape.

    A is batch x order x order, B batch x m x n, their matrices any number of elements apart; a stride of 0 along the batch shares one
    A. Options are those of ``triangular``.

    Parameters: NB: order of the blocks that one launch solves by substitution, products between them. IB: the unknowns that it keeps
    in registers. WGS: work-group; on a processor the right-hand sides that a work-item substitutes in.
    """

    name = "triangular_batched"
    aliases = ("trsm_batched",)
    options: Mapping[str, tuple[Value, ...]] = {name: values for name, values in Triangular.options.items() if name != "precision"}
    implied = frozenset()
    sizes: Mapping[str, str] = {"batch": "systems", "m": "rows of each B", "n": "columns of each B"}

    def shapes(self, problem: Problem) -> dict[str, tuple[int, ...]]:
        """Stacks of squares and of right-hand sides."""
        count, n = problem.sizes["batch"], order(problem)
        return {"a": (count, n, n), "b": (count, problem.sizes["m"], problem.sizes["n"])}

    def space(self, problem: Problem, device: DeviceInfo) -> ParameterSpace:
        """Blocks of at most twice the order."""
        return ParameterSpace(
            {"NB": _BLOCKS, "IB": (4, 8, 16, 32), "WGS": _SIDES},
            (
                "NB == 16 or NB < 2 * order",
                "IB <= NB",
                "WGS <= max_work_group_size",
                "device_kind != 'cpu' or itemsize * NB * WGS <= local_memory",
                "device_kind == 'cpu' or WGS >= 32",
            ),
            {**problem.facts(), **device.facts(), "order": order(problem)},
        )

    def default(self, problem: Problem, device: DeviceInfo) -> Config:
        """The whole order as one block, as far as that goes, and a group that the right-hand sides of one system fill."""
        n, sides = order(problem), problem.sizes["n" if problem.options["side"] == "L" else "m"]
        least, most = (16, 64) if device.kind == "cpu" and not is_complex(problem) else (32, 64)
        group = next((size for size in _SIDES if least <= size <= most and size >= sides), most)
        group = min(group, device.max_work_group_size)
        fits = [nb for nb in _BLOCKS if nb < 2 * n and (device.kind != "cpu" or nb * group * problem.itemsize <= device.local_memory)]
        return {"NB": max(fits, default=16), "IB": 8, "WGS": group}

    def plan(self, problem: Problem, config: Config, device: DeviceInfo) -> Plan:
        """The steps of one system, each over the whole batch; a batch that is too long for a launch goes in parts."""
        _check(problem)
        first, count = _first(problem), problem.sizes["batch"]
        a, b = (problem.layout[name].strides[0] for name in "ab")
        parts = []
        for start in range(0, count, _GROUPS):
            moved = {
                name: replace(first.layout[name], offset=first.layout[name].offset + start * step) for name, step in (("a", a), ("b", b))
            }
            batch = Batch(min(_GROUPS, count - start), a, b)
            parts.append(steps.plan(replace(first, layout=moved), config, device, batch))
        return Plan(tuple(step for part in parts for step in part.steps))

    def inputs(self, problem: Problem, rng: np.random.Generator) -> Inputs:
        """As those of one system."""
        return reference.inputs(problem, self.shapes(problem), rng)

    def reference(self, problem: Problem, inputs: Inputs, sample: np.random.Generator | None = None) -> dict[str, Expected]:
        """Each X by substitution in float64; with ``sample``, some of the systems."""
        a, b = (operands.view(inputs.operands[name], problem.layout[name], shape) for name, shape in self.shapes(problem).items())
        layout, count = problem.layout["b"], problem.sizes["batch"]
        chosen = np.arange(count) if sample is None else operands.lines(sample, count, _SAMPLE)
        found = [reference.solved(_first(problem), a[i], b[i], inputs) for i in chosen]
        values, scale = (np.stack([one[at] for one in found]) if found else np.zeros(b.shape) for at in range(2))
        if sample is None:
            return {"b": operands.whole(inputs.operands["b"], layout, values, scale)}
        rows, columns = (np.arange(problem.sizes[name]) for name in "mn")
        places = operands.places(layout, chosen[:, None, None], rows[None, :, None], columns[None, None, :])
        return {"b": Expected(values.ravel(), scale.ravel(), places.ravel())}

    def bound(self, problem: Problem, config: Config) -> float:
        """The rounding of the substitution; see ``triangular``."""
        return reference.bound(problem, "substitute", int(config["NB"]))

    def flops(self, problem: Problem) -> float:
        """Those of each system."""
        return problem.sizes["batch"] * get("triangular").flops(_first(problem))

    def traffic(self, problem: Problem) -> float:
        """Those of each system, as if none shared its triangle."""
        return problem.sizes["batch"] * get("triangular").traffic(_first(problem))

    def cuts(self, problem: Problem, config: Config) -> tuple[Cut, ...]:
        """Along the batch; a triangle that all systems share stays whole."""
        return (Cut("batch", {name: "matrices" for name, layout in problem.layout.items() if layout.strides[0]}),)

    def awkward(self, problem: Problem) -> list[Problem]:
        """Gaps between rows and between matrices, offsets, a shared triangle, orders that no block divides."""
        found = []
        for count, rows, columns, pad, offset, shared in (
            (1, 1, 1, 0, 0, False),
            (5, 7, 3, 3, 5, False),
            (3, 45, 17, 0, 0, True),
            (2, 77, 9, 4, 4, False),
        ):
            sizes = (rows, columns) if problem.options["side"] == "L" else (columns, rows)
            bare = self.problem(dict(zip(self.sizes, (count, *sizes), strict=True)), problem.dtype, problem.options)
            layout = {}
            for name, (_, m, n) in self.shapes(bare).items():
                step = 0 if shared and name == "a" else m * (n + pad) + 3 * pad
                layout[name] = Layout((step, n + pad, 1), offset, 16 if pad % 4 else 128)
            found.append(self.problem(bare.sizes, problem.dtype, problem.options, layout))
        return found


def _first(problem: Problem) -> Problem:
    """The first system of the batch, aligned no better than the worst of them."""
    layout = {}
    for name, stored in problem.layout.items():
        step, *strides = stored.strides
        layout[name] = Layout(tuple(strides), stored.offset, gcd(stored.alignment, step * problem.itemsize))
    return Problem("triangular", {name: problem.sizes[name] for name in "mn"}, problem.dtype, problem.options, layout)


def _check(problem: Problem) -> None:
    """Raise ArgumentError for layouts that are no stacks, or whose solutions overlap."""
    for name, layout in problem.layout.items():
        if len(layout.strides) != 3 or layout.strides[0] < 0:
            raise ArgumentError(f"triangular_batched: operand {name} must be a stack of matrices, its strides are {layout.strides}")
    (step, stride, _), (count, rows, columns) = problem.layout["b"].strides, (problem.sizes[name] for name in ("batch", "m", "n"))
    apart = step >= (rows - 1) * stride + columns or (step >= columns and stride >= (count - 1) * step + columns)
    if count > 1 and rows and columns and not apart:
        raise ArgumentError(f"triangular_batched: the matrices of b overlap: {rows} x {columns} elements with strides {(step, stride)}")


workload = TriangularBatched()
