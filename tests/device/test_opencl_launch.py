"""Launches without an event, which NVIDIA's OpenCL gets, on every OpenCL device: they run in order, and what cannot run says why."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from portatile import execute, program, workloads
from portatile.device.base import Device, Memory, ReadyLaunch
from portatile.device.launches import Slot
from portatile.device.opencl.driver import cl
from portatile.device.opencl.kernel import ClKernel
from portatile.device.opencl.launch import bare, sizes
from portatile.device.opencl.queue import ClQueue
from portatile.device.opencl.repeat import ClRepeat
from portatile.errors import LaunchError
from portatile.records import Source, TensorMap
from support.seeds import new_seed

TEXT = "__kernel void next(__global int* x, int step) { x[get_global_id(2) * 8 + get_global_id(1) * 4 + get_global_id(0)] += step; }"


@pytest.fixture
def queue(device: Device) -> Any:
    if device.info.backend != "opencl":
        pytest.skip(f"{device.info.id} has no OpenCL queue")
    queue = device.queue()
    assert isinstance(queue, ClQueue)
    queue.bare = bare(cl)
    assert queue.bare is not None, "pyopencl's library can be called"
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


def test_launches_with_kernels_of_their_own(device: Device, queue: ClQueue) -> None:
    """Runs with the last one's memory and numbers, with other ones, and beside launches of the kernel that they were made of."""
    kernel, start = _kernel(device), np.zeros(24, np.int32)
    launches = [ReadyLaunch(kernel, (4, 2, depth), (2, 1, 1), [Slot(0, Memory), Slot(1, np.int32)]) for depth in (1, 3)]
    expected = np.zeros((2, 3, 2, 4), np.int32)
    with ClRepeat([*launches, ReadyLaunch(kernel, (4, 2, 1), (2, 1, 1), [Slot(2, Memory), np.int32(100)])]) as repeat:
        memories = [device.allocate(start.nbytes) for _ in range(2)]
        for memory in memories:
            queue.upload(memory, start)
        for one, step in ((0, 1), (0, 1), (1, 1), (1, 5), (0, 5), (0, 5)):
            assert repeat.run(queue, [memories[one], step, memories[1 - one]])
            expected[one] += step
            expected[one, 0] += step
            expected[1 - one, 0] += 100
            queue.launch(kernel, (4, 2, 1), (2, 1, 1), [memories[one], np.int32(7)])
            expected[one, 0] += 7
        for memory, values in zip(memories, expected, strict=True):
            result = np.empty_like(start)
            queue.download(result, memory)
            assert np.array_equal(result, values.ravel())
            memory.release()
        with pytest.raises(LaunchError, match="released"):
            repeat.run(queue, [memories[0], 5, memories[1]])
        queue.bare = None
        assert not repeat.run(queue, [memories[0], 5, memories[1]]), "a queue whose launches make events"


def test_an_executable_that_runs_again(device: Device, queue: ClQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """The launches of a plan with a workspace have kernels of their own from the third run on."""
    monkeypatch.setattr(device, "repeat", ClRepeat)
    gemm = workloads.get("gemm")
    problem = gemm.problem({"m": 20, "n": 30, "k": 40}, "float32")
    config = {"FORM": "generic", "TR": 4, "TC": 4, "VL": 4, "TRR": 1, "TCR": 1, "TBR": 8, "TBC": 8, "KB": 8, "PACK_A": True, "PACK_B": True}
    rng = np.random.default_rng(new_seed(""))
    a, b = rng.random((20, 40), np.float32), rng.random((40, 30), np.float32)
    plan = gemm.plan(problem, config, device.info)
    assert len(plan.steps) > 1
    with execute.Executable(device, plan, lambda text: program.build(text, device.target, None)) as executable:
        memory = {name: device.allocate(array.nbytes) for name, array in (("a", a), ("b", b), ("c", a @ b))}
        queue.upload(memory["a"], a)
        queue.upload(memory["b"], b)
        for run, alpha in enumerate((1.0, 2.0, 2.0, 2.0, -3.0, -3.0)):
            queue.fill(memory["c"], b"\xff" * 4)
            executable.run(queue, memory, {"alpha": alpha, "beta": 0.0})
            assert (executable._repeat is not None) == (run >= 2)
            got = np.empty((20, 30), np.float32)
            queue.download(got, memory["c"])
            np.testing.assert_allclose(got, alpha * (a @ b), rtol=1e-5)
        for one in memory.values():
            one.release()


def test_a_refused_launch_has_its_reason(device: Device, queue: ClQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver's refusal is told by pyopencl, which is asked again."""
    kernel = _kernel(device)
    assert queue.bare is not None
    handles = queue.cl_queue.int_ptr, kernel.handle.int_ptr
    assert queue.bare(*handles, 3, None, sizes((4, 2, 1)), sizes((2, 1, 1)), 0, None, None), "its arguments are not set"
    monkeypatch.setattr(kernel, "set_args", lambda args: None)
    with pytest.raises(LaunchError, match="next"):
        queue.launch(kernel, (4, 2, 1), (2, 1, 1), [])


def test_a_library_that_is_not_there_is_no_error() -> None:
    class Binding:
        class _cl:
            __file__ = "/nowhere/at-all.so"

    assert bare(Binding) is None


def test_launches_with_maps_of_their_memory(device: Device, queue: ClQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """The map of what a run brings is among the arguments, and no launch is taken where other devices may move memory."""
    text = "typedef struct { int of[32]; } map_t; __kernel void put(__global int* x, map_t map) { x[get_global_id(0)] = map.of[0]; }"
    kernel = device.load(program.build(Source("put.cl", text, ()), device.target, None)).kernel("put")
    numbers: dict[Memory, int] = {}
    made = np.zeros(32, np.int32)

    def tensor_map(memory: Memory, form: TensorMap) -> np.void:
        made[0] = numbers[memory] + form.rows
        return np.void(made.tobytes())

    monkeypatch.setattr(device, "tensor_map", tensor_map)
    form = TensorMap(4, 4, 100, 16, 4, 4, 0)
    with ClRepeat([ReadyLaunch(kernel, (4, 1, 1), (4, 1, 1), [Slot(0, Memory), Slot(1, form)])]) as repeat:
        target, *others = (device.allocate(16) for _ in range(3))
        numbers.update({memory: number for number, memory in enumerate(others)})
        result = np.empty(4, np.int32)
        for which in (0, 1, 1, 0):
            assert repeat.run(queue, [target, others[which]])
            queue.download(result, target)
            assert result.tolist() == [100 + which] * 4
        monkeypatch.setattr(device, "peers", (object(),))
        assert not repeat.run(queue, [target, others[0]])
        for memory in (target, *others):
            memory.release()
