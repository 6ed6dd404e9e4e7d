"""Streams through memory, the kernels that measure bandwidth: copy, mul, add, triad and dot, counted as BabelStream counts them."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from portatile.errors import ArgumentError
from portatile.records import Arg, Config, DeviceInfo, Launch, Plan, Problem, Source, Temporary, Value
from portatile.space import ParameterSpace
from portatile.template import load
from portatile.workload import Expected, Inputs, Operand, Workload
from portatile.workloads import arguments, operands

ARRAYS: Mapping[str, int] = {"copy": 2, "mul": 2, "add": 3, "triad": 3, "dot": 2, "product": 3, "square": 3}
"""The number of arrays of n elements that each operation moves: BabelStream's five operations, and two more."""

_MAX_GROUPS = 2**31 - 1  # work-groups of a launch: CUDA's limit
_UNROLLED = 16  # vectors of a work-item up to which the loop is unrolled
_SAMPLED = 4096  # elements of a sampled reference


class Stream(Workload):
    """Memory bandwidth: out[i] = x[i], s x[i], x[i] + y[i], x[i] + s y[i] (copy, mul, add, triad), out[0] = the sum of x[i] y[i] (dot).

    Besides BabelStream's five: x[i] y[i] (product) and y[i] + s x[i]^2 (square). ``y`` is empty if the operation does not read it; ``s`` is
    the scalar ``scalar``.
    """

    name = "stream"
    meanings: Mapping[str, str] = {
        "VECTOR": "Elements in a load.",
        "WGS": "Work-items of a work-group.",
        "PER_ITEM": "Vectors that a work-item processes.",
        "ORDER": "The distance to a work-item's next vector. item: it is the next in memory. group: WGS vectors. grid: as many vectors as "
        "there are work-items in the launch.",
    }
    sizes: Mapping[str, str] = {"n": "elements of an array"}
    options: Mapping[str, tuple[Value, ...]] = {"operation": ("triad", "copy", "mul", "add", "dot", "product", "square")}
    operands = (Operand("x"), Operand("y"), Operand("out", "out"))
    scalars: Mapping[str, float] = {"scalar": 0.4}

    def shapes(self, problem: Problem) -> dict[str, tuple[int, ...]]:
        """Vectors of n elements; y has 0 for copy and mul, out has 1 for dot."""
        n, operation = problem.sizes["n"], problem.options["operation"]
        return {"x": (n,), "y": (0 if operation in ("copy", "mul") else n,), "out": (1 if operation == "dot" else n,)}

    def space(self, problem: Problem, device: DeviceInfo) -> ParameterSpace:
        """The space of all parameters; many vectors for each work-item are for CPUs, where a work-group is a function call."""
        return ParameterSpace(
            {
                "VECTOR": (1, 2, 4, 8),
                "WGS": (1, 32, 64, 128, 256, 512, 1024),
                "PER_ITEM": (1, 2, 4, 8, 16, 64, 256, 1024, 4096),
                "ORDER": ("group", "grid", "item"),
            },
            (
                "VECTOR * itemsize <= 32",
                "WGS <= max_work_group_size",
                "WGS > 1 or device_kind == 'cpu'",
                "PER_ITEM <= 64 or device_kind == 'cpu'",
                "PER_ITEM > 1 or ORDER == 'group'",
                "WGS * itemsize <= local_memory",
            ),
            {**problem.facts(), **device.facts()},
        )

    def default(self, problem: Problem, device: DeviceInfo) -> Config:
        """On a GPU one vector of 16 bytes for each work-item, many for dot; on a CPU long runs for each work-item."""
        dot = problem.options["operation"] == "dot"
        if device.kind == "cpu":
            return {"VECTOR": 32 // problem.itemsize, "WGS": 1, "PER_ITEM": 1024, "ORDER": "item"}
        group = min(256, device.max_work_group_size)
        return {"VECTOR": 16 // problem.itemsize, "WGS": group, "PER_ITEM": 16 if dot else 1, "ORDER": "grid" if dot else "group"}

    def plan(self, problem: Problem, config: Config, device: DeviceInfo) -> Plan:
        """One launch; for dot a second one that adds up the sums of work-groups; none if out is empty.

        Raises ArgumentError for gaps between elements, or for more work-groups than a launch may have.
        """
        n, operation = problem.sizes["n"], str(problem.options["operation"])
        shapes, layout = self.shapes(problem), problem.layout
        if 0 in shapes["out"]:
            return Plan(())
        for name, shape in shapes.items():
            if layout[name].strides != (1,) and max(shape) > 1:
                raise ArgumentError(f"stream takes contiguous vectors, and the elements of {name!r} lie {layout[name].strides[0]} apart")
        items = int(config["WGS"])
        groups = _groups(problem, config)
        if groups > _MAX_GROUPS:
            raise ArgumentError(f"{n} elements are more work-groups than a launch may have; cut the problem")
        source, index = self._source(problem, config)
        names = ("x",) if operation in ("copy", "mul") else ("x", "y")
        read = [arg for name in names for arg in arguments.operand(name, layout[name], index, "in")]
        out = arguments.operand("out", layout["out"], index, "out")
        local, everything = (items, 1, 1), (groups * items, 1, 1)
        length = arguments.literals({"n": n}, index)
        if operation != "dot":
            scalar = Arg("scalar", "scalar", dtype=problem.dtype)
            return Plan((Launch(source, "stream", everything, local, (*length, *read, *out, scalar)),))
        partial = Arg("partial", role="temporary")
        first = Launch(source, "stream", everything, local, (*length, *read, partial, *arguments.literals({"partial_offset": 0}, index)))
        last = Launch(source, "stream_sum", local, local, (*arguments.literals({"groups": groups}, index), partial, *out))
        return Plan((first, last), (Temporary("partial", groups * problem.itemsize),))

    def inputs(self, problem: Problem, rng: np.random.Generator) -> Inputs:
        """x, y and the scalar uniform in [-0.5, 0.5)."""
        memory = operands.drawn(self, problem, rng)
        return Inputs(memory, {"scalar": float(np.dtype(problem.dtype).type(rng.random() - 0.5))})

    def reference(self, problem: Problem, inputs: Inputs, sample: np.random.Generator | None = None) -> dict[str, Expected]:
        """The values in float64, with the sum of the terms' magnitudes as the scale (0 for copy, which is exact)."""
        shapes, layout, operation = self.shapes(problem), problem.layout, str(problem.options["operation"])
        x, y = (operands.view(inputs.operands[name], layout[name], shapes[name]) for name in ("x", "y"))
        if operation == "dot":
            products = x.astype(np.float64) * y
            values, scale = np.array([products.sum()]), np.array([np.abs(products).sum()])
            return {"out": operands.whole(inputs.operands["out"], layout["out"], values, scale)}
        chosen: np.ndarray = np.arange(x.size)
        if sample is not None:
            chosen = operands.lines(sample, x.size, _SAMPLED)
        values, scale = _elements(operation, x[chosen], y[chosen] if y.size else y, inputs.scalars["scalar"])
        if sample is None:
            return {"out": operands.whole(inputs.operands["out"], layout["out"], values, scale)}
        return {"out": Expected(values, scale, operands.places(layout["out"], chosen))}

    def bound(self, problem: Problem, config: Config) -> float:
        """gamma of the roundings that a term passes: two, three for square; for dot its product and the additions after it.

        Those are the additions of its work-item, the tree of the work-group, and the two steps of the sum over work-groups: Higham,
        Accuracy and Stability of Numerical Algorithms, 2nd ed., section 4.2. Twice as much for float64, whose reference has errors, too.
        """
        depth = 3.0 if problem.options["operation"] == "square" else 2.0
        if problem.options["operation"] == "dot":
            vector, items, each = int(config["VECTOR"]), int(config["WGS"]), int(config["PER_ITEM"])
            depth += each + 2 * vector + 2 * math.log2(items) + math.ceil(_groups(problem, config) / items)
        return operands.gamma(depth, problem.dtype) * (2 if problem.dtype == "float64" else 1.001)

    def flops(self, problem: Problem) -> float:
        """BabelStream's count for each element: copy 0, mul and add 1, triad and dot 2; product 1, square 3."""
        each = {"copy": 0, "mul": 1, "add": 1, "triad": 2, "dot": 2, "product": 1, "square": 3}
        return float(each[str(problem.options["operation"])] * problem.sizes["n"])

    def traffic(self, problem: Problem) -> float:
        """BabelStream's count: two arrays for copy, mul and dot, three for the others."""
        return float(ARRAYS[str(problem.options["operation"])] * problem.itemsize * problem.sizes["n"])

    def speed(self, problem: Problem, seconds: float) -> tuple[float, str]:
        """GB/s, for every operation."""
        return self.traffic(problem) / seconds / 1e9, "GB/s"

    def awkward(self, problem: Problem) -> list[Problem]:
        """No element; one; fewer than a work-group has; a number that no vector divides, unaligned; more than a work-group has."""
        cases = (((0,), 0, 0), ((1,), 0, 0), ((67,), 0, 3), ((1029,), 0, 5), ((13002,), 0, 0))
        return operands.padded_problems(self, problem, cases)

    def _source(self, problem: Problem, config: Config) -> tuple[Source, str]:
        """The kernel text, and the type of its indices."""
        shapes, layout = self.shapes(problem), problem.layout
        vector, double = int(config["VECTOR"]), problem.dtype == "float64"
        index = arguments.index_type(problem, shapes, spare=vector * int(config["WGS"]) * int(config["PER_ITEM"]))
        real = "double" if double else "float"
        defines: dict[str, Value] = {name: config[name] for name in ("VECTOR", "WGS", "PER_ITEM")}
        defines |= {"REAL": real, "VEC": real if vector == 1 else f"{real}{vector}", "INDEX": index}
        defines |= {"DOUBLE": True} if double else {}
        defines |= {f"ALIGNED_{name.upper()}": layout[name].vector_width(problem.itemsize) >= vector for name in shapes}
        values = {name.lower(): config[name] for name in ("VECTOR", "WGS", "PER_ITEM", "ORDER")}
        return load(__file__, "stream.cl", defines, operation=problem.options["operation"], unrolled=_UNROLLED, **values), index


def _groups(problem: Problem, config: Config) -> int:
    """The work-groups that cover the array, at least one."""
    return max(-(-problem.sizes["n"] // (int(config["VECTOR"]) * int(config["WGS"]) * int(config["PER_ITEM"]))), 1)


def _elements(operation: str, x: np.ndarray, y: np.ndarray, scalar: float) -> tuple[np.ndarray, np.ndarray]:
    """Values in float64 and the magnitudes of their terms, element by element."""
    x, y = x.astype(np.float64), y.astype(np.float64)
    if operation == "copy":
        return x, np.zeros_like(x)
    if operation == "mul":
        return scalar * x, np.abs(scalar * x)
    if operation == "product":
        return x * y, np.abs(x * y)
    if operation == "square":
        return y + scalar * x**2, np.abs(y) + np.abs(scalar * x**2)
    term = y if operation == "add" else scalar * y
    return x + term, np.abs(x) + np.abs(term)


workload = Stream()
