"""The workload's side of a tuning run: what is rejected before compiling, times that are not believed, what a certificate says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from portatile import ceilings
from portatile.ceilings import BUSY, Measured
from portatile.kernel import Kernel
from portatile.records import DeviceInfo, Source
from portatile.tuning.search.planner import _CPU_MARGIN, _DISTURBED, _MARGIN, Planner, cases
from portatile.tuning.shared_arrays import SharedArrays
from support.faulty import Faulty
from support.trials import DEVICE

WORKLOAD = Faulty(("none", "group"), (16, 32))
PROBLEM = WORKLOAD.problem({"n": 1_000_000})
GPU = replace(DEVICE, kind="gpu", compute_units=100)


@pytest.fixture(autouse=True)
def own_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path))


def planner(info: DeviceInfo = DEVICE, dtype: str = "float32") -> Planner:
    arena = SharedArrays()
    try:
        problems, described = cases(WORKLOAD, replace(PROBLEM, dtype=dtype), 0, arena)
    finally:
        arena.close()
    return Planner(WORKLOAD, problems, described, info)


def test_what_cannot_run_is_turned_away() -> None:
    plans = planner()
    assert "work-items in a group" in (plans.rejects(plans.plan(PROBLEM, {"fault": "group", "group": 16}), 1e9) or "")
    assert plans.rejects(plans.plan(PROBLEM, {"fault": "none", "group": 16}), 1e-9) is None  # without ceilings nothing is known to be slow


@pytest.mark.parametrize(
    ("info", "peak"), [(DEVICE, 1e9 / _CPU_MARGIN), (GPU, 1e9 / _MARGIN / ceilings.MATRIX_UNITS)], ids=["processor", "gpu"]
)
def test_ceilings_tell_what_is_hopeless_and_what_nobody_believes(info: DeviceInfo, peak: float) -> None:
    """A million operations, a billion per second with what a reading may be above the ceiling: a millisecond."""
    ceilings.add(info, [Measured("fp32", "flop/s", peak, (1.0,))])
    plans = planner(info)
    plan = plans.plan(PROBLEM, {"fault": "none", "group": 16})
    assert plans.rejects(plan, 1.01e-3) is None
    assert "or more, and 0.0005 s would be hopeless" in (plans.rejects(plan, 0.5e-3) or "")
    assert plans.too_fast(1.01e-3) is None
    assert "faster than the device can be" in (plans.too_fast(0.99e-3) or "")


def test_ceilings_of_a_busy_processor_refuse_less() -> None:
    """What it reaches alone may be several times as fast as what was measured beside other programs."""
    measured = Measured("fp32", "flop/s", 1e9 / _CPU_MARGIN / _DISTURBED, (1.0,), {BUSY: True})
    ceilings.add(DEVICE, [measured])
    assert planner(DEVICE).too_fast(1.01e-3) is None
    assert "faster than the device can be" in (planner(DEVICE).too_fast(0.99e-3) or "")


PLAIN, MATRIX = Source("k.cl", "acc = fma(a, b, acc); // a comma"), Source("k.cl", 'asm("mma.sync.aligned.m16n8k8...")')


@pytest.mark.parametrize(
    ("dtype", "text", "times"), [("float32", PLAIN, 1.0), ("float32", MATRIX, 16.0), ("float64", PLAIN, 1.0), ("float64", MATRIX, 2.0)]
)
def test_matrix_units_count_only_where_a_text_may_use_them(dtype: str, text: Source, times: float) -> None:
    ceilings.add(GPU, [Measured({"float32": "fp32", "float64": "fp64"}[dtype], "flop/s", 1e9 / _MARGIN / times, (1.0,))])
    plans = planner(GPU, dtype)
    assert plans.too_fast(1.01e-3, [PLAIN, text]) is None
    assert "faster than the device can be" in (plans.too_fast(0.99e-3, [PLAIN, text]) or "")
    limit = plans.work.flops / plans.peaks.flops
    assert limit == pytest.approx(1e-3 * times / ceilings.MATRIX_UNITS)  # what is rejected on paper is certain whatever a text does


def test_a_clock_that_stands_still_is_not_believed() -> None:
    assert "it took 0 s" in (planner().too_fast(0.0) or "")


def test_ceilings_of_another_driver_say_nothing() -> None:
    ceilings.add(replace(DEVICE, driver="0.9"), [Measured("fp32", "flop/s", 1.0, (1.0,))])
    assert planner().too_fast(1e-12) is None


def test_a_certificate_lists_what_was_checked() -> None:
    plans = planner()
    config = {"fault": "none", "group": 16}
    variant = plans.variant(1, config, plans.plan(PROBLEM, config))
    proof = plans.certificate(variant, (0.1, 0.2, 0.3), "text")
    assert [(check.sizes["n"], check.error, check.bound) for check in proof.checks] == [
        (1, 0.1, 2.0**-20),
        (37, 0.2, 2.0**-20),
        (1_000_000, 0.3, 2.0**-20),
    ]
    assert proof.holds(DEVICE, "text")
    assert not proof.failure


def test_a_case_without_sizes_is_called_by_its_arrays() -> None:
    x = np.zeros(8, np.float32)
    kernel = Kernel("kernel void f(global float *x) { x[get_global_id(0)] = L; }", "f", (x,), {"L": [1, 2]}, local_size=1, global_size=8)
    arena = SharedArrays()
    try:
        _, (case,) = cases(kernel, kernel.problem(), 0, arena)
    finally:
        arena.close()
    assert case.label == "x[8]"
