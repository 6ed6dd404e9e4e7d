"""The watch over the workers: where no worker ever comes to life, and how long a launch may take."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import psutil
import pytest

from portatile.errors import DeviceError
from portatile.tuning.patience import Limits
from portatile.tuning.supervisor import Setup, Supervisor


def test_workers_that_end_at_once_are_an_error_of_the_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = shutil.which("false")
    if program is None:
        pytest.skip("there is no program that only fails")
    monkeypatch.setattr(sys, "executable", program)
    with pytest.raises(DeviceError, match="ended 3 times before it could"), Supervisor(Setup(None, tmp_path, 1 << 20, -1)) as supervisor:
        supervisor.info()
    assert not psutil.Process().children(recursive=True)


@pytest.mark.parametrize(("budget", "launch"), [(None, 60), (1.0, 20), (15.0, 30), (600.0, 60)])
def test_a_launch_takes_no_longer_than_the_budget_lets_expect(budget: float | None, launch: float) -> None:
    limits = Limits().within(budget)
    assert (limits.launch, limits.run, limits.compile) == (launch, launch, Limits().compile)
    assert Limits(launch=3).within(budget).launch == 3
