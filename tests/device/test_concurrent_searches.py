"""Two searches on one device at once: both go on, say so, mark their trials, and what was timed in company is timed again alone."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from portatile import workloads
from portatile.cli import main
from portatile.device.base import Device
from portatile.store import ResultStore
from portatile.trials import Budget
from portatile.tuning.protocol import Timing
from portatile.tuning.search.concurrent_searches import OTHER_SEARCHES, ConcurrentSearches
from portatile.tuning.search.tuner import Progress, TuningRequest, tune

pytestmark = [
    pytest.mark.usefixtures("own_directories"),
    pytest.mark.skipif(sys.platform == "win32", reason="Windows: every search takes itself for alone"),
]


@pytest.mark.thinned(1 / 3)
def test_what_was_timed_in_company_is_told_and_timed_again(device: Device, tmp_path: Path) -> None:
    workload = workloads.get("stream")
    problem = workload.problem(dict.fromkeys(workload.sizes, 4096))
    request = TuningRequest(
        problem, device.info.id, Budget(evaluations=3), "random", timing=Timing(samples=3, burst=0.0005, most=0.05, race=0.0)
    )
    known: list[int] = []

    def listen(progress: Progress) -> None:
        known.append(progress.known)

    with ResultStore(tmp_path / "results.sqlite") as store:
        with ConcurrentSearches(device.info), pytest.warns(RuntimeWarning, match="another search"):
            result = tune(request, store)
        assert result.others == 1
        valid = [trial for trial in result.trials if trial.status == "ok"]
        assert valid
        assert all(trial.conditions[OTHER_SEARCHES] == 1 for trial in valid)
        alone = tune(request, store, listen)
        assert alone.others == known[-1] == 0
        assert not any(OTHER_SEARCHES in trial.conditions for trial in alone.trials)
        assert tune(request, store, listen).others == 0
        assert known[-1] == 3, "what was timed alone is not timed again"


def test_the_command_warns_and_goes_on(device: Device, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["tune", "stream", "-n", "4096", "--budget", "2", "--json", "--device", device.info.id]
    with ConcurrentSearches(device.info), pytest.warns(RuntimeWarning, match="another search"):
        assert main(command) == 0
    assert json.loads(capsys.readouterr().out)["other_searches"] == 1
    with ConcurrentSearches(device.info), pytest.warns(RuntimeWarning, match="another search"):
        assert main([word for word in command if word != "--json"]) == 0
    assert "another search timed on this device meanwhile" in capsys.readouterr().out
