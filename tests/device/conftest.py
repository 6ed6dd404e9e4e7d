"""The devices that the tests run on: every one found, and a reason where there is no GPU."""

from __future__ import annotations

import pytest

from portatile.device import devices, findings
from portatile.device.base import Device

FOUND = {device.info.id: device for device in devices() if "oclgrind" not in device.info.platform.lower()}
MISSING = [] if any(device.info.kind == "gpu" for device in FOUND.values()) else ["gpu"]


@pytest.fixture(params=[*FOUND, *MISSING])
def device(request: pytest.FixtureRequest) -> Device:
    """Each device of this machine in turn."""
    if request.param not in FOUND:
        pytest.skip("no GPU found: " + ("; ".join(finding.detail for finding in findings() if finding.level != "ok") or "none is visible"))
    return FOUND[request.param]
