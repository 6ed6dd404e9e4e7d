"""Every workload as CUDA without a GPU: small problems, compiled by NVRTC and run by an interpreter of its PTX."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
import pytest

from portatile import program, workloads
from portatile.device.cuda import compiler as cuda_compiler
from portatile.records import Launch, Value
from support.checking import check
from support.ptx_machine import TooLongError, UnsupportedInstructionError, values
from support.ptx_machine.device import PtxDevice
from support.seeds import new_seed

pytestmark = pytest.mark.skipif(cuda_compiler.available() is not None, reason=str(cuda_compiler.available()))

FLOPS = 12_000
# How many problems, and how many instructions a launch may take before the configuration is left to a GPU.
LIMITS = {"default": (1, 1_500_000), "random": (1, 400_000)}


def share(name: str, dtype: str) -> float:
    """How many of a type's cases run: few of those on matrix units, whose tiles take the interpreter seconds, and of stacks of level 3,
    whose kernels are those of one problem.
    """
    if name in {"trmm_batched", "symm_batched", "syrk_batched", "syr2k_batched"}:
        return 1 / 12
    return (
        1 / 5
        if dtype in ("float32", "float64")
        else 1 / 24
        if dtype.startswith(("float16", "bfloat16", "tfloat32", "float8", "int8"))
        else 1 / 8
    )


CASES = [
    pytest.param(name, dtype, marks=pytest.mark.drawn(share(name, dtype)))
    for name in workloads.names()
    if name != "gemm_residues"  # has so many launches that test_gemm_residues.py takes a smaller problem
    for dtype in workloads.get(name).dtypes
]


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_the_interpreter_rounds_multiply_adds_once(kind: str) -> None:
    """The C library's multiply-adds, bit for bit against fractions: any patterns, and sums of which little or nothing is left."""
    rng = np.random.default_rng(new_seed(kind))
    bits = values.bits_of(kind)
    cases = []
    for a, b, c in rng.integers(0, 2**bits, (2000, 3), np.uint64).tolist():
        cases.append([values.to_float(value, kind) for value in (a, b, c)])
        x, y = (values.to_float(values.from_float(value, kind), kind) for value in rng.uniform(-1, 1, 2))
        cases.append([x, y, values.to_float(values.from_float(-x * y, kind), kind)])
    fused = [values.from_float(values.multiply_add(*case, kind, "rn"), kind) for case in cases]
    assert fused == [values.from_float(values.exact_multiply_add(*case, kind, "rn"), kind) for case in cases]


@pytest.mark.parametrize("chosen", ["default", "random"])
@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_configurations_are_right(name: str, dtype: str, chosen: str) -> None:
    """The largest of the awkward problems that the interpreter can bear, within the workload's own error bound."""
    workload = workloads.get(name)
    rng = np.random.default_rng(new_seed(f"{name} {dtype} {chosen}"))
    pick = (lambda values: values[int(rng.integers(len(values)))]) if chosen == "random" else (lambda values: values[0])
    options = {option: pick(values) for option, values in workload.options.items() if option != "precision"}
    problems = workload.awkward(workload.problem(dict.fromkeys(workload.sizes, 64), dtype, options))
    count, instructions = LIMITS[chosen]
    small = sorted((p for p in problems if workload.flops(p) <= FLOPS), key=workload.flops)[-count:]
    if not small:
        pytest.skip("none of its awkward problems is small enough")
    device = PtxDevice(limit=instructions)  # one, so that what problems share is compiled once
    for problem in small:
        space = workload.space(problem, device.info)
        config = space.scatter(rng, 1)[0] if chosen == "random" else workload.default(problem, device.info)
        try:
            verdict = check(device, workload, problem, config, rng)
        except (TooLongError, UnsupportedInstructionError) as error:
            pytest.skip(f"{type(error).__name__}: {error} with {dict(config)}")
        assert verdict.ok, f"{problem.sizes} {dict(problem.options)} {dict(config)}: {verdict.message}"


@pytest.mark.parametrize("kind", ["q", "fhd", "points", "watched"])
def test_constant_memory_in_several_launches(kind: str) -> None:
    """More atoms, and an odd number of samples, than a chunk holds: each launch adds to what is there."""
    rng = np.random.default_rng(new_seed(kind))
    config: dict[str, Value]
    if kind in ("q", "fhd"):
        workload = workloads.get("mri")
        problem = workload.problem({"samples": 67, "voxels": 41}, options={"kind": kind})
        config = {"WGS": 32, "SPLIT": 2, "PV": 2, "VL": 1, "CHUNK": -64, "UNROLL": 2, "TRIG": "native", "POLY": 1, "RESIDENT": 0}
    else:
        workload = workloads.get("coulomb")
        problem = workload.problem({"atoms": 65, "nx": 19, "ny": 3, "nz": 2})
        config = {"WGX": 16, "WGY": 2, "SPLIT": 2, "PX": 2, "PY": 1, "VL": 1, "CHUNK": -64, "UNROLL": 2, "RSQRT": "approx", "DEGREE": 3}
        config |= {"POLY": int(kind == "watched"), "RESIDENT": 0}
    device = PtxDevice(limit=4_000_000)
    assert workload.space(problem, device.info).violated(config) is None
    assert len(workload.plan(problem, config, device.info).steps) == 4
    verdict = check(device, workload, problem, config, rng)
    assert verdict.ok, verdict.message


