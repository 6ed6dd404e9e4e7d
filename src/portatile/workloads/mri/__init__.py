"""Sums over k-space samples for magnetic resonance imaging on non-Cartesian trajectories: Q and F^H d of Parboil."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

import numpy as np

from portatile.errors import ArgumentError
from portatile.records import Arg, Config, DeviceInfo, Launch, Plan, Problem, Size3, Temporary, Value
from portatile.space import ParameterSpace
from portatile.template import load
from portatile.workload import Cut, Expected, Inputs, Operand, Workload
from portatile.workloads import arguments, operands
from portatile.workloads.mri.reference import image

_SAMPLED_VOXELS = 256
_GATHER = 256  # work-items of a work-group that packs samples
_MOST_LAUNCHES = 64  # launches for chunks in constant memory, at most
_SPARE = 2**18  # more than the voxels of a work-group
_MAX_VOXELS = 2**31 - _SPARE  # the index of a voxel is an int, even past the end in the last work-group
_SAMPLE_VECTORS = ("kx", "ky", "kz", "phi_r", "phi_i", "d_r", "d_i")


class Mri(Workload):
    """MRI reconstruction: at every voxel, image = the sum over samples of w exp(2 pi i (kx x + ky y + kz z)).

    The image has a row of real parts and a row of imaginary parts. With ``kind`` q: w = |phi|^2, and d is empty; with fhd: w = conj(phi) d.
    All inputs are vectors, stored as matrices of one column.
    """

    name = "mri"
    meanings: Mapping[str, str] = {
        "WGS": "Work-items in each slice of a work-group.",
        "SPLIT": "Slices of a work-group, which divide the samples among them and add up their sums in the end.",
        "PV": "Vectors of voxels that a work-item computes.",
        "VL": "Voxels in a vector; on processors as many as a register holds.",
        "CHUNK": "Samples that are staged in local memory at a time. -n: each launch gets n samples in constant memory and adds to the "
        "sums; CUDA reads them through the nearest cache.",
        "UNROLL": "Samples for which the loop is unrolled.",
        "TRIG": "How sine and cosine are computed: accurate (sinpi, cospi), native (native_sin, native_cos) or direct (native functions "
        "of the unreduced phase). All but direct first reduce each phase to half a turn, which is exact.",
        "POLY": "The number of a work-item's PV vectors that use polynomials instead: the special-function unit then serves only the "
        "others.",
        "RESIDENT": "Work-groups that should share a multiprocessor, for which CUDA's compiler limits registers. With 1 it may use more "
        "registers and interleave the functions. 0: the compiler decides.",
    }
    sizes: Mapping[str, str] = {"samples": "samples of k-space", "voxels": "voxels of the image"}
    options: Mapping[str, tuple[Value, ...]] = {"kind": ("q", "fhd")}
    dtypes = ("float32",)
    operands = (*(Operand(name) for name in (*_SAMPLE_VECTORS, "x", "y", "z")), Operand("image", "out"))

    def shapes(self, problem: Problem) -> dict[str, tuple[int, ...]]:
        """Samples x 1 (d: 0 x 1 for Q), voxels x 1, and 2 x voxels."""
        samples, voxels = problem.sizes["samples"], problem.sizes["voxels"]
        data = samples if problem.options["kind"] == "fhd" else 0
        shapes: dict[str, tuple[int, ...]] = {name: (data if name in ("d_r", "d_i") else samples, 1) for name in _SAMPLE_VECTORS}
        return {**shapes, "x": (voxels, 1), "y": (voxels, 1), "z": (voxels, 1), "image": (2, voxels)}

    def space(self, problem: Problem, device: DeviceInfo) -> ParameterSpace:
        """The space of all parameters; wide vectors are for CPUs, slices for GPUs."""
        return ParameterSpace(
            {
                "WGS": (1, 8, 16, 32, 64, 128, 256, 512, 1024),
                "SPLIT": (1, 2, 4, 8),
                "PV": (1, 2, 4, 6, 8),
                "VL": (1, 4, 8, 16),
                "CHUNK": (64, 128, 256, 512, 1024, -64, -512, -2048),
                "UNROLL": (1, 2, 4),
                "TRIG": ("accurate", "native", "direct"),
                "POLY": (0, 1, 2, 3, 4, 6, 8),
                "RESIDENT": (0, 1, 2),
            },
            (
                "VL == 1 or device_kind != 'gpu'",
                "VL == 1 or SPLIT == 1",
                "SPLIT <= 2 or device_kind != 'cpu'",  # a CPU gains nothing from so many work-items, and PoCL compiles them slowly
                "VL < 16 or wide_arithmetic",
                "VL == 1 or POLY == PV",  # library functions of vectors are slow, and those of float16 crash PoCL 3.0
                "POLY <= PV",
                "POLY < PV or TRIG == 'accurate'",  # TRIG has no effect then
                "TRIG != 'direct' or device_kind == 'gpu'",
                "RESIDENT == 0 or launch_bounds",
                "WGS * SPLIT <= min(max_work_group_size, 1024)",
                "device_kind != 'gpu' or WGS * SPLIT >= 16",
                "WGS <= 256 or WGS * SPLIT * PV * VL <= 4096",  # more sums would exceed the registers of a work-group
                "20 * max(CHUNK, 0) + 8 * (SPLIT - 1) * PV * WGS <= min(local_memory, 49152)",
                "CHUNK >= 0 or device_kind != 'gpu' or WGS >= 32",  # so that all work-items of a warp read the same sample
                f"CHUNK >= 0 or samples <= -{_MOST_LAUNCHES} * CHUNK",
                "-20 * CHUNK + 8192 <= constant_memory",  # including the canary after the two arrays
            ),
            {**problem.facts(), **device.facts()},
        )

    def default(self, problem: Problem, device: DeviceInfo) -> Config:
        """On a CPU polynomials in wide registers; on a GPU eight voxels for each work-item, and more slices if the voxels are too few to
        fill it.
        """
        samples, voxels = problem.sizes["samples"], problem.sizes["voxels"]
        if device.kind == "cpu":
            wide = 16 if device.wide_vectors else 8
            return _config(WGS=1, SPLIT=1, PV=2, VL=wide, CHUNK=256, UNROLL=1, TRIG="accurate", POLY=2, RESIDENT=0)
        alone = 1 if device.can.launch_bounds else 0
        many = _config(WGS=256, SPLIT=2, PV=8, VL=1, CHUNK=512, UNROLL=1, TRIG="native", POLY=2, RESIDENT=alone)
        if voxels >= 8 * 256 * device.compute_units * 7 // 8 and self.space(problem, device).violated(many) is None:
            return many
        split = 1
        while split < 4 and samples >= 256 and split * voxels // 8 < 900 * device.compute_units:
            split *= 2
        return _config(WGS=64, SPLIT=split, PV=8, VL=1, CHUNK=256, UNROLL=2, TRIG="native", POLY=1, RESIDENT=0)

    def plan(self, problem: Problem, config: Config, device: DeviceInfo) -> Plan:
        """One launch; or for each chunk in constant memory a launch that packs it, and one that sums; none without voxels.

        Raises ArgumentError for a column-major image, or for more voxels than a launch can index.
        """
        voxels = problem.sizes["voxels"]
        layout, shapes = problem.layout, self.shapes(problem)
        if voxels == 0:
            return Plan(())
        if voxels > _MAX_VOXELS:
            raise ArgumentError(f"{voxels} voxels are more than {_MAX_VOXELS}; cut the image")
        if layout["image"].strides[1] != 1:
            raise ArgumentError(f"image must be row-major; its neighbours in a row lie {layout['image'].strides[1]} apart")
        index = arguments.index_type(problem, shapes, _SPARE)
        fhd = problem.options["kind"] == "fhd"
        read = [name for name in shapes if name != "image" and (fhd or name not in ("d_r", "d_i"))]
        numbers = ("WGS", "SPLIT", "PV", "VL", "CHUNK")
        constant = max(-int(config["CHUNK"]), 0)
        defines: dict[str, Value] = {name: config[name] for name in numbers if name != "CHUNK" or not constant}
        defines |= {"INDEX": index, "FMA": device.kind == "gpu", **({"GATHER": _GATHER} if constant else {})}
        values = {name.lower(): config[name] for name in (*numbers, "UNROLL", "POLY", "RESIDENT")}
        flags = {"fhd": fhd, "polar": device.kind == "gpu", "constant": constant > 0}
        source = load(__file__, "mri.cl", defines, inputs=read, trig=config["TRIG"], **flags, **values)
        wgs, split, pv, vl = (int(config[name]) for name in numbers[:-1])
        local: Size3 = (wgs, split, 1)
        everything: Size3 = (-(-voxels // (wgs * pv * vl)) * wgs, split, 1)
        inputs = {name: arguments.operand(name, layout[name], index, "in") for name in read}
        image = arguments.operand("image", layout["image"], index, "out")
        if not constant:
            passed = (*arguments.literals(problem.sizes), *chain(*inputs.values()), *image)
            return Plan((Launch(source, "mri", everything, local, passed),))
        places = [inputs.pop(axis) for axis in "xyz"]
        packed = (Arg("tile", role="temporary"), *([Arg("second", role="temporary")] if fhd else []))
        steps, samples = [], problem.sizes["samples"]
        for start in range(0, max(samples, 1), constant):
            count = min(constant, samples - start)
            items: Size3 = (-(-max(count, 1) // _GATHER) * _GATHER, 1, 1)
            gathered = (*arguments.literals({"start": start, "count": count}), *chain(*inputs.values()), *packed)
            steps.append(Launch(source, "gather", items, (_GATHER, 1, 1), gathered))
            summed = (*arguments.literals({"samples": count, "voxels": voxels, "more": int(start > 0)}), *packed, *chain(*places), *image)
            steps.append(Launch(source, "mri", everything, local, summed))
        temporaries = (Temporary("tile", 16 * constant, exact=True), *([Temporary("second", 4 * constant, exact=True)] if fhd else []))
        return Plan(tuple(steps), temporaries)

    def inputs(self, problem: Problem, rng: np.random.Generator) -> Inputs:
        """k in [-2, 2) cycles per unit of length, voxels in [-10, 10), phi and d in [-1, 1): phases of hundreds of radians."""
        memory = {}
        for name, shape in self.shapes(problem).items():
            memory[name] = operands.storage(problem.layout[name], shape, problem.dtype)
            if name != "image" and 0 not in shape:
                reach = 2 if name in ("kx", "ky", "kz") else 10 if name in ("x", "y", "z") else 1
                operands.view(memory[name], problem.layout[name], shape)[...] = rng.uniform(-reach, reach, shape)
        return Inputs(memory)

    def reference(self, problem: Problem, inputs: Inputs, sample: np.random.Generator | None = None) -> dict[str, Expected]:
        """The sums in float64; with ``sample``, at some voxels. ``bound`` explains the scale."""
        shapes, layout = self.shapes(problem), problem.layout
        vectors = {
            name: operands.view(inputs.operands[name], layout[name], shape)[:, 0].astype(np.float64)
            for name, shape in shapes.items()
            if name != "image"
        }
        voxels = np.arange(problem.sizes["voxels"], dtype=np.int64)
        if sample is not None:
            voxels = operands.lines(sample, problem.sizes["voxels"], _SAMPLED_VOXELS)
        values, scale = image(vectors, voxels, _additions(problem))
        if sample is None:
            return {"image": operands.whole(inputs.operands["image"], layout["image"], values, scale)}
        places = operands.places(layout["image"], np.array([[0], [1]]), voxels[None, :])
        return {"image": Expected(values.ravel(), scale.ravel(), places.ravel())}

    def bound(self, problem: Problem, config: Config) -> float:
        """gamma of a term's roundings; the scale is the sum of the terms' magnitudes, raised by what their phases' errors add.

        A magnitude is |phi_r d_r| + |phi_i d_i| + |phi_r d_i| + |phi_i d_r|. With u = 2^-24 and P = |kx x| + |ky y| + |kz z|: the
        phase in turns, a sum of three products, errs by 3 u P (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed.,
        section 3.1), so cosine and sine by 6 pi u P: for phases of hundreds of radians this is much, and no way of computing the
        sine can mend it. Taking off whole turns is exact below 2^22 turns. On the half turn that is left the functions err
        absolutely by 8 u if ``accurate`` (4 ulp, OpenCL 1.2 section 7.4); by 24 u if ``native``, for which OpenCL promises nothing
        (PTX's sin.approx and cos.approx: 2^-20.5 on [-pi, pi], 12 u, and 2 pi u for the factor 2 pi); by 22 u as polynomials.
        ``direct`` adds 1.5 u P for coordinates times 2 pi and 3 u P for the unit's own division by it.
        Weights have 2 roundings, products and sums one for each of the samples, in however many launches.
        The angle of F^H d is a fourth summand: u P more. It is half a turn at most and errs by 3 u of a turn (6 ulp of atan2pi, OpenCL
        1.2 section 7.4) and by 4.5 u in the sums, by another 3 u if ``direct``: 66 u as a phase. hypot errs by 8 u (4 ulp). On CPUs
        there is no angle, but there are two products and sums for each sample.
        """
        function = max(8 if config["TRIG"] == "accurate" else 24, 22 if config["POLY"] else 0)
        fhd, direct = problem.options["kind"] == "fhd", config["TRIG"] == "direct"
        phase = (4 if fhd else 3) + (4.5 if direct else 0)
        terms = _additions(problem) * max(phase / 3, 2 if fhd else 1) + int(config["SPLIT"]) + function + (74 if fhd else 0) + 6
        return operands.gamma(terms, problem.dtype)

    def flops(self, problem: Problem) -> float:
        """10 (Q) or 14 (F^H d) for each pair of sample and voxel, without the sine and the cosine; see ``pairs``.

        Five for the phase, one for its factor 2 pi, and two or four products and sums, as by definition; the kernel needs fewer.
        """
        return (14.0 if problem.options["kind"] == "fhd" else 10.0) * self.pairs(problem)

    def functions(self, problem: Problem) -> float:
        """One sine and one cosine for each pair."""
        return 2 * self.pairs(problem)

    def pairs(self, problem: Problem) -> float:
        """The pairs of sample and voxel, a measure of work that is the same for every implementation."""
        return float(problem.sizes["samples"]) * problem.sizes["voxels"]

    def traffic(self, problem: Problem) -> float:
        """Samples and voxels read once, and the image written once."""
        vectors = 7 if problem.options["kind"] == "fhd" else 5
        return float(problem.itemsize * (vectors * problem.sizes["samples"] + 5 * problem.sizes["voxels"]))

    def cuts(self, problem: Problem, config: Config) -> tuple[Cut, ...]:
        """Cuts between voxels; between samples only if these alone are too many.

        If POLY gives some voxels of a work-item another function than others, cuts between voxels are at multiples of a work-group's
        voxels.
        """
        mixed = 0 < int(config["POLY"]) < int(config["PV"])
        period = int(config["WGS"]) * int(config["PV"]) * int(config["VL"]) if mixed else 1
        read = [name for name in _SAMPLE_VECTORS if problem.options["kind"] == "fhd" or name not in ("d_r", "d_i")]
        samples = Cut("samples", dict.fromkeys(read, "rows"), sums=True)
        return Cut("voxels", {"x": "rows", "y": "rows", "z": "rows", "image": "columns"}, period=period), samples

    def awkward(self, problem: Problem) -> list[Problem]:
        """One sample and one voxel; no samples; odd numbers of both, strided vectors, more samples than a chunk."""
        cases = (((1, 1), 0, 0), ((0, 5), 0, 0), ((7, 67), 0, 0), ((201, 77), 2, 5), ((517, 1031), 0, 1))
        return operands.padded_problems(self, problem, cases)


def _additions(problem: Problem) -> int:
    """The number of terms in each sum, at least one."""
    return max(problem.sizes["samples"], 1)


def _config(**parameters: Value) -> Config:
    return parameters


workload = Mri()
