"""Kernels on every device: how arguments of each kind arrive, which launches are refused, events, and order between queues."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from portatile.device.base import Device, Queue
from portatile.device.module import Module
from portatile.errors import ArgumentError, LaunchError

SEED = 20


def test_kernel_computes(device: Device, module: Module, queue: Queue) -> None:
    x = np.random.default_rng(SEED).standard_normal(1000, np.float32)
    with device.allocate(x.nbytes) as source, device.allocate(x.nbytes) as target:
        queue.upload(source, x)
        queue.fill(target, b"\xff")
        kernel = module.kernel("scale")
        assert queue.launch(kernel, (1024, 1, 1), (64, 1, 1), [source, target, np.float32(2.5), np.int32(997)]) is None
        result = np.empty_like(x)
        queue.download(result, target)
    assert (result[:997] == np.float32(2.5) * x[:997]).all()
    assert np.isnan(result[997:]).all()


def test_scalars_arrive_as_they_are(device: Device, module: Module, queue: Queue) -> None:
    values = [np.int32(-3), np.uint32(2**31 + 5), np.int64(-(2**40)), np.uint64(2**50 + 1), np.float32(0.1), np.float64(0.1)]
    with device.allocate(48) as out:
        queue.launch(module.kernel("scalars"), (1, 1, 1), (1, 1, 1), [out, *values])
        result = np.empty(6)
        queue.download(result, out)
    assert result.tolist() == [float(v) for v in values]


def test_structures_are_passed_by_value(device: Device, module: Module, queue: Queue) -> None:
    pair = np.dtype([("first", np.int32), ("second", np.float32)])
    with device.allocate(4) as out:
        kernel = module.kernel("structure")
        for first in (3, 40):
            queue.launch(kernel, (1, 1, 1), (1, 1, 1), [out, np.array((first, 0.5), pair)[()]])
            result = np.empty(1, np.float32)
            queue.download(result, out)
            assert result[0] == first + 0.5
        if device.info.backend == "cuda":  # OpenCL's drivers may take any size
            with pytest.raises(LaunchError, match="argument 1"):
                queue.launch(kernel, (1, 1, 1), (1, 1, 1), [out, np.zeros((), [("first", np.int32)])[()]])


def test_local_arguments_are_apart(device: Device, module: Module, queue: Queue) -> None:
    x = np.arange(96, dtype=np.int32)
    with device.allocate(x.nbytes) as memory:
        queue.upload(memory, x)
        queue.launch(module.kernel("reverse"), (96, 1, 1), (48, 1, 1), [memory, 4 * 48, np.int32(0), 4 * 48])
        result = np.empty_like(x)
        queue.download(result, memory)
    mirrored = x.reshape(2, 48)[:, ::-1].ravel()
    assert result.tolist() == (mirrored - 1000 * mirrored).tolist()


def test_local_arguments_past_48_kb(device: Device, module: Module, queue: Queue) -> None:
    """CUDA gives that much only to kernels that opt in; NVIDIA's OpenCL not at all."""
    if device.info.local_memory <= 49_152:
        pytest.skip(f"{device.info.id} has {device.info.local_memory} bytes of local memory for arguments")
    x = np.arange(32, dtype=np.int32)
    with device.allocate(x.nbytes) as memory:
        queue.upload(memory, x)
        queue.launch(module.kernel("reverse"), (32, 1, 1), (32, 1, 1), [memory, 60_000, np.int32(0), 128])
        result = np.empty_like(x)
        queue.download(result, memory)
    assert result.tolist() == (-999 * x[::-1]).tolist()


def test_required_work_group(device: Device, module: Module, queue: Queue) -> None:
    kernel = module.kernel("fixed")
    assert kernel.entry.work_group == (8, 2, 1)
    with device.allocate(64) as memory:
        queue.launch(kernel, (8, 2, 1), (8, 2, 1), [memory])
        result = np.empty(16, np.int32)
        queue.download(result, memory)
        assert result.tolist() == list(range(15, -1, -1))
        with pytest.raises(LaunchError, match=r"requires the local size \(8, 2, 1\)"):
            queue.launch(kernel, (16, 1, 1), (16, 1, 1), [memory])


