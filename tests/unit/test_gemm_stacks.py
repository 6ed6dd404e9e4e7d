"""What stacks of products, and complex products, get by default on an NVIDIA GPU whose constants are known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from portatile import workloads
from portatile.records import Launch, Layout
from portatile.workloads.gemm.forms.gpu import costs, ranking
from portatile.workloads.gemm.forms.gpu.default import in_stacks, reads_triangle
from portatile.workloads.gemm.forms.gpu.estimate import Structure
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
    took = [
        float(ranking.candidates(case, GPU, GPU.local_memory, known, structure=Structure(count=count)).took.min()) for count in (2, 20, 200)
    ]
    assert took[0] < took[1] < took[2] / 5


def test_groups_of_a_stack_share_long_sums() -> None:
    """Where there are few tiles; not in the one launch that level 3 asks for."""
    stack = STACKS.problem({"batch": 2, "m": 32, "n": 32, "k": 20000}, "float32")
    assert int(STACKS.default(stack, GPU)["SPLIT_K"]) > 1
    assert in_stacks(problem(32, 32, 20000), GPU, Structure(count=2)).SPLIT_K == 1


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_elements_of_a_symmetric_operand_have_a_price(dtype: str) -> None:
    """So that its tiles have few of its rows for as many multiply-adds, and it is neither packed nor copied along k."""
    case = WORKLOAD.problem({"m": 256, "n": 256, "k": 256}, dtype, {"trans_a": "N", "trans_b": "N"})
    reals = computed(case)
    known = costs.known(GPU, reals.dtype)
    assert known is not None
    for operand, along in (("a", "columns"), ("b", "rows")):
        plain, mirrored = (
            ranking.candidates(reals, GPU, GPU.local_memory, known, structure=Structure(mirrored=name, count=64), alone=True)
            for name in ("", operand)
        )
        free, dear = (
            ranking.candidates(
                reals, GPU, GPU.local_memory, replace(known, mirrored=price), structure=Structure(mirrored=operand, count=64)
            )
            for price in (0, 90)
        )
        best, least = (ranked.point(int(ranked.took.argmin())) for ranked in (dear, free))
        assert getattr(best, along) >= getattr(least, along)
        assert mirrored.took.min() > free.took.min()
        assert len(plain) > 0
        some = [mirrored.point(which) for which in range(0, len(mirrored), 97)]
        assert not any(
            getattr(point, f"PACK_{operand.upper()}") or (point.MMA and point.DOUBLE == 2 and point.items >= 256) for point in some
        )


def test_large_symmetric_matrices_of_a_stack_are_expanded() -> None:
    """On matrix units, where an element costs more than expanding it; without known constants from a certain order on."""
    for gpu in (GPU, replace(GPU, architecture="sm_70")):
        small, large = (reads_triangle(WORKLOAD.problem(dict.fromkeys("mnk", order), "float64"), gpu, 8, "a") for order in (64, 2048))
        assert small
        assert not large


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_operands_are_packed_where_their_elements_are_not_aligned(dtype: str) -> None:
    case = WORKLOAD.problem({"m": 200, "n": 200, "k": 200}, dtype, {"trans_a": "N", "trans_b": "T"})
    assert next(step.kernel for step in launches(WORKLOAD.plan(case, WORKLOAD.default(case, GPU), GPU))) == "gemm"
    loose = replace(case, layout={**case.layout, "b": Layout((200, 1), 0, case.itemsize // 2)})
    plan = WORKLOAD.plan(loose, WORKLOAD.default(loose, GPU), GPU)
    assert next(step.kernel for step in plan.steps if isinstance(step, Launch)) == "gemm_pack"
    assert [one.name for one in plan.temporaries][:1] == ["b_panels"]
    assert computed(loose).layout["b"].alignment == case.itemsize // 2
