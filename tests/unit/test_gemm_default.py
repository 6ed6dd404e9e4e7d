"""GEMM's default without a device: legal for every size, and what it takes from shape, element type and device."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from portatile.device.opencl.caches import data_caches
from portatile.errors import ArgumentError
from portatile.records import DeviceInfo
from portatile.workloads.gemm import forms
from portatile.workloads.gemm.forms.cpu import processors
from portatile.workloads.gemm.forms.cpu.point import Cpu, register
from portatile.workloads.gemm.parameters import declaration
from support.devices import on_paper
from support.gemm import CPU, GPU, WORKLOAD, problem
from support.seeds import new_seed

OPENCL_GPU = replace(GPU, backend="opencl", local_memory=48 * 1024)


@pytest.mark.parametrize(
    "info",
    [CPU, replace(CPU, architecture="x86_64-rocketlake"), GPU, OPENCL_GPU, on_paper("gpu", "sm_80")],
    ids=["cpu", "cpu with avx-512", "cuda", "opencl gpu", "sm_80"],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_default_is_legal_for_every_size(info: DeviceInfo, dtype: str) -> None:
    rng = np.random.default_rng(new_seed("sizes of defaults"))
    for options in ({"trans_a": a, "trans_b": b} for a, b in itertools.product("NT", "NT")):
        for sizes in (
            (1, 1, 1),
            (0, 7, 3),
            (4096, 4096, 4096),
            (4097, 4095, 4099),
            (64, 64, 65536),
            (8192, 64, 8192),
            (512, 128, 512),
            (5, 9, 0),
            (6, 0, 5),
            (2048, 1, 2048),
            (1, 2048, 2048),
            (64, 2048, 2048),
            (2048, 33, 2048),
            (2500, 1300, 900),
            (3000, 3000, 3000),
            *(tuple(map(int, rng.integers(1, 6000, 3))) for _ in range(20)),
        ):
            case = problem(*sizes, dtype, options)
            config = WORKLOAD.default(case, info)
            assert WORKLOAD.space(case, info).violated(config) is None, f"{options} {sizes} {config}"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_processors_compute_no_more_than_c(dtype: str) -> None:
    """Tiles shrink with C, products along k take what has k fast, few rows read B once, one panel of B fits the second cache."""
    wide = replace(CPU, architecture="x86_64-rocketlake")
    lanes = 16 if dtype == "float32" else 8
    for info in (CPU, wide):
        for size in (1, 2, 3, 5, 16, 31):
            narrow, low = (forms.read(WORKLOAD.default(problem(*sizes, dtype), info)) for sizes in ((900, size, 900), (size, 900, 900)))
            assert narrow.columns < size + lanes
            assert low.rows <= max(size, 2)
            assert low.PACK_B is False
        assert WORKLOAD.default(problem(900, 1, 900, dtype), info)["KEEP"] is True
        assert WORKLOAD.default(problem(9, 900, 900, dtype, {"trans_b": "T"}), info)["KEEP"] is True
        assert WORKLOAD.default(problem(900, 900, 900, dtype, {"trans_b": "T"}), info)["KEEP"] is False
        assert WORKLOAD.default(problem(900, 2, 900, dtype, {"trans_a": "T"}), info)["TURN"] is True
        for case in (problem(60, 900, 900, dtype), problem(60, 900, 900, dtype, {"trans_b": "T"}), problem(100, 100, 100, dtype)):
            assert WORKLOAD.default(case, info)["SM"] is True
        assert WORKLOAD.default(problem(900, 900, 900, dtype), info)["SM"] is False
        assert 0 < int(WORKLOAD.default(problem(500, 500, 60000, dtype), info)["KB"]) <= 2048
    with pytest.raises(ArgumentError, match="KEEP in the cpu form"):
        WORKLOAD.plan(problem(9, 900, 900, dtype), replace(register(4, 4, 1), TC=2, KEEP=True, PACK_B=False).config(), wide)


def test_thresholds_follow_from_caches() -> None:
    """On the caches that were measured the sizes that were found there; with half of the second cache, half of the bytes."""
    wide, arm = replace(CPU, architecture="x86_64-rocketlake"), replace(CPU, architecture="aarch64-neoverse-n1")
    found = {(CPU, 4): (1200, 1200, 43), (CPU, 8): (980, 980, 32), (wide, 4): (2500, 2500, 43), (wide, 8): (2500, 1100, 43)}
    for (info, itemsize), sizes in found.items():
        near = processors.thresholds(info, itemsize)
        assert (near.banded, near.banded_packed, near.band) == sizes
        assert (near.panels, near.deep) == (6 << 20, 8192 // itemsize)
        known = processors.processor(info)
        assert processors.thresholds(replace(info, caches=known.caches), itemsize) == near
        half = processors.thresholds(replace(info, caches=(known.caches[0], known.caches[1] // 2)), itemsize)
        assert half.banded == pytest.approx(near.banded / 2**0.5, abs=1)
        assert (half.panels, half.deep) == (near.panels // 2, near.deep // 2)
    legal = declaration(Cpu).parameters["RASTER"].values
    assert all(processors.thresholds(info, itemsize).band in legal for info in (CPU, wide, arm) for itemsize in (4, 8))
    tiles = [
        [WORKLOAD.default(problem(900, 900, 900, dtype), arm)[name] for name in ("VL", "TR", "TC")] for dtype in ("float32", "float64")
    ]
    assert tiles == [[4, 8, 12], [2, 6, 8]], "tiles for 32 registers of 16 bytes"
    assert {path.stem for path in processors.FILES.glob("*.json")} == {"avx2", "avx512", "neon"}


def test_caches_are_read_as_linux_tells_them(tmp_path: Path) -> None:
    told = (("1", "Data", "48K"), ("1", "Instruction", "32K"), ("2", "Unified", "2M"), ("3", "Unified", "96M"))
    for place, values in enumerate(told):
        (index := tmp_path / f"index{place}").mkdir()
        for name, text in zip(("level", "type", "size"), values, strict=True):
            (index / name).write_text(f"{text}\n")
    assert data_caches(tmp_path) == (48 << 10, 2 << 20, 96 << 20)
    assert data_caches(tmp_path / "nothing") == ()


def test_defaults_follow_the_device() -> None:
    case = problem(4096, 4096, 4096)
    assert WORKLOAD.default(case, CPU)["FORM"] == "cpu"
    assert WORKLOAD.default(case, replace(CPU, architecture="x86_64-rocketlake"))["VL"] == 2 * int(WORKLOAD.default(case, CPU)["VL"])
    assert WORKLOAD.default(case, GPU)["FORM"] == "gpu"
    assert WORKLOAD.default(problem(4096, 4096, 4096, "float64"), GPU)["FORM"] in ("gpu", "tma")
    assert WORKLOAD.default(problem(4096, 4096, 4096, "float64"), on_paper("gpu", "sm_80"))["MMA_SHAPE"] == "8x8x4"
    assert WORKLOAD.default(problem(4096, 4096, 4096, "float64"), replace(GPU, architecture="sm_86"))["MMA"] is False
    assert WORKLOAD.default(case, replace(GPU, vendor="someone else"))["FORM"] == "generic"
    assert WORKLOAD.default(problem(64, 64, 65536), GPU)["SPLIT_K"] == 64


@pytest.mark.parametrize("info", [GPU, OPENCL_GPU], ids=["cuda", "opencl"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_default_fills_the_last_wave(info: DeviceInfo, dtype: str) -> None:
    """33 x 32 tiles of 128 x 128 are 8 waves on 132 multiprocessors, 17 x 32 of 256 x 128 are 4 and a bit."""
    for sizes, most in (((4097, 4095, 4099), 1.05), ((3001, 3001, 3001), 1.1), ((1537, 1537, 1537), 1.4)):
        case = problem(*sizes, dtype)
        assert WORKLOAD.waste(case, WORKLOAD.default(case, info), info) < most


def test_matrix_tiles_suit_the_transposition() -> None:
    """B takes the place of the instruction's A but where A has k slow and B has it fast."""
    for trans_a, trans_b, lanes in (("N", "N", 8), ("N", "T", 8), ("T", "N", 8), ("T", "T", 4)):
        for n in (300, 900, 1024, 3000, 8192):
            case = problem(n, n, n, "float64", {"trans_a": trans_a, "trans_b": trans_b})
            point = forms.forms()["gpu"].default(case, GPU, 1)
            assert point is not None
            assert point.config()["LANES"] == lanes
