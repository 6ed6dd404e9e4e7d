"""Sweeps end to end on every device: tidy rows, the best of each device and option is 1, what cannot run is a row without a time."""

from __future__ import annotations

import csv
import io
import json
from datetime import datetime
from pathlib import Path

import pytest

from portatile import workloads
from portatile.cli import main
from portatile.device.base import Device
from portatile.errors import LaunchError
from portatile.measure.runs import MeasurementLength
from portatile.studies import memory, work_group
from portatile.studies.framework import table
from portatile.studies.framework.conduct import conduct
from portatile.studies.framework.study import StudyRequest

pytestmark = pytest.mark.unoptimised

SHORT = MeasurementLength(samples=2, seconds=0.0, burst=0.001)


@pytest.fixture(autouse=True)
def own_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path / "data"))


def request(workload: str, items: tuple[int, ...] = ()) -> work_group.WorkGroupRequest:
    return work_group.WorkGroupRequest(workload, scale=4096, length=SHORT, items=items)


def swept(device: Device, asked: work_group.WorkGroupRequest) -> list[work_group.WorkGroupRow]:
    return list(conduct(work_group.STUDY, StudyRequest((device,), asked)).rows)


def multiplied(device: Device, asked: memory.MemoryRequest) -> list[memory.MemoryRow]:
    return list(conduct(memory.STUDY, StudyRequest((device,), asked)).rows)


def test_the_sizes_are_komatsus(device: Device) -> None:
    most = device.info.max_work_group_size
    of_cp = work_group.sizes(device, request("coulomb"))
    assert [label for label, _, _ in of_cp] == [f"16 x {y}" for y in (1, 2, 4, 8, 16, 32) if 16 * y <= most]
    of_mri = [items for _, items, _ in work_group.sizes(device, request("mri"))]
    assert of_mri[0] == 16
    assert of_mri[-1] <= most < 2 * of_mri[-1]
    assert work_group.usual_problem("coulomb").sizes == {"atoms": 40000, "nx": 512, "ny": 512, "nz": 1}


def test_small_problems_are_many_groups() -> None:
    """However far a problem is divided, the largest groups of a device still have neighbours."""
    for scale in (1, 16, 10**9):
        sizes = work_group.usual_problem("coulomb", scale).sizes
        assert sizes["nx"] >= 2 * 16 * 8
        assert sizes["ny"] >= 2 * max(work_group.ROWS_OF_CP)
        assert work_group.usual_problem("mri", scale).sizes["voxels"] >= 4 * 4096
    assert work_group.usual_problem("mri", 1, "fhd").options == {"kind": "fhd"}


def test_tuning_can_reach_what_is_swept(device: Device) -> None:
    """Every group of 1024 or less is in the workload's space."""
    for workload in ("coulomb", "mri"):
        asked = request(workload)
        space = workloads.get(workload).space(asked.problem(device.info), device.info)
        for _, items, config in work_group.sizes(device, asked):
            assert items > 1024 or space.violated(config) is None, config


@pytest.mark.parametrize(("workload", "items"), [("coulomb", (16, 64)), ("mri", (16, 32))])
def test_work_groups(device: Device, workload: str, items: tuple[int, ...]) -> None:
    rows = swept(device, request(workload, items))
    assert [(row.items, row.relaxed) for row in rows] == [(size, relaxed) for relaxed in (False, True) for size in items]
    for relaxed in (False, True):
        relative = [row.relative for row in rows if row.relaxed is relaxed]
        assert min(value for value in relative if value is not None) == 1
    assert all(row.status == "ok" and row.error is not None and row.error <= 1 for row in rows if not row.relaxed)
    for row in rows:
        assert (row.device, row.driver, row.kind) == (device.info.id, device.info.driver, "q" if workload == "mri" else "")
        assert datetime.fromisoformat(row.time).tzinfo is not None
        if row.status == "ok":
            assert row.samples >= 2
            assert row.fastest is not None
            assert row.slowest is not None
            assert 0 < row.fastest <= (row.seconds or 0) <= row.slowest


def test_the_other_sum_of_mri(device: Device) -> None:
    rows = swept(device, work_group.WorkGroupRequest("mri", "fhd", 4096, (64,), (False,), SHORT))
    assert [(row.kind, row.work_group, row.status) for row in rows] == [("fhd", "64", "ok")]


def test_a_size_that_cannot_run_is_a_row(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise LaunchError("too many work-items\nby far")

    monkeypatch.setattr(work_group.runs.PreparedRun, "timed", refuse)
    row, *_ = swept(device, request("coulomb"))
    assert row.status == "too many work-items"
    assert (row.seconds, row.relative, row.error) == (None, None, None)


def test_local_memory(device: Device) -> None:
    host, *rows = multiplied(device, memory.MemoryRequest(sizes=(24,), blocks=(2, 4), repeat=1))
    assert (host.algorithm, host.device, host.samples, host.reduction, host.status) == ("host", "host", 1, None, "ok")
    assert host.kernel == host.window
    assert host.gflops == pytest.approx(2 * 24**3 / (host.kernel or 0) / 1e9)
    assert [(row.algorithm, row.block) for row in rows] == [("sequential", 2), ("global", 2), ("global", 4), ("local", 2), ("local", 4)]
    for row in rows:
        assert (row.status, row.samples, row.driver) == ("ok", 2, device.info.driver)
        assert row.time
        assert row.kernel
        assert row.window is not None
        assert row.window == pytest.approx(row.allocate + row.read_back + row.kernel)  # type: ignore[operator]
        assert row.gflops == pytest.approx(2 * 24**3 / row.kernel / 1e9)
    assert max(row.reduction for row in rows if row.algorithm == "global" and row.reduction is not None) == 0


def test_a_block_that_does_not_fit_is_a_row(device: Device) -> None:
    rows = multiplied(device, memory.MemoryRequest(sizes=(400,), blocks=(4096,), repeat=0))
    assert all(row.status != "ok" and row.kernel is None for row in rows)
    assert table.to_csv(memory.MemoryRow, rows).count("\n") == len(rows) + 1


def test_the_command_writes_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "table.csv"
    assert main(["study", "memory", "--sizes", "24", "--blocks", "2", "-o", str(path), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    written = list(csv.DictReader(io.StringIO(path.read_text())))
    assert [row["algorithm"] for row in shown] == [row["algorithm"] for row in written] == ["host", "sequential", "global", "local"]
    assert list(written[0]) == list(table.columns(memory.MemoryRow))
    assert main(["study", "work-group", "--workload", "coulomb", "--scale", "128", "--items", "16"]) == 0
    assert "16 x 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["memory", "--sizes", "big"], "128,256"),
        (["memory", "--blocks", "0"], "128,256"),
        (["memory", "-o", "table.txt"], ".csv"),
        (["memori"], "Did you mean 'memory'?"),
        (["work-group", "--workload", "gemm"], "coulomb"),
        (["work-group", "--workload", "coulomb", "--scale", "64", "--items", "48"], "leave it out"),
        (["work-group", "--workload", "coulomb", "--kind", "fhd"], "leave it out for coulomb"),
    ],
)
def test_mistakes_end_with_2(args: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", *args]) == 2
    assert message in capsys.readouterr().err
