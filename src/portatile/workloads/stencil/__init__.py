"""Filters along each axis of a volume, added up: Laplacians and other star-shaped stencils.

On a GPU one launch filters both axes of every plane, and another filters the axis across the planes and adds: the traffic of five arrays.
On a CPU one launch does everything, in tiles that stay in cache. Separable filters that transpose the array in each pass, and a sum of
their results, would need the traffic of twenty arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from portatile.capabilities import MOST_GROUPS
from portatile.errors import ArgumentError
from portatile.records import Arg, Config, DeviceInfo, Launch, Layout, Plan, Problem, Role, Source, Value
from portatile.space import ParameterSpace
from portatile.template import load
from portatile.workload import Expected, Inputs, Operand, Workload
from portatile.workloads import arguments, operands
from portatile.workloads.axis import Axis
from portatile.workloads.stencil import reference
from portatile.workloads.stencil.reference import axes

MAX_TAPS = 32  # a work-item keeps a window of so many values in registers
_MAX_LOCAL = 49152  # bytes of local memory that every GPU grants
_MOST_PRIVATE = 2**20  # bytes of a work-item's private arrays, which lie on a thread's stack
_DEPTH = 64  # planes that a work-item goes through
_KEPT = ("periodic", "zero")  # boundaries that preserve the size
_TILES = ((128, 128), (64, 128), (64, 64), (32, 64), (32, 32), (16, 32))


class Stencil(Workload):
    """Sums along axes: out[i, j, k] = the sum over t of f[0, t] psi[i + lower + t, j, k] + f[1, t] psi[i, j + lower + t, k] + ...

    psi and out are n1 x n2 x n3, stored as n1 x n2 rows of n3; filter has a row of ``taps`` for each of the last ``axes`` axes: with two
    axes, n1 is the number of planes. Beyond the ends of its axes psi continues as ``boundary1`` to ``boundary3`` say: periodic, or zero.
    """

    name = "stencil"
    meanings: Mapping[str, str] = {
        "FORM": "march: a work-group has a work-item for each column and moves down the rows, twice. vectors: a work-group is one "
        "work-item that sums explicit vectors, plane by plane.",
        "T1": "Rows of a work-group.",
        "T2": "Columns of a work-group.",
        "WINDOW": "Neighbouring outputs, or vectors of VECTOR outputs, that a work-item computes at a time.",
        "VECTOR": "Elements of a vector, in the form vectors.",
        "RESIDENT": "Work-groups that should share a multiprocessor, for which CUDA's compiler limits registers. 0: the compiler decides.",
    }
    sizes: Mapping[str, str] = {"n1": "points along the first axis", "n2": "points along the second", "n3": "points along the third"}
    options: Mapping[str, tuple[Value, ...]] = {
        "boundary1": _KEPT,
        "boundary2": _KEPT,
        "boundary3": _KEPT,
        "axes": (3, 2),
        "taps": (29, *(taps for taps in range(1, MAX_TAPS + 1) if taps != 29)),
        "lower": (-14, *(lower for lower in range(1 - MAX_TAPS, MAX_TAPS) if lower != -14)),
    }
    operands = (Operand("psi"), Operand("filter"), Operand("out", "out"))

    def shapes(self, problem: Problem) -> dict[str, tuple[int, ...]]:
        """psi and out are (n1 n2) x n3, filter is axes x taps."""
        n1, n2, n3 = problem.sizes.values()
        return {"psi": (n1 * n2, n3), "filter": (int(problem.options["axes"]), int(problem.options["taps"])), "out": (n1 * n2, n3)}

    def space(self, problem: Problem, device: DeviceInfo) -> ParameterSpace:
        """The space of all parameters."""
        first, *_ = axes(problem)
        local_free = min(device.local_memory, _MAX_LOCAL) - 2 * first.filter_ld * problem.itemsize
        return ParameterSpace(
            {
                "FORM": ("march", "vectors"),
                "T1": (4, 8, 16, 32, 64, 128, 256),
                "T2": (16, 32, 64, 128, 256),
                "WINDOW": (2, 4, 8),
                "VECTOR": (1, 2, 4, 8, 16),
                "RESIDENT": (0, 2, 3, 4),
            },
            (
                "(FORM == 'vectors') == (device_kind == 'cpu')",
                "(VECTOR == 1) == (FORM == 'march') and VECTOR * itemsize <= (64 if wide_arithmetic else 32)",
                "FORM == 'vectors' or (T1 >= 16 and T2 <= max_work_group_size)",
                "FORM == 'march' or T2 % (WINDOW * VECTOR) == 0",
                "FORM == 'march' or itemsize * ((ends + 1) * T1 * T2 + (T1 + ends) * (T2 + ends)) <= most_private",
                "RESIDENT == 0 or (FORM == 'march' and launch_bounds and RESIDENT * T2 <= 1024)",
                "FORM == 'vectors' or itemsize * (T2 + 2 * WINDOW * ((T2 + ends + 30) // 32 * 32 + 1)) <= local_free",
            ),
            {**problem.facts(), **device.facts(), "ends": _reach(first)[1], "local_free": local_free, "most_private": _MOST_PRIVATE},
        )

    def default(self, problem: Problem, device: DeviceInfo) -> Config:
        """On a CPU vectors of 64 bytes; on a GPU the largest tile that leaves enough work-groups for the device and wastes little, or the
        smallest.
        """
        n1, n2, n3 = problem.sizes.values()
        if device.kind == "cpu":
            return {"FORM": "vectors", "T1": 16, "T2": 64, "WINDOW": 4, "VECTOR": 64 // problem.itemsize, "RESIDENT": 0}
        space = self.space(problem, device)
        base: Config = {"FORM": "march", "WINDOW": 8, "VECTOR": 1, "RESIDENT": 0}
        tiles = _TILES if problem.dtype == "float64" else _TILES[2:]  # in float32 the wider tiles would need too many registers
        legal = [config for t1, t2 in tiles if space.violated(config := {**base, "T1": t1, "T2": t2}) is None]
        enough = [c for c in legal if n1 * -(-n2 // int(c["T1"])) * -(-n3 // int(c["T2"])) * 2 >= 3 * device.compute_units]
        fitting = [c for c in enough if -n3 % int(c["T2"]) * 4 <= n3 and -n2 % int(c["T1"]) * 4 <= n2]
        return next(iter((*fitting, *enough, *reversed(legal), {**base, "T1": 16, "T2": 16})))

    def plan(self, problem: Problem, config: Config, device: DeviceInfo) -> Plan:
        """One launch; or one for the planes and one for the axis across them; none for an empty output."""
        shapes = self.shapes(problem)
        if 0 in shapes["out"]:
            return Plan(())
        arguments.check_rows(problem, shapes)
        return Plan((self._vectors(problem, config),) if config["FORM"] == "vectors" else self._stencil_launches(problem, config, device))

    def _stencil_launches(self, problem: Problem, config: Config, device: DeviceInfo) -> tuple[Launch, ...]:
        """The launch for the planes, and with three axes the one for the axis across them."""
        first, second, third = axes(problem)
        gpu = device.kind == "gpu"
        within = self._pass(problem, config, (first.n, second.n, third.n), _volumes(problem), (second.boundary, third.boundary), gpu)
        if problem.options["axes"] == 2:
            return (within,)
        points, plane = (second.n, first.n, third.n), second.n * third.n  # a plane for each point of the second axis
        transposed = {name: replace(layout, strides=(*layout.strides[1::-1], 1)) for name, layout in _volumes(problem).items()}
        if plane < 2**30 and all(problem.layout[name].strides[0] == third.n for name in transposed):  # or a single plane with all columns
            points, transposed = (1, first.n, plane), {name: replace(layout, strides=(0, plane, 1)) for name, layout in transposed.items()}
        return within, self._pass(problem, config, points, transposed, (first.boundary,), gpu)

    def _vectors(self, problem: Problem, config: Config) -> Launch:
        """The launch of all filters over planes, rows and columns."""
        first, second, third = axes(problem)
        t1, t2, vector = (int(config[name]) for name in ("T1", "T2", "VECTOR"))
        groups = -(-third.n // t2), -(-second.n // t1), -(-first.n // _DEPTH)
        defines = {**self._defines(problem, config), "VEC": f"{_real(problem)}{vector}", "VECTOR": vector, "DEPTH": _DEPTH}
        defines |= {"LEAD": _reach(first)[0] + first.lower}
        values: dict[str, object] = {"window": config["WINDOW"], "vector": vector, "depth": problem.options["axes"] == 3}
        values |= {"periodic": [axis.boundary == "periodic" for axis in (first, second, third)]}
        passed = self._arguments(problem, (first.n, second.n, third.n), _volumes(problem), "out")
        return _launch(problem, load(__file__, "vectors.cl", defines, **values), passed, groups, 1)

    def _pass(
        self,
        problem: Problem,
        config: Config,
        points: tuple[int, int, int],
        layout: Mapping[str, Layout],
        boundaries: tuple[str, ...],
        gpu: bool,
    ) -> Launch:
        """The launch that filters along the first axis of planes and, if there is a second boundary, along the second; otherwise it adds to
        ``out``.
        """
        first, *_ = axes(problem)
        ahead, ends = _reach(first)
        planes, rows, columns = points
        t1, t2, window = (int(config[name]) for name in ("T1", "T2", "WINDOW"))
        groups = planes * -(-columns // t2), -(-rows // t1), 1
        across = len(boundaries) == 2
        defines = self._defines(problem, config) | {"FIRST_FILTER": int(across and problem.options["axes"] == 3)}
        values: dict[str, object] = {
            "real": _real(problem),
            "window": window,
            "taps": first.taps,
            "ends": ends,
            "ahead": ahead,
            "many": 16 // problem.itemsize,
        }
        values |= {"lead": ahead + first.lower, "across": across, "adds": not across, "resident": config["RESIDENT"]}
        values |= {"halo": -(-window * ends // t2) if across else 0}
        values |= {"periodic": boundaries[0] == "periodic", "once": rows >= t1 + ends + window + ahead}
        values |= {"periodic_across": boundaries[-1] == "periodic", "gpu": gpu}
        passed = self._arguments(problem, points, layout, "out" if across else "inout")
        return _launch(problem, load(__file__, "march.cl", defines, **values), passed, groups, t2)

    def _defines(self, problem: Problem, config: Config) -> dict[str, Value]:
        first, *_ = axes(problem)
        ahead, ends = _reach(first)
        return {
            "REAL": _real(problem),
            **({"DOUBLE": True} if problem.dtype == "float64" else {}),
            "INDEX": arguments.index_type(problem, self.shapes(problem)),
            **{name: config[name] for name in ("T1", "T2", "WINDOW")},
            "TAPS": first.taps,
            "ENDS": ends,
            "AHEAD": ahead,
            "FILTER_LD": first.filter_ld,
            "FIRST_FILTER": int(problem.options["axes"] == 3),
            "INTERLEAVE": False,
        }

    def _arguments(self, problem: Problem, points: tuple[int, int, int], layout: Mapping[str, Layout], role: Role) -> tuple[Arg, ...]:
        """The arguments of a kernel: points, and operands with these layouts; ``role`` is that of ``out``."""
        index = arguments.index_type(problem, self.shapes(problem))
        return (
            *arguments.literals(dict(zip(("planes", "rows", "columns"), points, strict=True))),
            *arguments.operand("psi", layout["psi"], index, "in"),
            *arguments.operand("filter", problem.layout["filter"], index, "in"),
            *arguments.operand("out", layout["out"], index, role),
        )

    def inputs(self, problem: Problem, rng: np.random.Generator) -> Inputs:
        """psi and filter uniform in [-0.5, 0.5)."""
        return Inputs(operands.drawn(self, problem, rng))

    def reference(self, problem: Problem, inputs: Inputs, sample: np.random.Generator | None = None) -> dict[str, Expected]:
        """The sums, and the sums of absolute values as the scale; with ``sample`` at some places of the output."""
        return {"out": reference.solution(problem, self.shapes(problem), inputs, sample)}

    def bound(self, problem: Problem, config: Config) -> float:
        """gamma of all taps and the additions between axes; twice for float64, whose reference errs as well.

        An output is an inner product: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., equation 3.5.
        """
        terms = (int(problem.options["taps"]) + 1) * int(problem.options["axes"])
        return operands.gamma(terms, problem.dtype) * (2 if problem.dtype == "float64" else 1.001)

    def flops(self, problem: Problem) -> float:
        """2 taps for each point and filtered axis."""
        return (
            2.0
            * int(problem.options["taps"])
            * int(problem.options["axes"])
            * float(np.prod(list(problem.sizes.values()), dtype=np.float64))
        )

    def traffic(self, problem: Problem) -> float:
        """psi read once, out written once."""
        return 2.0 * problem.itemsize * float(np.prod(list(problem.sizes.values()), dtype=np.float64))

    def awkward(self, problem: Problem) -> list[Problem]:
        """One point; shorter than the filter; sizes that no tile divides, padded, aligned to nothing and aligned well."""
        cases = (((1, 1, 1), 0, 0), ((5, 3, 7), 0, 0), ((21, 37, 19), 3, 5), ((9, 68, 34), 0, 0), ((20, 36, 40), 4, 0))
        return operands.padded_problems(self, problem, cases)


def _launch(problem: Problem, source: Source, passed: tuple[Arg, ...], groups: tuple[int, int, int], items: int) -> Launch:
    """The launch over the groups along each axis; raises ArgumentError where they are too many."""
    if max(groups[1:]) > MOST_GROUPS or groups[0] * items >= 2**31:
        raise ArgumentError(f"stencil: a volume of {tuple(problem.sizes.values())} points is too long for one launch; cut it")
    return Launch(source, "stencil", (groups[0] * items, *groups[1:]), (items, 1, 1), passed)


def _volumes(problem: Problem) -> dict[str, Layout]:
    """The layouts of psi and out as planes, rows and columns."""
    lines = {name: problem.layout[name] for name in ("psi", "out")}
    return {name: replace(layout, strides=(problem.sizes["n2"] * layout.strides[0], *layout.strides)) for name, layout in lines.items()}


def _real(problem: Problem) -> str:
    return "double" if problem.dtype == "float64" else "float"


def _reach(axis: Axis) -> tuple[int, int]:
    """(points that a window over the taps and the point itself extends before the point, and in total on both sides)."""
    ahead = max(-axis.lower, 0)
    return ahead, ahead + max(axis.lower + axis.taps - 1, 0)


workload = Stencil()
