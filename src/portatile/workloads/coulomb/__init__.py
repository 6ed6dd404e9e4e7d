"""Direct Coulomb summation: the electrostatic potential of point charges on a regular grid, every atom at every point."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile.errors import ArgumentError
from portatile.records import Arg, Config, DeviceInfo, Launch, Plan, Problem, Source, Temporary, Value
from portatile.space import ParameterSpace
from portatile.template import load
from portatile.workload import Cut, Expected, Inputs, Operand, Workload
from portatile.workloads import arguments, operands
from portatile.workloads.coulomb.reference import potential

_MAX_GROUPS = 2**31 - 1  # work-groups of a launch: CUDA's limit
_MAX_POINTS = 2**24  # points along an axis, so that every index is exact in float32
_FUNCTIONS = {"rsqrt": "rsqrt", "native": "native_rsqrt", "approx": "RSQRT_APPROX"}
_ENOUGH_ATOMS = 512  # atoms whose sum may have a rounding error of twice the quadratic polynomial's error
_MANY_ATOMS = 4096  # ... and of fifteen times that error: then the quadratic is the default
_GATHER = 256  # work-items that pack the atoms for a launch
_MOST_LAUNCHES = 64  # launches for chunks in constant memory, at most
_SAMPLES = 24  # rows, and columns, of a sampled reference


class Coulomb(Workload):
    """Coulombic potential on a grid: E[z, y, x] = the sum over n of q_n / |r - r_n| at r = (x0 + x dx, y0 + y dy, z0 + z dz).

    ``atoms`` is a matrix with a row (x, y, z, q) for each atom; ``potential`` is one with nz ny rows of nx points. A grid coordinate is the
    float32 nearest to its exact value. For a part of a larger grid the whole numbers ``y_first`` and ``z_first`` are added to the indices y
    and z. At a point on an atom the potential is what IEEE arithmetic gives: an infinity with the sign of the charge, or NaN without a
    charge or if infinities of both signs meet. The bound holds at these coordinates and for distances from 2e-19 to 1e19, whose squares are
    normal numbers of float32.
    """

    name = "coulomb"
    meanings: Mapping[str, str] = {
        "WGX": "Work-items of a work-group along x.",
        "WGY": "Work-items of a work-group along y.",
        "SPLIT": "Slices of a work-group, which divide the atoms among them and add up their sums in the end.",
        "PX": "Vectors of points along x that a work-item computes.",
        "PY": "Rows of points that a work-item computes.",
        "VL": "Points in a vector; on processors as many as a register holds.",
        "CHUNK": "Atoms that are staged in local memory at a time. 0: atoms are read from global memory. -n: each launch gets n atoms in "
        "constant memory and adds to the sums; CUDA reads them through the nearest cache.",
        "UNROLL": "Atoms for which the loop is unrolled.",
        "RSQRT": "The inverse square root: rsqrt, or on GPUs native (native_rsqrt) or approx (the device's instruction, which treats "
        "denormals as zero).",
        "POLY": "The number of a work-item's PX PY vectors that use a polynomial instead: the special-function unit then serves only the "
        "others. It is accurate for distances from 1e-19 to 1e19.",
        "DEGREE": "Degree of the polynomial. 3: its error is 7e-7 of a term. 2: 1.7e-5, for sums of so many atoms that their rounding "
        "error may be twice as large.",
        "RESIDENT": "Work-groups that should share a multiprocessor, for which CUDA's compiler limits registers. With 1 it may use more "
        "registers and interleave the functions. 0: the compiler decides.",
    }
    sizes: Mapping[str, str] = {
        "atoms": "point charges",
        "nx": "grid points along x, which are neighbours in memory",
        "ny": "grid points along y",
        "nz": "grid points along z, 1 for a slice",
    }
    dtypes = ("float32",)
    operands = (Operand("atoms"), Operand("potential", "out"))
    scalars: Mapping[str, float] = {"x0": 0.0, "y0": 0.0, "z0": 0.0, "dx": 0.1, "dy": 0.1, "dz": 0.1, "y_first": 0.0, "z_first": 0.0}

    def shapes(self, problem: Problem) -> dict[str, tuple[int, ...]]:
        """Atoms x 4 and (nz ny) x nx."""
        sizes = problem.sizes
        return {"atoms": (sizes["atoms"], 4), "potential": (sizes["nz"] * sizes["ny"], sizes["nx"])}

    def space(self, problem: Problem, device: DeviceInfo) -> ParameterSpace:
        """The space of all parameters; wide vectors are for CPUs, slices for GPUs."""
        return ParameterSpace(
            {
                "WGX": (1, 4, 8, 16, 32, 64),
                "WGY": (1, 2, 4, 8, 16, 32),
                "SPLIT": (1, 2, 4, 8),
                "PX": (1, 2, 4, 8, 16),
                "PY": (1, 2, 4),
                "VL": (1, 4, 8, 16),
                "CHUNK": (0, 64, 128, 256, 512, 1024, 2048, -64, -1024, -3840),
                "UNROLL": (1, 2, 4, 8),
                "RSQRT": tuple(_FUNCTIONS),
                "POLY": (0, 1, 2, 3, 4, 5, 6, 8, 16),
                "DEGREE": (3, 2),
                "RESIDENT": (0, 1, 2),
            },
            (
                "VL == 1 or device_kind != 'gpu'",
                "VL == 1 or SPLIT == 1",
                "SPLIT <= 2 or device_kind != 'cpu'",  # a CPU gains nothing from so many work-items, and PoCL compiles them slowly
                "VL < 16 or wide_arithmetic",
                "VL < 16 or wide_functions or POLY == PX * PY",  # then no library function is called
                "PX * PY <= 16",
                "POLY <= PX * PY",
                "POLY < PX * PY or RSQRT == 'rsqrt'",  # RSQRT has no effect then
                "RSQRT == 'rsqrt' or device_kind == 'gpu'",  # on a CPU the others may have 12 bits only
                f"DEGREE == 3 or (POLY > 0 and atoms >= {_ENOUGH_ATOMS})",
                "RESIDENT == 0 or launch_bounds",
                "PX * PY * UNROLL <= (128 if device_kind == 'gpu' else 64)",
                "WGX * WGY * SPLIT <= min(max_work_group_size, 1024)",
                "device_kind != 'gpu' or WGX * WGY * SPLIT >= 16",
                "CHUNK >= 0 or device_kind != 'gpu' or WGX * WGY >= 32",  # so that all work-items of a warp read the same atom
                f"CHUNK >= 0 or atoms <= -{_MOST_LAUNCHES} * CHUNK",
                "-16 * CHUNK + 4096 <= constant_memory",  # including the canary after the array
                "max(16 * CHUNK, 4 * (SPLIT // 2) * PX * PY * WGX * WGY) + 16 <= min(local_memory, 49152)",
            ),
            {**problem.facts(), **device.facts()},
        )

    def default(self, problem: Problem, device: DeviceInfo) -> Config:
        """On a CPU one work-item with a register tile; on a GPU sixteen points for each work-item and eight slices if there are many atoms.

        With fewer atoms eight points for each work-item, and slices if the points are too few to fill the device.
        """
        sizes = problem.sizes
        if device.kind == "cpu":
            wide = 16 if device.wide_vectors else 8
            return _config(WGX=1, WGY=1, SPLIT=1, PX=4, PY=2, VL=wide, CHUNK=256, UNROLL=2, RSQRT="rsqrt", POLY=8, DEGREE=3, RESIDENT=0)
        if sizes["atoms"] >= _MANY_ATOMS:
            common = _config(SPLIT=8, VL=1, CHUNK=1024, RSQRT="approx", DEGREE=2)
            spread = _config(
                WGX=32, WGY=1, PX=4, PY=4, UNROLL=4, POLY=5, RESIDENT=1
            )  # for a compiler that can be told how many registers to use
            large = _config(WGX=16, WGY=8, PX=8, PY=2, UNROLL=1, POLY=4, RESIDENT=0)
            space = self.space(problem, device)
            for form in (spread, large, {**large, "WGY": 4}):
                if space.violated({**common, **form}) is None:
                    return {**common, **form}
        items = sizes["nx"] * sizes["ny"] * sizes["nz"] // 8
        split = 1
        while split < 4 and sizes["atoms"] >= 256 and split * items < 900 * device.compute_units:
            split *= 2
        return _config(WGX=16, WGY=4, SPLIT=split, PX=8, PY=1, VL=1, CHUNK=256, UNROLL=4, RSQRT="approx", POLY=1, DEGREE=3, RESIDENT=0)

    def plan(self, problem: Problem, config: Config, device: DeviceInfo) -> Plan:
        """One launch; or for each chunk in constant memory a launch that packs it, and one that sums; none for an empty grid."""
        if 0 in self.shapes(problem)["potential"]:
            return Plan(())
        self._check_layout(problem)
        if int(config["CHUNK"]) < 0:
            return self._plan_by_chunks(problem, config, device)
        index = self._index(problem)
        counts = arguments.literals({name: problem.sizes[name] for name in self.sizes})
        atoms = arguments.operand("atoms", problem.layout["atoms"], index, "in")
        source = _source(config, device, index)
        return Plan((self._sums(problem, config, source, (*counts, *atoms)),))

    def _plan_by_chunks(self, problem: Problem, config: Config, device: DeviceInfo) -> Plan:
        """Two launches for each chunk of atoms: one packs them for constant memory, the other adds their terms to the sums."""
        sizes, chunk, index = problem.sizes, -int(config["CHUNK"]), self._index(problem)
        grid = {name: sizes[name] for name in ("nx", "ny", "nz")}
        watch = device.kind == "gpu" and int(config["POLY"]) > 0  # detect atoms that lie too near to a point for the polynomial
        atoms = arguments.operand("atoms", problem.layout["atoms"], index, "in")
        packed = (Arg("charges", role="temporary"), *((Arg("near", role="temporary"),) if watch else ()))
        source = _source(config, device, index)
        steps = []
        for start in range(0, max(sizes["atoms"], 1), chunk):
            count = min(chunk, sizes["atoms"] - start)
            counts = arguments.literals({"start": start, "count": count, **(grid if watch else {})})
            gathered = (*counts, *atoms, *packed, *(self._grid_scalars() if watch else ()))
            steps.append(Launch(source, "gather", (_GATHER, 1, 1), (_GATHER, 1, 1), gathered))
            counts = arguments.literals({"n": count, **grid, "more": int(start > 0)})
            steps.append(self._sums(problem, config, source, (*counts, *packed)))
        temporaries = [Temporary("charges", 16 * chunk, exact=True), *([Temporary("near", 4)] if watch else [])]
        return Plan(tuple(steps), tuple(temporaries))

    def _sums(self, problem: Problem, config: Config, source: Source, first: tuple[Arg, ...]) -> Launch:
        """The launch that sums over atoms; ``first``: its arguments up to the atoms. Raises ArgumentError if the grid is too large."""
        sizes = problem.sizes
        wgx, wgy, split, px, py, vl = (int(config[name]) for name in ("WGX", "WGY", "SPLIT", "PX", "PY", "VL"))
        groups = -(-sizes["nx"] // (wgx * px * vl)) * -(-sizes["ny"] // (wgy * py)) * sizes["nz"]
        if groups > _MAX_GROUPS:
            raise ArgumentError(f"a grid of {_spelled_grid(sizes)} points is more work-groups than a launch may have; cut it")
        output = arguments.operand("potential", problem.layout["potential"], self._index(problem), "out")
        return Launch(source, "coulomb", (groups * wgx, wgy, split), (wgx, wgy, split), (*first, *output, *self._grid_scalars()))

    def _grid_scalars(self) -> tuple[Arg, ...]:
        return tuple(Arg(name, "scalar", dtype="float32") for name in self.scalars)

    def _index(self, problem: Problem) -> str:
        return arguments.index_type(problem, self.shapes(problem))

    def _check_layout(self, problem: Problem) -> None:
        """Raise ArgumentError if an axis has too many points, or if an operand's rows are not contiguous."""
        sizes = problem.sizes
        if max(sizes["nx"], sizes["ny"], sizes["nz"]) > _MAX_POINTS:
            raise ArgumentError(f"a grid of {_spelled_grid(sizes)} points is more than {_MAX_POINTS} along an axis; cut it")
        for name in self.shapes(problem):
            step = problem.layout[name].strides[1]
            if step != 1:
                raise ArgumentError(f"{name} must be row-major; its neighbours in a row lie {step} apart")

    def inputs(self, problem: Problem, rng: np.random.Generator) -> Inputs:
        """Atoms with charges in [-1, 1) around a grid of random spacing and origin."""
        sizes, shapes = problem.sizes, self.shapes(problem)
        spacing = rng.uniform(0.05, 0.2, 3).astype(np.float32).astype(np.float64)
        origin = rng.uniform(-10, 10, 3).astype(np.float32).astype(np.float64)
        extent = np.array([sizes["nx"], sizes["ny"], sizes["nz"]]) * spacing
        first = rng.integers(0, 100, 3) * (0, 1, 1)
        memory = operands.storage(problem.layout["atoms"], shapes["atoms"], problem.dtype)
        if sizes["atoms"]:
            corner = origin + first * spacing
            low, high = corner - 0.1 * extent - 0.05, corner + 1.1 * extent + 0.05
            atoms = operands.view(memory, problem.layout["atoms"], shapes["atoms"])
            atoms[:, :3] = rng.uniform(low, high, (sizes["atoms"], 3))
            atoms[:, 3] = rng.uniform(-1, 1, sizes["atoms"])
        scalars = dict(zip(self.scalars, [*map(float, origin), *map(float, spacing), *map(float, first[1:])], strict=True))
        return Inputs(
            {"atoms": memory, "potential": operands.storage(problem.layout["potential"], shapes["potential"], problem.dtype)}, scalars
        )

    def reference(self, problem: Problem, inputs: Inputs, sample: np.random.Generator | None = None) -> dict[str, Expected]:
        """The potential in float64, and the sum of the magnitudes of its terms; with ``sample`` on some rows and columns."""
        sizes, shapes, layout = problem.sizes, self.shapes(problem), problem.layout["potential"]
        atoms = operands.view(inputs.operands["atoms"], problem.layout["atoms"], shapes["atoms"]).astype(np.float64)
        rows, columns = (np.arange(n, dtype=np.int64) for n in shapes["potential"])
        if sample is not None:
            rows, columns = (operands.lines(sample, n, _SAMPLES) for n in shapes["potential"])
        y_first, z_first = (int(inputs.scalars[name]) for name in ("y_first", "z_first"))
        points: list[NDArray[np.int64]] = [columns, rows % max(sizes["ny"], 1) + y_first, rows // max(sizes["ny"], 1) + z_first]
        values, scale = potential(atoms, points, [inputs.scalars[name] for name in ("x0", "y0", "z0", "dx", "dy", "dz")])
        if sample is None:
            return {"potential": operands.whole(inputs.operands["potential"], layout, values, scale)}
        places = operands.places(layout, rows[:, None], columns[None, :])
        return {"potential": Expected(values.ravel(), scale.ravel(), places.ravel())}

    def bound(self, problem: Problem, config: Config) -> float:
        """gamma of the roundings that one term passes through, relative to the sum of the terms' magnitudes.

        The coordinates are exact (see ``reference``), so a difference has one rounding and the squared distance, a sum of
        three squares, at most 5, of which the root keeps 2.5; then the inverse root itself, the product with q, and the
        additions: atoms and slices at most, in whatever order and number of launches (Higham, Accuracy and Stability of Numerical
        Algorithms, 2nd ed., section 4.2). Inverse root in units of 2^-24: 4 for ``rsqrt`` (2 ulp, OpenCL 1.2 section 7.4, CUDA's guide
        the same); 8 for ``native`` and ``approx``, whose error OpenCL leaves to the device (PTX's rsqrt.approx: 2^-22.9); 20 for the cubic
        with its own roundings, 300 for the quadratic.
        """
        polynomial = 20 if config["DEGREE"] == 3 else 300
        root = max(4 if config["RSQRT"] == "rsqrt" else 8, polynomial if config["POLY"] else 0)
        return operands.gamma(problem.sizes["atoms"] + int(config["SPLIT"]) + 4 + root, problem.dtype)

    def flops(self, problem: Problem) -> float:
        """9 for each pair of atom and point: three differences, three squares summed, 1 / sqrt as one, product and sum; see ``pairs``."""
        return 9.0 * self.pairs(problem)

    def functions(self, problem: Problem) -> float:
        """One inverse square root for each pair."""
        return self.pairs(problem)

    def pairs(self, problem: Problem) -> float:
        """The pairs of atom and point, a measure of work that is the same for every implementation."""
        sizes = problem.sizes
        return float(sizes["atoms"]) * sizes["nx"] * sizes["ny"] * sizes["nz"]

    def traffic(self, problem: Problem) -> float:
        """Atoms read once, and the potential written once."""
        sizes = problem.sizes
        return float(problem.itemsize * (4 * sizes["atoms"] + sizes["nx"] * sizes["ny"] * sizes["nz"]))

    def cuts(self, problem: Problem, config: Config) -> tuple[Cut, ...]:
        """Cuts between planes, or between rows of a single plane; between atoms only if these alone are too many.

        If POLY gives some rows of a work-item another function than others, cuts between rows are at multiples of a work-group's rows.
        """
        atoms = Cut("atoms", {"atoms": "rows"}, sums=True)
        if problem.sizes["nz"] > 1:
            return Cut("nz", {"potential": "rows"}, max(problem.sizes["ny"], 1), "z_first"), atoms
        mixed = int(config["POLY"]) % int(config["PY"]) > 0
        period = int(config["WGY"]) * int(config["PY"]) if mixed else 1
        return Cut("ny", {"potential": "rows"}, 1, "y_first", period), atoms

    def awkward(self, problem: Problem) -> list[Problem]:
        """One point; no atoms; slices and volumes that no tile divides, with padded rows and more atoms than a chunk."""
        cases = (((1, 1, 1, 1), 0, 0), ((0, 9, 3, 1), 0, 0), ((7, 19, 5, 1), 0, 0), ((77, 37, 6, 5), 3, 5), ((301, 131, 19, 1), 1, 2))
        return operands.padded_problems(self, problem, cases)


def _spelled_grid(sizes: Mapping[str, int]) -> str:
    """The grid's points along each axis: ``512 x 512 x 1``."""
    return " x ".join(str(sizes[axis]) for axis in ("nx", "ny", "nz"))


def _config(**parameters: Value) -> Config:
    return parameters


def _source(config: Config, device: DeviceInfo, index: str) -> Source:
    """The kernel text for a configuration. ``index``: the OpenCL C type of indices into the operands."""
    macros = ("WGX", "WGY", "SPLIT", "PX", "PY", "VL", "CHUNK")
    constant = int(config["CHUNK"]) < 0  # the atoms are passed in constant memory
    settled = {**config, "CHUNK": 0} if constant else config
    defines: dict[str, Value] = {name: settled[name] for name in macros}
    defines |= {"INDEX": index, "FMA": device.kind == "gpu", **({"GATHER": _GATHER} if constant else {})}
    values: dict[str, Any] = {name.lower(): settled[name] for name in (*macros, "UNROLL", "POLY", "DEGREE", "RESIDENT")}
    values["constant"] = constant
    values["halves"] = [int(config["SPLIT"]) >> step for step in range(1, int(config["SPLIT"]).bit_length())]
    return load(__file__, "coulomb.cl", defines, function=_FUNCTIONS[str(config["RSQRT"])], gpu=device.kind == "gpu", **values)


workload = Coulomb()
