"""A one-dimensional convolution with a transposition: the building block of separable filters in any number of dimensions.

BigDFT's magic filter is the model: BigDFT applies it along one axis and transposes, so that three passes filter a
three-dimensional array and restore its order, each reading and writing contiguous memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np

from portatile.records import Config, DeviceInfo, Launch, Plan, Problem, Source, Value
from portatile.space import ParameterSpace
from portatile.template import load
from portatile.workload import Cut, Expected, Inputs, Operand, Workload
from portatile.workloads import arguments, operands
from portatile.workloads.axis import BANKS, BOUNDARIES
from portatile.workloads.convolution import reference
from portatile.workloads.convolution.reference import filtered

MAX_TAPS = 64
_BATCH = 16  # loads that a work-item of a GPU has in flight; on other devices they would only make the text longer
_BASE: Mapping[str, Value] = {"PADDING": 0, "LANES": 1, "UNROLL": 16, "OVERLAY": False, "ORDER": "i"}

# BigDFT's own form: 16 x 16 work-items, local memory of 16 x 33, two loads and one store for each work-item.
BIGDFT: Config = {"FORM": "direct", "TI": 16, "TJ": 16, "WGS": 256, "WINDOW": 1, "VECTOR": 1, **_BASE, "PADDING": 2}


class Convolution(Workload):
    """A filter along one axis, followed by a transposition: out[j, i] = the sum over t of filter[0, t] psi[i + lower + t, j].

    psi is rows x ndat, out is ndat x length, both row-major.

    - ``boundary``: with ``periodic`` psi wraps around (rows = length = n, any n); with ``zero`` it is zero outside, and out has the same
      length; ``grow`` computes every output that can be nonzero (rows = n, length = n + taps - 1); ``shrink`` only those whose whole sum
      lies inside (rows = n + taps - 1, length = n). The last two start at their first output, whatever ``lower`` is.
    - ``bank``: ``single`` is one filter. ``analysis`` and ``synthesis`` are banks of two filters: outputs 2q and 2q + 1 use filters 0 and
      1, both from position 2q + lower on. ``analysis`` stores the even outputs before the odd ones, and ``synthesis`` reads psi in that
      order; the longer side of ``grow`` and ``shrink`` is then n + taps - 2.
    """

    name = "convolution"
    meanings: Mapping[str, str] = {
        "FORM": "staged: a tile in local memory, windows that slide over it, and a second tile for the transposition. direct: the tile is "
        "transposed as it is loaded, and outputs are computed one by one. block: for processors, one work-item for each tile, which "
        "transposes vectors in registers.",
        "TI": "Outputs of a work-group along the filtered axis i.",
        "TJ": "Lines (along j) of a work-group.",
        "WGS": "Work-items of a work-group.",
        "WINDOW": "Neighbouring outputs that a work-item computes at a time.",
        "VECTOR": "Elements in a load or store.",
        "PADDING": "Padding, in elements, of the rows of a transposed tile: avoids bank conflicts.",
        "LANES": "2: the products of even and of odd taps are summed separately, in one vector.",
        "UNROLL": "Taps for which the loop is unrolled.",
        "OVERLAY": "The second tile shares the local memory of the first one.",
        "ORDER": "The axis, i or j, along which consecutive work-groups are neighbours.",
    }
    sizes: Mapping[str, str] = {"n": "points along the filtered axis", "ndat": "lines that are filtered"}
    options: Mapping[str, tuple[Value, ...]] = {
        "boundary": BOUNDARIES,
        "bank": BANKS,
        "taps": (16, *(taps for taps in range(1, MAX_TAPS + 1) if taps != 16)),
        "lower": (-8, *(lower for lower in range(1 - MAX_TAPS, MAX_TAPS) if lower != -8)),
    }
    operands = (Operand("psi"), Operand("filter"), Operand("out", "out"))
    presets: Mapping[str, str] = {"bigdft": "BigDFT's own: 16 x 16 work-items, a padded tile, two loads and one store for each work-item"}
    most_groups = 2**15
    """Work-groups along the second axis of a launch, at most; CUDA allows 2^16 - 1."""

    def shapes(self, problem: Problem) -> dict[str, tuple[int, ...]]:
        """psi is rows x ndat, filter has one or two rows of taps, out is ndat x length."""
        axis, ndat = filtered(problem), problem.sizes["ndat"]
        return {"psi": (axis.rows, ndat), "filter": (axis.phases, axis.taps), "out": (ndat, axis.length)}

    def space(self, problem: Problem, device: DeviceInfo) -> ParameterSpace:
        """The space of all parameters; a form fixes those that it does not use."""
        axis = filtered(problem)
        widest = (64 if device.wide_vectors else 32) if device.kind == "cpu" else 16
        facts: dict[str, Value] = {"phases": axis.phases, "ends": axis.taps - axis.phases, "widest": widest}
        filters = axis.phases * axis.filter_ld * problem.itemsize
        facts["spare"] = _most_skew(problem)
        facts["local_free"] = (device.local_memory if device.kind == "cpu" else min(device.local_memory, 49152)) - filters
        return ParameterSpace(
            {
                "FORM": ("staged", "direct", "block"),
                "TI": (8, 16, 32, 64, 128, 256),
                "TJ": (8, 16, 32, 64, 128, 256),
                "WGS": (1, 32, 64, 128, 256, 512),
                "WINDOW": (1, 2, 4, 8, 16),
                "VECTOR": (1, 2, 4, 8, 16),
                "PADDING": (0, 1, 2, 4),
                "LANES": (1, 2),
                "UNROLL": (4, 8, 16, 32),
                "OVERLAY": (False, True),
                "ORDER": ("i", "j"),
            },
            (
                "(WGS == 1) == (FORM == 'block') and WGS <= max_work_group_size",
                "(WINDOW == 1) == (FORM == 'direct') and TI % WINDOW == 0",
                "FORM == 'direct' or WINDOW % phases == 0",
                "VECTOR * itemsize <= (widest if FORM == 'block' else 16)",
                "FORM != 'block' or (VECTOR > 1 and WINDOW % VECTOR == 0 and TJ % VECTOR == 0)",
                "FORM != 'staged' or (WINDOW % VECTOR == 0 and PADDING % VECTOR == 0)",
                "FORM != 'block' or PADDING == 0",
                "FORM != 'block' or LANES == 1",
                "UNROLL <= ends + phases or UNROLL == 4",
                "FORM == 'block' or WGS * WINDOW <= TI * TJ <= 16 * WGS * WINDOW",
                "FORM == 'block' or max(TI, TJ) <= WGS * VECTOR",
                "not OVERLAY or (FORM == 'staged' and WGS * WINDOW == TI * TJ)",
                "FORM != 'direct' or itemsize * TJ * (TI + ends + PADDING) <= local_free",
                "FORM != 'block' or itemsize * TJ * (TI + ends) <= local_free",
                "FORM != 'staged' or OVERLAY or itemsize * TJ * (2 * TI + ends + spare + PADDING) <= local_free",
                "not OVERLAY or itemsize * TJ * max(TI + ends + spare, TI + PADDING) <= local_free",
            ),
            {**problem.facts(), **device.facts(), **facts},
        )

    def default(self, problem: Problem, device: DeviceInfo) -> Config:
        """The first of several forms that the device and the number of taps allow.

        A CPU's tile is first copied out of psi, because psi's rows lie so far apart that they would compete for a few cache sets. It is
        large, so that long pieces of rows are read and written, if that leaves enough tiles for every core. A GPU's tile is twice as long
        as it is wide, so that neighbours share less of psi, except for a plain filter on aligned rows; there OpenCL's compiler schedules
        eight taps of float32 better than sixteen.
        """
        double, axis = problem.dtype == "float64", filtered(problem)
        taps = axis.taps
        base = {**_BASE, "UNROLL": max(u for u in (4, 8, 16) if u <= max(taps, 4))}
        lanes = (64 if device.wide_vectors else 32) // problem.itemsize
        block = {"FORM": "block", "WGS": 1, "WINDOW": lanes, "VECTOR": lanes, **base}
        ndat, short = problem.sizes["ndat"], -(-axis.length // 64)  # the whole tile is computed, even past the end
        ti, tj = (128, 256) if 2 * -(-short // 2) <= 1.1 * short else (64, 128)
        many = -(-axis.length // ti) * -(-ndat // tj) >= 4 * device.compute_units
        tiles = ((ti, tj), (64, 64)) if many else ((64, 64),)
        blocks = ({**block, "TI": ti, "TJ": tj} for ti, tj in (*tiles, (16, 16), (8, 8)))
        vector = 2 if double else 4
        tile = {"FORM": "staged", "WINDOW": 16, "VECTOR": vector, **base, "PADDING": vector, "OVERLAY": True}
        long = {**tile, "TI": 64, "TJ": 32, "WGS": 128}
        narrow = {**tile, "TI": 32, "TJ": 32, "WGS": 128, "WINDOW": 8}
        square = narrow if double else {**tile, "TI": 64, "TJ": 64, "WGS": 256, "UNROLL": min(int(base["UNROLL"]), 8)}
        small = {**tile, "TI": 16, "TJ": 16, "WGS": 32, "WINDOW": 8, "VECTOR": 1, "PADDING": 1, "OVERLAY": False}
        plain = problem.options["bank"] == "single" and problem.options["boundary"] == "periodic" and taps <= 16
        plain = plain and all(problem.layout[name].vector_width(problem.itemsize) >= vector for name in ("psi", "out"))
        staged = (square, long, narrow, small) if plain else (long, narrow, small)
        space = self.space(problem, device)
        candidates = chain(blocks, staged) if device.kind == "cpu" else chain(staged, ({**block, "VECTOR": 2, "TI": 8, "TJ": 8},))
        return next(config for config in candidates if space.violated(config) is None)

    def preset(self, name: str, problem: Problem) -> Config:
        """BigDFT's configuration."""
        return BIGDFT if name in self.presets else super().preset(name, problem)

    def plan(self, problem: Problem, config: Config, device: DeviceInfo) -> Plan:
        """One launch; none for an empty output."""
        layout, axis = problem.layout, filtered(problem)
        ndat = problem.sizes["ndat"]
        if ndat == 0 or axis.length == 0:
            return Plan(())
        index = self._index(problem)
        ti, tj, items = (int(config[name]) for name in ("TI", "TJ", "WGS"))
        across, down = -(-(axis.length + _skew(problem, config)) // ti), -(-ndat // tj)
        fast, slow = (across, down) if config["ORDER"] == "i" else (down, across)
        deep = -(-slow // self.most_groups)
        source = _source(problem, config, index, gpu=device.kind == "gpu", deep=deep > 1)
        groups = (fast * items, -(-slow // deep), deep)
        passed = (
            *arguments.literals({"rows": axis.rows, "columns": ndat, "length": axis.length, "first": axis.first}),
            *arguments.operand("psi", layout["psi"], index, "in"),
            *arguments.operand("filter", layout["filter"], index, "in"),
            *arguments.operand("out", layout["out"], index, "out"),
        )
        return Plan((Launch(source, "convolution", groups, (items, 1, 1), passed),))

    def inputs(self, problem: Problem, rng: np.random.Generator) -> Inputs:
        """psi and filter uniform in [-0.5, 0.5)."""
        return Inputs(operands.drawn(self, problem, rng))

    def reference(self, problem: Problem, inputs: Inputs, sample: np.random.Generator | None = None) -> dict[str, Expected]:
        """The sums, and the sums of |filter| |psi| as the scale; with ``sample`` for some rows and columns of the output."""
        return {"out": reference.solution(problem, self.shapes(problem), inputs, sample)}

    def bound(self, problem: Problem, config: Config) -> float:
        """gamma_taps, whatever the order of the sum; twice for float64, whose reference errs as well.

        An output is an inner product of ``taps`` terms: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed.,
        equation 3.5.
        """
        return operands.gamma(filtered(problem).taps, problem.dtype) * (2 if problem.dtype == "float64" else 1.001)

    def flops(self, problem: Problem) -> float:
        """2 taps for each of n x ndat points: 32 for the 16 taps of the magic filter, as BigDFT counts."""
        return 2.0 * filtered(problem).taps * problem.sizes["n"] * problem.sizes["ndat"]

    def traffic(self, problem: Problem) -> float:
        """psi read once and out written once: 16 bytes for each point in double precision; the filter is negligible."""
        axis = filtered(problem)
        return float(problem.itemsize * problem.sizes["ndat"] * (axis.rows + axis.length))

    def cuts(self, problem: Problem, config: Config) -> tuple[Cut, ...]:
        """Cuts between the filtered lines."""
        return (Cut("ndat", {"psi": "columns", "out": "rows"}),)

    def awkward(self, problem: Problem) -> list[Problem]:
        """One point; axes shorter than the filter; sizes that no tile divides; unaligned rows, and aligned wide ones."""
        cases = (((1, 1), 0, 0), ((5, 3), 0, 0), ((37, 19), 3, 5), ((150, 71), 0, 0), ((132, 68), 4, 0))
        return operands.padded_problems(self, problem, cases)

    def _index(self, problem: Problem) -> str:
        """The narrowest integer type for indices into the operands; raises ArgumentError if the kernel cannot address an operand."""
        shapes = self.shapes(problem)
        arguments.check_rows(problem, shapes)
        steps = (problem.layout[name].strides[0] * problem.itemsize for name in shapes)  # in bytes, as the kernel takes them
        return arguments.index_type(problem, shapes) if max(steps) < 2**31 else "long"


def _most_skew(problem: Problem) -> int:
    """The largest skew, for vectors of 16 bytes; 0 for filter banks, whose even and odd outputs differ, or if memory is not aligned."""
    width = 16 // problem.itemsize
    sound = problem.options["bank"] == "single" and problem.layout["out"].alignment >= 16
    return width - 1 if sound and problem.layout["out"].vector_width(problem.itemsize) < width else 0


def _skew(problem: Problem, config: Config) -> int:
    """The outputs by which rows of a staged tile may begin further left, so that all stores of whole vectors are aligned."""
    vector = int(config["VECTOR"])
    aligned = problem.layout["out"].vector_width(problem.itemsize) >= vector
    return vector - 1 if config["FORM"] == "staged" and _most_skew(problem) and not aligned else 0


def _widths(problem: Problem, config: Config) -> tuple[int, int]:
    """(elements of a load, elements of a store): at most what rows are aligned to, unless the work-items of a work-group would not suffice
    for a row.

    Even and odd outputs that are stored separately are stored one by one, because outputs that are neighbours in a tile are not so in
    memory.
    """
    vector = int(config["VECTOR"])
    if config["FORM"] == "block":
        return vector, vector
    layout, items = problem.layout, int(config["WGS"])
    aligned = {name: layout[name].vector_width(problem.itemsize) for name in ("psi", "out")}
    if problem.options["bank"] == "analysis":
        aligned["out"] = 2
    reads = min(vector, max(aligned["psi"], -(-int(config["TJ"]) // items)))
    writes = min(vector, max(aligned["out"], -(-int(config["TI"]) // items)))
    return reads, vector if _skew(problem, config) else writes


def _source(problem: Problem, config: Config, index: str, gpu: bool, deep: bool) -> Source:
    """The kernel text for a configuration. ``index``: the OpenCL C type of indices into the operands; ``deep``: the
    launch has three axes.
    """
    axis, skew = filtered(problem), _skew(problem, config)
    ti, tj, items, vector = (int(config[name]) for name in ("TI", "TJ", "WGS", "VECTOR"))
    reads, writes = _widths(problem, config)
    values: dict[str, Any] = {
        "real": "double" if problem.dtype == "float64" else "float",
        "gpu": gpu,
        "form": config["FORM"],
        "window": int(config["WINDOW"]),
        "lanes": int(config["LANES"]),
        "unroll": int(config["UNROLL"]),
        "overlay": config["OVERLAY"],
        "order": config["ORDER"],
        "vector": vector,
        "stages": vector.bit_length() - 1,
        "passes": -(-ti // writes * tj // items) if gpu else 1,
        "reads": reads,
        "writes": writes,
        "skew": skew,
        "taps": axis.taps,
        "phases": axis.phases,
        "periodic": axis.boundary == "periodic",
        "once": axis.rows >= ti + axis.taps + skew + abs(axis.first),
        "deep": deep,
        "separate": axis.bank == "analysis",
    }
    return load(__file__, "convolution.cl", _defines(problem, config, index, gpu), **values)


def _defines(problem: Problem, config: Config, index: str, gpu: bool) -> dict[str, Value]:
    """The macros of the kernel text."""
    layout, axis, skew = problem.layout, filtered(problem), _skew(problem, config)
    ti, tj, items = (int(config[name]) for name in ("TI", "TJ", "WGS"))
    reads, writes = _widths(problem, config)
    double = problem.dtype == "float64"
    real = "double" if double else "float"
    lines = max(items * reads // tj, 1)
    loads = -(-(ti + axis.taps - axis.phases + skew) // lines)
    batch = _BATCH if gpu else 1
    return {
        "REAL": real,
        **({"DOUBLE": True} if double else {}),
        "INDEX": index,
        **{
            name: f"{real}{width}" if width > 1 else real
            for name, width in (("VEC", int(config["VECTOR"])), ("READ", reads), ("WRITE", writes))
        },
        "READS": reads,
        "WRITES": writes,
        "SKEW": skew,
        **{name: config[name] for name in ("TI", "TJ", "WGS", "WINDOW", "VECTOR", "PADDING")},
        "TAPS": axis.taps,
        "PHASES": axis.phases,
        "BATCH": -(-loads // -(-loads // batch)),
        "ROWS": lines,
        "COLUMNS": max(items * writes // ti, 1),
        "FILTER_LD": axis.filter_ld,
        "INTERLEAVE": axis.bank == "synthesis",
        "SEPARATE": axis.bank == "analysis",
        "ALIGNED_PSI": layout["psi"].vector_width(problem.itemsize) >= reads,
        "ALIGNED_OUT": skew > 0 or layout["out"].vector_width(problem.itemsize) >= writes,
    }


workload = Convolution()
