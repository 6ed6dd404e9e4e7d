"""Memory that outlives a call: the same for the same place, larger where it must be, and constants uploaded once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from portatile.device.base import Device
from portatile.runtime import perform
from portatile.runtime.one_device.scratch import Scratch, scratch


def test_a_place_keeps_its_memory_and_grows(device: Device) -> None:
    own = Scratch(device)
    first, other = own.block(0, 1000), own.block(1, 1000)
    assert own.block(0, 500) is first
    assert other is not first
    assert own.block(0, 5000).nbytes >= 5000
    assert own.block(1, 1000) is other


def test_what_is_a_large_part_of_the_device_is_not_kept(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    own = Scratch(device)
    monkeypatch.setattr(device, "info", replace(device.info, global_memory=16 * 1024))
    assert own.block(0, 1024) is own.block(0, 1024)
    assert own.block(1, 1025) is not own.block(1, 1025)


def test_constants_are_uploaded_once(device: Device) -> None:
    own = Scratch(device)
    taps = np.arange(5, dtype=np.float32)
    there = own.constant(taps)
    assert own.constant(taps.copy()) is there
    assert own.constant(taps.astype(np.float64)) is not there
    assert np.array_equal(there.numpy(), taps)
    for value in range(70):
        own.constant(np.full(3, value, np.float32))
    assert own.constant(taps) is not there


def test_each_device_has_one_until_it_is_forgotten(device: Device) -> None:
    first = scratch(device)
    assert scratch(device) is first
    perform.forget()
    assert scratch(device) is not first
