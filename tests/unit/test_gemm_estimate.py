"""The estimate by which tiles are chosen for shapes that nobody measured, against the timings that it was fitted to."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from portatile import select, workloads
from portatile.records import DeviceInfo, Problem, from_json
from portatile.trials import Trial
from portatile.workloads.gemm.forms.gpu import estimate, fit, ranking, timings, variants
from portatile.workloads.gemm.forms.gpu.costs import SHIPPED as SHIPPED_MODELS
from portatile.workloads.gemm.forms.gpu.costs import known, read
from portatile.workloads.gemm.forms.gpu.estimate import Structure
from portatile.workloads.gemm.forms.gpu.point import Gpu

GEMM = workloads.get("gemm")
ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "bench" / "results"
TIMED = {found.device.backend: found for found in map(timings.read, sorted(RESULTS.glob("tiles-nvidia-h100-*-20261126T134*.json.gz")))}
SHIPPED = ROOT / "src" / "portatile" / "tuning" / "shipped" / "nvidia-h200-gemm.json"
BACKENDS = pytest.mark.parametrize("backend", ["cuda", "opencl"])
DTYPES = pytest.mark.parametrize("dtype", ["float32", "float64"])


def h100(backend: str) -> DeviceInfo:
    return TIMED[backend].device


def gemm(sizes: list[int], dtype: str, trans: str = "NN") -> Problem:
    return GEMM.problem(dict(zip("mnk", sizes, strict=True)), dtype, {"trans_a": trans[0], "trans_b": trans[1]})


def kind(case: Problem, info: DeviceInfo) -> variants.ProblemKind:
    return estimate.kind_of(case, info, 226 * 1024)


def estimated(case: Problem, info: DeviceInfo, point: Gpu, place: int) -> float:
    costs = known(info, case.dtype)
    assert costs is not None
    columns = variants.columns_of(kind(case, info), [(place, point, 0.0)])
    return float(estimate.microseconds(estimate.shape_of(case, info), columns, costs)[0])


@BACKENDS
@DTYPES
def test_choices_are_near_the_best_that_was_timed(backend: str, dtype: str) -> None:
    """Of the configurations that were timed on a shape the one with the least estimate takes little more than the fastest."""
    cases, costs = timings.cases(TIMED[backend], dtype, GEMM.problem), known(h100(backend), dtype)
    assert costs is not None
    judged = fit.judge(cases, costs)
    assert judged.shapes > 16
    assert judged.mean > 0.93
    assert judged.worst > 0.4


@BACKENDS
@DTYPES
def test_more_work_takes_longer(backend: str, dtype: str) -> None:
    info, place = h100(backend), 3
    known_kind = kind(gemm([512, 512, 512], dtype), info)
    point = next(variants.stagings(known_kind, known_kind.tiles[place].point)).of(known_kind.tiles[place].point)
    base = estimated(gemm([1000, 1000, 1000], dtype), info, point, place)
    for more in ([1000, 1000, 4000], [4000, 1000, 1000], [1000, 4000, 1000]):
        assert 2 * base < estimated(gemm(more, dtype), info, point, place) < 6 * base
    packed = replace(point, PACK_A=True, PACK_B=True)
    slim, wide = (estimated(gemm([64, 64, k], dtype), info, packed, place) for k in (64, 640))
    assert slim < wide


@BACKENDS
@DTYPES
def test_rows_that_are_not_aligned_take_longer(backend: str, dtype: str) -> None:
    """Rows of C that vectors do not divide, and rows of an operand that begin in the middle of what memory reads together."""
    info, place = h100(backend), 3
    known_kind = kind(gemm([512, 512, 512], dtype, "NT"), info)
    point = next(one for one in variants.stagings(known_kind, known_kind.tiles[place].point) if one.KEEP or dtype == "float64").of(
        known_kind.tiles[place].point
    )
    sector = 32 // (4 if dtype == "float32" else 8)
    whole, ragged = (estimated(gemm([4000, n, 64], dtype, "NT"), info, point, place) for n in (4000, 3999))
    assert ragged > 1.02 * whole
    whole, torn = (estimated(gemm([800, 800, k], dtype, "NT"), info, point, place) for k in (125 * sector, 125 * sector - sector // 2))
    assert torn > 1.02 * whole


def test_large_clusters_find_room_on_parts_of_the_device_only() -> None:
    """Of 132 multiprocessors 120: what fills all of them takes two rounds."""
    info, case, place = h100("cuda"), gemm([32 * 33, 32 * 8, 2048], "float32"), 0
    point = replace(kind(case, info).tiles[place].point, KEEP=True, SPLIT_K=4)
    costs = known(info, "float32")
    assert costs is not None
    shape, cluster = estimate.shape_of(case, info), variants.columns_of(kind(case, info), [(place, replace(point, CLUSTER=4), 0.0)])
    here, larger = (float(estimate.microseconds(replace(shape, units=units), cluster, costs)[0]) for units in (132, 147))
    assert here > larger


@DTYPES
def test_parts_of_a_triangles_sums_are_empty(dtype: str) -> None:
    """Where k is shared by more groups than run at once, but half of them have nothing to do, each has less to do than where it is
    shared by as many as run at once.
    """
    info, case = h100("cuda"), gemm([100, 5200, 5200], dtype, "NT")
    large = (place for place, tile in enumerate(kind(case, info).tiles) if (tile.point.rows, tile.point.columns) == (128, 128))
    place, costs = next(large), known(info, dtype)
    assert costs is not None
    some, more = (
        variants.columns_of(kind(case, info), [(place, replace(kind(case, info).tiles[place].point, SPLIT_K=split, JOIN=True), 0.0)])
        for split in (3, 5)  # of 41 tiles on 132 multiprocessors
    )
    shape = estimate.shape_of(case, info)
    took = {
        zeros: [float(estimate.microseconds(replace(shape, structure=Structure(zeros)), one, costs)[0]) for one in (some, more)]
        for zeros in ("", "b")
    }
    assert took[""][0] < took[""][1]
    assert took["b"][1] < took["b"][0]


@DTYPES
def test_square_tiles_have_panels_of_both_factors_at_once(dtype: str) -> None:
    """... where one factor is the other's transpose."""
    info, case = h100("cuda"), gemm([3001, 3001, 301], dtype, "TN")
    costs = known(info, dtype)
    assert costs is not None
    for same in (False, True):
        found = ranking.candidates(case, info, 226 * 1024, costs, structure=Structure("c", same=same), alone=True)
        twice = ranking.candidates(case, info, 226 * 1024, costs, structure=Structure("c"), alone=True)
        packed = found.columns.packs == 2
        square = packed & (found.columns.rows == found.columns.columns)
        assert square.any()
        assert (found.took[square] < twice.took[square]).all() == same
        assert (found.took[~square] == twice.took[~square]).all()


