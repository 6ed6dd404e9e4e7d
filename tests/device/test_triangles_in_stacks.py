"""Stacks of triangles: systems by inverses and by substitution, and products that leave out what is zero or not wanted, as on GPUs."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from portatile import workloads
from portatile.device.base import Device
from portatile.records import Config, DeviceInfo, Layout, Problem
from portatile.workloads import blocks, operands, symm
from portatile.workloads.gemm.forms.gpu.point import Gpu, pipeline
from portatile.workloads.gemm.storage import k_fast
from portatile.workloads.triangular import inverses
from support.checking import check
from support.seeds import new_seed

pytestmark = [pytest.mark.thinned(1 / 3), pytest.mark.unoptimised]

TILE = pipeline(4, (8, 8), (1, 1), 8, 2, 4, double=0)
CASES = list(itertools.product("LR", "LU", "NTC", "NU"))


def as_nvidia(monkeypatch: pytest.MonkeyPatch, device: Device, rng: np.random.Generator) -> DeviceInfo:
    """What plans are made for that NVIDIA's GPUs get, with tiles that are small enough for a processor; complex operands packed, or not."""

    def small(problem: Problem, *_: object) -> Gpu:
        if str(problem.options.get("types", "")).startswith("complex"):
            packs = rng.random() < 0.3
            return replace(TILE, PACK_A=packs and k_fast(problem, "a"), PACK_B=packs and k_fast(problem, "b"), PAD=4).lowered(device.info)
        return TILE.lowered(device.info)

    monkeypatch.setattr(blocks, "in_stacks", small)
    return replace(device.info, kind="gpu", vendor="NVIDIA")


def stack(name: str, sizes: dict[str, int], dtype: str, options: dict[str, Any], pad: int, *, shared: bool = False) -> Problem:
    """Matrices with gaps between their rows and between each other; ``shared``: one A for all."""
    workload = workloads.get(name)
    bare = workload.problem(sizes, dtype, options)
    layout = {}
    for operand, (_, rows, columns) in workload.shapes(bare).items():
        step = 0 if shared and operand == "a" else rows * (columns + pad) + 3 * pad
        layout[operand] = Layout((step, columns + pad, 1), pad, 16 if pad % 4 else 128)
    return workload.problem(sizes, dtype, bare.options, layout)


