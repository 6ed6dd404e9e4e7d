"""An exported folder computes through CUDA without portatile: on a fake driver that interprets its PTX."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from portatile import workloads
from portatile.device.cuda import compiler as cuda_compiler
from portatile.shipping import folder as folders
from portatile.workloads.gemm import presets
from portatile.workloads.gemm.forms.generic.point import tile
from support.exported import SMALL, Driver, drawn, item, loaded
from support.ptx_machine.device import INFO
from support.seeds import new_seed

needs_nvrtc = pytest.mark.skipif(cuda_compiler.available() is not None, reason=f"NVRTC: {cuda_compiler.available()}")


@pytest.fixture(autouse=True)
def own_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("PORTATILE_CACHE_DIR", str(tmp_path / "cache"))


@needs_nvrtc
def test_cuda_kernels_run_through_the_drivers_functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Split k for a GPU that is not here; another one takes the PTX, which the interpreter runs."""
    rng = np.random.default_rng(new_seed("export for CUDA"))
    info = replace(INFO, platform="NVIDIA CUDA")
    gemm = workloads.get("gemm")
    problem = gemm.problem({"m": 9, "n": 7, "k": 128})
    config = drawn(problem, info, rng, SPLIT_K=2, TXC=False, **SMALL)
    items = [item(problem, config, info)]
    for size, ways in ((8, ("image", "view")), (12, ("view local", "image local"))):  # float32, then float64
        other = gemm.problem({"m": size, "n": 8, "k": 8}, "float32" if size == 8 else "float64")
        small = tile(4, (4, 4), (8, 8), (1, 1), 8, True) if size == 8 else tile(2, (2, 2), (8, 8), (1, 1), 8, True)
        items.append(item(other, presets.staged(small, *ways).config(), info))
    shipped = folders.write(tmp_path / "folder", items)
    assert shipped.left_out == []
    table = json.loads((tmp_path / "folder" / "kernels.json").read_text())
    assert all({binary["kind"] for binary in program["binaries"]} == {"cubin", "ptx"} for program in table["programs"].values())
    loader = loaded(monkeypatch, tmp_path / "folder")
    monkeypatch.setitem(loader._find, "cuda", lambda: loader._find_cuda(Driver(info.name)))
    a, b, c = (rng.random(shape, dtype=np.float32) for shape in ((9, 128), (128, 7), (9, 7)))
    run = loader.load("gemm", m=9, n=7, k=128)
    assert len(run.launches) > 1
    assert np.allclose(run(a, b, c=c, alpha=2.0, beta=0.5), 2 * a @ b + 0.5 * c, rtol=1e-4, atol=1e-5)
    for one in items[1:]:
        m, dtype = one.problem.sizes["m"], one.problem.dtype
        x, y = rng.random((m, 8)).astype(dtype), rng.random((8, 8)).astype(dtype)
        through_images = loader.load("gemm", m=m, n=8, k=8)
        for alpha in (1.0, -2.0):
            assert np.allclose(through_images(x, y, alpha=alpha), alpha * x @ y, rtol=1e-4, atol=1e-5)
    with pytest.raises(LookupError, match="has no gemm with"):
        loader.load("gemm", m=10, n=7, k=128)
    with pytest.raises(LookupError, match=info.name):
        loader.load("gemm", m=9, n=7, k=128, device="abacus")
    with pytest.raises(ValueError, match="shape"):
        run(a.T, b)
    with pytest.raises(TypeError, match="'b' is missing"):
        run(a)
    with pytest.raises(TypeError, match="gamma"):
        run(a, b, gamma=1.0)
