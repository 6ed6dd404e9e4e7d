"""What outlives what: memory given back, a device released and used again, the end of a process, and a fork."""

from __future__ import annotations

import gc
import subprocess
import sys

import numpy as np
import pytest

import portatile
from portatile.device.base import Device
from portatile.device.cuda.device import CudaDevice
from portatile.device.cuda.driver import call, driver
from portatile.images import ImageForm
from portatile.records import Binary
from portatile.runtime import perform
from portatile.runtime.one_device import deferred


def test_everything_is_given_back(device: Device, binary: Binary) -> None:
    """References to the context (OpenCL) or bytes in the pool (CUDA), before and after using everything there is."""

    def use() -> None:
        with device.load(binary) as module, device.queue(profiling=True) as queue, device.allocate(4096) as memory:
            queue.upload(memory, np.zeros(1024, np.int32), blocking=False)
            queue.launch(module.kernel("increment"), (1024, 1, 1), (64, 1, 1), [memory])
            queue.download(np.empty(1024, np.int32), memory, blocking=False)
            queue.marker().wait()
            array = device.pinned(100)
            array[:] = 1
            if device.info.images:
                with device.image(4, 4, 4, "float32") as image:
                    queue.upload(image, np.zeros((4, 4, 4), np.float32))
            memory.release()  # twice is once
            device.allocate(100)  # dropped without being released

    deferred.waiting.flush()  # what earlier tests left to be compiled refers to the context too
    use()
    gc.collect()
    before = _held(device)
    for _ in range(20):
        use()
    gc.collect()
    assert _held(device) <= before


def test_an_image_over_a_buffer_lets_go_of_it(device: Device) -> None:
    """References to the buffer (OpenCL; not every driver counts an image's; of its context PoCL keeps one for each such image), bytes in
    the pool and users (CUDA).
    """
    if not device.info.image_buffer_max:
        pytest.skip(f"{device.info.id} has no images over buffers")
    form = ImageForm("image1d_buffer_t", (256, 4))
    with device.allocate(4096) as memory:
        if isinstance(device, CudaDevice):
            before = _held(device)
            for _ in range(20):
                with device.allocate(4096) as other:
                    device.image_over(other, form)
            with device.image_of(form):
                assert sum(row.users for row in device._rows._rows.values()) == 1
            assert _held(device) <= before
            assert all(row.users == 0 for row in device._rows._rows.values())
        else:
            counts = []
            for _ in range(20):
                view = device.image_over(memory, form)
                memory.release_views()
                assert view.handle is None
                counts.append(memory.handle.reference_count)
            assert counts[-1] <= counts[0], counts


def _held(device: Device) -> int:
    """Bytes allocated and not given back, as CUDA's pool counts them (-1 without a pool); references to OpenCL's context."""
    if not isinstance(device, CudaDevice):
        return int(device.context.reference_count)  # type: ignore[attr-defined]
    if device._pool is None:
        return -1
    with device.current():
        call(driver.cuStreamSynchronize, device._stream)
        used = driver.CUmemPool_attribute.CU_MEMPOOL_ATTR_USED_MEM_CURRENT
        return int(call(driver.cuMemPoolGetAttribute, device._pool, used))


@pytest.mark.lengthy
def test_a_process_that_cleans_nothing_up_ends_quietly(device: Device) -> None:
    """Whatever is alive at the end of the interpreter is dropped in no order, some of it after the driver's module."""
    script = f"""
import numpy as np
from portatile import device, program
from portatile.records import Source
chip = device.get({device.info.id!r})
module = chip.load(program.build(Source("f.cl", "__kernel void f(__global int *x) {{ x[0] = 1; }}"), chip.target, None))
queue, memory, pinned = chip.queue(profiling=True), chip.allocate(64), chip.pinned(64)
upload = queue.upload(memory, pinned, blocking=False)
event = queue.launch(module.kernel("f"), (1, 1, 1), (1, 1, 1), [memory])
kept = [module, queue, memory, pinned, upload, event, chip.default_queue()]
kept.append(kept)
"""
    completed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert completed.returncode == 0
    assert "Error" not in completed.stderr


@pytest.mark.lengthy
def test_device_can_be_released_and_used_again(device: Device, binary: Binary) -> None:
    for _ in range(2):
        with device, device.load(binary) as module, device.queue() as queue, device.allocate(64) as memory:
            queue.fill(memory, b"\0")
            queue.launch(module.kernel("increment"), (16, 1, 1), (16, 1, 1), [memory])
            result = np.empty(16, np.int32)
            queue.download(result, memory)
            assert (result == 1).all()
    device.release()


@pytest.mark.lengthy
def test_routines_go_on_after_a_release(device: Device) -> None:
    a = np.random.default_rng(21).random((13, 13))
    text = "kernel void twice(global double *x) { x[get_global_id(0)] *= 2; }"
    twice = portatile.Kernel(text, "twice", (np.ones(4),), {"wide": [1, 2]}, local_size="wide", global_size=4, reference=lambda x: [2 * x])
    product = portatile.compile("gemm", m=13, n=13, k=13, dtype="float64", device=device.info.id)
    for _ in range(2):
        assert np.allclose(portatile.matmul(a, a, device=device.info.id), a @ a)
        assert np.allclose(product(a, a), a @ a)
        assert twice(np.ones(4), device=device.info.id).tolist() == [2, 2, 2, 2]
        device.release()
    assert np.allclose(portatile.matmul(a[:5], a, device=device.info.id), a[:5] @ a)


def test_shapes_that_run_the_same_kernels_load_them_once(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    def products() -> list[portatile.Compiled]:
        return [portatile.compile("gemm", m=size, n=40, k=40, device=device.info.id) for size in range(21, 29)]

    products()  # what has to be checked before it is used is checked here
    perform.forget()
    loaded, load = [], device.load
    monkeypatch.setattr(device, "load", lambda binary: loaded.append(binary) or load(binary))
    result = products()
    sources = {step.source for product in result for step in product._prepared.executable.plan.steps}
    assert len(loaded) == len(sources)


_FORKED = """
import multiprocessing, sys
import numpy as np
import portatile
a = np.ones((4, 4), np.float32)
product = portatile.compile("gemm", m=4, n=4, k=4, device=sys.argv[1])
buffer = portatile.Buffer.from_numpy(a, sys.argv[1])
product(a, a)
work = portatile.devices, lambda: portatile.matmul(a, a, device=sys.argv[1]), lambda: product(a, a), buffer.numpy

def attempt(number):
    try:
        work[number]()
    except portatile.UsageError as error:
        return "fork" in str(error)

with multiprocessing.get_context("fork").Pool(1) as pool:
    assert pool.map_async(attempt, range(4)).get(60) == [None, True, True, True]
assert product(a, a)[0, 0] == 4
"""


@pytest.mark.lengthy
@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_a_forked_process_is_told_and_does_not_hang(device: Device) -> None:
    completed = subprocess.run([sys.executable, "-c", _FORKED, device.info.id], capture_output=True, text=True, timeout=120, check=False)
    assert completed.returncode == 0, completed.stderr