def right(device: Device, problem: Problem, config: Config, info: DeviceInfo, seed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    workload = workloads.get(problem.workload)
    plan = workload.plan(problem, config, info)
    with monkeypatch.context() as patched:
        patched.setattr(type(workload), "plan", lambda *_: plan)
        verdict = check(device, workload, problem, config, np.random.default_rng(new_seed(seed)))
    assert verdict.ok, f"{problem}: {verdict.message}"


@pytest.mark.parametrize("nvidia", [False, True])
@pytest.mark.parametrize(("side", "uplo", "trans", "diag"), CASES)
def test_systems_by_inverses(
    device: Device, side: str, uplo: str, trans: str, diag: str, nvidia: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One block and several, joined by a launch and by products; over B and beside it; a triangle for each, or one for all."""
    seed = f"{side}{uplo}{trans}{diag}{nvidia}"
    rng = np.random.default_rng(new_seed(seed))
    info = as_nvidia(monkeypatch, device, rng) if nvidia else device.info
    monkeypatch.setattr(inverses, "_LARGE", int(rng.choice([16, 128])))
    dtype = str(rng.choice(["float32", "complex64"]))
    for most, apart in ((20, True), (150, rng.random() < 0.5), (100, False)):
        order, count = int(rng.integers(most // 2, most)), int(rng.integers(1, 30))
        sizes = {"batch": int(rng.integers(1, 5)), **({"m": order, "n": count} if side == "L" else {"m": count, "n": order})}
        options = {"side": side, "uplo": uplo, "trans": trans, "diag": diag, "apart": bool(apart)}
        problem = stack("triangular_batched", sizes, dtype, options, int(rng.integers(4)), shared=rng.random() < 0.3)
        config = {"METHOD": "invert", "NB": 32 if most == 20 else 64, "IB": 8, "WGS": 32, "PANEL": 8}
        right(device, problem, config, info, f"{seed}{most}", monkeypatch)


@pytest.mark.parametrize(("side", "uplo", "trans", "diag"), CASES)
def test_systems_by_substitution(device: Device, side: str, uplo: str, trans: str, diag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One block, which a GPU's launch solves beside B or over it, and several with products between them."""
    seed = f"{side}{uplo}{trans}{diag}"
    rng = np.random.default_rng(new_seed(seed))
    for dtype, most, apart in (("float32", 32, True), ("complex64", 70, rng.random() < 0.5)):
        order, count = int(rng.integers(most // 2, most + 1)), int(rng.integers(1, 30))
        sizes = {"batch": int(rng.integers(1, 5)), **({"m": order, "n": count} if side == "L" else {"m": count, "n": order})}
        options = {"side": side, "uplo": uplo, "trans": trans, "diag": diag, "apart": bool(apart)}
        problem = stack("triangular_batched", sizes, dtype, options, int(rng.integers(4)), shared=rng.random() < 0.3)
        config = {"METHOD": "substitute", "NB": 32, "IB": 8, "WGS": 64, "PANEL": 8}
        right(device, problem, config, replace(device.info, kind="gpu"), f"{seed}{most}", monkeypatch)


@pytest.mark.parametrize(("side", "uplo", "trans", "diag"), CASES)
def test_triangular_factors(device: Device, side: str, uplo: str, trans: str, diag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One product for all matrices; of a copy of B where the result overwrites that."""
    seed = f"{side}{uplo}{trans}{diag}"
    rng = np.random.default_rng(new_seed(seed))
    info = as_nvidia(monkeypatch, device, rng)
    dtype = str(rng.choice(["float32", "complex64"]))
    for apart in (False, True):
        sizes = {"batch": int(rng.integers(1, 5)), "m": int(rng.integers(1, 80)), "n": int(rng.integers(1, 80))}
        options = {"side": side, "uplo": uplo, "trans": trans, "diag": diag, "apart": apart}
        problem = stack("trmm_batched", sizes, dtype, options, int(rng.integers(4)), shared=rng.random() < 0.3)
        right(device, problem, {"WGS": 32}, info, f"{seed}{apart}", monkeypatch)


@pytest.mark.parametrize(("uplo", "trans", "mirror"), list(itertools.product("LU", "NTC", "TC")))
def test_updates(device: Device, uplo: str, trans: str, mirror: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One product for all matrices that leaves out a triangle."""
    seed = f"{uplo}{trans}{mirror}"
    rng = np.random.default_rng(new_seed(seed))
    info = as_nvidia(monkeypatch, device, rng)
    for dtype in ("float32", "complex64"):
        sizes = {"batch": int(rng.integers(1, 5)), "n": int(rng.integers(1, 90)), "k": int(rng.integers(1, 50))}
        problem = stack("syrk_batched", sizes, dtype, {"uplo": uplo, "trans": trans, "mirror": mirror}, int(rng.integers(4)))
        right(device, problem, {"WGS": 32}, info, f"{seed}{dtype}", monkeypatch)


@pytest.mark.parametrize(
    ("side", "uplo", "trans", "mirror"), [*itertools.product("LR", "LU", "NTC", "T"), ("L", "U", "N", "C"), ("R", "L", "T", "R")]
)
def test_symmetric_factors(device: Device, side: str, uplo: str, trans: str, mirror: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One product that reads one triangle of each matrix; Hermitian ones are expanded before."""
    seed = f"{side}{uplo}{trans}{mirror}"
    rng = np.random.default_rng(new_seed(seed))
    info = as_nvidia(monkeypatch, device, rng)
    for dtype in ("float32", "complex64"):
        sizes = {"batch": int(rng.integers(1, 5)), "m": int(rng.integers(1, 80)), "n": int(rng.integers(1, 80))}
        options = {"side": side, "uplo": uplo, "trans_b": trans, "mirror": mirror}
        problem = stack("symm_batched", sizes, dtype, options, int(rng.integers(4)), shared=rng.random() < 0.3)
        right(device, problem, {"WGS": 64}, info, f"{seed}{dtype}", monkeypatch)


@pytest.mark.parametrize(
    ("side", "uplo", "trans", "split"), [(*case, 1 + at % 2) for at, case in enumerate(itertools.product("LR", "LU", "NT"))]
)
def test_one_symmetric_factor(device: Device, side: str, uplo: str, trans: str, split: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of which the product reads a triangle, with all of k or a part of it in a group."""
    seed = f"{side}{uplo}{trans}"
    rng = np.random.default_rng(new_seed(seed))
    info = as_nvidia(monkeypatch, device, rng)
    small = vars(blocks)["in_stacks"]
    monkeypatch.setattr(blocks, "in_stacks", lambda *given: replace(small(*given), SPLIT_K=split))
    monkeypatch.setattr(symm, "reads_triangle", lambda *_: True)
    for dtype in ("float32", "complex64"):
        order, other = int(rng.integers(16, 80)), int(rng.integers(1, 80))
        sizes = {"m": order, "n": other} if side == "L" else {"m": other, "n": order}
        bare = symm.workload.problem(sizes, dtype, {"side": side, "uplo": uplo, "trans_b": trans})
        layout = {name: operands.padded(shape, 3, 5, 16) for name, shape in symm.workload.shapes(bare).items()}
        problem = symm.workload.problem(sizes, dtype, bare.options, layout)
        assert "gemm" in symm.workload.plan(problem, {"WGS": 64}, info).steps[0].kernel  # type: ignore[union-attr]
        right(device, problem, {"WGS": 64}, info, f"{seed}{dtype}", monkeypatch)
