"""Where k ends within a stage, the steps past its end are left out: right for every order of loads and barriers, by interpreted PTX."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from portatile import program
from portatile.device.cuda import compiler as cuda_compiler
from portatile.workloads.gemm.forms.gpu.point import Gpu, matrix, pipeline
from support.checking import check
from support.gemm import GPU, WORKLOAD, launches, problem
from support.ptx_machine.device import PtxDevice
from support.seeds import new_seed

TILE = pipeline(4, (8, 8), (1, 1), 16, 3, 4)
CASES: dict[str, tuple[Gpu, str, str, tuple[int, int, int]]] = {
    "one stage, half of it": (TILE, "float32", "TN", (32, 32, 7)),
    "one step": (TILE, "float32", "TN", (33, 32, 17)),
    "nothing ahead": (replace(TILE, DOUBLE=0, STAGES=2), "float32", "TT", (32, 31, 21)),
    "one operand ahead": (replace(TILE, DOUBLE=1, KB=32, UNROLL=32), "float32", "NN", (32, 32, 41)),
    "one stage at a time": (replace(TILE, DOUBLE=0, STAGES=1), "float32", "TN", (32, 32, 40)),
    "parts without work": (replace(TILE, KB=32, UNROLL=32, KG=4), "float32", "TN", (32, 32, 39)),
    "parts whose share begins": (replace(TILE, KB=64, UNROLL=64, KG=2), "float32", "TN", (32, 32, 44)),
    "vectors along k": (replace(TILE, KB=32, UNROLL=32, KEEP=True), "float32", "NT", (32, 32, 52)),
    "rolled loops": (replace(TILE, KB=32, UNROLL=8), "float32", "TN", (32, 32, 43)),
    "groups that share k": (replace(TILE, SPLIT_K=3, JOIN=True), "float32", "TN", (32, 32, 70)),
    "through registers": (replace(TILE, HELD=True), "float32", "TN", (33, 35, 23)),
    "matrix instructions": (matrix((1, 1), (1, 1), 16, 3, 1), "float64", "TN", (16, 16, 21)),
    "matrix instructions, all ahead": (matrix((1, 2), (1, 1), 32, 4, 2), "float64", "NN", (16, 32, 42)),
    "matrix instructions in parts": (replace(matrix((1, 1), (1, 1), 64, 3, 0), KG=4), "float64", "TN", (16, 16, 70)),
    "deep matrix instructions": (replace(matrix((1, 1), (1, 1), 32, 3, 1), MMA_SHAPE="16x8x16"), "float64", "TN", (16, 16, 37)),
}
needs_nvrtc = pytest.mark.skipif(cuda_compiler.available() is not None, reason=f"no CUDA compiler: {cuda_compiler.available()}")


@pytest.mark.drawn(1 / 3)
@needs_nvrtc
@pytest.mark.parametrize("name", CASES)
def test_sums_that_end_within_a_stage_are_right(name: str) -> None:
    point, dtype, trans, sizes = CASES[name]
    case = problem(*sizes, dtype, {"trans_a": trans[0], "trans_b": trans[1]})
    verdict = check(PtxDevice(), WORKLOAD, case, point.config(), np.random.default_rng(new_seed(name)))
    assert verdict.ok, verdict.message


def test_long_sums_look_at_no_end() -> None:
    def text(k: int) -> str:
        (step,) = launches(WORKLOAD.plan(problem(64, 64, k, "float32", {"trans_a": "T"}), TILE.config(), GPU))
        return step.source.text

    assert "left" in text(39)
    assert "left" not in text(40 * 100)
    assert "left" not in text(4001), "a step of many"


@needs_nvrtc
def test_ends_take_no_registers_from_others() -> None:
    point = pipeline(4, (8, 8), (2, 2), 16, 3, 4)
    (step,) = launches(WORKLOAD.plan(problem(513, 515, 71, "float32", {"trans_a": "T"}), point.config(), GPU))
    resources = program.build(step.source, cuda_compiler.CudaTarget("sm_90"), None).resources["gemm"]
    assert (resources.spill_stores, resources.spill_loads) == (0, 0)
