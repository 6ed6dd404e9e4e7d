"""Memory of an OpenCL device that is handed on after it was given back: to whom, and what is still done in it."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from portatile import program
from portatile.device.base import Device, Memory
from portatile.device.opencl.device import ClDevice
from portatile.records import Source
from portatile.runtime.one_device import deferred

pytestmark = pytest.mark.unoptimised

_NBYTES = 12_345 * 4  # of no other memory here
_LATE = """
kernel void late(global int *x, int steps) {
    volatile int state = 0;
    for (int i = 0; i < steps; i++)
        state += i;
    x[get_global_id(0)] = state;
}
"""


@pytest.fixture
def opened(device: Device) -> ClDevice:
    """The device, with nothing in its pool and no queue but the default one."""
    if not isinstance(device, ClDevice):
        pytest.skip(f"{device.info.id}: memory of CUDA comes from the driver's pool")
    deferred.waiting.flush()  # what earlier tests left to be compiled takes memory of the pool
    gc.collect()
    device.release()
    return device


def _handle(memory: Memory) -> int:
    return int(memory.handle.int_ptr)


def test_memory_given_back_is_handed_on(opened: ClDevice) -> None:
    """By release, by ``with``, and with the last reference; to who asks for as much."""
    with opened.allocate(_NBYTES) as memory:
        first = _handle(memory)
    with opened.allocate(_NBYTES) as again, opened.allocate(_NBYTES) as other, opened.allocate(_NBYTES + 4) as larger:
        assert _handle(again) == first
        assert first not in (_handle(other), _handle(larger))
        assert memory.handle is None
        memory.release()  # a second time: it is another's now
        assert _handle(again) == first
    dropped = opened.allocate(_NBYTES + 8)
    second = _handle(dropped)
    del dropped
    with opened.allocate(_NBYTES + 8) as again:
        assert _handle(again) == second
    assert opened._pool.held >= 4 * _NBYTES
    opened.release()
    assert opened._pool.held == 0


def test_nothing_is_handed_on_beside_another_queue(opened: ClDevice) -> None:
    opened.allocate(_NBYTES).release()
    held = opened._pool.held
    with opened.queue(), opened.allocate(_NBYTES):
        assert opened._pool.held == held
    assert opened._pool.held == held  # what was given back beside it is the driver's


def test_a_new_queue_comes_after_what_is_still_done_in_memory_handed_on(opened: ClDevice) -> None:
    binary = program.build(Source("late.cl", _LATE), opened.target, None)
    fresh = np.arange(_NBYTES // 4, dtype=np.int32)
    with opened.load(binary) as module:
        memory = opened.allocate(_NBYTES)
        queued, first = opened.default_queue(), _handle(memory)
        queued.launch(module.kernel("late"), (fresh.size, 1, 1), (1, 1, 1), [memory, np.int32(20_000)])
        queued.flush()
        memory.release()
        with opened.allocate(_NBYTES) as again, opened.queue() as other:
            assert _handle(again) == first
            other.upload(again, fresh)
            queued.finish()
            result = np.empty_like(fresh)
            other.download(result, again)
            assert np.array_equal(result, fresh)
