"""The study of gaps on an emulated GPU: NVRTC's builds run with and without optimisations, and as code from elsewhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from portatile import device, workloads
from portatile.device.base import Device
from portatile.execute import Executable
from portatile.measure import optimisations, runs, transplant
from portatile.measure.runs import MeasurementLength
from portatile.studies import gap, gap_builds
from portatile.studies.framework.conduct import Conditions, conduct
from portatile.studies.framework.study import StudyRequest
from portatile.studies.gap_builds import RowBuild, Side
from portatile.studies.gap_rows import BETWEEN, EMPTY_LAUNCH, LEVELLED, TAKEN_OVER, GapRow
from portatile.workloads.matmul import BASE

PROBLEM = workloads.get("matmul").problem({"m": 4, "n": 4, "k": 4})
PLAIN = tuple(f"{name}={value}" for name, value in {**BASE, "ALGORITHM": "global", "BLOCK": 4}.items())


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """One run of each, and two optimisations: the interpreter is slow, and has no generic addresses, which unoptimised builds take."""
    kept = tuple(optimisation for optimisation in optimisations.OPTIMISATIONS if optimisation.name in ("multiply-add", "unrolling"))
    monkeypatch.setattr(optimisations, "OPTIMISATIONS", kept)
    monkeypatch.setattr(gap, "_LENGTH", MeasurementLength(samples=1, seconds=0.0, burst=0.0))
    monkeypatch.setattr(runs, "bursts", lambda queue, clock, run, length: (run(), 1e-3)[1:])


def test_two_configurations_are_compared(gpu: Device, tmp_path: Path) -> None:
    asked = gap.GapOptions(between=("cuda:0", "cuda:0/BLOCK=8"), config=PLAIN)
    rows = conduct(gap.STUDY, StudyRequest((gpu,), asked, PROBLEM), Conditions(folder=tmp_path)).rows
    built = [row for row in rows if not row.order]
    assert [row.status for row in built] == ["ok"] * 10
    assert {row.on for row in built} == {"nothing", "unrolling", "multiply-add", "unrolling + multiply-add", EMPTY_LAUNCH}
    assert [row.fused for row in built if row.on == "nothing"] == [0, 0]
    assert all(row.fused for row in built if row.set == frozenset(row.names))
    assert len([row for row in rows if row.order == BETWEEN]) == 3


def test_two_back_ends_are_compared(gpu: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled ahead where that disturbs nobody, both sides by turns; a side whose code the other's driver does not take is not swapped."""
    other = next((one for one in device.devices() if one.info.backend != gpu.info.backend), None)
    if other is None:
        pytest.skip("there is no other back end")
    monkeypatch.setattr(
        optimisations,
        "OPTIMISATIONS",
        tuple(optimisation for optimisation in optimisations.OPTIMISATIONS if optimisation.name == "multiply-add"),
    )
    asked = gap.GapOptions(between=("cuda:0", other.info.id), config=PLAIN, quick=True)
    rows = conduct(gap.STUDY, StudyRequest((gpu,), asked, PROBLEM), Conditions(folder=tmp_path)).rows
    built = [row for row in rows if not row.order]
    assert [row.status for row in built] == ["ok"] * 6
    assert [row.side for row in built] == ["cuda:0", other.info.id] * 3
    assert {row.on for row in built} == {"nothing", "multiply-add", EMPTY_LAUNCH}
    assert [row.order for row in rows].count(LEVELLED) == 1  # equal times: nothing is taken


def test_a_side_takes_over_the_others_launches_and_code(gpu: Device) -> None:
    """Both sides are the same here, so whatever one takes over is right."""
    matmul = workloads.get("matmul")
    config = matmul.space(PROBLEM, gpu.info).complete({**BASE, "ALGORITHM": "global", "BLOCK": 4})
    side = Side("cuda:0", gpu, config, matmul.plan(PROBLEM, config, gpu.info))
    row = GapRow("cuda:0", "cuda:0", "x", "1", "matmul", "m=4", "float32", "{}", "", "", 1)
    with runs.prepared(gpu, PROBLEM) as ready:
        builds = [RowBuild(replace(row, on=on), ready, side, side, MeasurementLength()) for on in (*TAKEN_OVER, EMPTY_LAUNCH)]
        rows = gap_builds.by_turns(builds)
    assert [(row.status, row.seconds) for row in rows] == [("ok", 1e-3)] * 4
    assert all(row.error is not None and row.error <= 1 for row in rows[:3])


def test_code_from_elsewhere_runs(gpu: Device) -> None:
    """What another back end's compiler made is loaded as PTX; here it is the same compiler's."""
    matmul = workloads.get("matmul")
    config = matmul.space(PROBLEM, gpu.info).complete({**BASE, "ALGORITHM": "global", "BLOCK": 4})
    plan = matmul.plan(PROBLEM, config, gpu.info)
    with runs.prepared(gpu, PROBLEM) as ready, Executable(gpu, plan, lambda source: transplant.transplanted(source, gpu)) as executable:
        assert ready.check(executable, matmul.bound(PROBLEM, config)) <= 1
    assert device.get("cuda:0") is gpu
    assert np.isfinite(ready.inputs.operands["a"]).all()
