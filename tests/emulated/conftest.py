"""Tests of CUDA's path without a GPU. They run in a process of their own, which ``tests/unit/test_cuda_emulated.py`` starts."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from portatile import device
from portatile.device.base import Device
from support.compiling import Interpreted
from support.cuda_driver import EmulatedDriver, load

_ASKED = "PORTATILE_TEST_EMULATED_CUDA"
DRIVER: EmulatedDriver | None = None
if os.environ.get(_ASKED):  # before test files import the back end, which looks for the driver then
    with tempfile.TemporaryDirectory() as _folder:
        DRIVER = load(Path(_folder))


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Where a real driver may be loaded already, or will be wanted, there is no emulated one."""
    return None if os.environ.get(_ASKED) else True


@pytest.fixture(scope="session")
def driver() -> EmulatedDriver:
    """The emulated driver, loaded before anything looked for devices."""
    assert DRIVER is not None
    return DRIVER


@pytest.fixture(scope="session")
def gpu(driver: EmulatedDriver) -> Device:
    """The GPU that it shows; it is given PTX, which the interpreter reads, in place of machine code.

    The interpreter knows no instructions of warp groups, so nothing may choose a kernel that has them.
    """
    result = device.get("cuda:0")
    result.info = replace(result.info, capabilities=replace(result.info.can, warp_groups=False))
    result.target = Interpreted(result.info.architecture)
    return result


@pytest.fixture(autouse=True)
def nothing_is_left(gpu: Device) -> Iterator[None]:
    """Each test leaves the device working."""
    yield
    gpu.default_queue().finish()
