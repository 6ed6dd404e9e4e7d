"""Triangles whose tiles groups share, on paper: the tiles and shares that are counted, and the launches that come of them."""

from __future__ import annotations

import itertools

import pytest

from portatile import workloads
from portatile.records import Call, Problem
from portatile.workloads.gemm.forms.gpu import stream
from portatile.workloads.gemm.forms.gpu.point import Gpu, matrix, pipeline
from support.devices import on_paper

GPU = on_paper("gpu")
POINTS = (pipeline(4, (8, 16), (3, 1), 16, 3, 4), matrix((4, 2), (2, 4), 16, 4), matrix((2, 2), (2, 2), 16, 4))


@pytest.mark.parametrize(("point", "zeros", "order"), list(itertools.product(POINTS, ("above", "below"), (1, 97, 128, 1000, 2048))))
def test_shares_are_those_of_the_tiles_that_are_wanted(point: Gpu, zeros: str, order: int) -> None:
    rows, columns, k = point.rows, point.columns, 500
    wanted = [
        (row, column)
        for row, column in itertools.product(range(0, order, rows), range(0, order, columns))
        if (column <= row + rows - 1 if zeros == "above" else row <= column + columns - 1)
    ]
    for slots in (5, 64, 132):
        shared = stream.streamed(order, k, zeros, point, slots)
        if shared is None:
            assert len(wanted) % slots == 0
            continue
        steps = -(-k // point.KB)
        assert shared.sharing <= slots
        assert (shared.sharing - 1) * shared.share < shared.tiles * steps <= shared.sharing * shared.share
        first = [group * shared.share // steps for group in range(shared.sharing)]
        last = [(min((group + 1) * shared.share, shared.tiles * steps) - 1) // steps for group in range(shared.sharing)]
        assert max(end - start + 1 for start, end in zip(first, last, strict=True)) <= shared.pieces
        assert shared.groups == shared.sharing + len(wanted) - shared.tiles
        assert shared.groups - shared.sharing == (len(wanted) // slots - 1) * slots or shared.tiles == len(wanted)


def text(problem: Problem) -> str:
    workload = workloads.get(problem.workload)
    last = workload.plan(problem, workload.default(problem, GPU), GPU).steps[-1]
    assert not isinstance(last, Call)
    return last.source.text


def test_short_sums_are_not_shared() -> None:
    """Work-groups that share a tile have to wait for each other, which takes longer than such a product."""
    assert "const int share" not in text(workloads.get("syrk").problem({"n": 138, "k": 139}, "float32", {"trans": "T"}))


def test_small_tiles_of_four_warps_overlap() -> None:
    """Where large tiles are seven waves of one work-group each, smaller ones are faster on matrix units."""
    problem = workloads.get("syrk").problem({"n": 5320, "k": 704}, "float64", {"uplo": "U"})
    assert workloads.get("syrk").plan(problem, workloads.get("syrk").default(problem, GPU), GPU).steps[-1].local_size[0] == 128


@pytest.mark.parametrize(("dtype", "order"), [("float32", 2100), ("float64", 2500)])
def test_a_last_wave_of_few_tiles_is_shared(dtype: str, order: int) -> None:
    syrk = workloads.get("syrk")
    assert "const int share" in text(syrk.problem({"n": order, "k": order}, dtype, {"trans": "T"}))
