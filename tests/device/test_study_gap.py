"""The study of gaps on devices: every combination is built, checked and timed; sides that differ in their configuration are compared."""

from __future__ import annotations

import threading
from itertools import count
from pathlib import Path

import pytest

from portatile import workloads
from portatile.cli import main
from portatile.device.base import Device
from portatile.errors import ArgumentError
from portatile.measure import optimisations, runs
from portatile.studies import gap
from portatile.studies.framework.conduct import OUT_OF_TIME, Conditions, conduct
from portatile.studies.framework.study import StudyRequest
from portatile.studies.gap_durations import Durations
from portatile.studies.gap_rows import AVERAGED, BETWEEN, DOCUMENT, EMPTY_LAUNCH, GREEDY, GapRow
from portatile.workloads.matmul import BASE

pytestmark = pytest.mark.usefixtures("own_directories")
PROBLEM = workloads.get("matmul").problem({"m": 24, "n": 16, "k": 16})
PLAIN = tuple(f"{name}={value}" for name, value in {**BASE, "ALGORITHM": "global", "BLOCK": 4}.items())


@pytest.fixture(autouse=True)
def two_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler and multiply-adds: four builds a side, each run once; later ones count as faster."""
    ticks = count(1)
    monkeypatch.setattr(runs, "bursts", lambda queue, clock, run, length: (run(), 1e-3 / next(ticks))[1:])
    kept = tuple(optimisation for optimisation in optimisations.OPTIMISATIONS if optimisation.name in ("compiler", "multiply-add"))
    monkeypatch.setattr(optimisations, "OPTIMISATIONS", kept)


def test_every_combination(device: Device) -> None:
    rows: list[GapRow] = list(conduct(gap.STUDY, StudyRequest((device,), gap.GapOptions(config=PLAIN, relaxed=True), PROBLEM)).rows)
    built = [row for row in rows if not row.order]
    relaxed = device.info.can.relaxed_math
    assert [row.status for row in built] == ["ok"] * (4 + relaxed)
    assert all(row.error is not None and row.error <= 1 for row in built if row.set is not None)
    assert [len([row for row in rows if row.order == order]) for order in (DOCUMENT, GREEDY, AVERAGED)] == [3 + relaxed, 3, 2]
    whole = next(row for row in built if row.set == {"compiler", "multiply-add"})
    bare = next(row for row in built if row.set == frozenset())
    if whole.instructions is not None:  # this compiler shows its code
        assert bare.families != whole.families
        assert bare.fused == 0


def test_a_build_that_would_exceed_the_time_is_left_out(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, add = StudyRequest((device,), gap.GapOptions(config=PLAIN), PROBLEM), Durations.add
    with monkeypatch.context() as patch:
        patch.setattr(Durations, "add", lambda known, row, seconds: add(known, row, 1000.0))  # every build took so long
        rows: list[GapRow] = list(conduct(gap.STUDY, asked, Conditions(seconds=500.0)).rows)
    built = {row.on: row.status for row in rows if not row.order}
    assert list(built.values()) == ["ok", "ok", *["left out: about 1000 s would be too long"] * 2]
    assert not any(row.seconds for row in rows if row.status != "ok")


def test_nobody_waits_for_a_build_longer_than_there_is_time(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first build, of which nothing is known, compiles for longer than the study may take."""
    ended = threading.Event()
    monkeypatch.setattr(gap, "_into_the_cache", lambda plan, target: ended.wait(60.0))
    try:
        result = conduct(gap.STUDY, StudyRequest((device,), gap.GapOptions(config=PLAIN), PROBLEM), Conditions(seconds=1.0))
    finally:
        ended.set()
    assert result.ended == OUT_OF_TIME
    assert [row.status for row in result.rows if not row.order] == ["left out: it takes too long to compile"]


def test_two_configurations(device: Device, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sides = device.info.id, f"{device.info.id}/BLOCK=8"
    asked = StudyRequest((device,), gap.GapOptions(between=sides, config=PLAIN), PROBLEM)
    rows = conduct(gap.STUDY, asked).rows
    assert [row.on for row in rows if row.on == EMPTY_LAUNCH] == [EMPTY_LAUNCH] * 2
    assert {row.config for row in rows if row.side == sides[1]} != {row.config for row in rows if row.side == sides[0]}
    assert len([row for row in rows if row.order == BETWEEN]) == 3
    with pytest.raises(ArgumentError, match="not legal"):
        gap.chosen((device,), PROBLEM, gap.GapOptions(config=("ALGORITHM=global", "DEPTH=16")))


def test_the_command(device: Device, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if device.info.kind != "cpu":
        pytest.skip("once is enough")
    words = [word for pair in PLAIN for word in ("--config", pair)]
    asked = ["study", "gap", "matmul", "-m", "24", "-n", "16", "-k", "16", *words, "--device", device.info.id]
    assert main([*asked, "-o", str(tmp_path / "gap.svg")]) == 0
    assert "document" in capsys.readouterr().out
    assert "What explains the speed" in (tmp_path / "gap.svg").read_text()
