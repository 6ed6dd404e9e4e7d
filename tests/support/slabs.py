"""What the tests of slabs share: a meter of device memory, and the comparison of a case in slabs with the same in one piece."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import portatile
from portatile.device.base import Device
from portatile.runtime import perform
from portatile.runtime.in_parts import slabs
from support.seeds import new_seed

Case = Callable[[np.random.Generator, str], np.ndarray]


class Meter:
    """Counts what a device has allocated."""

    def __init__(self, device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = self.most = self.slabs = 0
        allocate, pipeline = type(device).allocate, slabs.pipeline
        kind = type(device.allocate(4))
        release = kind.release

        def counted(opened: Device, nbytes: int) -> Any:
            memory = allocate(opened, nbytes)
            self.now += nbytes
            self.most = max(self.most, self.now)
            memory.counted = weakref.finalize(memory, self.give_back, nbytes)  # type: ignore[attr-defined]
            return memory

        def given_back(memory: Any) -> None:
            getattr(memory, "counted", lambda: None)()
            release(memory)

        monkeypatch.setattr(kind, "release", given_back)

        def cut(*args: Any) -> None:
            self.slabs += 1
            pipeline(*args)

        monkeypatch.setattr(type(device), "allocate", counted)
        monkeypatch.setattr(slabs, "pipeline", cut)

    def give_back(self, nbytes: int) -> None:
        self.now -= nbytes


def compared(device: Device, case: Case, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The case in one piece, then in slabs."""
    seed = new_seed(case.__name__)
    whole = case(np.random.default_rng(seed), device.info.id)
    perform.forget()
    meter = Meter(device, monkeypatch)
    with portatile.memory_limit(limit):
        cut = case(np.random.default_rng(seed), device.info.id)
    assert meter.slabs > 0
    assert 0 < meter.most <= limit
    agree(device, case, cut, whole)


def agree(device: Device, case: Case, cut: np.ndarray, whole: np.ndarray) -> None:
    """The same bits; of TRSM on NVIDIA's GPUs, which chooses the tiles of its products for a slab's width, sums in another order."""
    if device.info.nvidia and case.__name__.startswith("solve"):
        np.testing.assert_allclose(cut, whole, rtol=0, atol=64 * np.finfo(whole.dtype).eps * np.abs(whole).max())
    else:
        assert np.array_equal(cut, whole), f"they differ by up to {np.abs(cut - whole).max()}"