def test_a_model_from_before_a_constant_was_known_is_read() -> None:
    model = read(next(SHIPPED_MODELS.glob("sm_90.json")))
    former = {name: value for name, value in model.costs["CUDA C++"]["float32"].items() if name not in ("ragged", "torn", "first")}
    costs = replace(model, costs={"CUDA C++": {"float32": former}}).of("CUDA C++", "float32")
    assert costs is not None
    assert min(costs.ragged, costs.torn, costs.first) > 0


@BACKENDS
@DTYPES
def test_few_tiles_share_the_sum_and_many_do_not(backend: str, dtype: str) -> None:
    info = h100(backend)
    limit = info.local_memory if backend == "cuda" else 226 * 1024
    few, many = (ranking.fastest(gemm(sizes, dtype), info, limit) for sizes in ([64, 64, 50000], [1500, 1500, 500]))
    assert few is not None
    assert many is not None
    assert few.SPLIT_K >= 12
    assert many.SPLIT_K == 1
    assert ranking.fastest(gemm([64, 64, 64], dtype), info, 1024) is None, "no tile is so small"


@BACKENDS
@DTYPES
def test_no_two_candidates_share_k_alike(backend: str, dtype: str) -> None:
    """A split that leaves a group without steps of k is another one that has fewer groups."""
    info = h100(backend)
    costs = known(info, dtype)
    assert costs is not None
    case = gemm([32, 276, 668], dtype)
    found = ranking.candidates(case, info, 226 * 1024, costs)
    points = [found.point(which) for which in range(len(found))]
    assert len({point.SPLIT_K for point in points}) > 3
    assert all(point.passes(668).parts == point.SPLIT_K for point in points if not point.TAIL)


@DTYPES
def test_small_products_take_one_launch_through_opencl(dtype: str) -> None:
    info = h100("opencl")
    for sizes in ([1024, 96, 768], [777, 555, 333], [32, 32, 1024]):
        point = ranking.fastest(gemm(sizes, dtype), info, 226 * 1024)
        assert point is not None
        assert (point.SPLIT_K == 1 or point.JOIN, point.TAIL, point.PACK_A, point.PACK_B) == (True, 0, False, False), sizes


@BACKENDS
def test_a_default_that_was_fitted_gives_way_to_nothing_but_its_own_shape(backend: str) -> None:
    """On the device that was tuned what comes with the package serves its shapes; others take the estimate's choice."""
    known = [from_json(json.dumps(row), Trial) for row in json.loads(SHIPPED.read_text())]
    info = next(found.device for found in map(timings.read, RESULTS.glob("tiles-nvidia-h200-*.json.gz")) if found.device.backend == backend)
    assert select.choose(GEMM, gemm([1000, 1000, 1000], "float32"), info, known).reason == "tuned"
    for sizes in ([640, 640, 640], [2000, 256, 800], [700, 500, 300], [1280, 1280, 1280], [150, 150, 8000]):
        case = gemm(sizes, "float32")
        assert select.choose(GEMM, case, info, known).config == GEMM.default(case, info)
    assert math.isclose(GEMM.loss(case, info), 1.03)
    assert GEMM.loss(case, replace(info, vendor="someone else")) > 1.1
