"""How GEMM's generic form gets at its operands: every way to A beside every way to B, at sizes and places that nothing divides."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from portatile import workloads
from portatile.device.base import Device
from portatile.records import Layout, Problem
from portatile.workloads import operands
from portatile.workloads.gemm.forms.generic.point import Generic, tile
from portatile.workloads.gemm.presets import WAYS, staged
from support.checking import check, unread
from support.seeds import new_seed

pytestmark = [pytest.mark.thinned(1 / 3), pytest.mark.unoptimised]

WORKLOAD = workloads.get("gemm")


def small(dtype: str, kb: int = 8) -> Generic:
    """16 x 16 elements, or 32 x 32, by 64 work-items: a pixel divides what each has of them."""
    vector = 4 if dtype == "float32" else 2
    return tile(vector, (vector, vector), (8, 8), (1, 1), kb, True)


def problem(rng: np.random.Generator, dtype: str, whole: bool) -> Problem:
    """Any sizes, transpositions, gaps behind rows and beginnings; or, if ``whole``, such that all rows are whole pixels."""
    step = 4 if whole else 1
    sizes = {name: int(rng.integers(1, 48 // step)) * step for name in "mnk"}
    options = {name: "NT"[rng.integers(2)] for name in ("trans_a", "trans_b")}
    bare = WORKLOAD.problem(sizes, dtype, options)
    gap, offset = (int(n) * step for n in rng.integers(0, 3, 2))
    return WORKLOAD.problem(sizes, dtype, options, {n: operands.padded(shape, gap, offset) for n, shape in WORKLOAD.shapes(bare).items()})


@pytest.mark.parametrize("way_a", WAYS)
def test_every_way_to_a_beside_ways_to_b(device: Device, way_a: str) -> None:
    """Three ways to B, each with one type and one kind of storage, drawn anew every time, as alpha and beta are, zeros among them."""
    if not device.info.images:
        pytest.skip(f"{device.info.id} has no images")
    rng = np.random.default_rng(new_seed(way_a))
    for way_b in rng.choice(WAYS, 3, replace=False):
        dtype = "float64" if device.info.fp64 and rng.integers(2) else "float32"
        case = problem(rng, dtype, bool(rng.integers(2)))
        point = staged(small(dtype, int(rng.choice([6, 8]))), way_a, way_b)
        verdict = check(device, WORKLOAD, case, point.config(), rng)
        assert verdict.ok, f"{way_a} | {way_b}, {case}: {verdict.message}"


@pytest.mark.parametrize(("trans_a", "trans_b"), list(itertools.product("NT", "NT")))
def test_images_over_buffers_in_every_transposition(device: Device, trans_a: str, trans_b: str) -> None:
    """Pixels of 16 bytes in one type and of one element in the other, read by every work-item and through local memory; gaps and
    offsets, k shared by groups, arrays.
    """
    if not device.info.image_buffer_max:
        pytest.skip(f"{device.info.id} has no images over buffers")
    rng = np.random.default_rng(new_seed(f"{trans_a}{trans_b}"))
    first = bool(rng.integers(2))
    for dtype, whole in (("float32", first), ("float64", not first))[: 1 + device.info.fp64]:
        step = 4 if whole else 1
        sizes, options = problem(rng, dtype, whole).sizes, {"trans_a": trans_a, "trans_b": trans_b}
        shapes = WORKLOAD.shapes(WORKLOAD.problem(sizes, dtype, options))
        layout = {name: operands.padded(shape, step, 3 * step) for name, shape in shapes.items()}
        case = WORKLOAD.problem(sizes, dtype, options, layout)
        for way in ("view", "view local"):
            point = staged(small(dtype), way, way)
            point = replace(point, SPLIT_K=int(rng.choice([1, 3])), SCALARS=bool(rng.integers(2)), PAD=point.VL if point.SM else 0)
            verdict = check(device, WORKLOAD, case, point.config(), rng)
            assert verdict.ok, f"{way}, {case}: {verdict.message}"


def test_factors_decide_what_is_read(device: Device) -> None:
    """alpha = 0 ignores A and B of NaN and beta = 0 such a C, also where the operands are images and panels."""
    if not device.info.image_buffer_max:
        pytest.skip(f"{device.info.id} has no images over buffers")
    rng = np.random.default_rng(new_seed("factors"))
    case = problem(rng, "float32", False)

    for ways in (("view", "panels"), ("panels local", "view local")):
        for alpha, beta in ((0.0, 1.5), (0.0, 0.0), (2.0, 0.0)):
            config = staged(small("float32"), *ways).config()
            verdict = check(device, WORKLOAD, case, config, rng, unread(WORKLOAD, case, rng, alpha, beta))
            assert verdict.ok, f"{ways} {alpha} {beta}: {verdict.message}"


def test_a_row_that_ends_its_memory(device: Device) -> None:
    """The last row has no gap behind it, and the memory ends with it, in the middle of a pixel."""
    if not device.info.image_buffer_max:
        pytest.skip(f"{device.info.id} has no images over buffers")
    rng = np.random.default_rng(new_seed("last row"))
    for dtype in ("float32", "float64") if device.info.fp64 else ("float32",):
        layout = {"a": Layout((8, 1)), "b": Layout((12, 1))}
        case = WORKLOAD.problem({"m": 3, "n": 9, "k": 5}, dtype, {}, layout)
        verdict = check(device, WORKLOAD, case, staged(small(dtype), "view", "view").config(), rng)
        assert verdict.ok, verdict.message


def test_images_over_buffers_copy_nothing(device: Device) -> None:
    case = WORKLOAD.problem({"m": 64, "n": 64, "k": 64})
    spaces = {way: WORKLOAD.plan(case, staged(small("float32"), way, way).config(), device.info).workspace for way in WAYS}
    assert spaces["view"] == spaces["view local"] == spaces["direct"] == 0
    assert spaces["image"] == spaces["panels"] == 2 * 64 * 64 * 4