def test_bad_launches_raise_and_queue_nothing(device: Device, module: Module, queue: Queue) -> None:
    kernel, size = module.kernel("increment"), device.info.max_work_group_size
    with device.allocate(64) as memory:
        queue.fill(memory, b"\0")
        for sizes, args, message in [
            (((10, 1, 1), (4, 1, 1)), [memory], "multiple of the local size"),
            (((0, 1, 1), (1, 1, 1)), [memory], "positive"),
            (((4 * size, 1, 1), (4 * size, 1, 1)), [memory], "at most"),
            (((4, 1, 1), (4, 1, 1)), [], "takes 1 arguments"),
            (((4, 1, 1), (4, 1, 1)), [memory, memory], "takes 1 arguments"),
            (((4, 1, 1), (4, 1, 1)), [np.float32(1)], "argument 0"),
            (((4, 1, 1), (4, 1, 1)), ["x"], "argument 0"),
        ]:
            with pytest.raises(LaunchError, match=message):
                queue.launch(kernel, *sizes, args)  # type: ignore[arg-type]
        reverse, too_much = module.kernel("reverse"), device.info.local_memory + 1
        with pytest.raises(LaunchError, match="local memory"):
            queue.launch(reverse, (4, 1, 1), (4, 1, 1), [memory, too_much, np.int32(0), 16])
        result = np.empty(16, np.int32)
        queue.download(result, memory)
        assert not result.any()
        memory.release()
        with pytest.raises(LaunchError, match="released"):
            queue.launch(kernel, (4, 1, 1), (4, 1, 1), [memory])


def test_more_work_groups_than_are_counted_are_refused(device: Device, module: Module, queue: Queue) -> None:
    """A range that a driver would count wrongly, or that would end the process, never reaches it."""
    if device.info.platform != "Portable Computing Language" and device.info.backend != "cuda":
        pytest.skip("the driver says no itself, or runs them")
    kernel = module.kernel("increment")
    with device.allocate(64) as memory:
        for sizes in [((1 << 40, 1, 1), (64, 1, 1)), ((1 << 20, 1 << 20, 1), (16, 16, 1))]:
            with pytest.raises(LaunchError, match=r"global size \(1\d+, .* work-groups; at most"):
                queue.launch(kernel, *sizes, [memory])


def test_events_tell_time(device: Device, module: Module) -> None:
    with device.queue(profiling=True) as queue, device.allocate(4 << 16) as memory:
        queue.fill(memory, b"\0")
        before = queue.marker()
        events = [queue.launch(module.kernel("increment"), (1 << 16, 1, 1), (64, 1, 1), [memory]) for _ in range(5)]
        after = queue.marker()
        after.wait()
        assert after.done
        assert after.seconds_since(before) > 0
        for event in events:
            assert event is not None
            assert event.duration is not None
            assert 0 < event.duration <= after.seconds_since(before)
        with device.queue() as plain, pytest.raises(ArgumentError, match="profiling"):
            plain.marker().seconds_since(before)


@pytest.mark.parametrize("out_of_order", [False, True])
def test_dependencies_between_queues(device: Device, module: Module, out_of_order: bool) -> None:
    """A chain that hops between two queues: every link waits for the one before it."""
    count, steps = 1 << 14, 20
    with (
        device.queue(out_of_order=out_of_order) as one,
        device.queue(out_of_order=out_of_order) as two,
        device.allocate(4 * count) as memory,
    ):
        one.fill(memory, b"\0")
        last = one.marker()
        last.wait()
        for step in range(steps):
            queue = (one, two)[step % 2]
            event = queue.launch(module.kernel("increment"), (count, 1, 1), (64, 1, 1), [memory], wait=[last])
            assert event is not None
            queue.flush()
            last = event
        two.wait_for(last)
        result = np.empty(count, np.int32)
        two.download(result, memory)
        one.finish()
    assert (result == steps).all()


def test_kernels_may_be_launched_from_threads(device: Device, module: Module) -> None:
    """Kernels hold their arguments: two threads with one kernel must not mix theirs."""
    rounds, kernel, wrong = 50, module.kernel("scale"), []
    x = np.random.default_rng(SEED).standard_normal(64, np.float32)

    def work(factor: float) -> None:
        with device.queue() as queue, device.allocate(x.nbytes) as source, device.allocate(x.nbytes) as target:
            queue.upload(source, x)
            for step in range(rounds):
                a = np.float32(factor + step)
                queue.launch(kernel, (64, 1, 1), (64, 1, 1), [source, target, a, np.int32(64)])
                result = np.empty_like(x)
                queue.download(result, target)
                if not (result == a * x).all():
                    wrong.append((factor, step))

    threads = [threading.Thread(target=work, args=(factor,)) for factor in (1.0, 1000.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong
