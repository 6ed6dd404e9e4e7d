"""Operands that have k slow and are not aligned to 16 bytes go to local memory through registers: checked in an interpreter of PTX."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from portatile import program
from portatile.device.cuda import compiler as cuda_compiler
from portatile.workloads.gemm.forms.gpu.point import Gpu, matrix, pipeline
from support.checking import check
from support.compiling import Interpreted
from support.gemm import GPU, WORKLOAD, launches, problem
from support.ptx_machine.device import PtxDevice
from support.seeds import new_seed

TILE = pipeline(4, (8, 8), (1, 1), 8, 3, 4)
CASES: dict[str, tuple[Gpu, str, str, tuple[int, int, int]]] = {
    "elements": (TILE, "float32", "TN", (37, 33, 21)),
    "pairs": (replace(TILE, PAIRS=True, DOUBLE=0), "float32", "TN", (34, 66, 19)),
    "one of two": (replace(TILE, KB=16, STAGES=2, DOUBLE=1), "float32", "TN", (36, 33, 16)),
    "columns that no work-items divide": (replace(TILE, TBC=4, KG=2, KB=16, TCR=3), "float32", "NN", (33, 43, 21)),
    "one of two, the other kept along k": (replace(TILE, KB=16, KEEP=True, STAGES=2), "float32", "NN", (33, 35, 29)),
    "matrix instructions": (matrix((1, 1), (1, 1), 16, 3, 1), "float64", "TN", (15, 17, 37)),
    "matrix instructions, one of two": (matrix((1, 2), (2, 1), 16, 4, 2, 4), "float64", "TT", (33, 29, 41)),
}
needs_nvrtc = pytest.mark.skipif(cuda_compiler.available() is not None, reason=f"no CUDA compiler: {cuda_compiler.available()}")


@pytest.mark.drawn(1 / 3)
@needs_nvrtc
@pytest.mark.parametrize("name", CASES)
def test_operands_held_in_registers_are_right(name: str) -> None:
    point, dtype, trans, sizes = CASES[name]
    case = problem(*sizes, dtype, {"trans_a": trans[0], "trans_b": trans[1]})
    verdict = check(PtxDevice(), WORKLOAD, case, replace(point, HELD=True).config(), np.random.default_rng(new_seed(name)))
    assert verdict.ok, verdict.message


@needs_nvrtc
def test_what_is_held_is_not_copied_asynchronously() -> None:
    point = replace(pipeline(4, (8, 8), (2, 2), 16, 3, 4), HELD=True)
    case = problem(513, 515, 511, "float32", {"trans_a": "T"})
    (step,) = launches(WORKLOAD.plan(case, point.config(), GPU))
    text = program.build(step.source, Interpreted("sm_90"), None).data.decode()
    assert "cp.async.ca" not in text
    resources = program.build(step.source, cuda_compiler.CudaTarget("sm_90"), None).resources["gemm"]
    assert (resources.spill_stores, resources.spill_loads) == (0, 0)


def test_what_may_be_held() -> None:
    config = replace(pipeline(4, (8, 8), (1, 1), 16, 3, 4), HELD=True).config()
    for sizes, trans_b, legal in (((64, 63, 64), "N", True), ((64, 64, 64), "N", False), ((64, 63, 63), "T", False)):
        case = problem(*sizes, "float32", {"trans_a": "T", "trans_b": trans_b})
        assert (WORKLOAD.space(case, GPU).violated(config) is None) == legal
