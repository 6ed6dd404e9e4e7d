"""The study of several devices: every subset of them in new processes, checked, beside one core; and what follows from the times."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from portatile import device as devices
from portatile import workloads
from portatile.errors import ArgumentError
from portatile.studies import hybrid
from portatile.studies.framework import shared_run
from portatile.studies.framework.conduct import conduct
from portatile.studies.framework.study import StudyRequest
from support import unoptimised

pytestmark = [pytest.mark.lengthy, pytest.mark.unoptimised]
PRODUCT = workloads.problem("gemm", "float32", {"m": 260, "n": 96, "k": 64})


@pytest.fixture
def twins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[SimpleNamespace]:
    """PoCL's processor, which shows itself twice in processes that are started from now on."""
    pocl = next((device for device in devices.devices() if device.info.platform == "Portable Computing Language"), None)
    if pocl is None:
        pytest.skip("no PoCL")
    monkeypatch.setenv("POCL_DEVICES", "pthread pthread")
    for name, value in {**unoptimised.flags(tmp_path.parent), "PORTATILE_DATA_DIR": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    first = pocl.info.id
    return [SimpleNamespace(info=replace(pocl.info, id=name)) for name in (first, first[:-1] + "1")]


def test_every_subset_is_a_checked_row(twins: list[SimpleNamespace]) -> None:
    asked = StudyRequest(tuple(twins), hybrid.HybridOptions(repeat=1, processes=2, core_part=4), PRODUCT)  # type: ignore[arg-type]
    rows = {row.devices: row for row in conduct(hybrid.STUDY, asked).rows}
    one, two = (device.info.id for device in twins)
    with_core = {hybrid.ONE_CORE} if hasattr(os, "sched_setaffinity") else set()
    assert set(rows) == {one, two, f"{one} + {two}"} | with_core
    for row in rows.values():
        assert row.seconds is not None, row.status
        assert row.error is not None
        assert row.error <= 1
    assert {row.processes for row in rows.values() if row.count} == {2}
    both = rows[f"{one} + {two}"]
    assert both.efficiency is not None
    assert both.best_speedup == pytest.approx(min(rows[name].seconds for name in (one, two)) / both.seconds)  # type: ignore[type-var, operator]
    assert len(hybrid.figures(list(rows.values()))) == 1 + len(with_core)


def test_a_device_that_cannot_is_a_row_that_says_why(twins: list[SimpleNamespace]) -> None:
    gone = SimpleNamespace(info=replace(twins[0].info, id="opencl:7:7"))
    (row,) = (
        row
        for row in conduct(hybrid.STUDY, StudyRequest((gone,), hybrid.HybridOptions(repeat=1, core_part=4), PRODUCT)).rows  # type: ignore[arg-type]
        if row.count
    )
    assert row.seconds is None
    assert "no device matches" in row.status


def test_parts_cover_the_problem() -> None:
    parts = [shared_run.part_of(PRODUCT, 3, which) for which in range(3)]
    assert sum(part.sizes["m"] for part in parts) == 260
    with pytest.raises(ArgumentError, match="cannot be cut into 300"):
        shared_run.part_of(replace(PRODUCT, sizes={"m": 260, "n": 96, "k": 64}), 300, 0)


def test_many_devices_are_growing_sets() -> None:
    assert len(shared_run.subsets("abcd")) == 15
    assert shared_run.subsets("abcde")[5:] == [tuple("abcde"[:size]) for size in range(2, 6)]
