"""A convolution along two axes in one pass, which reads and writes a volume once instead of twice.

The values between the two filters stay in local memory. Three separable filters of a volume take one such pass and one of ``convolution``:
the traffic of four arrays instead of six.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from portatile.capabilities import MOST_GROUPS
from portatile.errors import ArgumentError
from portatile.records import Config, DeviceInfo, Launch, Plan, Problem, Source, Value
from portatile.space import ParameterSpace
from portatile.template import load
from portatile.workload import Expected, Inputs, Operand, Workload
from portatile.workloads import arguments, operands
from portatile.workloads.axis import BANKS, BOUNDARIES
from portatile.workloads.convolution2d import reference
from portatile.workloads.convolution2d.reference import axes

MAX_TAPS = 20  # a work-item keeps a window of so many values in registers
SPARE = 8  # a tile fits an axis if it wastes at most 1 / SPARE of it
_TILES: tuple[Config, ...] = tuple(
    {"T1": t1, "T2": t2, "TJ": tj}
    for t1, t2, tj in ((128, 64, 8), (64, 64, 8), (64, 32, 8), (32, 32, 8), (32, 32, 4), (16, 32, 4), (16, 16, 4), (16, 8, 4), (16, 8, 2))
)
_LONG: Config = {"WINDOW": 8, "TURN": 16}  # the windows for float64 on a GPU, in all but the largest tile
_LONG_TILES: tuple[Config, ...] = tuple({"T1": t1, "T2": 32, "TJ": 8, **_LONG} for t1 in (128, 64))


class Convolution2d(Workload):
    """Filters along two axes: out[j, o, q] = the sum over t, u of f[t] f[u] psi[o + lower + t, q + lower + u, j].

    psi is rows x lines x ndat, out is ndat x length x width, both row-major: the result of two passes of ``convolution``. ``boundary`` is
    that of the first axis and ``across`` that of the second; ``bank``, ``taps`` and ``lower`` hold for both. See ``convolution``.
    """

    name = "convolution2d"
    meanings: Mapping[str, str] = {
        "T1": "Outputs of a work-group along the first axis.",
        "T2": "Outputs of a work-group along the second axis.",
        "TJ": "Lines of a work-group.",
        "WINDOW": "Neighbouring outputs along the first axis that a work-item computes at a time; the work-group advances by as many.",
        "TURN": "Neighbouring outputs along the second axis that a work-item computes at a time.",
        "VECTOR": "Elements in a store.",
        "AHEAD": "Prefetching: the next step's values are loaded before the current ones are summed.",
        "OVERLAY": "The transposed tile shares the local memory of the first one.",
        "RESIDENT": "Work-groups that should share a multiprocessor, for which CUDA's compiler limits registers. 0: the compiler decides.",
    }
    sizes: Mapping[str, str] = {"n1": "points along the first axis", "n2": "points along the second", "ndat": "lines of either"}
    options: Mapping[str, tuple[Value, ...]] = {
        "boundary": BOUNDARIES,
        "across": BOUNDARIES,
        "bank": BANKS,
        "taps": (16, *(taps for taps in range(1, MAX_TAPS + 1) if taps != 16)),
        "lower": (-8, *(lower for lower in range(1 - MAX_TAPS, MAX_TAPS) if lower != -8)),
    }
    operands = (Operand("psi"), Operand("filter"), Operand("out", "out"))

    def shapes(self, problem: Problem) -> dict[str, tuple[int, ...]]:
        """psi is rows x lines x ndat, filter has one or two rows of taps, out is ndat x length x width."""
        first, second = axes(problem)
        ndat = problem.sizes["ndat"]
        return {"psi": (first.rows, second.rows, ndat), "filter": (first.phases, first.taps), "out": (ndat, first.length, second.length)}

    def space(self, problem: Problem, device: DeviceInfo) -> ParameterSpace:
        """The space of all parameters; a work-group has a work-item for each column that the second filter reads."""
        first, _ = axes(problem)
        facts: dict[str, Value] = {"phases": first.phases, "ends": first.ends}
        facts["local_free"] = min(device.local_memory, 49152) - first.phases * first.filter_ld * problem.itemsize
        return ParameterSpace(
            {
                "T1": (16, 32, 64, 128, 256),
                "T2": (8, 16, 32, 64),
                "TJ": (2, 4, 8, 16, 32),
                "WINDOW": (2, 4, 8, 16),
                "TURN": (4, 8, 16),
                "VECTOR": (1, 2, 4),
                "AHEAD": (True, False),
                "OVERLAY": (False, True),
                "RESIDENT": (0, 2, 3),
            },
            (
                "T1 % WINDOW == 0 and T2 % TURN == 0",
                "WINDOW % phases == 0 and TURN % VECTOR == 0",
                "WINDOW <= 2 * TURN and TURN <= 2 * WINDOW",
                "not OVERLAY or TURN >= WINDOW",
                "VECTOR * itemsize <= 16",
                "RESIDENT == 0 or launch_bounds",
                "(T2 + ends) * TJ <= min(max_work_group_size, 1024) // 32 * 32",
                "OVERLAY or itemsize * WINDOW * TJ * (2 * T2 + ends + 1 + VECTOR) <= local_free",
                "itemsize * WINDOW * TJ * max(T2 + ends + 1, T2 + VECTOR) <= local_free",
            ),
            {**problem.facts(), **device.facts(), **facts},
        )

    def default(self, problem: Problem, device: DeviceInfo) -> Config:
        """The largest tile that fits the second axis and leaves enough work-groups for the device, or the smallest."""
        double, gpu, space = problem.dtype == "float64", device.kind == "gpu", self.space(problem, device)
        base: Config = {"WINDOW": 8 if gpu and not double else 4, "TURN": 8, "VECTOR": 2 if double else 4, "AHEAD": True, "OVERLAY": False}
        tiles = (_TILES[0], *_LONG_TILES, *_TILES[3:]) if double and gpu else _TILES
        legal = [config for tile in tiles if space.violated(config := {**base, "RESIDENT": 0, **tile}) is None]
        enough = [config for config in legal if _groups(problem, config) >= _waves(config) * device.compute_units]
        width = axes(problem)[1].length
        fitting = [config for config in enough if -width % int(config["T2"]) * SPARE <= width]
        return next(iter((*fitting, *enough, *reversed(legal))))

    def plan(self, problem: Problem, config: Config, device: DeviceInfo) -> Plan:
        """One launch; none for an empty output. Raises ArgumentError for an output too long for one launch."""
        shapes, layout, (first, second) = self.shapes(problem), problem.layout, axes(problem)
        if 0 in shapes["out"]:
            return Plan(())
        t1, t2, tj = (int(config[name]) for name in ("T1", "T2", "TJ"))
        groups = (-(-problem.sizes["ndat"] // tj), -(-first.length // t1), -(-second.length // t2))
        arguments.check_rows(problem, shapes)
        index = arguments.index_type(problem, shapes)
        if max(groups[1:]) > MOST_GROUPS:
            raise ArgumentError(f"convolution2d: an output of the shape {shapes['out']} is too long for one launch; filter axis by axis")
        items = _items(problem, config)
        source = _source(problem, config, index)
        scalars = {
            "rows": first.rows,
            "lines": second.rows,
            "columns": problem.sizes["ndat"],
            "length": first.length,
            "width": second.length,
        }
        scalars |= {"first": first.first, "across": second.first}
        passed = (
            *arguments.literals(scalars),
            *arguments.operand("psi", layout["psi"], index, "in"),
            *arguments.operand("filter", layout["filter"], index, "in"),
            *arguments.operand("out", layout["out"], index, "out"),
        )
        return Plan((Launch(source, "convolution2d", (groups[0] * items, *groups[1:]), (items, 1, 1), passed),))

    def inputs(self, problem: Problem, rng: np.random.Generator) -> Inputs:
        """psi and filter uniform in [-0.5, 0.5)."""
        return Inputs(operands.drawn(self, problem, rng))

    def reference(self, problem: Problem, inputs: Inputs, sample: np.random.Generator | None = None) -> dict[str, Expected]:
        """The sums, and the sums of absolute values as the scale; with ``sample`` at some places of the output."""
        return {"out": reference.solution(problem, self.shapes(problem), inputs, sample)}

    def bound(self, problem: Problem, config: Config) -> float:
        """gamma of twice the taps: an inner product of inner products; twice for float64, whose reference errs as well."""
        taps = axes(problem)[0].taps
        return operands.gamma(2 * taps, problem.dtype) * (2 if problem.dtype == "float64" else 1.001)

    def flops(self, problem: Problem) -> float:
        """2 taps for each of n1 x n2 x ndat points and each axis."""
        return 4.0 * axes(problem)[0].taps * problem.sizes["n1"] * problem.sizes["n2"] * problem.sizes["ndat"]

    def traffic(self, problem: Problem) -> float:
        """psi read once and out written once."""
        shapes = self.shapes(problem)
        return float(problem.itemsize) * sum(float(np.prod(shapes[name], dtype=np.float64)) for name in ("psi", "out"))

    def awkward(self, problem: Problem) -> list[Problem]:
        """One point; axes shorter than the filter; sizes that no tile divides, padded, unaligned and well aligned."""
        cases = (((1, 1, 1), 0, 0), ((5, 3, 7), 0, 0), ((21, 37, 19), 3, 5), ((68, 34, 9), 0, 0), ((36, 40, 20), 4, 0))
        return operands.padded_problems(self, problem, cases)


def _waves(config: Config) -> float:
    """Work-groups for each compute unit from which a tile is better than smaller ones; the last tile with long windows needs only one."""
    return 0.95 if config.items() >= _LONG_TILES[-1].items() else 1.5


def _groups(problem: Problem, config: Config) -> int:
    """The work-groups of a launch."""
    first, second = axes(problem)
    tiles = ((problem.sizes["ndat"], "TJ"), (first.length, "T1"), (second.length, "T2"))
    return int(np.prod([-(-points // int(config[name])) for points, name in tiles]))


def _items(problem: Problem, config: Config) -> int:
    """Work-items of a work-group: one for each column that the second filter reads, in whole warps."""
    return -(-(int(config["T2"]) + axes(problem)[0].ends) * int(config["TJ"]) // 32) * 32


def _writes(problem: Problem, config: Config) -> int:
    """Elements of a store: what the output's layout allows, but enough for the work-items of a work-group to cover a row of a tile."""
    widest = int(config["VECTOR"]) if problem.options["bank"] != "analysis" else 1
    aligned = min(widest, problem.layout["out"].vector_width(problem.itemsize))
    return max(aligned, -(-int(config["T2"]) // _items(problem, config)))


def _source(problem: Problem, config: Config, index: str) -> Source:
    """The kernel text for a configuration. ``index``: the OpenCL C type of indices into the operands."""
    first, second = axes(problem)
    window, vector, writes = int(config["WINDOW"]), int(config["VECTOR"]), _writes(problem, config)
    real = "double" if problem.dtype == "float64" else "float"
    defines: dict[str, Value] = {
        "REAL": real,
        **({"DOUBLE": True} if real == "double" else {}),
        "INDEX": index,
        "WRITE": f"{real}{writes}" if writes > 1 else real,
        "WRITES": writes,
        **{name: config[name] for name in ("T1", "T2", "TJ", "WINDOW", "TURN", "VECTOR")},
        "WGS": _items(problem, config),
        "TAPS": first.taps,
        "PHASES": first.phases,
        "FILTER_LD": first.filter_ld,
        "INTERLEAVE": first.bank == "synthesis",
        "SEPARATE": first.bank == "analysis",
    }
    values = {
        "real": real,
        "window": window,
        "turns": config["TURN"],
        "vector": vector,
        "writes": writes,
        "taps": first.taps,
        "phases": first.phases,
        "ends": first.ends,
        "many": 16 // problem.itemsize,
        "ahead": config["AHEAD"],
        "overlay": config["OVERLAY"],
        "resident": config["RESIDENT"],
        "periodic": first.boundary == "periodic",
        "once": first.rows >= int(config["T1"]) + first.taps + window + abs(first.first),
        "periodic_across": second.boundary == "periodic",
        "separate": first.bank == "analysis",
    }
    return load(__file__, "convolution2d.cl", defines, **values)


workload = Convolution2d()
