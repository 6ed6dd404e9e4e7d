"""An exported folder computes through CUDA without portatile: on a fake driver that interprets its PTX."""

from __future__ import annotations

import ctypes
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from portatile import workloads
from portatile.device.base import Device
from portatile.device.cuda import compiler as cuda_compiler
from portatile.device.cuda.info import capabilities
from portatile.records import DeviceInfo
from portatile.shipping import folder as folders
from portatile.workloads.gemm import presets
from portatile.workloads.gemm.forms.generic.point import tile
from portatile.workloads.gemm.forms.hopper import point as hopper
from support.devices import on_paper
from support.exported import SMALL, Driver, drawn, item, loaded
from support.ptx_machine.device import INFO
from support.seeds import new_seed

HOPPER = replace(on_paper("gpu"), capabilities=capabilities("sm_90"))
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
    monkeypatch.setitem(loader._FOUND_BY, "cuda", lambda: loader.find_cuda(Driver(info.name)))
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


class MapsOnly(Driver):
    """Records what maps are made of, in place of making them."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.asked: list[Any] = []

    def cuTensorMapEncodeTiled(self, made: Any, *given: Any) -> int:
        assert made.value % 64 == 0
        self.asked.append([list(one) if isinstance(one, ctypes.Array) else one for one in given])
        ctypes.memset(made.value, len(self.asked), 128)
        return 0


@needs_nvrtc
def test_exported_kernels_get_their_tensor_maps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder says what the driver is asked for: matrices, or a stack of them."""
    loader = _shipped(tmp_path, monkeypatch)
    driver = MapsOnly("a GPU")
    gpu = loader.Cuda(driver, 0)
    (stack,) = (arg["map"] for arg in loader.problems()[0]["launches"][0]["args"] if arg["kind"] == "tensor_map" and arg["name"] == "a")
    assert gpu.tensor_map(ctypes.c_uint64(4096), stack).raw == bytes([1]) * 128
    assert gpu.tensor_map(ctypes.c_uint64(4096), {**stack, "planes": 0, "step": 0}).raw == bytes([2]) * 128
    sides = [[72, 40, 3], [144, 5760], [64, 64, 1], [1, 1, 1]]
    kinds = [1, 3, 0, 3, 2, 0]  # elements of 16 bits, dimensions; nothing interleaved, swizzled by 128 bytes, read by 128, zeros outside
    for asked, rank in zip(driver.asked, (3, 2), strict=True):
        element, dimensions, address, *geometry = asked
        assert (element, dimensions, address.value) == (kinds[0], rank, 4096)
        assert geometry == [*(side[: rank - (place == 1)] for place, side in enumerate(sides)), *kinds[2:]]


def test_exported_warp_groups_multiply(device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not device.info.can.warp_groups:
        pytest.skip("no warp groups multiply here")
    rng = np.random.default_rng(new_seed("exported warp groups"))
    loader = _shipped(tmp_path, monkeypatch, device.info)
    run = loader.load("gemm_batched", batch=3, m=40, n=48, k=72)
    a, b = ((rng.random(shape) - 0.5).astype(np.float16) for shape in ((3, 40, 72), (3, 72, 48)))
    expected = a.astype(np.float64) @ b
    for _ in range(2):
        assert np.abs(run(a, b) - expected).max() < 72 * 2.0**-11


def _shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, info: DeviceInfo = HOPPER) -> Any:
    """The loader of a folder with a stack of products of float16 by warp groups."""
    batched = workloads.get("gemm_batched")
    problem = batched.problem({"batch": 3, "m": 40, "n": 48, "k": 72}, "float16")
    config = replace(hopper.tile(64, 64, 4), MAPS=1).config(batched=True)
    shipped = folders.write(tmp_path / "folder", [item(problem, config, info)])
    assert shipped.left_out == []
    return loaded(monkeypatch, tmp_path / "folder")
