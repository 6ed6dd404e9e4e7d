"""How groups share triangles of C, on paper: what is chosen, for which operands, and the launches that come of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from portatile import workloads
from portatile.records import Call, Launch, Layout, Problem
from portatile.workloads.gemm import zeros
from portatile.workloads.gemm.extras import Extras, Triangle
from portatile.workloads.gemm.forms.gpu.point import matrix, pipeline
from portatile.workloads.gemm.forms.gpu.sharing import doubled_ways, ways
from portatile.workloads.gemm.forms.gpu.stream import SharedTiles, Tailed, streamed, tailed
from portatile.workloads.gemm.forms.gpu.tiles import plausible, tiles_of
from portatile.workloads.gemm.forms.gpu.triangle import Quarters, quartered
from portatile.workloads.gemm.plan import build
from support.devices import on_paper

GPU = on_paper("gpu")
LOWER = Triangle("c", "above", mirrored=True)


def product(order: int, dtype: str = "float64", pad: int = 0) -> Problem:
    layout = {"c": Layout((order + pad, 1), 0, 128)}
    return workloads.get("gemm").problem({"m": order, "n": order, "k": order}, dtype, {"trans_a": "N", "trans_b": "T"}, layout)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_quarters_where_they_fill_the_device_once(dtype: str) -> None:
    """132 groups of 128 x 128 for 136 tiles, of which 16 on the diagonal are wanted to three quarters."""
    point, sharing = zeros.shared(product(2048, dtype), GPU, LOWER)
    assert sharing == Quarters(132)
    assert (point.rows, point.columns) == (128, 128)


@pytest.mark.parametrize("order", [3000, 6000, 8192])
def test_whole_waves_of_large_tiles_and_a_rest_in_smaller_ones(order: int) -> None:
    """Where the power limit binds large tiles do with fewer copies; as many of them as there are multiprocessors run at once."""
    both = zeros.doubled(product(order), GPU)
    assert both is not None
    for point, sharing in (zeros.shared(product(order), GPU, LOWER), both):
        assert isinstance(sharing, Tailed)
        assert sharing.first.groups % 132 == 0
        along = -(-order // point.rows)
        assert sharing.rest.first == sharing.first.groups <= along * (along - 1) // 2
        assert sharing.rest.groups == 4 * (along * (along + 1) // 2 - sharing.rest.first)
        assert point.rows == point.columns == 2 * sharing.smaller.rows == 2 * sharing.smaller.columns


def test_one_size_of_tiles_where_they_fill_the_last_wave() -> None:
    """Beside the diagonal of 33 x 33 tiles there are 528, four waves."""
    assert not isinstance(zeros.shared(product(128 * 32), GPU, LOWER)[1], Tailed)
    assert tailed(128 * 11, 128, matrix((2, 2), (2, 2), 16, 4), 132) is None, "no whole wave"


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_a_rest_is_a_second_launch(dtype: str) -> None:
    large, small = matrix((4, 2), (2, 4), 16, 4), matrix((2, 2), (2, 2), 16, 4)
    case = product(3000, dtype)
    sharing = tailed(3000 * (2 if dtype == "complex128" else 1), 128, small, 132)
    plan = build(case, large, GPU, Extras(triangle=LOWER, sharing=sharing))
    launches = [step for step in plan.steps if isinstance(step, Launch)]
    assert sharing is not None
    assert [step.global_size[0] // step.local_size[0] for step in launches] == [sharing.first.groups, sharing.rest.groups]
    assert [any(arg.name == "first_tile" for arg in step.args) for step in launches] == [False, True]


def test_a_product_of_two_operands_has_no_rest() -> None:
    point, sharing = zeros.shared(product(6000), GPU, replace(LOWER, mirrored=False))
    assert point.rows in (64, 128)
    assert not isinstance(sharing, Tailed | Quarters)


@pytest.mark.parametrize(("order", "pad"), [(2047, 0), (2048, 1)])
def test_no_quarters_where_c_is_not_stored_in_vectors(order: int, pad: int) -> None:
    assert not isinstance(zeros.shared(product(order, pad=pad), GPU, LOWER)[1], Quarters)


@pytest.mark.parametrize(("pad", "vectors"), [(0, True), (1, False)])
def test_quarters_are_stored_in_vectors_where_c_allows_it(pad: int, vectors: bool) -> None:
    """... also in the text of who asks for quarters of any C."""
    point = pipeline(4, (16, 16), (2, 2), 16, 3, 4)
    step = build(
        product(512, "float32", pad), replace(point, PACK_A=True, PACK_B=True), GPU, Extras(triangle=LOWER, sharing=quartered(512, 128))
    ).steps[-1]
    assert isinstance(step, Launch)
    assert ("__global float4* to" in step.source.text) == vectors
    assert step.source.text.count("{") == step.source.text.count("}")


def test_no_quarters_of_two_operands() -> None:
    assert not isinstance(zeros.shared(product(2048), GPU, replace(LOWER, mirrored=False))[1], Quarters)


def test_panels_of_a_mirrored_operand_are_packed_once() -> None:
    point = replace(pipeline(4, (16, 16), (2, 2), 16, 3, 4), PACK_A=True, PACK_B=True)
    launches = [
        [step.kernel for step in build(product(300, "float32"), point, GPU, Extras(triangle=one)).steps if isinstance(step, Launch)]
        for one in (LOWER, replace(LOWER, mirrored=False))
    ]
    assert launches == [["gemm_pack", "gemm"]] * 2
    panels = [
        {one.name for one in build(product(300, "float32"), point, GPU, Extras(triangle=one)).temporaries}
        for one in (LOWER, replace(LOWER, mirrored=False))
    ]
    assert panels == [{"a_panels"}, {"a_panels", "b_panels"}]


def test_what_shared_tiles_keep_counts_as_local_memory() -> None:
    """Tiles of just as many bytes as a text may declare become an argument of the launch."""
    point = pipeline(4, (16, 16), (2, 2), 16, 3, 4)
    assert point.local_bytes(4) == GPU.can.static_local
    stream = streamed(2048, 2048, "above", point, 132)
    for sharing, asked in ((stream, True), (None, False)):
        step = build(product(2048, "float32"), point, GPU, Extras(triangle=LOWER, sharing=sharing)).steps[-1]
        assert not isinstance(step, Call)
        assert any(arg.kind == "local" for arg in step.args) == asked


@pytest.mark.parametrize(
    ("order", "trans", "pad", "launches"), [(2048, "N", 0, 1), (2048, "T", 0, 1), (2048, "NT", 0, 2), (2048, "N", 2, 2), (300, "N", 0, 2)]
)
def test_syr2k_of_float64_is_one_launch_where_that_pays(order: int, trans: str, pad: int, launches: int) -> None:
    """... and where both operands are stored alike."""
    syr2k = workloads.get("syr2k")
    layout = {"b": Layout((order + pad, 1), 0, 128)}
    problem = syr2k.problem({"n": order, "k": order}, "float64", {"trans": trans}, layout)
    assert len(syr2k.plan(problem, syr2k.default(problem, GPU), GPU).steps) == launches


@pytest.mark.parametrize(("order", "terms", "launches"), [(4000, 64, 1), (1000, 1000, 2), (300, 80, 2)])
def test_syr2k_of_float32_is_one_launch_where_sums_are_short(order: int, terms: int, launches: int) -> None:
    syr2k = workloads.get("syr2k")
    problem = syr2k.problem({"n": order, "k": terms})
    plan = syr2k.plan(problem, syr2k.default(problem, GPU), GPU)
    assert sum(not (isinstance(step, Launch) and step.kernel == "gemm_pack") for step in plan.steps) == launches


@pytest.mark.parametrize("sizes", [(2251, 318), (1500, 1500)])
def test_whole_tiles_are_priced_by_the_rate_of_their_own_text(sizes: tuple[int, int]) -> None:
    """There are tiles that differ in nothing but how far ahead operands are loaded; those that load none are slower."""
    order, terms = sizes
    case = workloads.get("gemm").problem({"m": order, "n": order, "k": terms}, "float64", {"trans_a": "N", "trans_b": "T"})
    ahead, later = (matrix((2, 2), (2, 2), 16, 4, double) for double in (1, 0))
    (fast, whole), (slow, _) = (next(ways(case, GPU, "above", point, mirrored=True)) for point in (ahead, later))
    assert whole == (ahead, None)
    assert fast < slow


def test_shared_tiles_load_operands_one_step_ahead() -> None:
    """A text for each piece has no registers for more. Of short sums whole tiles are faster, which begin and end beside others."""
    case = product(2184)
    every = ways(case, GPU, "above", zeros.point(case, GPU, LOWER), mirrored=True)
    shared = {(way.found[0].rows, way.found[0].DOUBLE): way.took for way in every if isinstance(way.found[1], SharedTiles)}
    assert shared[128, 1] < shared[128, 2]
    odd = workloads.get("gemm").problem({"m": 2251, "n": 2251, "k": 318}, "float64", {"trans_a": "T", "trans_b": "N"})
    assert zeros.shared(odd, GPU, LOWER)[1] is None


def test_what_is_chosen_is_the_fastest_way() -> None:
    case = product(3000)
    whole = zeros.point(case, GPU, LOWER)
    every = list(ways(case, GPU, "above", whole, mirrored=True))
    assert min(every, key=lambda way: way.took).found == zeros.shared(case, GPU, LOWER)
    assert every[0].found == (whole, None)
    both = list(doubled_ways(case, GPU))
    assert min(both, key=lambda way: way.took).found == zeros.doubled(case, GPU)


def test_a_rate_that_nothing_bounds_is_that_of_the_mirror_image() -> None:
    tiles = [tile.point for tile in tiles_of("float32", False)]
    place = next(i for i, one in enumerate(tiles) if (one.rows, one.columns, one.items) == (48, 64, 192))
    mirror = next(i for i, one in enumerate(tiles) if (one.rows, one.columns, one.items) == (64, 48, 192))
    rates = [0.5] * len(tiles)
    rates[place] = 0.75
    assert plausible("float32", tuple(rates)) == tuple(rates)
    rates[place] = 0.9
    assert plausible("float32", tuple(rates))[place] == rates[mirror]
