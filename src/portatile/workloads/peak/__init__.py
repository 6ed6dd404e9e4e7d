"""The kernels that measure a device's peak rates without global memory: multiply-adds, matrix products, functions, local memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from portatile.errors import ArgumentError
from portatile.records import Arg, Config, DeviceInfo, Launch, Plan, Problem, Value
from portatile.space import ParameterSpace
from portatile.template import load
from portatile.workload import Expected, Inputs, Operand, Workload
from portatile.workloads import arguments, operands
from portatile.workloads.gemm.capabilities import matrix_units

SEGMENT = 1024
"""Elements of a segment of local memory; element i reads those whose index differs from its own by a multiple of STRIDE."""
STRIDE = 16

TILE, DEPTH = 128, 8
"""Chains in a tile (16 rows of 8), and multiply-adds for each element of a product: the shape of a matrix instruction."""
_WARP = 32  # work-items that share a tile

_MAX_EXTENT = 2**31 - 2**20
_SAMPLED = 64


class Peak(Workload):
    """Peak rates: out[i] is the result of ``rounds`` steps that begin with x[i]; each step of this chain depends on the one before.

    ``quantity``: ``fma`` v -> a v + b; ``rsqrt`` v -> 1 / sqrt(v); ``cos`` v -> cos(v); ``sin`` v -> sin(v + 1); ``exp2`` v -> 2^-v; on
    GPUs float32 functions are the device's native ones. ``local``: the sum over rounds r of x[i ^ 16 r], read from local memory, where only
    the lowest 10 bits of the index change. ``product``: a tile of 128 chains is a matrix X of 16 rows of 8, and a step is V -> V + X Y,
    where Y is the first 8 rows of X; zeros fill the last tile. All maps but the last two contract, so that rounding errors do not grow.
    """

    name = "peak"
    meanings: Mapping[str, str] = {
        "WGS": "Work-items of a work-group.",
        "VECTOR": "Chains in a vector.",
        "ILP": "Independent vectors of a work-item, whose operations overlap (instruction-level parallelism); with matrix units, tiles of "
        "a warp.",
        "UNROLL": "Rounds for which the loop is unrolled.",
        "MAD": "How a multiply-add is written; mma: products by matrix units.",
    }
    sizes: Mapping[str, str] = {"n": "chains", "rounds": "steps of a chain"}
    options: Mapping[str, tuple[Value, ...]] = {"quantity": ("fma", "rsqrt", "cos", "exp2", "local", "sin", "product")}
    operands = (Operand("x"), Operand("out", "out"))
    scalars: Mapping[str, float] = {"a": 0.75, "b": 0.25}

    def shapes(self, problem: Problem) -> dict[str, tuple[int, ...]]:
        """Two vectors of n elements."""
        return {"x": (problem.sizes["n"],), "out": (problem.sizes["n"],)}

    def space(self, problem: Problem, device: DeviceInfo) -> ParameterSpace:
        """The space of all parameters; wide vectors of chains are for CPUs."""
        return ParameterSpace(
            {
                "WGS": (1, 32, 64, 128, 256, 512, 1024),
                "VECTOR": (1, 2, 4, 8, 16),
                "ILP": (1, 2, 4, 6, 8, 12, 16),
                "UNROLL": (1, 2, 4, 8, 16, 32),
                "MAD": ("fma", "a*b+c", "mma"),
            },
            (
                "WGS <= max_work_group_size",
                "WGS > 1 or device_kind == 'cpu'",
                "VECTOR * ILP <= 64 or WGS == 1",
                "VECTOR * itemsize <= (64 if device_kind == 'cpu' else 16)",  # other devices load at most 128 bits
                "VECTOR * itemsize < 64 or (wide_arithmetic if quantity == 'fma' and MAD == 'a*b+c' else wide_functions)",
                "ILP * UNROLL <= (64 if device_kind == 'cpu' else 256) and VECTOR * ILP * UNROLL <= 512",
                "quantity == 'fma' or MAD != 'a*b+c'",
                "quantity != 'product' or VECTOR == 1",
                "MAD != 'mma' or (quantity == 'product' and matrix_units and itemsize == 8)",
                f"MAD != 'mma' or WGS >= {_WARP}",
                f"quantity != 'local' or {SEGMENT} % (WGS * VECTOR * ILP) == 0",
                f"quantity != 'local' or itemsize * {SEGMENT} <= local_memory",
            ),
            {**problem.facts(), **device.facts(), "matrix_units": matrix_units(device)},
        )

    def default(self, problem: Problem, device: DeviceInfo) -> Config:
        """Eight chains for each of many work-items; on a CPU eight or more registers of one work-item; with matrix units four tiles for
        each warp.
        """
        local = problem.options["quantity"] == "local"
        if problem.options["quantity"] == "product":
            if problem.dtype == "float64" and matrix_units(device):
                return {"WGS": 256, "VECTOR": 1, "ILP": 4, "UNROLL": 8, "MAD": "mma"}
            return {"WGS": 1 if device.kind == "cpu" else 64, "VECTOR": 1, "ILP": 4, "UNROLL": 1, "MAD": "fma"}
        if device.kind == "cpu":
            # loops with calls of library functions are not unrolled
            mad, unroll = {"fma": ("a*b+c", 8), "local": ("fma", 8)}.get(str(problem.options["quantity"]), ("fma", 1))
            return {"WGS": 1, "VECTOR": 32 // problem.itemsize, "ILP": 8, "UNROLL": unroll, "MAD": mad}
        if local:
            return {"WGS": 64, "VECTOR": 16 // problem.itemsize, "ILP": 4, "UNROLL": 8, "MAD": "fma"}
        return {"WGS": min(256, device.max_work_group_size), "VECTOR": 1, "ILP": 8, "UNROLL": 32, "MAD": "fma"}

    def plan(self, problem: Problem, config: Config, device: DeviceInfo) -> Plan:
        """One launch; none without chains. Raises ArgumentError for gaps between elements, or for too many chains."""
        n, layout = problem.sizes["n"], problem.layout
        if n == 0:
            return Plan(())
        for name, shape in self.shapes(problem).items():
            if layout[name].strides != (1,) and n > 1:
                raise ArgumentError(f"peak takes contiguous vectors, and the elements of {name!r} lie {layout[name].strides[0]} apart")
            if layout[name].extent(shape) > _MAX_EXTENT:
                raise ArgumentError(f"peak: {n} chains are more than {_MAX_EXTENT}; take fewer and more rounds")
        quantity, double = str(problem.options["quantity"]), problem.dtype == "float64"
        items, vector, ilp = (int(config[name]) for name in ("WGS", "VECTOR", "ILP"))
        real = "double" if double else "float"
        defines: dict[str, Value] = {"WGS": items, "VECTOR": vector, "ILP": ilp, "REAL": real, "SEGMENT": SEGMENT, "STRIDE": STRIDE}
        defines |= {"VEC": real if vector == 1 else f"{real}{vector}", **({"DOUBLE": True} if double else {})}
        values = {"vector": vector, "ilp": ilp, "unroll": config["UNROLL"], "mad": config["MAD"]}
        values["native"] = not double and device.kind == "gpu"  # on a CPU they may have 12 bits only
        if quantity == "product":
            text, chains = "product.cl", items * ilp * (TILE // _WARP if config["MAD"] == "mma" else 1)
        else:
            text, chains = "peak.cl", SEGMENT if quantity == "local" else items * vector * ilp
        source = load(__file__, text, defines, quantity=quantity, real=real, **values)
        groups = -(-n // chains)
        passed = (
            *arguments.literals({name: problem.sizes[name] for name in ("n", "rounds")}),
            *arguments.operand("x", layout["x"], "int", "in"),
            *arguments.operand("out", layout["out"], "int", "out"),
            *(Arg(name, "scalar", dtype=problem.dtype) for name in (("a", "b") if quantity == "fma" else ())),
        )
        return Plan((Launch(source, "peak", (groups * items, 1, 1), (items, 1, 1), passed),))

    def inputs(self, problem: Problem, rng: np.random.Generator) -> Inputs:
        """x in [0.5, 1.5); a of a magnitude from 0.5 to 0.9, b in [-0.5, 0.5)."""
        memory = operands.random(rng, problem.layout["x"], self.shapes(problem)["x"], problem.dtype)
        memory += np.dtype(problem.dtype).type(1)
        kind = np.dtype(problem.dtype).type
        a, b = kind(rng.uniform(0.5, 0.9) * rng.choice((-1, 1))), kind(rng.random() - 0.5)
        out = operands.storage(problem.layout["out"], self.shapes(problem)["out"], problem.dtype)
        return Inputs({"x": memory, "out": out}, {"a": float(a), "b": float(b)})

    def reference(self, problem: Problem, inputs: Inputs, sample: np.random.Generator | None = None) -> dict[str, Expected]:
        """The chains step by step in float64; with ``sample``, some of them. ``bound`` explains the scale."""
        n, layout = problem.sizes["n"], problem.layout
        x = operands.view(inputs.operands["x"], layout["x"], (n,)).astype(np.float64)
        chosen: NDArray[np.int64] = np.arange(n) if sample is None else operands.lines(sample, n, _SAMPLED)
        values, scale = _chains(problem, x, chosen, inputs.scalars)
        if sample is None:
            return {"out": operands.whole(inputs.operands["out"], layout["out"], values, scale)}
        return {"out": Expected(values, scale, operands.places(layout["out"], chosen))}

    def bound(self, problem: Problem, config: Config) -> float:
        """The sum of an error e for each step: e / (1 - q) if a step shrinks earlier errors by q; for sums gamma_rounds.

        In units of 2^-24: a multiply-add errs by 2 of |a v| + |b|, and q = |a| <= 0.9: 20 of the largest |v|. A native inverse
        root errs by 8 (PTX's rsqrt.approx: 2^-22.9), q = 1/2 of the relative error; a native exp2 by 4 (ex2.approx: 2 ulp) at
        values below 1, q < 0.55; a native cosine by 12 (cos.approx: 2^-20.5), q <= sin 1 but for the first step, and so a sine, whose
        argument errs by 2, with q <= 0.42. OpenCL promises nothing of native functions. Products are sums: a chain passes
        through a rounding of each multiply-add.
        """
        sums = {"local": 1, "product": DEPTH}
        if problem.options["quantity"] in sums:
            additions = sums[str(problem.options["quantity"])] * problem.sizes["rounds"] + 1
            return operands.gamma(additions, problem.dtype) * (2 if problem.dtype == "float64" else 1.001)
        factor = {"fma": 22, "rsqrt": 18, "exp2": 18, "cos": 80, "sin": 40}[str(problem.options["quantity"])]
        return operands.gamma(factor, problem.dtype) * (2 if problem.dtype == "float64" else 1.001)

    def flops(self, problem: Problem) -> float:
        """The operations of each round and chain: 2 for a multiply-add, 16 for a product's, 1 for a function or for adding a value from
        local memory.
        """
        each = {"fma": 2.0, "product": 2.0 * DEPTH}.get(str(problem.options["quantity"]), 1.0)
        return each * problem.sizes["n"] * problem.sizes["rounds"]

    def traffic(self, problem: Problem) -> float:
        """x read once and out written once."""
        return 2.0 * problem.itemsize * problem.sizes["n"]

    def awkward(self, problem: Problem) -> list[Problem]:
        """One chain; no step; few odd steps, whose number the results still show; unaligned, more chains than work-groups hold."""
        cases = (((1, 1), 0, 0), ((19, 0), 0, 0), ((131, 3), 0, 3), ((1025, 7), 0, 1), ((3001, 70), 0, 0))
        return operands.padded_problems(self, problem, cases)


def _chains(
    problem: Problem, x: NDArray[np.float64], chosen: NDArray[np.int64], scalars: Mapping[str, float]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The values of the chosen chains, and their scales."""
    rounds, quantity = problem.sizes["rounds"], problem.options["quantity"]
    if quantity == "local":
        padded = np.concatenate([x, np.zeros(-x.size % SEGMENT)])
        total, scale = np.zeros(chosen.size), np.zeros(chosen.size)
        turns = SEGMENT // STRIDE
        for turn in range(min(rounds, turns)):
            term = padded[chosen ^ (turn * STRIDE)] * ((rounds - turn - 1) // turns + 1)
            total, scale = total + term, scale + np.abs(term)
        return total, scale
    v = x[chosen]
    if quantity == "product":
        tiles = np.concatenate([x, np.zeros(-x.size % TILE)]).reshape(-1, TILE // DEPTH, DEPTH)
        step = (tiles @ tiles[:, :DEPTH]).ravel()[chosen] * rounds  # x is above 0, and so are all products
        return v + step, v + step
    a, b = scalars["a"], scalars["b"]
    largest = np.maximum(np.abs(v), abs(b) / (1 - abs(a)) if quantity == "fma" else 0)
    steps: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
        "fma": lambda v: v * a + b,
        "rsqrt": lambda v: 1 / np.sqrt(v),
        "cos": np.cos,
        "sin": lambda v: np.sin(v + 1),
        "exp2": lambda v: np.exp2(-v),
    }
    for _ in range(rounds):
        v = steps[str(quantity)](v)
    if quantity == "fma":
        return v, largest + abs(b)
    return v, np.abs(v) if quantity == "rsqrt" else np.ones_like(v)


workload = Peak()
