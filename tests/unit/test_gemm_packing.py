"""Both operands packed in one launch: what it computes in an interpreter of PTX, and for which products."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from portatile import workloads
from portatile.device.cuda import compiler as cuda_compiler
from portatile.device.target import EARLY_START
from portatile.workloads.gemm.extras import Extras, Triangle
from portatile.workloads.gemm.forms.gpu.point import pipeline
from portatile.workloads.gemm.plan import build
from support.checking import check
from support.gemm import CPU, GPU, WORKLOAD, launches, problem
from support.ptx_machine.device import PtxDevice
from support.seeds import new_seed

needs_nvrtc = pytest.mark.skipif(cuda_compiler.available() is not None, reason=f"no CUDA compiler: {cuda_compiler.available()}")
POINT = replace(pipeline(4, (8, 8), (1, 1), 8, 2, 4), PACK_A=True, PACK_B=True)
DOUBLES = replace(pipeline(2, (8, 8), (2, 1), 8, 2, 4), PACK_A=True, PACK_B=True)


@pytest.mark.drawn(1 / 3)
@needs_nvrtc
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("trans", ["NN", "NT", "TN", "TT"])
def test_both_operands_are_packed_by_one_launch(trans: str, dtype: str) -> None:
    rng = np.random.default_rng(new_seed(trans + dtype))
    sizes = tuple(int(side) for side in rng.integers(1, 70, 3))
    case = problem(*sizes, dtype, {"trans_a": trans[0], "trans_b": trans[1]})
    config = (POINT if dtype == "float32" else DOUBLES).config()
    assert [step.kernel for step in launches(WORKLOAD.plan(case, config, GPU))] == ["gemm_pack", "gemm"]
    for one in (case, WORKLOAD.awkward(case)[0]):
        verdict = check(PtxDevice(), WORKLOAD, one, config, rng)
        assert verdict.ok, f"{one}: {verdict.message}"


def test_who_packs_both_in_one_launch() -> None:
    """Not a single operand, a stack, a triangular one, or a processor, whose work-items pack slices; the panels are those of two launches.
    A product of which a triangle is wanted does.
    """
    case = problem(100, 50, 30)
    plan = WORKLOAD.plan(case, POINT.config(), GPU)
    assert [(one.name, one.nbytes) for one in plan.temporaries] == [("a_panels", 128 * 32 * 4), ("b_panels", 64 * 32 * 4)]
    first = launches(plan)[0]
    assert first.global_size == ((4 + 2) * 32, 8, 1)
    assert EARLY_START in first.source.options
    assert "AFTER_PREVIOUS();" in first.source.text
    stacks = workloads.get("gemm_batched")
    stack = stacks.problem({"m": 100, "n": 50, "k": 30, "batch": 3})
    assert [step.kernel for step in launches(stacks.plan(stack, POINT.config(batched=True), GPU))] == ["gemm_pack", "gemm_pack", "gemm"]
    updates = {}
    for name, point in (("square", POINT), ("oblong", replace(POINT, TRR=2))):
        triangle = Triangle("c", "above", mirrored=True)
        transposed = problem(100, 100, 30, options={"trans_a": "N", "trans_b": "T"})
        updates[name] = [step.kernel for step in launches(build(transposed, point, GPU, Extras(triangle=triangle)))]
    assert updates == {"square": ["gemm_pack", "gemm"], "oblong": ["gemm_pack", "gemm"]}
    zero = build(case, POINT, GPU, Extras(triangle=Triangle("a", "above")))
    assert [step.kernel for step in launches(zero)] == ["gemm_pack", "gemm_pack", "gemm"]
    packed = {**WORKLOAD.default(problem(600, 600, 600), CPU), "SM": False, "PACK_A": True, "PACK_B": True}
    assert [step.kernel for step in launches(WORKLOAD.plan(problem(600, 600, 600), packed, CPU))][:2] == ["gemm_pack", "gemm_pack"]
