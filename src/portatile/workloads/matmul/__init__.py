"""C = A B by the kernels of a first course in GPU matrix multiplication: from one work-item to tiles in local memory.

They are the two kernels that courses compare (one element of C for each work-item, from global memory or from square tiles in local
memory), a sequential program as the baseline, and the next rungs of the usual ladder: more results for each work-item, vector loads, a
transposed operand with rectangular, padded tiles. The fast matrix product is the workload ``gemm``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from portatile.capabilities import MOST_GROUPS
from portatile.device.target import CARVEOUT
from portatile.errors import ArgumentError
from portatile.records import Arg, Config, DeviceInfo, Launch, Layout, Plan, Problem, Size3, Source, Temporary, Value
from portatile.space import ParameterSpace
from portatile.template import load
from portatile.workload import Expected, Inputs, Operand, Workload
from portatile.workloads import arguments, operands

_TRANSPOSE_TILE = 16
_WARP = 32  # lanes that can exchange values by shuffles

# The rungs of the ladder that this workload has, as differences from BASE.
BASE: Mapping[str, Value] = {
    "ALGORITHM": "local",
    "BLOCK": 16,
    "DEPTH": 0,
    "WPT": 1,
    "VECTOR": 1,
    "TRANSPOSE": False,
    "PADDING": 0,
    "ACCUMULATE": "register",
    "UNROLL": 0,
    "LDG": False,
    "SHUFFLE": False,
    "PLAIN": False,
    "CARVEOUT": -1,
}
_LATER: Mapping[str, Value] = {
    "LDG": False,
    "SHUFFLE": False,
    "PLAIN": False,
    "CARVEOUT": -1,
}  # parameters that were added after configurations had been recorded
RUNGS: Mapping[int, Mapping[str, Value]] = {
    1: {**BASE, "ALGORITHM": "global", "BLOCK": 32},
    2: {**BASE, "BLOCK": 32},
    3: {**BASE, "BLOCK": 32, "WPT": 8},
    4: {**BASE, "BLOCK": 32, "VECTOR": 4},
    5: {**BASE, "BLOCK": 64, "DEPTH": 16, "WPT": 8, "TRANSPOSE": True, "PADDING": 2},
}


class Matmul(Workload):
    """Matrix product by simple kernels: C (m x n) = A (m x k) B (k x n), all row-major."""

    name = "matmul"
    meanings: Mapping[str, str] = {
        "ALGORITHM": "sequential: one work-item. global: one element of C for each work-item, from global memory. local: tiles of BLOCK x "
        "BLOCK in local memory.",
        "BLOCK": "The side of the work-group (global), or of the tile of C (local).",
        "ACCUMULATE": "Where a sum is kept: in C itself or in a register.",
        "UNROLL": "Steps of the innermost loop that are unrolled. 1 forbids unrolling; 0 leaves it to the compiler (local: the whole loop "
        "is unrolled).",
        "DEPTH": "Steps of k in a tile of local memory; 0: BLOCK.",
        "WPT": "Rows of C that a work-item computes (local).",
        "VECTOR": "Columns of C that a work-item computes in one vector (local).",
        "TRANSPOSE": "A is transposed beforehand, so that both operands are read along rows (local).",
        "PADDING": "Padding, in elements, of the rows of A's tile: avoids bank conflicts (local).",
        "SHUFFLE": "Each work-item reads one element of A's tile, and the warp exchanges them by shuffles (local, NVIDIA).",
        "LDG": "A and B are read from global memory through the read-only cache. Otherwise the compiler may still choose it, because "
        "pointers are declared restrict (NVIDIA).",
        "PLAIN": "Pointers are not declared restrict, so that nothing is read through the read-only cache (NVIDIA).",
        "CARVEOUT": "The percentage of the memory next to a multiprocessor that becomes local memory rather than cache; -1: the driver "
        "decides (CUDA).",
    }
    hint = "matmul is the teaching workload, which portatile.matmul does not use; for that, run `portatile tune gemm` with the same sizes"
    sizes: Mapping[str, str] = {"m": "rows of A and C", "n": "columns of B and C", "k": "columns of A and rows of B"}
    operands = (Operand("a"), Operand("b"), Operand("c", "out"))

    def note(self, problem: Problem, config: Config, device: DeviceInfo) -> str:
        """A note on the workload that the routine of the same name uses."""
        return "this is the teaching workload: portatile.matmul computes by gemm, which explain('gemm', ...) tells of"

    def shapes(self, problem: Problem) -> dict[str, tuple[int, ...]]:
        """A is m x k, B k x n, C m x n."""
        m, n, k = self._mnk(problem)
        return {"a": (m, k), "b": (k, n), "c": (m, n)}

    def space(self, problem: Problem, device: DeviceInfo) -> ParameterSpace:
        """The space of all parameters; an algorithm fixes those that it does not use.

        ``sequential`` is legal only if it ends soon: up to 2^30 multiplications on a CPU, 2^24 elsewhere.
        """
        wide = (1, 2, 4, 8) if problem.itemsize == 4 else (1, 2, 4)  # at most 32 bytes, which every compiler supports
        return ParameterSpace(
            {
                "ALGORITHM": ("sequential", "global", "local"),
                "LDG": (False, True),
                "SHUFFLE": (False, True),
                "PLAIN": (False, True),
                "CARVEOUT": (-1, 0, 25, 50, 75, 100),
                "BLOCK": (2, 4, 8, 16, 32, 64),
                "DEPTH": (0, 2, 4, 8, 16, 32),
                "WPT": (1, 2, 4, 8),
                "VECTOR": wide,
                "TRANSPOSE": (False, True),
                "PADDING": (0, 1, 2),
                "ACCUMULATE": ("register", "global"),
                "UNROLL": (0, 1, 2, 4, 8, 16),
            },
            (
                "ALGORITHM != 'sequential' or m * n * k <= (2 ** 30 if device_kind == 'cpu' else 2 ** 24)",
                "ALGORITHM == 'global' or ALGORITHM == 'local' or BLOCK == 2",
                "ALGORITHM == 'local' or DEPTH == 0",
                "ALGORITHM == 'local' or WPT == 1",
                "ALGORITHM == 'local' or VECTOR == 1",
                "ALGORITHM == 'local' or not TRANSPOSE",
                "ALGORITHM == 'local' or PADDING == 0",
                "ALGORITHM != 'local' or ACCUMULATE == 'register'",
                "DEPTH != BLOCK",
                "BLOCK <= 32 or DEPTH != 0",
                "ALGORITHM != 'local' or UNROLL < (DEPTH or BLOCK)",
                "BLOCK % WPT == 0 and BLOCK % VECTOR == 0 and (DEPTH or BLOCK) % VECTOR == 0",
                "(BLOCK // WPT) * (BLOCK // VECTOR) <= max_work_group_size",
                "not TRANSPOSE or max_work_group_size >= 256",
                "itemsize * (DEPTH or BLOCK) * 2 * BLOCK + itemsize * PADDING * BLOCK <= min(local_memory, 49152)",
                "not LDG or (nvidia and VECTOR * itemsize <= 16 and UNROLL == 0)",
                "not SHUFFLE or (nvidia and ALGORITHM == 'local' and BLOCK // VECTOR >= 2 and UNROLL == 0)",
                "not SHUFFLE or (BLOCK // WPT) * (BLOCK // VECTOR) % 32 == 0",  # every lane of a warp takes part
                "not PLAIN or (nvidia and ALGORITHM == 'local' and not LDG)",  # the other texts have no restrict
                "CARVEOUT < 0 or (carveout and ALGORITHM == 'local')",
            ),
            {**problem.facts(), **device.facts(), "nvidia": device.nvidia, "carveout": device.can.carveout},
            _LATER,
        )

    def default(self, problem: Problem, device: DeviceInfo) -> Config:
        """Tiles with 8 rows of one vector for each work-item, as wide as a CPU's registers or a GPU's loads; on
        small devices one element.
        """
        if device.max_work_group_size < 256 or device.local_memory < 49152:
            return {**BASE, "ALGORITHM": "global", "BLOCK": 2}
        wide = 8 if device.kind == "cpu" and problem.itemsize == 4 else 4
        return {**BASE, "BLOCK": 64, "DEPTH": 16, "WPT": 8, "VECTOR": wide}

    def lowered(self, config: Config, device: DeviceInfo) -> Config:
        """``config`` without NVIDIA's instructions on other devices, and without a carve-out if the driver cannot be asked for one."""
        if not device.nvidia:
            return {name: _LATER.get(name, value) for name, value in config.items()}
        return config if device.can.carveout or "CARVEOUT" not in config else {**config, "CARVEOUT": -1}

    def plan(self, problem: Problem, config: Config, device: DeviceInfo) -> Plan:
        """One launch, preceded by a transposition if the configuration asks for it; none for an empty C."""
        if problem.sizes["m"] == 0 or problem.sizes["n"] == 0:
            return Plan(())
        if config["ALGORITHM"] != "local":
            return Plan((_naive(problem, config, self._index(problem)),))
        return self._tiled(problem, config)

    def inputs(self, problem: Problem, rng: np.random.Generator) -> Inputs:
        """A and B uniform in [-0.5, 0.5)."""
        return Inputs(operands.drawn(self, problem, rng))

    def reference(self, problem: Problem, inputs: Inputs, sample: np.random.Generator | None = None) -> dict[str, Expected]:
        """A B, and |A| |B| as the scale; with ``sample`` on some rows and columns."""
        shapes, layout = self.shapes(problem), problem.layout
        a, b = (operands.view(inputs.operands[name], layout[name], shapes[name]) for name in ("a", "b"))
        if sample is None or problem.sizes["m"] == 0 or problem.sizes["n"] == 0:
            values, scale = _product(a, b)
            return {"c": operands.whole(inputs.operands["c"], layout["c"], values, scale)}
        rows, columns = operands.lines(sample, problem.sizes["m"], 64), operands.lines(sample, problem.sizes["n"], 64)
        values, scale = _product(a[rows], b[:, columns])
        places = operands.places(layout["c"], rows[:, None], columns[None, :])
        return {"c": Expected(values.ravel(), scale.ravel(), places.ravel())}

    def bound(self, problem: Problem, config: Config) -> float:
        """gamma_k, whatever the order of the sum; twice for float64, whose reference errs as well.

        |C - fl(C)| <= gamma_k |A| |B|: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., equation 3.13.
        """
        return operands.gamma(max(problem.sizes["k"], 1), problem.dtype) * (2 if problem.dtype == "float64" else 1.001)

    def flops(self, problem: Problem) -> float:
        """2 m n k: a multiplication and an addition for each term."""
        return 2.0 * math.prod(self._mnk(problem))

    def traffic(self, problem: Problem) -> float:
        """A and B read once, C written once."""
        return float(problem.itemsize * sum(math.prod(shape) for shape in self.shapes(problem).values()))

    def awkward(self, problem: Problem) -> list[Problem]:
        """One element; less than a block; unaligned rows longer than a block; an empty sum; aligned wide rows."""
        cases = (((1, 1, 1), 0, 0), ((5, 3, 7), 0, 0), ((37, 19, 0), 0, 0), ((67, 41, 73), 3, 5), ((70, 68, 36), 4, 0))
        return operands.padded_problems(self, problem, cases)

    @staticmethod
    def _mnk(problem: Problem) -> tuple[int, int, int]:
        return problem.sizes["m"], problem.sizes["n"], problem.sizes["k"]

    def _index(self, problem: Problem) -> str:
        """The narrowest integer type for indices into the operands; raises ArgumentError if rows are not contiguous."""
        for name, layout in problem.layout.items():
            if layout.strides[1] != 1:
                raise ArgumentError(f"matmul takes row-major operands, and the elements of a row of {name!r} lie {layout.strides[1]} apart")
        return arguments.index_type(problem, self.shapes(problem))

    def _tiled(self, problem: Problem, config: Config) -> Plan:
        m, n, k = self._mnk(problem)
        index, layout = self._index(problem), problem.layout
        block, transpose = int(config["BLOCK"]), bool(config["TRANSPOSE"])
        operand_a = Layout((m, 1)) if transpose else layout["a"]
        width = min(x.vector_width(problem.itemsize) for x in (operand_a, layout["b"], layout["c"]))
        defines: dict[str, Value] = {
            **_types(problem, index),
            **{name: config[name] for name in ("BLOCK", "WPT", "VECTOR", "PADDING")},
            "DEPTH": config["DEPTH"] or block,
            "ALIGNED": width >= int(config["VECTOR"]),
        }
        values = {"real": defines["REAL"], "vector": int(config["VECTOR"]), "transpose": transpose, "unroll": _unroll(config)}
        values |= {"ldg": config.get("LDG", False), "shuffle": _shared(block, config) if config.get("SHUFFLE") else 0}
        values["restrict"] = "" if config.get("PLAIN") else " restrict"
        source = load(__file__, "tiles.cl", defines, **values)
        if int(config.get("CARVEOUT", -1)) >= 0:
            source = replace(source, options=(*source.options, f"{CARVEOUT}{config['CARVEOUT']}"))
        local: Size3 = (block // int(config["VECTOR"]), block // int(config["WPT"]), 1)
        left = arguments.operand("transposed" if transpose else "a", operand_a, index, "temporary" if transpose else "in")
        passed = (*arguments.literals({"m": m, "n": n, "k": k}), *left, *_bc(problem, index))
        product = Launch(source, "matmul_local", _covering(n, m, block, local), local, passed)
        if not transpose or k == 0:
            return Plan((product,), _workspace(problem) if transpose else ())
        edge = _TRANSPOSE_TILE
        sizes, target = arguments.literals({"m": m, "k": k}), Arg("transposed", role="temporary")
        passed = (*sizes, *arguments.operand("a", layout["a"], index, "in"), target)
        turn = Launch(source, "matmul_transpose", _covering(k, m, edge, (edge, edge, 1)), (edge, edge, 1), passed)
        return Plan((turn, product), _workspace(problem))


def sequential(a: NDArray[np.floating], b: NDArray[np.floating]) -> NDArray[np.floating]:
    """A B by three loops of plain Python, one multiplication after another: the baseline for speed-ups.

    ``a`` (m x k) and ``b`` (k x n) have one type. It does some 10^6 multiplications per second, so it is for small sizes only. Raises
    ArgumentError if the shapes do not fit.

    Examples:
        >>> sequential(np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]]))
        array([[11.]])
    """
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise ArgumentError(
            f"cannot multiply arrays of shapes {a.shape} and {b.shape}: the columns of the first are the rows of the second"
        )
    rows, columns = a.tolist(), b.T.tolist()
    c = [[0.0] * len(columns) for _ in rows]
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            total = 0.0
            for x, y in zip(row, column, strict=True):
                total += x * y
            c[i][j] = total
    return np.array(c, np.result_type(a, b)).reshape(a.shape[0], b.shape[1])


def _naive(problem: Problem, config: Config, index: str) -> Launch:
    m, n, k = problem.sizes["m"], problem.sizes["n"], problem.sizes["k"]
    algorithm, block = str(config["ALGORITHM"]), int(config["BLOCK"])
    defines = {**_types(problem, index), "BLOCK": block, "ACCUMULATE_IN_C": config["ACCUMULATE"] == "global"}
    source: Source = load(__file__, "naive.cl", defines, algorithm=algorithm, unroll=_unroll(config), ldg=config.get("LDG", False))
    local: Size3 = (1, 1, 1) if algorithm == "sequential" else (block, block, 1)
    everything: Size3 = (1, 1, 1) if algorithm == "sequential" else _covering(n, m, block, local)
    sizes = arguments.literals({"m": m, "n": n, "k": k})
    passed = (*sizes, *arguments.operand("a", problem.layout["a"], index, "in"), *_bc(problem, index))
    return Launch(source, f"matmul_{algorithm}", everything, local, passed)


def _types(problem: Problem, index: str) -> dict[str, Value]:
    real = "float" if problem.dtype == "float32" else "double"
    return {"REAL": real, "INDEX": index, **({"DOUBLE": True} if real == "double" else {})}


def _unroll(config: Config) -> str:
    """The argument of ``#pragma unroll``, spelled out because some preprocessors do not expand macros there."""
    return f" {config['UNROLL']}" if config["UNROLL"] else ""


def _shared(block: int, config: Config) -> int:
    """The neighbouring lanes that need the same elements of A's tile, at most as many as it has columns."""
    return min(block // int(config["VECTOR"]), int(config["DEPTH"]) or block, _WARP)


def _covering(columns: int, rows: int, block: int, local: Size3) -> Size3:
    """The work-items that cover rows x columns in square blocks, one work-group of shape ``local`` for each block."""
    return (-(-columns // block) * local[0], min(-(-rows // block), MOST_GROUPS) * local[1], 1)


def _bc(problem: Problem, index: str) -> tuple[Arg, ...]:
    layout = problem.layout
    return *arguments.operand("b", layout["b"], index, "in"), *arguments.operand("c", layout["c"], index, "out")


def _workspace(problem: Problem) -> tuple[Temporary, ...]:
    return (Temporary("transposed", max(problem.sizes["m"] * problem.sizes["k"], 1) * problem.itemsize),)


def _product(a: NDArray[np.generic], b: NDArray[np.generic]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    left, right = a.astype(np.float64), b.astype(np.float64)
    return left @ right, np.abs(left) @ np.abs(right)


workload = Matmul()
