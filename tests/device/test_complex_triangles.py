"""Complex products of the gpu form that leave out a triangle, each with what it does not read poisoned and nothing else written."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from portatile import workloads
from portatile.device.base import Device
from portatile.records import DeviceInfo, Problem
from portatile.workloads import operands
from portatile.workloads.gemm import zeros
from portatile.workloads.gemm.extras import Triangle
from portatile.workloads.gemm.forms.gpu.point import Gpu, pipeline
from portatile.workloads.gemm.forms.gpu.triangle import Quarters, quartered
from portatile.workloads.gemm.reals import computed
from portatile.workloads.gemm.storage import k_fast
from support.checking import check
from support.seeds import new_seed

pytestmark = [pytest.mark.thinned(1 / 2), pytest.mark.unoptimised]

TILES = {"complex64": pipeline(4, (8, 8), (1, 1), 8, 2, 4, double=0), "complex128": pipeline(2, (16, 16), (2, 1), 8, 3, 4)}
"""Whose vectors are 16 bytes, as local memory is read on GPUs."""
SQUARE = pipeline(2, (16, 16), (1, 1), 8, 2, 4)
CONFIG = {"NB": 0, "WGS": 32}


def forced(monkeypatch: pytest.MonkeyPatch, device: Device, tile: Gpu, *, quarters: bool = False) -> DeviceInfo:
    """Products with triangles have this tile, whatever the device; what a plan is to be made for."""

    def shared(called: Problem, _: object, triangle: Triangle) -> tuple[Gpu, Quarters | None]:
        reals = computed(called)
        point = replace(tile, PACK_A=k_fast(reals, "a"), PACK_B=k_fast(reals, "b")).lowered(device.info)
        return point, quartered(reals.sizes["n"], tile.rows) if quarters and triangle.operand == "c" else None

    monkeypatch.setattr(zeros, "shared", shared)
    return replace(device.info, kind="gpu")


def laid_out(name: str, sizes: dict[str, int], dtype: str, options: dict[str, object], pad: int, offset: int) -> Problem:
    workload = workloads.get(name)
    bare = workload.problem(sizes, dtype, options)  # type: ignore[arg-type]
    layout = {one: operands.padded(shape, pad, offset, 8) for one, shape in workload.shapes(bare).items()}
    return workload.problem(sizes, dtype, bare.options, layout)


def right(device: Device, problem: Problem, info: DeviceInfo, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan of the problem is one product beside copies, and gives what it should within canaries."""
    workload = workloads.get(problem.workload)
    plan = workload.plan(problem, CONFIG, info)
    with monkeypatch.context() as patched:
        patched.setattr(type(workload), "plan", lambda *_: plan)
        verdict = check(device, workload, problem, CONFIG, rng)
    assert verdict.ok, f"{problem}: {verdict.message}"


@pytest.mark.parametrize("quarters", [False, True])
@pytest.mark.parametrize(("uplo", "trans", "mirror"), list(itertools.product("LU", "NTCR", "TC")))
def test_updates(device: Device, uplo: str, trans: str, mirror: str, quarters: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """One tile and several; of conjugates and without; C padded and not, NaN where beta = 0, with a diagonal that becomes real."""
    rng = np.random.default_rng(new_seed(f"{uplo}{trans}{mirror}{quarters}"))
    dtype = "complex128" if device.info.fp64 and rng.random() < 0.5 else "complex64"
    info = forced(monkeypatch, device, SQUARE if quarters else TILES[dtype], quarters=quarters)
    for most in (12, 80):
        sizes = {"n": int(rng.integers(1, most)), "k": int(rng.integers(1, 40))}
        pad, offset = (int(one) for one in rng.integers(0, 4, 2))
        options = {"uplo": uplo, "trans": trans, "mirror": mirror}
        right(device, laid_out("syrk", sizes, dtype, options, pad, offset), info, rng, monkeypatch)


@pytest.mark.parametrize(("side", "uplo", "trans", "diag"), list(itertools.product("LR", "LU", "NTCR", "NU")))
def test_triangular_factors(device: Device, side: str, uplo: str, trans: str, diag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packed and as it lies, with a diagonal of ones that is not read; the other triangle is NaN."""
    rng = np.random.default_rng(new_seed(f"{side}{uplo}{trans}{diag}"))
    dtype = "complex128" if device.info.fp64 and rng.random() < 0.5 else "complex64"
    info = forced(monkeypatch, device, TILES[dtype])
    for most, apart in ((12, True), (80, False)):
        sizes = {"m": int(rng.integers(1, most)), "n": int(rng.integers(1, most))}
        pad, offset = (int(one) for one in rng.integers(0, 4, 2))
        options = {"side": side, "uplo": uplo, "trans": trans, "diag": diag, "apart": apart}
        right(device, laid_out("trmm", sizes, dtype, options, pad, offset), info, rng, monkeypatch)


@pytest.mark.parametrize("method", ["invert", "refine"])
@pytest.mark.parametrize(("side", "uplo", "trans", "diag"), list(itertools.product("LR", "LU", "NTCR", "NU")))
def test_systems_by_inverses(device: Device, side: str, uplo: str, trans: str, diag: str, method: str) -> None:
    """Blocks that one launch inverts, and such as are joined of several; a part of one; results over B and beside it."""
    rng = np.random.default_rng(new_seed(f"{side}{uplo}{trans}{diag}{method}"))
    dtype = "complex128" if device.info.fp64 and rng.random() < 0.5 else "complex64"
    for config in ({"NB": 32, "IB": 8, "WGS": 32, "PANEL": 8}, {"NB": 64, "IB": 16, "WGS": 64, "PANEL": 16}):
        order, count = int(rng.integers(33, 150)), int(rng.integers(1, 40))
        sizes = {"m": order, "n": count} if side == "L" else {"m": count, "n": order}
        pad, offset = (int(one) for one in rng.integers(0, 4, 2))
        options = {"side": side, "uplo": uplo, "trans": trans, "diag": diag, "apart": rng.random() < 0.5}
        problem = laid_out("triangular", sizes, dtype, options, pad, offset)
        verdict = check(device, workloads.get("triangular"), problem, {"METHOD": method, **config}, rng)
        assert verdict.ok, f"{problem}: {verdict.message}"
