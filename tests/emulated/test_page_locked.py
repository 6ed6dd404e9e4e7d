"""Host arrays that come again are registered with the driver, and given back before their memory is."""

from __future__ import annotations

import gc
import os

import numpy as np
import pytest

from portatile import Buffer, device
from portatile.device import page_locked, staging
from portatile.device.base import Device
from portatile.device.cuda import memory
from portatile.device.cuda.context import CudaContext
from portatile.device.page_locked import locked
from portatile.errors import ArgumentError, DeviceError
from support.cuda_driver import EmulatedDriver


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_locked, "_LEAST", 1)
    monkeypatch.setattr(page_locked, "_OFTEN", 1)
    monkeypatch.setattr(page_locked, "_DROPPED", 1)
    monkeypatch.setattr(staging, "_NOTED", 1)
    monkeypatch.setattr(staging, "_BLOCK", 4096)
    staging._kept.clear()
    monkeypatch.setattr(staging, "worthwhile", lambda device, array: array.nbytes > 0)


def test_an_array_is_registered_as_long_as_it_lives(gpu: Device, driver: EmulatedDriver) -> None:
    array = np.arange(1000.0)
    for turn in range(3):
        with Buffer.from_numpy(array, gpu) as there:
            assert np.array_equal(there.numpy(), array)
        assert locked.holds(array) == (turn > 0)
    assert driver.count("locked_bytes") >= array.nbytes
    with pytest.raises(ArgumentError, match="not C-contiguous"):
        gpu.lock(array[::2])
    assert gpu.lock(array[:10]) is None, "it is locked already, as part of the whole"
    locked.forget()
    assert not locked.holds(array)
    assert driver.count("locked_bytes") == 0
    for _ in range(2):
        Buffer.from_numpy(array, gpu).release()
    assert driver.count("locked_bytes") == array.nbytes
    del array
    gc.collect()
    assert driver.count("locked_bytes") == 0


def test_results_share_registered_memory(gpu: Device, driver: EmulatedDriver) -> None:
    places = set()
    with Buffer.from_numpy(np.arange(1000.0), gpu) as there:
        for _ in range(6):
            found = there.numpy()
            assert np.array_equal(found, np.arange(1000.0))
            if locked.holds(found):
                places.add(found.__array_interface__["data"][0])
            del found
    assert len(places) == 1
    locked.forget()
    assert driver.count("locked_bytes") == 0


def test_a_released_device_has_nothing_registered(gpu: Device, driver: EmulatedDriver) -> None:
    array = np.arange(500.0)
    for _ in range(2):
        Buffer.from_numpy(array, gpu).release()
    assert locked.holds(array)
    gpu.release()
    assert driver.count("locked_bytes") == 0
    assert not locked.holds(array)
    with Buffer.from_numpy(array, gpu) as there:
        assert np.array_equal(there.numpy(), array)
    assert locked.holds(array), "it is locked anew"
    locked.forget()


def test_nothing_is_registered_while_a_process_forks(gpu: Device, driver: EmulatedDriver) -> None:
    """Results stay as they are, and are ordinary memory from then on."""
    with Buffer.from_numpy(np.arange(1000.0), gpu) as there:
        kept = [there.numpy() for _ in range(2)]
        while not locked.holds(kept[-1]):
            kept = [*kept[1:], there.numpy()]
        child = os.fork()
        if not child:
            os._exit(0 if np.array_equal(kept[-1], np.arange(1000.0)) and not locked.holds(kept[-1]) else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert driver.count("locked_bytes") == 0
        assert not locked.holds(kept[-1])
        assert np.array_equal(kept[-1], np.arange(1000.0))
        del kept
        assert np.array_equal(there.numpy(), np.arange(1000.0))
    locked.forget()


def test_every_gpu_is_waited_for_before_pages_are_unlocked(gpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock is made through one GPU, and others copy from the pages too."""
    array, other = np.arange(1000.0), device.get("cuda:1")
    other.default_queue().finish()
    lock = gpu.lock(array)
    assert lock is not None
    asked: list[Device] = []
    monkeypatch.setattr(CudaContext, "finish", lambda one: asked.append(one))
    lock.wait()
    assert {gpu, other} <= set(asked)
    lock.release()
    asked.clear()
    lock.wait()
    assert not asked


def test_much_pinned_memory_is_the_system_s(gpu: Device, driver: EmulatedDriver) -> None:
    """Locked as long as somebody has it; the driver's where the system refuses."""
    pinned = gpu.pinned(1 << 22)
    assert driver.count("locked_bytes") == 1 << 22
    pinned[:] = 7
    part = pinned[5:9]
    del pinned
    gc.collect()
    assert driver.count("locked_bytes") == 1 << 22
    assert part.tolist() == [7] * 4
    del part
    gc.collect()
    assert driver.count("locked_bytes") == 0
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(memory.CudaPageLock, "__init__", refuses)
        pinned = gpu.pinned(1 << 22)
        pinned[:] = 7
        del pinned


def refuses(*args: object) -> None:
    raise DeviceError("no more")
