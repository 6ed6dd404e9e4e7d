"""Triangles whose tiles the work-groups share evenly: every part of them right, whoever is the last, and nothing else written."""

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
from portatile.workloads.gemm.extras import Triangle
from portatile.workloads.gemm.forms.gpu.point import Gpu, pipeline
from portatile.workloads.gemm.forms.gpu.stream import streamed
from support.checking import check, run
from support.seeds import new_seed

pytestmark = [pytest.mark.thinned(1 / 3), pytest.mark.unoptimised]

TILED = (
    pipeline(4, (8, 8), (1, 1), 8, 2, 4, double=0),
    replace(pipeline(2, (8, 8), (2, 1), 8, 2, 4, double=0), PACK_A=True, PACK_B=True),
    replace(pipeline(2, (8, 8), (1, 3), 8, 3, 4, double=1), KEEP=True),
    replace(pipeline(4, (8, 8), (1, 1), 16, 2, 4), TURN=True),
    pipeline(2, (8, 8), (2, 2), 8, 2, 4, double=0),
)
SLOTS = (3, 11)
"""Groups at once: of few or many waves, of whole tiles behind the shared ones, and of tiles with many parts."""


@pytest.fixture
def joining(device: Device) -> Device:
    if not joins(device.info):
        pytest.skip(f"{device.info.id} has no fences for it")
    return device


def streaming(
    monkeypatch: pytest.MonkeyPatch, device: Device, name: str, problem: Problem, point: Gpu, slots: int, *, looped: bool = True
) -> dict[str, Any]:
    """Make the workload's plan one of shared tiles, whatever the device; the configuration that has it."""
    workload, config = workloads.get(name), {"JOIN": True, "NB": 0, "WGS": 32}

    def shared(called: Problem, _: object, triangle: Triangle) -> tuple[Gpu, Any]:
        n, k = called.sizes["n"], called.sizes["k"]
        known = (streamed(n, k, triangle.zeros, point, slots + more) for more in range(9))  # some divide the tiles evenly
        return point.lowered(device.info), replace(next(filter(None, known)), looped=looped)

    monkeypatch.setattr(zeros, "shared", shared)
    plan = workload.plan(problem, config, replace(device.info, kind="gpu"))
    monkeypatch.setattr(type(workload), "plan", lambda *_: plan)
    return config


@pytest.mark.parametrize("place", range(len(TILED)))
@pytest.mark.parametrize(("uplo", "trans", "slots"), list(itertools.product("LU", "NT", SLOTS)))
def test_syrk(joining: Device, uplo: str, trans: str, slots: int, place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Orders and terms that no tile divides, and such as all divide; padded rows; NaN where beta = 0 or a triangle is not to be read."""
    rng = np.random.default_rng(new_seed(f"{uplo}{trans}{slots}{place}"))
    syrk = workloads.get("syrk")
    # A text of many pieces takes PoCL's compiler ten seconds and more.
    processor = joining.info.kind == "cpu"
    looped = place > 1 or (slots == SLOTS[0] and processor)
    both = [{"n": int(rng.integers(65, 130)), "k": int(rng.integers(70, 200))}, {"n": 64, "k": 128}]
    for sizes in [both[int(rng.integers(2)) if looped else 1]] if processor else both:  # each has a text of its own to compile
        bare = syrk.problem(sizes, "float32", {"uplo": uplo, "trans": trans})
        pad = int(rng.integers(3))
        layout = {name: operands.padded(shape, pad, pad) for name, shape in syrk.shapes(bare).items()}
        problem = syrk.problem(sizes, "float32", bare.options, layout)
        with monkeypatch.context() as patched:
            config = streaming(patched, joining, "syrk", problem, TILED[place], slots, looped=looped)
            verdict = check(joining, syrk, problem, config, rng)
        assert verdict.ok, f"{problem}: {verdict.message}"


@pytest.mark.parametrize(("uplo", "trans", "order"), list(itertools.product("LU", "NT", (1024, 1100, 2050))))
def test_tiles_of_several_bands(device: Device, uplo: str, trans: str, order: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole tiles, square and other ones, in one band, in two and in three: each of them once, and nothing beside the triangle."""
    rng = np.random.default_rng(new_seed(f"{uplo}{trans}{order}"))
    syrk = workloads.get("syrk")
    problem = syrk.problem({"n": order, "k": 3}, "float32", {"uplo": uplo, "trans": trans})
    for point in (TILED[0], TILED[2]):
        with monkeypatch.context() as patched:
            patched.setattr(zeros, "shared", lambda *_, one=point: (one.lowered(device.info), None))
            config: dict[str, Any] = {"NB": 0, "WGS": 32}
            plan = syrk.plan(problem, config, replace(device.info, kind="gpu"))
            patched.setattr(type(syrk), "plan", lambda *_, made=plan: made)
            verdict = check(device, syrk, problem, config, rng)
        assert verdict.ok, f"{problem}: {verdict.message}"


@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 0.0), (0.0, 0.0), (0.0, 1.25), (-2.5, 1.0)])
def test_the_same_bits_every_time(joining: Device, alpha: float, beta: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of many parts do not depend on which of their groups was the last; alpha = 0 does not read A."""
    rng = np.random.default_rng(new_seed(f"{alpha}{beta}"))
    syrk = workloads.get("syrk")
    problem = syrk.problem({"n": 50, "k": 500}, "float32", {"uplo": "L", "trans": "N"})
    given = syrk.inputs(problem, rng)
    memory = {"a": np.full_like(given.operands["a"], np.nan) if alpha == 0 else given.operands["a"], "c": given.operands["c"]}
    memory["c"] = np.nan_to_num(memory["c"])
    inputs = replace(given, operands=memory, scalars={"alpha": alpha, "beta": beta})
    config = streaming(monkeypatch, joining, "syrk", problem, TILED[0], 13)
    first, canaries = run(joining, syrk, problem, config, inputs)
    assert canaries.ok, canaries.message
    assert np.isfinite(first["c"]).all()
    for _ in range(3):
        assert run(joining, syrk, problem, config, inputs)[0]["c"].tobytes() == first["c"].tobytes()