@pytest.mark.drawn(1)
@pytest.mark.parametrize(
    ("name", "sizes", "dtype", "options"),
    [
        ("coulomb", {"atoms": 40000, "nx": 512, "ny": 512, "nz": 1}, "float32", {}),
        ("coulomb", {"atoms": 600, "nx": 512, "ny": 512, "nz": 1}, "float32", {}),
        ("mri", {"samples": 2048, "voxels": 128**3}, "float32", {"kind": "q"}),
        ("mri", {"samples": 2048, "voxels": 128**3}, "float32", {"kind": "fhd"}),
        ("convolution", {"n": 512, "ndat": 4096}, "float32", {}),
        ("convolution", {"n": 243, "ndat": 4095}, "float32", {}),
        ("convolution", {"n": 256, "ndat": 4096}, "float64", {"boundary": "grow"}),
        ("convolution2d", {"n1": 256, "n2": 256, "ndat": 256}, "float64", {}),
        ("convolution2d", {"n1": 256, "n2": 256, "ndat": 256}, "float32", {"boundary": "zero", "across": "grow", "taps": 20}),
        ("stencil", {"n1": 256, "n2": 256, "n3": 256}, "float64", {}),
        ("stencil", {"n1": 256, "n2": 256, "n3": 256}, "float32", {"boundary1": "zero", "boundary2": "zero", "boundary3": "zero"}),
    ],
)
def test_defaults_spill_nothing(name: str, sizes: dict[str, int], dtype: str, options: dict[str, Value]) -> None:
    """The code for sm_90 keeps everything in registers, of which a work-group has enough."""
    workload, info = workloads.get(name), PtxDevice(limit=1).info
    problem = workload.problem(sizes, dtype, options)
    config = workload.default(problem, info)
    for step in workload.plan(problem, config, info).steps:
        assert isinstance(step, Launch)
        resources = program.build(step.source, cuda_compiler.CudaTarget("sm_90"), None).resources[step.kernel]
        assert (resources.spill_stores, resources.spill_loads) == (0, 0), dict(config)
        assert resources.registers * prod(step.local_size) <= 65536


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_the_widest_groups_have_enough_registers(architecture: str) -> None:
    """MRI with as many sums as a group of 512 or 1024 may have, and CP's 16 x 1 and 16 x 32: none spills or needs more."""
    info = replace(PtxDevice(limit=1).info, architecture=architecture)
    mri: dict[str, Value] = {"SPLIT": 1, "VL": 1, "CHUNK": 256, "UNROLL": 1, "RESIDENT": 0}
    cp: dict[str, Value] = {"SPLIT": 1, "PX": 8, "PY": 1, "VL": 1, "CHUNK": 256, "UNROLL": 1, "DEGREE": 3, "RESIDENT": 0}
    cases: list[tuple[str, dict[str, int], dict[str, Value]]] = [
        *(("mri", {"samples": 2048, "voxels": 64**3}, {**mri, "WGS": wgs, "PV": pv, "TRIG": trig, "POLY": poly})
          for wgs, pv in ((512, 6), (1024, 4)) for trig, poly in (("accurate", 0), ("native", 1))),
        *(("coulomb", {"atoms": 40000, "nx": 512, "ny": 512, "nz": 1}, {**cp, "WGX": 16, "WGY": wgy, "RSQRT": "approx", "POLY": 2})
          for wgy in (1, 32)),
    ]  # fmt: skip
    for name, sizes, config in cases:
        workload = workloads.get(name)
        problem = workload.problem(sizes)
        assert workload.space(problem, info).violated(config) is None
        (step,) = workload.plan(problem, config, info).steps
        assert isinstance(step, Launch)
        resources = program.build(step.source, cuda_compiler.CudaTarget(architecture), None).resources[step.kernel]
        assert (resources.spill_stores, resources.spill_loads) == (0, 0), config
        assert resources.registers * prod(step.local_size) <= 65536


@pytest.mark.parametrize(
    ("n", "ndat", "dtype", "options", "widths"),
    [
        (512, 4096, "float32", {}, (4, 4, 0)),
        (510, 4096, "float32", {}, (4, 4, 3)),
        (512, 4095, "float32", {}, (1, 4, 0)),
        (243, 4095, "float64", {}, (1, 2, 1)),
        (256, 4096, "float32", {"bank": "analysis"}, (4, 2, 0)),
        (250, 4096, "float32", {"bank": "synthesis"}, (4, 2, 0)),
    ],
)
def test_vectors_of_convolutions_are_aligned(
    n: int, ndat: int, dtype: str, options: dict[str, Value], widths: tuple[int, int, int]
) -> None:
    """The default's loads are no wider than rows are aligned; so are its stores, but where each row begins at an aligned place."""
    workload, info = workloads.get("convolution"), PtxDevice(limit=1).info
    problem = workload.problem({"n": n, "ndat": ndat}, dtype, options)
    (step,) = workload.plan(problem, workload.default(problem, info), info).steps
    assert isinstance(step, Launch)
    defines = dict(step.source.defines)
    assert tuple(int(defines[name]) for name in ("READS", "WRITES", "SKEW")) == widths
    assert defines["ALIGNED_PSI"] == "1"
    assert defines["ALIGNED_OUT"] == "1"
