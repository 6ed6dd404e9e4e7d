"""Ceilings are kept for each device and driver: what was written is read back, merged, and never half there."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from portatile import ceilings, workloads
from portatile.ceilings import BRIEF, BUSY, Measured, Work
from portatile.errors import StoreError
from portatile.measure import first_ceilings
from portatile.records import DeviceInfo, to_json
from support.devices import DEVICES

CPU, GPU = DEVICES["cpu"], DEVICES["gpu"]
COPY = Measured("copy", "B/s", 8e9, (2.0, 1.0, 4.0), {"dtype": "float64"})
FP32 = Measured("fp32", "flop/s", 2e12, (1.0, 1.25), {"dtype": "float32"})


@pytest.fixture(autouse=True)
def own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path))


def transfer(memory: str, size: int, seconds: float) -> Measured:
    return Measured("htod", "B/s", float(size), (seconds,), {"memory": memory, "bytes": size})


def test_nothing_is_known_at_first() -> None:
    assert ceilings.load(CPU) is None


def test_what_is_added_is_read_back_for_this_device_only() -> None:
    added = ceilings.add(CPU, [COPY, FP32])
    loaded = ceilings.load(CPU)
    assert loaded == added
    assert loaded is not None
    assert (loaded.copy, loaded.triad, loaded.fp32, loaded.fp64, loaded.special, loaded.local_memory) == (8.0, None, 2e12, None, None, None)
    assert loaded.bandwidth == 8.0
    assert loaded.driver == CPU.driver
    assert loaded.time
    assert loaded.samples == {"copy float64": COPY.samples, "fp32 float32": FP32.samples}
    assert all(m.time for m in loaded.measured)
    assert ceilings.load(GPU) is None


def test_another_driver_starts_anew() -> None:
    ceilings.add(CPU, [COPY])
    other = replace(CPU, driver="another")
    assert ceilings.load(other) is None
    assert ceilings.add(other, [FP32]).copy is None


def test_the_faster_of_two_measurements_is_kept() -> None:
    """Slower than before means a busier machine; other quantities, sizes and kinds of memory are apart."""
    ceilings.add(CPU, [COPY, transfer("pinned", 1000, 1e-6), transfer("pageable", 1000, 2e-6)])
    result = ceilings.add(CPU, [replace(COPY, samples=(2.0,)), transfer("pinned", 1000, 5e-7), transfer("pinned", 2000, 2e-6)])
    assert result.copy == 8.0
    assert len(result.transfers) == 3
    assert result.transfer("htod") == pytest.approx(2.0)
    assert result.transfer("htod", "pageable") == pytest.approx(0.5)
    assert result.transfer("dtoh") is None


def test_a_fresh_measurement_replaces_the_earlier_one() -> None:
    ceilings.add(CPU, [COPY, FP32])
    result = ceilings.add(CPU, [replace(COPY, samples=(2.0,))], fresh=True)
    assert (result.copy, result.fp32) == (4.0, 2e12)


def test_functions_are_apart() -> None:
    kinds = [
        Measured("special", "op/s", rate, (1.0,), {"dtype": "float32", "quantity": kind}) for kind, rate in (("cos", 2.0), ("rsqrt", 5.0))
    ]
    result = ceilings.add(CPU, kinds)
    assert result.special == 5.0
    assert set(result.samples) == {"special float32 cos", "special float32 rsqrt"}


def test_a_damaged_file_warns_and_can_be_replaced() -> None:
    ceilings.add(CPU, [COPY])
    ceilings.path_of(CPU).write_text('{"device": 3}')
    with pytest.warns(UserWarning, match="device"):
        assert ceilings.load(CPU) is None
    with pytest.warns(UserWarning, match="measure again"):
        assert ceilings.add(CPU, [COPY]).copy == 8.0
    assert ceilings.load(CPU) is not None
    assert list(ceilings.path_of(CPU).parent.glob(".new-*")) == []


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path / "file"))
    with pytest.raises(StoreError, match="PORTATILE_DATA_DIR"):
        ceilings.add(CPU, [COPY])


def stream(n: int, rate: float) -> Measured:
    return Measured("copy", "B/s", rate, (1.0,), {"dtype": "float64", "operation": "copy", "n": n})


@pytest.mark.parametrize("device", [CPU, GPU], ids=["cpu", "gpu"])
def test_the_rate_of_a_cache_is_no_ceiling(device: DeviceInfo) -> None:
    """Neither kept nor, from a file that an earlier version wrote, read; arrays of the usual size and larger ones count."""
    usual = ceilings.stream_bytes(device)
    ceilings.add(device, [stream(usual // 8, 27.8e9)])
    for small in (1, 2**15, usual // 16, usual // 8 - 1):
        assert ceilings.add(device, [stream(small, 84e9)]).bandwidth == pytest.approx(27.8)
    assert ceilings.add(device, [stream(small, 84e9)], fresh=True).bandwidth == pytest.approx(27.8)
    assert ceilings.add(device, [stream(usual // 4, 28e9)]).bandwidth == pytest.approx(28)
    old = ceilings.Ceilings(device, (stream(2**15, 84e9), FP32), "2026-01-01")
    ceilings.path_of(device).write_bytes(to_json(old))
    loaded = ceilings.load(device)
    assert loaded is not None
    assert (loaded.bandwidth, loaded.fp32) == (None, 2e12)


def test_a_device_of_little_memory_is_measured_as_well_as_it_can() -> None:
    small = replace(GPU, max_allocation=1 << 26, global_memory=1 << 30)
    assert ceilings.stream_bytes(small) == 1 << 25
    assert ceilings.through_memory(stream((1 << 25) // 8, 1e9), small)


def test_shares_of_what_is_known() -> None:
    known = ceilings.Ceilings(CPU, (COPY, FP32))
    assert known.shares(Work("float32", 1e12, 4e9), 1.0) == pytest.approx({"arithmetic": 0.5, "memory": 0.5})
    assert known.shares(Work("float64", 1e12, 4e9), 1.0) == pytest.approx({"memory": 0.5})


def test_functions_bind_where_there_is_a_unit_for_them() -> None:
    """The Coulombic potential as an H200 was measured: more than its unit alone can, which says that polynomials help."""
    measured = (Measured("fp32", "flop/s", 65.7e12, (1.0,)), Measured("special", "op/s", 4.17e12, (1.0,)))
    coulomb = workloads.get("coulomb")
    problem = coulomb.problem({"atoms": 40000, "nx": 512, "ny": 512, "nz": 1})
    work = Work("float32", coulomb.flops(problem), coulomb.traffic(problem), coulomb.functions(problem))
    assert work.functions == 40000 * 512 * 512
    shares = ceilings.Ceilings(GPU, measured).shares(work, work.functions / 4.67e12)
    assert shares == pytest.approx({"arithmetic": 9 * 4.67 / 65.7, "special": 4.67 / 4.17})
    assert max(shares, key=lambda name: shares[name]) == "special"
    assert set(ceilings.Ceilings(CPU, measured).shares(work, 1.0)) == {"arithmetic"}  # a CPU has no unit for them
    mri = workloads.get("mri")
    assert mri.functions(mri.problem({"samples": 3, "voxels": 5})) == 30


def test_products_are_compared_with_matrix_units() -> None:
    plain, units = Measured("fp64", "flop/s", 33.2e12, (1.0,)), Measured("mma", "flop/s", 66e12, (1.0,))
    product, other = (Work("float64", 58e12, 1.0, products=products) for products in (True, False))
    both, one = ceilings.Ceilings(GPU, (plain, units)), ceilings.Ceilings(GPU, (plain,))
    assert both.shares(product, 1.0) == pytest.approx({"matrix units": 58 / 66})
    assert both.shares(other, 1.0) == one.shares(product, 1.0) == pytest.approx({"arithmetic": 58 / 33.2})
    assert both.arithmetic("float32", products=True) is None
    assert {name for name in workloads.names() if workloads.get(name).products} == {
        *(name + batched for name in ("symm", "syrk", "syr2k", "trmm", "triangular") for batched in ("", "_batched")),
        *(name for name in workloads.names() if name.startswith("gemm")),
    }


def test_a_thorough_measurement_takes_the_place_of_a_brief_one_and_never_the_reverse() -> None:
    brief = replace(COPY, samples=(0.5,), details={**COPY.details, BRIEF: True})
    assert ceilings.add(CPU, [brief]).brief
    result = ceilings.add(CPU, [COPY])
    assert (result.copy, result.brief) == (8.0, False)
    assert ceilings.add(CPU, [brief]).copy == 8.0


def test_what_binds_is_the_ceiling_that_a_run_is_nearest_to() -> None:
    gemm = workloads.get("gemm")
    large, thin = gemm.problem({"m": 4096, "n": 4096, "k": 4096}), gemm.problem({"m": 4096, "n": 1, "k": 4096})
    known = ceilings.add(CPU, [COPY, FP32])
    found = [ceilings.binding(known, ceilings.work_of(gemm, one), seconds) for one, seconds in ((large, 0.1), (thin, 0.01))]
    assert [None if one is None else one.name for one in found] == ["arithmetic", "memory"]
    assert str(found[0]) == "69 % arithmetic"
    assert ceilings.binding(None, ceilings.work_of(gemm, large), 1.0) is None
    unknown = [Work("float32", flops=1e12, traffic=0.0), Work("float64", flops=1e12, traffic=1e9)]  # traffic; the ceiling of float64
    assert [ceilings.binding(known, work, 10.0) for work in unknown] == [None, None]
    assert [ceilings.binding(known, work, seconds) is None for work, seconds in zip(unknown, (0.8, 0.15), strict=True)] == [False, False]


def test_nothing_is_measured_where_ceilings_are_known_or_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(first_ceilings.processes, "finished", refuse)
    monkeypatch.setenv("PORTATILE_CEILINGS", "off")
    assert first_ceilings.ensure(CPU) is None
    monkeypatch.delenv("PORTATILE_CEILINGS")
    known = ceilings.add(CPU, [COPY])
    assert first_ceilings.ensure(CPU) == known


@pytest.mark.parametrize(("load", "times"), [(0.0, 1), (1e6, 0)])
def test_a_busy_processor_is_measured_again_once_it_is_free(load: float, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PORTATILE_CEILINGS", raising=False)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, load, load))
    started = Mock(return_value=SimpleNamespace(stderr="", returncode=0))
    monkeypatch.setattr(first_ceilings.processes, "finished", started)
    ceilings.add(CPU, [replace(COPY, details={BRIEF: 1, BUSY: True})])
    first_ceilings.ensure(CPU)
    assert started.call_count == times


@pytest.mark.parametrize(("load", "times"), [(0.0, 1), (1e6, 2)])
def test_time_that_ran_out_counts_where_the_machine_was_free(load: float, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PORTATILE_CEILINGS", raising=False)
    monkeypatch.setattr(first_ceilings.processes, "finished", Mock(side_effect=subprocess.TimeoutExpired("python", 30.0)))
    monkeypatch.setattr(os, "getloadavg", lambda: (load, load, load))
    said: list[str] = []
    for _ in range(2):
        first_ceilings.ensure(GPU, said.append)
    assert len(said) == times
    assert "took more than" in said[0]


def test_a_device_that_cannot_be_measured_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PORTATILE_CEILINGS", raising=False)
    said: list[str] = []
    assert first_ceilings.ensure(GPU, said.append) == ceilings.load(GPU)
    first_ceilings.ensure(GPU, said.append)
    assert len(said) == 1
    assert "could not be measured" in said[0]
