"""Operands whose rows begin anywhere come to local memory by the vectors that hold them: checked in an interpreter of PTX."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from portatile import program
from portatile.device.cuda import compiler as cuda_compiler
from portatile.records import Layout, Problem
from portatile.workloads.gemm.forms.gpu import default, ranking
from portatile.workloads.gemm.forms.gpu.costs import known
from portatile.workloads.gemm.forms.gpu.point import Gpu, matrix, pipeline
from portatile.workloads.gemm.forms.gpu.sources import shifts
from support.checking import check
from support.compiling import Interpreted
from support.gemm import GPU, WORKLOAD, launches, problem
from support.ptx_machine.device import PtxDevice
from support.seeds import new_seed

TILE = replace(pipeline(4, (8, 8), (1, 1), 8, 3, 4), SHIFT=True)
PAIRS = replace(matrix((1, 2), (2, 1), 16, 3), SHIFT=True)  # of float64, for matrix instructions
CASES: dict[str, tuple[Gpu, str, tuple[int, int, int]]] = {
    "both": (TILE, "TN", (37, 33, 21)),
    "rows two apart": (replace(TILE, DOUBLE=0), "TN", (34, 66, 19)),
    "rows three apart, parts of a stage": (replace(TILE, KB=16, KG=2), "TN", (35, 39, 50)),
    "one of two": (replace(TILE, KB=16, STAGES=2, DOUBLE=1), "TN", (36, 33, 16)),
    "the other kept along k": (replace(TILE, KB=16, KEEP=True, STAGES=2), "NN", (33, 35, 29)),
    "the other transposed on the way": (replace(TILE, KB=16, PAD=4), "TT", (33, 31, 23)),
    "the other packed": (replace(TILE, PACK_B=True), "TT", (35, 33, 40)),
    "vectors that no work-items divide": (replace(TILE, TBC=4, KG=2, KB=16, TCR=3), "NN", (33, 43, 21)),
    "shared sums": (replace(TILE, SPLIT_K=3, JOIN=True), "TN", (37, 30, 47)),
    "steps that are not all unrolled": (replace(TILE, KB=16, UNROLL=4), "TN", (31, 33, 37)),
    "pairs of both": (PAIRS, "TN", (35, 33, 37)),
    "pairs, rows and columns as they are": (replace(matrix((2, 1), (1, 2), 16, 3, 2, 4), SHIFT=True), "TT", (35, 33, 19)),
    "pairs of one of two": (replace(PAIRS, KB=32, KG=2, STAGES=2), "TN", (34, 33, 50)),
    "pairs, the other along k": (replace(PAIRS, DOUBLE=0), "NN", (33, 35, 29)),
    "pairs of shared sums": (replace(PAIRS, SPLIT_K=3, JOIN=True), "TN", (37, 31, 47)),
    "pairs, steps that are not all unrolled": (replace(PAIRS, KB=32, UNROLL=16), "TN", (31, 33, 37)),
    "pairs of sixteen steps": (replace(PAIRS, KB=32, DOUBLE=0, MMA_SHAPE="16x8x16"), "TN", (31, 33, 37)),
}
needs_nvrtc = pytest.mark.skipif(cuda_compiler.available() is not None, reason=f"no CUDA compiler: {cuda_compiler.available()}")


@pytest.mark.drawn(1 / 3)
@needs_nvrtc
@pytest.mark.parametrize("name", CASES)
def test_rows_that_begin_anywhere_are_right(name: str) -> None:
    point, trans, sizes = CASES[name]
    case = problem(*sizes, "float64" if point.MMA else "float32", {"trans_a": trans[0], "trans_b": trans[1]})
    verdict = check(PtxDevice(), WORKLOAD, case, point.config(), np.random.default_rng(new_seed(name)))
    assert verdict.ok, verdict.message


@needs_nvrtc
def test_they_are_copied_by_vectors() -> None:
    """And never an element at a time; how far on a row begins is known when the text is compiled."""
    point = replace(pipeline(4, (8, 8), (2, 2), 16, 3, 4), SHIFT=True)
    case = problem(513, 515, 511, "float32", {"trans_a": "T"})
    (step,) = launches(WORKLOAD.plan(case, point.config(), GPU))
    text = program.build(step.source, Interpreted("sm_90"), None).data.decode()
    assert "cp.async.ca" not in text
    assert "cp.async.cg" in text
    loop = text[text.index("cp.async.wait_group") :]
    assert "ld.shared.f32" in loop
    assert "ld.shared.v4.f32" in loop
    resources = program.build(step.source, cuda_compiler.CudaTarget("sm_90"), None).resources["gemm"]
    assert (resources.spill_stores, resources.spill_loads) == (0, 0)


def test_what_begins_at_a_vector() -> None:
    case = problem(63, 64, 64, "float32", {"trans_a": "T"})
    assert [shifts(case, name) for name in "ab"] == [True, False]
    assert [shifts(problem(63, 62, 64, "float64", {"trans_a": "T"}), name) for name in "ab"] == [True, False]
    assert not shifts(problem(63, 64, 61, "float32", {}), "a"), "k is fast"
    for offset, alignment, there in ((4, 128, True), (3, 128, False), (0, 8, False), (0, 16, True)):
        layout = {**case.layout, "a": Layout(case.layout["a"].strides, offset, alignment)}
        assert shifts(Problem("gemm", case.sizes, "float32", case.options, layout), "a") == there
    for sizes, legal in (((64, 63, 64), True), ((64, 64, 64), False)):
        one = problem(*sizes, "float32", {"trans_a": "T"})
        assert (WORKLOAD.space(one, GPU).violated(TILE.config()) is None) == legal


def test_it_is_timed_and_not_guessed() -> None:
    """Candidates that are timed before use have such points among them; what is chosen by the estimate alone has none."""
    case = problem(483, 687, 266, "float32", {"trans_a": "T", "trans_b": "T"})
    found = list(default.contenders(case, GPU, 12))
    assert any(point.SHIFT for point in found)
    assert not all(point.SHIFT for point in found)
    for point in found:
        assert WORKLOAD.space(case, GPU).violated(point.config()) is None
    costs = known(GPU, "float32")
    assert costs is not None
    ranked = ranking.candidates(case, GPU, 227 << 10, costs)
    assert not any(ranked.point(place).SHIFT for place in range(0, len(ranked), 97))
