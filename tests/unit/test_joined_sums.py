"""Sums that groups share, added by the last of them: what is compiled, what it computes in an interpreter of PTX, who may use it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from portatile import program, workloads
from portatile.device.cuda import compiler as cuda_compiler
from portatile.errors import ArgumentError
from portatile.records import Launch, Plan, Temporary, from_json, to_json
from portatile.workload import Inputs
from portatile.workloads.gemm.capabilities import joins
from portatile.workloads.gemm.forms.cpu.point import register
from portatile.workloads.gemm.forms.generic.point import MEDIUM
from portatile.workloads.gemm.forms.gpu.point import matrix, pipeline
from portatile.workloads.gemm.forms.thin.point import column
from portatile.workloads.gemm.point import Point
from support.checking import check, run
from support.compiling import Interpreted
from support.devices import DEVICES, on_paper
from support.ptx_machine.device import PtxDevice
from support.seeds import new_seed

GEMM = workloads.get("gemm")
GPU = DEVICES["gpu"]
PIPELINE = pipeline(4, (8, 8), (1, 1), 8, 2, 4)
POINTS: dict[str, tuple[Point, str, tuple[int, int, int]]] = {
    "tiles": (replace(PIPELINE, KB=16, STAGES=3, KG=2, DOUBLE=0, SPLIT_K=3), "float32", (7, 30, 48)),
    "matrix instructions": (replace(matrix((1, 1), (1, 1), 16, 3, 1), SPLIT_K=2), "float64", (15, 17, 40)),
    "thin, k fast": (column(4, (4, 1), 2, 32, 1, split=18), "float32", (9, 1, 300)),
    "thin, k slow": (replace(column(2, (2, 2), 8, 8, 1, split=3), TURN=True), "float64", (2, 19, 70)),
}
needs_nvrtc = pytest.mark.skipif(cuda_compiler.available() is not None, reason=f"no CUDA compiler: {cuda_compiler.available()}")


@pytest.mark.drawn(1 / 3)
@needs_nvrtc
@pytest.mark.parametrize("name", POINTS)
def test_the_last_group_adds_as_a_second_launch_would(name: str) -> None:
    point, dtype, sizes = POINTS[name]
    rng = np.random.default_rng(new_seed(name))
    case = GEMM.problem(dict(zip("mnk", sizes, strict=True)), dtype)
    joined = replace(point, JOIN=True).config()
    verdict = check(PtxDevice(), GEMM, case, joined, rng)
    assert verdict.ok, verdict.message
    inputs = Inputs(GEMM.inputs(case, rng).operands, {"alpha": 1.0, "beta": 0.0})
    (one, _), (two, _) = (run(PtxDevice(), GEMM, case, config, inputs) for config in (joined, point.config()))
    assert one["c"].tobytes() == two["c"].tobytes()


@pytest.mark.drawn(1 / 3)
@needs_nvrtc
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", ["tiles", "thin, k fast"])
def test_arrivals_release_and_acquire(name: str, architecture: str) -> None:
    """One atomic for a group; it orders what was written before it and what is read behind it, for the whole device."""
    point, dtype, sizes = POINTS[name]
    plan = GEMM.plan(
        GEMM.problem(dict(zip("mnk", sizes, strict=True)), dtype), replace(point, JOIN=True).config(), on_paper("gpu", architecture)
    )
    (step,) = plan.steps
    assert isinstance(step, Launch)
    text = program.build(step.source, Interpreted(architecture), None).data.decode()
    assert text.count("atom.acq_rel.gpu.global.inc.u32") == 1
    used = program.build(step.source, cuda_compiler.CudaTarget(architecture, "cubin"), None).resources["gemm"]
    assert used.spill_stores in (0, -1)


def test_counters_are_declared_and_counted() -> None:
    """A counter for each tile of every problem of a batch, and whole tiles of sums."""
    config = replace(PIPELINE, SPLIT_K=4, JOIN=True).config()
    plan = GEMM.plan(GEMM.problem({"m": 33, "n": 64, "k": 400}), config, GPU)
    assert plan.temporaries == (Temporary("planes", 4 * 4 * 32 * 32 * 4), Temporary("counters", 16, zeroed=True))
    assert plan.workspace == 4 * 4 * 32 * 32 * 4 + 16
    assert from_json(to_json(plan), Plan) == plan
    batched = workloads.get("gemm_batched")
    config = {name: value for name, value in config.items() if name not in ("TXC", "TAIL")}
    many = batched.plan(batched.problem({"batch": 5, "m": 33, "n": 64, "k": 400}), config, GPU)
    assert [temporary.nbytes for temporary in many.temporaries] == [5 * temporary.nbytes for temporary in plan.temporaries]


def test_who_may_join() -> None:
    assert joins(GPU)
    assert joins(DEVICES["cpu"])
    assert not joins(replace(GPU, vendor="someone else"))
    assert not joins(replace(GPU, architecture="sm_60"))
    case = GEMM.problem({"m": 200, "n": 200, "k": 4096})
    shared = replace(pipeline(4, (8, 8), (2, 2), 16, 2, 4), SPLIT_K=4, JOIN=True)
    assert GEMM.space(case, GPU).violated(shared.config()) is None
    assert "JOIN" in str(GEMM.space(case, replace(GPU, vendor="someone else")).violated(shared.config()))
    assert GEMM.lowered(shared.config(), replace(GPU, vendor="someone else"))["JOIN"] is False
    assert "JOIN" in str(GEMM.space(case, GPU).violated(replace(shared, SPLIT_K=1).config()))
    with pytest.raises(ArgumentError, match="JOIN needs work-groups that share k"):
        GEMM.plan(case, replace(shared, SPLIT_K=1).config(), GPU)
    for alone in (replace(MEDIUM, SPLIT_K=2), replace(register(4, 2, 2), SPLIT_K=2)):
        with pytest.raises(ArgumentError, match="JOIN=True does nothing in the"):
            GEMM.plan(case, {**alone.config(), "JOIN": True}, GPU)
    old = {name: value for name, value in replace(shared, JOIN=False).config().items() if name != "JOIN"}
    assert old in GEMM.space(case, GPU), "what was recorded before there was the parameter is legal"
