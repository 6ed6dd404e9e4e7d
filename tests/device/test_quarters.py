"""Triangles of C where a group has quarters of two tiles on the diagonal: all of the triangle right, nothing else written."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from portatile import workloads
from portatile.device.base import Device
from portatile.records import Problem
from portatile.workloads import operands
from portatile.workloads.gemm import zeros
from portatile.workloads.gemm.capabilities import joins
from portatile.workloads.gemm.forms.gpu.point import Gpu, pipeline
from portatile.workloads.gemm.forms.gpu.stream import Tailed, tailed
from portatile.workloads.gemm.forms.gpu.triangle import Quarters, quartered
from support.checking import check
from support.seeds import new_seed

pytestmark = [pytest.mark.thinned(1 / 3), pytest.mark.unoptimised]

_SQUARE = pipeline(2, (16, 8), (1, 2), 8, 2, 4, double=0)
TILED = (
    _SQUARE,
    replace(_SQUARE, PACK_A=True, PACK_B=True),
    replace(_SQUARE, KEEP=True, STAGES=3, DOUBLE=1),
    replace(pipeline(4, (16, 8), (1, 2), 16, 2, 4), TURN=True),
)


def quartering(
    monkeypatch: pytest.MonkeyPatch, device: Device, problem: Problem, point: Gpu, waves_of: int = 0, rest: Gpu | None = None
) -> dict[str, Any]:
    """Make SYRK's plan one of quarters, whatever the device, or of whole waves and a ``rest``; the configuration that has it."""
    syrk, config = workloads.get("syrk"), {"NB": 0, "WGS": 32}

    def shared(called: Problem, *_: object) -> tuple[Gpu, Quarters | Tailed | None]:
        order = called.sizes["n"]
        if rest is not None:
            return point.lowered(device.info), tailed(order, point.rows, rest.lowered(device.info), waves_of)
        return point.lowered(device.info), quartered(order, point.rows)

    monkeypatch.setattr(zeros, "shared", shared)
    plan = syrk.plan(problem, config, replace(device.info, kind="gpu"))
    monkeypatch.setattr(type(syrk), "plan", lambda *_: plan)
    return config


@pytest.mark.parametrize(("uplo", "trans", "place"), list(itertools.product("LU", "NT", range(len(TILED)))))
def test_syrk(device: Device, uplo: str, trans: str, place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One tile, a few, more; orders and terms that no tile divides; NaN where beta = 0 or the other triangle is not to be read."""
    rng, syrk, point = np.random.default_rng(new_seed(f"{uplo}{trans}{place}")), workloads.get("syrk"), TILED[place]
    for order, terms in ((point.rows // 2 - 3, 5), (2 * int(rng.integers(point.rows, 2 * point.rows)), 30), (3 * point.rows, 16)):
        order += -order % point.VL
        bare = syrk.problem({"n": order, "k": terms}, "float32", {"uplo": uplo, "trans": trans})
        pad = 4 * int(rng.integers(2))
        layout = {name: operands.padded(shape, pad, pad) for name, shape in syrk.shapes(bare).items()}
        problem = syrk.problem(bare.sizes, "float32", bare.options, layout)
        with monkeypatch.context() as patched:
            config = quartering(patched, device, problem, point)
            verdict = check(device, syrk, problem, config, rng)
        assert verdict.ok, f"{problem}: {verdict.message}"


@pytest.mark.parametrize(("uplo", "trans"), list(itertools.product("LU", "NT")))
def test_a_rest_in_smaller_tiles(device: Device, uplo: str, trans: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole waves of one large tile, of several, and of all beside the diagonal."""
    if device.info.kind == "cpu":
        pytest.skip("no processor is given this text, of which PoCL 5.0 gave wrong elements on AVX-512, PoCL 3.0 on AVX2 none")
    rng, syrk, rest = np.random.default_rng(new_seed(uplo + trans)), workloads.get("syrk"), pipeline(2, (8, 8), (1, 1), 8, 2, 4, double=0)
    for order, waves_of in (
        (2 * _SQUARE.rows + 4, 1),
        (2 * int(rng.integers(2 * _SQUARE.rows, 3 * _SQUARE.rows)), 2),
        (4 * _SQUARE.rows, 3),
    ):
        problem = syrk.problem({"n": order, "k": 21}, "float32", {"uplo": uplo, "trans": trans})
        with monkeypatch.context() as patched:
            config = quartering(patched, device, problem, _SQUARE, waves_of, rest)
            verdict = check(device, syrk, problem, config, rng)
        assert verdict.ok, f"{problem}: {verdict.message}"


@pytest.mark.parametrize("uplo", ["L", "U"])
def test_groups_that_share_k_have_quarters(device: Device, uplo: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not joins(device.info):
        pytest.skip(f"{device.info.id} has no fences for it")
    rng, syrk = np.random.default_rng(new_seed(uplo)), workloads.get("syrk")
    problem = syrk.problem({"n": 70, "k": 200}, "float32", {"uplo": uplo, "trans": "T"})
    config = quartering(monkeypatch, device, problem, replace(_SQUARE, SPLIT_K=3, JOIN=True))
    verdict = check(device, syrk, problem, config, rng)
    assert verdict.ok, f"{problem}: {verdict.message}"


@pytest.mark.parametrize("order", [1, 31, 32, 33, 64, 200, 4096])
def test_groups_are_enough_for_all_quarters(order: int) -> None:
    along = -(-order // 32)
    on_diagonal = quartered(order, 32).groups - along * (along - 1) // 2
    assert 3 * along <= 4 * on_diagonal < 3 * along + 4
