"""Launches without an event, which NVIDIA's OpenCL gets, on every OpenCL device: they run in order, and what cannot run says why."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from portatile import program
from portatile.device.base import Device
from portatile.device.opencl.driver import cl
from portatile.device.opencl.kernel import ClKernel
from portatile.device.opencl.launch import bare
from portatile.device.opencl.queue import ClQueue
from portatile.errors import LaunchError
from portatile.records import Source

TEXT = "__kernel void next(__global int* x, int step) { x[get_global_id(2) * 8 + get_global_id(1) * 4 + get_global_id(0)] += step; }"


@pytest.fixture
def queue(device: Device) -> Any:
    if device.info.backend != "opencl":
        pytest.skip(f"{device.info.id} has no OpenCL queue")
    queue = device.queue()
    assert isinstance(queue, ClQueue)
    queue._bare = bare(cl)
    assert queue._bare is not None, "pyopencl's library can be called"
    yield queue
    queue.release()


def _kernel(device: Device) -> ClKernel:
    kernel = device.load(program.build(Source("next.cl", TEXT, ()), device.target, None)).kernel("next")
    assert isinstance(kernel, ClKernel)
    return kernel


def test_launches_run_in_order(device: Device, queue: ClQueue) -> None:
    """Changing arguments and sizes from launch to launch."""
    start = np.arange(24, dtype=np.int32)
    expected = start.reshape(3, 2, 4).copy()
    with device.allocate(start.nbytes) as memory:
        queue.upload(memory, start)
        kernel = _kernel(device)
        for step in range(100):
            depth = 1 + step % 3
            assert queue.launch(kernel, (4, 2, depth), (2, 1, 1), [memory, np.int32(step)]) is None
            expected[:depth] += step
        result = np.empty_like(start)
        queue.download(result, memory)
    assert np.array_equal(result, expected.ravel())


def test_a_refused_launch_has_its_reason(device: Device, queue: ClQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver's refusal is told by pyopencl, which is asked again."""
    kernel = _kernel(device)
    assert queue._bare is not None
    assert not queue._bare(queue.cl_queue.int_ptr, kernel.handle.int_ptr, (4, 2, 1), (2, 1, 1)), "its arguments are not set"
    monkeypatch.setattr(kernel, "set_args", lambda args: None)
    with pytest.raises(LaunchError, match="next"):
        queue.launch(kernel, (4, 2, 1), (2, 1, 1), [])


def test_a_library_that_is_not_there_is_no_error() -> None:
    class Binding:
        class _cl:
            __file__ = "/nowhere/at-all.so"

    assert bare(Binding) is None
