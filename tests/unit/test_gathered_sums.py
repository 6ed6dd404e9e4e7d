"""Sums that the groups of a cluster share and add up in each other's local memory: what it computes in an interpreter of PTX, who may."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from portatile import workloads
from portatile.device.cuda import compiler as cuda_compiler
from portatile.errors import ArgumentError
from portatile.records import Launch
from portatile.workload import Inputs
from portatile.workloads.gemm.capabilities import clusters
from portatile.workloads.gemm.forms.gpu.point import Gpu, matrix, pipeline
from support.checking import check, run
from support.devices import DEVICES, on_paper
from support.ptx_machine.device import PtxDevice
from support.seeds import new_seed

GEMM = workloads.get("gemm")
GPU = DEVICES["gpu"]
TILE = pipeline(4, (8, 8), (1, 1), 8, 2, 4)
POINTS: dict[str, tuple[Gpu, str, tuple[int, int, int]]] = {
    "tiles": (replace(TILE, KB=16, STAGES=3, KG=2, DOUBLE=0, SPLIT_K=4), "float32", (7, 30, 48)),
    "matrix instructions": (replace(matrix((1, 1), (1, 1), 16, 3, 1), SPLIT_K=2), "float64", (15, 17, 40)),
    "stored in vectors": (replace(matrix((1, 2), (2, 1), 16, 4, 2, 4), SPLIT_K=4), "float64", (32, 40, 64)),
    "groups without steps of k": (replace(TILE, SPLIT_K=8), "float32", (33, 40, 30)),
}
needs_nvrtc = pytest.mark.skipif(cuda_compiler.available() is not None, reason=f"no CUDA compiler: {cuda_compiler.available()}")


def gathered(point: Gpu) -> Gpu:
    """The point whose groups form clusters."""
    return replace(point, CLUSTER=point.SPLIT_K)


@pytest.mark.drawn(1 / 3)
@needs_nvrtc
@pytest.mark.parametrize("name", POINTS)
def test_a_cluster_adds_as_a_second_launch_would(name: str) -> None:
    point, dtype, sizes = POINTS[name]
    rng = np.random.default_rng(new_seed(name))
    case = GEMM.problem(dict(zip("mnk", sizes, strict=True)), dtype)
    config = gathered(point).config()
    verdict = check(PtxDevice(), GEMM, case, config, rng)
    assert verdict.ok, verdict.message
    inputs = Inputs(GEMM.inputs(case, rng).operands, {"alpha": 1.0, "beta": 0.0})
    (one, _), (two, _) = (run(PtxDevice(), GEMM, case, each, inputs) for each in (config, point.config()))
    assert one["c"].tobytes() == two["c"].tobytes()


@pytest.mark.drawn(1 / 3)
@needs_nvrtc
@pytest.mark.parametrize("workload", ["gemm_epilogue", "gemm_batched"])
def test_clusters_end_with_an_epilogue_and_in_batches(workload: str) -> None:
    rng = np.random.default_rng(new_seed(workload))
    chosen = workloads.get(workload)
    point = replace(TILE, SPLIT_K=2, CLUSTER=2)
    sizes = {"m": 9, "n": 35, "k": 20} | ({"batch": 3} if workload == "gemm_batched" else {})
    config = point.config(batched=workload == "gemm_batched")
    verdict = check(PtxDevice(), chosen, chosen.problem(sizes), config, rng)
    assert verdict.ok, verdict.message


def test_a_cluster_takes_one_launch_and_no_memory() -> None:
    case = GEMM.problem({"m": 33, "n": 64, "k": 400})
    plan = GEMM.plan(case, replace(TILE, SPLIT_K=4, CLUSTER=4).config(), GPU)
    (step,) = plan.steps
    assert isinstance(step, Launch)
    assert step.global_size == (4 * 4 * 64, 1, 1)
    assert plan.temporaries == ()


def test_who_may_form_clusters() -> None:
    assert clusters(GPU)
    for other in (DEVICES["cpu"], on_paper("gpu", "sm_80"), replace(GPU, compute_units=8)):
        assert not clusters(other)
    case = GEMM.problem({"m": 200, "n": 200, "k": 4096})
    point = replace(pipeline(4, (8, 8), (2, 2), 16, 2, 4), SPLIT_K=4, CLUSTER=4)
    assert GEMM.space(case, GPU).violated(point.config()) is None
    assert GEMM.space(case, on_paper("gpu", "sm_80")).violated(point.config()) is not None
    assert "must equal SPLIT_K" in str(GEMM.space(case, GPU).violated(replace(point, SPLIT_K=8).config()))
    with pytest.raises(ArgumentError, match="CLUSTER > 1 must equal SPLIT_K"):
        GEMM.plan(case, replace(point, JOIN=True).config(), GPU)
    lowered = GEMM.lowered(point.config(), on_paper("gpu", "sm_80"))
    assert (lowered["CLUSTER"], lowered["JOIN"]) == (1, True)
    old = {name: value for name, value in replace(point, CLUSTER=1).config().items() if name != "CLUSTER"}
    assert old in GEMM.space(case, GPU), "what was recorded before there was the parameter is legal"
