"""One product over two GPUs on whose memories the operands lie: the driver copies between them, past the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portatile
from portatile import Buffer, device
from portatile.device.base import Device, Rows
from portatile.device.cuda.compiler import CudaTarget
from portatile.runtime import forecast
from support.cuda_driver import EmulatedDriver


@pytest.fixture
def pair(gpu: Device, monkeypatch: pytest.MonkeyPatch) -> list[Device]:
    other = device.get("cuda:1")
    other.target = CudaTarget(other.info.architecture, "ptx")
    monkeypatch.setattr(forecast, "_quickest", lambda together, alone: "")
    return [gpu, other]


def drawn(*shape: int) -> Any:
    return (np.random.default_rng(sum(shape)).random(shape) - 0.5).astype(np.float32)


def test_what_lies_elsewhere_is_copied_by_the_driver(pair: list[Device], driver: EmulatedDriver) -> None:
    a, b = drawn(4, 3), drawn(3, 5)
    there = Buffer.from_numpy(a, pair[1]), Buffer.from_numpy(b, pair[0])
    before = driver.count("peer_copies")
    found = portatile.matmul(*there, device=[one.info.id for one in pair])
    assert found.device is pair[1]
    np.testing.assert_allclose(found.numpy(), a @ b, rtol=1e-5, atol=1e-6)
    assert driver.count("peer_copies") > before
    assert there[0].to_device(pair[0]).device is pair[0]


def test_rows_that_lie_apart_are_copied_at_once(pair: list[Device]) -> None:
    source, target = Buffer.from_numpy(drawn(4, 6), pair[0]), Buffer.from_numpy(np.zeros((4, 3), np.float32), pair[0])
    queue = pair[0].default_queue()
    queue.copy_rows(target.memory, source.memory, Rows(4, 12, 0, 12, 8, 24))
    np.testing.assert_array_equal(target.numpy(), drawn(4, 6)[:, 2:5])
