"""The ladder on devices: a rung is checked and timed, one that the rules refuse says where it runs, libraries are checked or missed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from portatile.device.base import Device
from portatile.studies import ladder
from portatile.studies.framework.conduct import conduct
from portatile.studies.framework.study import StudyRequest
from portatile.studies.ladder import LadderOptions

pytestmark = [pytest.mark.usefixtures("own_directories"), pytest.mark.unoptimised]
OPTIONS = LadderOptions(size=48)


def test_rungs_and_libraries(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = ladder.points

    def few(info: object, asked: LadderOptions) -> list[ladder.LadderPoint]:
        result = whole(device.info, asked)
        return [replace(point, options=("-portatile-carveout=50",)) for point in result if point.row.by in ("rung 2", "rung 8")]

    monkeypatch.setattr(ladder, "points", few)
    monkeypatch.setattr(ladder, "_tuned", lambda device, blank: replace(blank, seconds=1.0, gflops=1.0))
    rows = {row.by: row for row in conduct(ladder.STUDY, StudyRequest((device,), OPTIONS)).rows}
    assert set(rows) == {"rung 2", "rung 8", "tuned", "library", "NumPy"}
    assert rows["rung 2"].status == "ok"
    assert rows["rung 2"].error is not None
    assert rows["rung 2"].error <= 1
    if not device.info.can.read_only_loads:
        assert rows["rung 8"].runs_on == "sm_90, sm_80"
        assert any("runs on sm_90" in note for note in ladder.notes(list(rows.values())))
    else:
        assert rows["rung 8"].status == "ok"
    library = rows["library"]
    assert library.seconds is not None or "not installed" in library.status
    assert rows["NumPy"].gflops
