"""The watch over the workers where no worker ever comes to life."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import psutil
import pytest

from portatile.errors import DeviceError
from portatile.tuning.supervisor import Setup, Supervisor


def test_workers_that_end_at_once_are_an_error_of_the_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = shutil.which("false")
    if program is None:
        pytest.skip("there is no program that only fails")
    monkeypatch.setattr(sys, "executable", program)
    with pytest.raises(DeviceError, match="ended 3 times before it could"), Supervisor(Setup(None, tmp_path, 1 << 20, -1)) as supervisor:
        supervisor.info()
    assert not psutil.Process().children(recursive=True)
