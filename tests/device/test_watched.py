"""``portatile.tune`` and ``Kernel.tune`` show their searches where somebody looks, and give the listener that was asked for otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import portatile
from portatile.device.base import Device
from portatile.measure import first_ceilings
from portatile.tuning.search import many_devices, tuner, watching

TEXT = "kernel void twice(global const float *x, global float *y) { y[get_global_id(0)] = 2 * x[get_global_id(0)]; }"


class Begun(Exception):
    """A search began."""


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What each search is given as its listener, and what is asked to be shown; none goes on."""
    begun: list[object] = []

    def begin(*arguments: Any, **named: Any) -> None:
        begun.append(arguments[-1])
        raise Begun

    @contextmanager
    def shown(listen: object, several: bool = False) -> Iterator[object]:
        yield ("shown", several) if listen is None else listen

    monkeypatch.setattr(tuner, "tune", begin)
    monkeypatch.setattr(many_devices, "tune", begin)
    monkeypatch.setattr(watching, "shown", shown)
    monkeypatch.setattr(first_ceilings, "ensure", lambda info: None)
    return begun


def test_a_workload_is_watched(device: Device, searches: list[object]) -> None:
    for listen in (None, print):
        with pytest.raises(Begun):
            portatile.tune("matmul", m=8, n=8, k=8, device=device.info.id, listen=listen)
        with pytest.raises(Begun):
            portatile.tune("matmul", m=8, n=8, k=8, device=[device.info.id], listen=listen)
    assert searches == [("shown", False), ("shown", True), print, print]


def test_a_kernel_is_watched(device: Device, searches: list[Any]) -> None:
    x = np.ones(64, np.float32)
    kernel = portatile.Kernel(TEXT, "twice", (x, x.copy()), {"group": [16, 32]}, global_size=64, local_size="group", reference=2 * x)
    run: list[Callable[[Any], Any]] = [kernel.tune, lambda budget, **named: portatile.tune(kernel, budget=budget, **named)]
    for tune in run:
        for listen in (None, print):
            with pytest.raises(Begun):
                tune("3", device=device.info.id, listen=listen)  # type: ignore[call-arg]
    assert [stop.listen for stop in searches] == [("shown", False), print] * 2
