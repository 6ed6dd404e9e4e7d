"""The form of GEMM on matrix units by fragments: what it compiles to, and its results in an interpreter of PTX."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from portatile import workloads
from portatile.device.amdgcn import compiler as amd
from portatile.device.cuda import compiler
from portatile.device.cuda.info import capabilities
from portatile.errors import ArgumentError, DeviceNotFoundError
from portatile.workloads.gemm import forms, units
from portatile.workloads.gemm.forms.hopper import point as hopper
from portatile.workloads.gemm.forms.matrix import point as matrix
from support.checking import check
from support.devices import on_paper
from support.matrix_units import AMPERE, HOPPER, WORKLOAD, needs_nvrtc, problem, product
from support.ptx_machine.device import INFO, PtxDevice
from support.seeds import new_seed


@needs_nvrtc
@pytest.mark.parametrize(("dtype", "trans"), [("bfloat16", "NN"), ("float16:float32", "TT"), ("int8", "NT")])
def test_fragments_are_multiplied_by_the_units(dtype: str, trans: str) -> None:
    source = product(problem(512, dtype, trans), matrix.tile((2, 2), (2, 2), 4), AMPERE).source
    target = compiler.target("sm_80", "ptx")
    binary = target.compile(*target.lower(source))
    text = target.assembly(binary)
    assert binary.resources["gemm"].spill_stores == 0
    assert "cp.async.cg" in text
    assert {"bfloat16": "m16n8k16.row.col.f32.bf16", "float16:float32": "m16n8k16.row.col.f32.f16", "int8": "m16n8k32"}[dtype] in text
    assert (".x4.trans" in text) == (dtype != "int8")  # k slow somewhere


INTERPRETED = {
    "sums of bfloat16, k slow": ("bfloat16", "TN", {}, "sm_90"),
    "int8 that becomes half precision": ("int8:float16", "NT", {"scale_a": "rows", "scale_b": "columns", "bias": "rows"}, "sm_90"),
    "eight bits, promoted": ("float8_e4m3fn", "NT", {}, "sm_90"),
    "eight bits, promoted and scaled": ("float8_e5m2:bfloat16", "NT", {"scale_b": "columns", "activation": "relu"}, "sm_90"),
    "eight bits as halves": ("float8_e4m3fn:bfloat16", "NT", {}, "sm_80"),
}


@pytest.mark.drawn(1 / 4)
@needs_nvrtc
@pytest.mark.parametrize("name", INTERPRETED)
def test_fragments_are_right_in_an_interpreter(name: str) -> None:
    """Which cuts the sums of eight-bit floats as the units do, so that the bound is tested too."""
    dtype, trans, options, architecture = INTERPRETED[name]
    rng = np.random.default_rng(new_seed(name))
    workload = workloads.get("gemm_epilogue" if options else "gemm")
    sizes = {"m": 20, "n": 24, "k": 130 if dtype.startswith("float8") else 70}
    case = workload.problem(sizes, dtype, {"trans_a": trans[0], "trans_b": trans[1], **options})
    point = matrix.tile((2, 1), (2, 4), 2)
    if dtype.startswith("float8"):
        point = replace(point, PROMOTE=units.PROMOTED)
    device = replace(INFO, architecture=architecture, capabilities=capabilities(architecture))
    verdict = check(PtxDevice(device), workload, case, point.config(), rng)
    assert verdict.ok, verdict.message


@pytest.mark.parametrize(("dtype", "instructions"), [("float16", "v_wmma_f32_16x16x16_f16"), ("int8", "v_wmma_i32_16x16x16_iu8")])
def test_fragments_become_amds_instructions(dtype: str, instructions: str) -> None:
    try:
        target = amd.target("gfx1100")
    except DeviceNotFoundError as error:
        pytest.skip(str(error))
    device = replace(on_paper("gpu"), backend="opencl", local_memory=65536)
    source = product(problem(500, dtype, "NT"), matrix.tile((2, 2), (2, 2), 2), device).source
    assert instructions in target.assembly(target.compile(*target.lower(source)))


def test_other_types_are_refused() -> None:
    for point in (matrix.tile((2, 2), (2, 2), 4), hopper.tile(128, 128, 4)):
        with pytest.raises(ArgumentError, match="is for 16-bit and 8-bit floats, tfloat32 and int8"):
            WORKLOAD.plan(problem(128, "float32"), point.config(), HOPPER)
    with pytest.raises(ArgumentError, match="multiple of 64"):
        forms.read({**matrix.tile((2, 2), (2, 2), 4).config(), "TRR": 1})
