"""What stacks of products, and complex products, get by default on an NVIDIA GPU whose constants are known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from portatile import workloads
from portatile.records import Launch, Layout
from portatile.workloads.gemm.forms.gpu import costs, ranking
from portatile.workloads.gemm.forms.gpu.default import in_stacks
from portatile.workloads.gemm.reals import computed
from support.gemm import GPU, WORKLOAD, launches, problem

STACKS = workloads.get("gemm_batched")


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_short_sums_of_stacks_are_one_stage(dtype: str) -> None:
    """Of 32 steps or 16, in tiles that the problems fill; longer ones have several."""
    for order, stages in ((32, 1), (12, 1), (64, 3)):
        stack = STACKS.problem({"batch": 500, "m": order, "n": order, "k": order}, dtype)
        config = STACKS.default(stack, GPU)
        assert STACKS.space(stack, GPU).violated(config) is None
        assert config["FORM"] == "gpu"
        assert (config["STAGES"] == 1) == (stages == 1)
        if order == 32:
            reals = 64 if dtype.startswith("complex") else 32
            assert int(config["TBR"]) * int(config["TR"]) * int(config["TRR"]) == reals
            assert int(config["TBC"]) * int(config["TC"]) * int(config["TCR"]) == reals


def test_the_estimate_counts_all_problems_of_a_stack() -> None:
    case = problem(256, 256, 256)
    known = costs.known(GPU, "float32")
    assert known is not None
    took = [float(ranking.candidates(case, GPU, GPU.local_memory, known, count=count).took.min()) for count in (2, 20, 200)]
    assert took[0] < took[1] < took[2] / 5


def test_groups_of_a_stack_share_long_sums() -> None:
    """Where there are few tiles; not in the one launch that level 3 asks for."""
    stack = STACKS.problem({"batch": 2, "m": 32, "n": 32, "k": 20000}, "float32")
    assert int(STACKS.default(stack, GPU)["SPLIT_K"]) > 1
    assert in_stacks(problem(32, 32, 20000), GPU, 2).SPLIT_K == 1


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_operands_are_packed_where_their_elements_are_not_aligned(dtype: str) -> None:
    case = WORKLOAD.problem({"m": 200, "n": 200, "k": 200}, dtype, {"trans_a": "N", "trans_b": "T"})
    assert next(step.kernel for step in launches(WORKLOAD.plan(case, WORKLOAD.default(case, GPU), GPU))) == "gemm"
    loose = replace(case, layout={**case.layout, "b": Layout((200, 1), 0, case.itemsize // 2)})
    plan = WORKLOAD.plan(loose, WORKLOAD.default(loose, GPU), GPU)
    assert next(step.kernel for step in plan.steps if isinstance(step, Launch)) == "gemm_pack"
    assert [one.name for one in plan.temporaries][:1] == ["b_panels"]
    assert computed(loose).layout["b"].alignment == case.itemsize // 2
