"""The study of phases: two processes for each problem, the second with the caches that the first filled; what fails is a row."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from portatile import workloads
from portatile.device.base import Device
from portatile.errors import DeviceError
from portatile.measure import process_phases
from portatile.measure.phases import PHASES
from portatile.measure.process_phases import ProcessRun, in_a_process
from portatile.studies import phases
from portatile.studies.framework.conduct import conduct
from portatile.studies.framework.study import StudyRequest

pytestmark = [pytest.mark.usefixtures("own_directories"), pytest.mark.unoptimised]


def asked(device: Device) -> StudyRequest:
    problem = workloads.get("matmul").problem({"m": 16, "n": 8, "k": 24})
    return StudyRequest((device,), phases.PhasesOptions(repeat=1), problem)


def test_cold_and_cached(device: Device) -> None:
    cold, cached = conduct(phases.STUDY, asked(device)).rows
    assert (cold.caches, cached.caches) == ("empty", "cached")
    for row in (cold, cached):
        assert (row.status, row.workload, row.samples, row.device) == ("ok", "matmul", 2, device.info.id), row.status
        parts = [getattr(row, name.replace(" ", "_")) for name in PHASES]
        assert all(part >= 0 for part in parts)
        assert sum(parts) == pytest.approx(row.total)
        assert row.best <= row.kernel
        assert row.error <= 1
    (figure,) = phases.figures([cold, cached])
    assert len(figure.groups) == 2
    assert figure.stacked
    assert "from the cache" in phases.notes([cold, cached])[0]


def test_the_caches_are_where_they_are_said_to_be(device: Device, tmp_path: Path) -> None:
    problem = workloads.get("matmul").problem({"m": 16, "n": 8, "k": 24})
    in_a_process(ProcessRun(problem, device.info.id, 0), tmp_path)
    assert any(path.is_file() for path in (tmp_path / "portatile").rglob("*"))


def test_a_run_that_fails_is_a_row(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(run: ProcessRun, caches: Path) -> None:
        raise DeviceError("no memory\nat all")

    monkeypatch.setattr(phases, "in_a_process", refuse)
    rows = conduct(phases.STUDY, asked(device)).rows
    assert [(row.status, row.total) for row in rows] == [("no memory", None)] * 2
    assert phases.figures(rows) == []


def test_what_the_child_says_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = workloads.get("matmul").problem({"m": 16, "n": 8, "k": 24})
    with pytest.raises(DeviceError, match="a device of nobody"):
        in_a_process(ProcessRun(problem, "a device of nobody"), tmp_path)
    ended = SimpleNamespace(returncode=-11, stderr=b"", stdout=b"")
    monkeypatch.setattr(process_phases.subprocess, "run", lambda *_, **__: ended)
    with pytest.raises(DeviceError, match="SIGSEGV"):
        in_a_process(ProcessRun(problem, "x"), tmp_path)


def test_the_documents_size() -> None:
    trsm, product = phases.problems(phases.PhasesOptions(full=True))
    assert (trsm.workload, trsm.sizes, trsm.dtype) == ("triangular", {"m": 10240, "n": 128}, "float64")
    assert product.workload == "gemm"
