"""The study of counters on devices: counts of a run that was checked, or the reason why there are none."""

from __future__ import annotations

import pytest

from portatile import workloads
from portatile.cli import main
from portatile.device.base import Device
from portatile.studies import counters
from portatile.studies.framework.conduct import conduct
from portatile.studies.framework.study import StudyRequest

pytestmark = pytest.mark.usefixtures("own_directories")
PROBLEM = workloads.get("matmul").problem({"m": 16, "n": 16, "k": 16})


def test_counts_or_reasons(device: Device, capsys: pytest.CaptureFixture[str]) -> None:
    options = counters.CountersOptions(("ALGORITHM=global", "DEPTH=0", "WPT=1", "VECTOR=1", "BLOCK=4"))
    rows = conduct(counters.STUDY, StudyRequest((device,), options, PROBLEM)).rows
    assert rows
    for row in rows:
        assert (row.value is None) == (row.status != "ok"), row
    words = [
        "bench",
        "matmul",
        "--size",
        "16",
        "--algorithm",
        "global",
        "--block",
        "4",
        "--device",
        device.info.id,
        "--counters",
        "--repeat",
        "0",
    ]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert any(row.status != "ok" and row.status[:40] in " ".join(shown.split()) for row in rows) or "per flop" in shown
