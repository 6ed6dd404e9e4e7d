"""The devices that the tests run on: every one found, and a reason where there is no GPU."""

from __future__ import annotations

import os

import pytest

from portatile.device import devices, findings
from portatile.device.base import Device

_LEAST_CORES = 4  # of a process that shares the machine with others: enough for tuning to compile variants side by side


def _take_share() -> None:
    """Under pytest-xdist keep to a few cores of the machine, for a tuner starts as many workers as it may use cores."""
    worker, count = os.environ.get("PYTEST_XDIST_WORKER", "")[2:], int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if worker.isdigit() and hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        width = max(_LEAST_CORES, len(cores) // count)
        os.sched_setaffinity(0, {cores[(int(worker) * width + place) % len(cores)] for place in range(width)})


_take_share()
FOUND = {device.info.id: device for device in devices() if "oclgrind" not in device.info.platform.lower()}
MISSING = [] if any(device.info.kind == "gpu" for device in FOUND.values()) else ["gpu"]


@pytest.fixture(params=[*FOUND, *MISSING])
def device(request: pytest.FixtureRequest) -> Device:
    """Each device of this machine in turn."""
    if request.param not in FOUND:
        pytest.skip("no GPU found: " + ("; ".join(finding.detail for finding in findings() if finding.level != "ok") or "none is visible"))
    return FOUND[request.param]
