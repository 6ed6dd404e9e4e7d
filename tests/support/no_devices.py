"""Calls that must not look for a device: whoever does fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from portatile.runtime import perform
from portatile.runtime.host import numpy_products


class NoDevice(Exception):
    """A device was looked for."""


@contextmanager
def devices_refused(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whoever looks for a device fails; NumPy takes less than a launch, however slow this machine is at the moment.

    Later tests of the process find nothing that NumPy won here.
    """

    def refuse(*given: object) -> None:
        raise NoDevice

    for name in ("PORTATILE_DEVICE", "PYOPENCL_CTX"):
        monkeypatch.delenv(name, raising=False)
    for name in ("get", "several"):
        monkeypatch.setattr(f"portatile.device.{name}", refuse)
    monkeypatch.setattr(numpy_products, "LEAST_LAUNCH", 10.0)
    perform.forget()
    yield
    numpy_products.forget()
    perform.forget()
