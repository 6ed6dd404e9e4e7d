"""The battery of OpenCL C constructs on every device: the OpenCL text itself, and its translation where a GPU runs CUDA."""

from __future__ import annotations

import pytest

from portatile.device.base import Device
from support.battery import CASES
from support.battery.run import obstacle, run
from support.checking import draft, maybe


@pytest.mark.parametrize("name", CASES)
def test_construct(device: Device, name: str) -> None:
    """Every output equals what NumPy computes, and the bytes behind it are untouched."""
    if reason := obstacle(CASES[name], device):
        pytest.skip(reason)
    maybe(device)
    run(CASES[name], device, draft)
