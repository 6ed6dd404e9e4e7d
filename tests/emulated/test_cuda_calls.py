"""What users call, through CUDA's back end and cuda-bindings to kernels in the interpreter: arrays, streams, repeated calls, mistakes."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import numpy as np
import pytest

import portatile
from portatile import Buffer, program
from portatile.device.base import Device, Memory, ReadyLaunch
from portatile.device.cuda.kernel import CudaKernel
from portatile.device.cuda.packed import PackedLaunches
from portatile.device.launches import Slot
from portatile.device.target import EARLY_START
from portatile.errors import ArgumentError, CompileError
from portatile.records import Source
from portatile.runtime.one_device import scratch
from portatile.runtime.repeated import small_transfers
from support.cuda_driver import EmulatedDriver


class ForeignArray:
    """An array of a library that portatile does not know, in the driver's memory, with the stream that its work is queued on."""

    def __init__(self, driver: EmulatedDriver, values: np.ndarray[Any, Any], stream: int = 1) -> None:
        self.shape, self.dtype, self.driver = values.shape, values.dtype, driver
        self.pointer = int(driver.library.emulated_take(max(values.nbytes, 1)))
        packed = np.ascontiguousarray(values)
        ctypes.memmove(self.pointer, packed.ctypes.data, packed.nbytes)
        self.__cuda_array_interface__ = {
            "shape": values.shape,
            "typestr": values.dtype.str,
            "data": (self.pointer, False),
            "version": 3,
            "stream": stream,
        }

    def numpy(self) -> np.ndarray[Any, Any]:
        raw = ctypes.string_at(self.pointer, int(np.prod(self.shape)) * self.dtype.itemsize)
        return np.frombuffer(raw, self.dtype).reshape(self.shape)


def drawn(*shape: int, dtype: str = "float32", seed: int = 0) -> Any:
    return (np.random.default_rng(seed + sum(shape)).random(shape) - 0.5).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_product_of_numpy_arrays(gpu: Device, dtype: str) -> None:
    a, b = drawn(5, 3, dtype=dtype), drawn(3, 7, dtype=dtype)
    np.testing.assert_allclose(portatile.matmul(a, b, device=gpu.info.id), a @ b, rtol=1e-5)


def test_arrays_of_the_host_that_come_again(gpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several sizes by turns, which take the same memory; in a thread without a context; through pinned memory or without it."""
    selected = gpu.info.id

    def check(size: int) -> None:
        a, b, c = drawn(size, size), drawn(size, size, seed=1), drawn(size, size, seed=2)
        np.testing.assert_allclose(portatile.matmul(a, b, device=selected), a @ b, rtol=1e-4, atol=1e-5)
        given = c.copy()
        portatile.gemm(a, b, c, alpha=2.0, beta=0.5, out=c, device=selected)
        np.testing.assert_allclose(c, 2 * a @ b + 0.5 * given, rtol=1e-4, atol=1e-5)

    def checks(*sizes: int) -> None:
        for size in sizes:
            check(size)

    checks(3, 5, 3, 8, 5, 3)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            checks(5, 8, 3)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not failures, failures[0]
    monkeypatch.setattr(small_transfers, "_SENT", 100)
    monkeypatch.setattr(small_transfers, "_FETCHED", 40)
    scratch.forget()
    checks(3, 8, 5, 3)


def test_repeated_products_of_buffers(gpu: Device, driver: EmulatedDriver) -> None:
    """The same shape again and again, with other memory, other factors, and a new result."""
    for seed in range(3):
        a, b, c = drawn(4, 3, seed=seed), drawn(3, 5, seed=seed), drawn(4, 5, seed=seed)
        there = [Buffer.from_numpy(x, gpu) for x in (a, b, c)]
        result = portatile.gemm(*there, alpha=2.0 + seed, beta=0.5)
        np.testing.assert_allclose(result.numpy(), (2.0 + seed) * a @ b + 0.5 * c, rtol=1e-5)
        np.testing.assert_array_equal(there[2].numpy(), c)
        out = Buffer.empty((4, 5), "float32", gpu)
        assert portatile.matmul(*there[:2], out=out) is out
        np.testing.assert_allclose(out.numpy(), a @ b, rtol=1e-5)


def test_repeated_products_of_whole_numbers_are_packed_too(gpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their factors are integers in the kernel: a call that comes again launches what lies ready, with factors of its own."""
    a, b = (np.random.default_rng(1).integers(-100, 100, shape, np.int8) for shape in ((6, 8), (8, 5)))
    x, y, out = Buffer.from_numpy(a, gpu), Buffer.from_numpy(b, gpu), Buffer.from_numpy(np.zeros((6, 5), np.int32), gpu)
    packed: list[float] = []
    run = PackedLaunches.run
    monkeypatch.setattr(
        PackedLaunches, "run", lambda self, queue, values, borrows: (packed.append(1), run(self, queue, values, borrows))[1]
    )
    for alpha in (1.0, 1.0, -3.0, 2.0):
        portatile.gemm(x, y, alpha=alpha, out=out)
        np.testing.assert_array_equal(out.numpy(), int(alpha) * (a.astype(np.int32) @ b.astype(np.int32)))
    assert len(packed) == 3


def test_a_kernel_that_waits_for_the_one_before_it_may_start_early(gpu: Device, driver: EmulatedDriver) -> None:
    """The option is told the driver with each launch, of queues and of launches that lie ready; the text has the wait."""
    text = """__kernel void twice(__global const float* x, __global float* y) {
        AFTER_PREVIOUS();
        NEXT_MAY_START();
        y[get_global_id(0)] = 2 * x[get_global_id(0)];
    }"""
    counted = ctypes.c_ulonglong.in_dll(driver.library, "emulated_early")
    x = drawn(8)
    given, out = Buffer.from_numpy(x, gpu), Buffer.empty((8,), "float32", gpu)
    queue = gpu.default_queue()
    for options, early in (((), 0), ((EARLY_START,), 1)):
        source = Source("twice.cl", text, options=options)
        kernel = gpu.load(program.build(source, gpu.target, None)).kernel("twice")
        before = counted.value
        queue.launch(kernel, (8, 1, 1), (8, 1, 1), [given.memory, out.memory])
        queue.launch(kernel, (8, 1, 1), (4, 1, 1), [given.memory, out.memory])
        assert counted.value - before == 2 * early
        ready = gpu.ready([ReadyLaunch(kernel, (8, 1, 1), (8, 1, 1), [Slot(0, Memory), Slot(1, Memory)])])
        assert ready is not None
        ready.run(queue, (given.memory.handle, out.memory.handle), True)
        assert counted.value - before == 3 * early
        np.testing.assert_array_equal(out.numpy(), 2 * x)


def test_a_short_grid_behind_one_with_little_local_memory_is_spread_evenly(gpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it starts early it asks for so much local memory that a multiprocessor takes no more than its share of the groups."""
    text = """__kernel void sums(__global float* x, __local float* kept) { AFTER_PREVIOUS(); kept[0] = 1; x[0] = kept[0]; }
        __kernel void add(__global float* x) { AFTER_PREVIOUS(); x[0] += 1; }
        __kernel void few(__global float* x, __local float* kept) { AFTER_PREVIOUS(); kept[0] = 2; x[0] = kept[0]; }
        __kernel void large(__global float* x, __local float* kept) { AFTER_PREVIOUS(); kept[0] = 3; x[0] = kept[0]; }"""
    asked: list[int] = []
    start = CudaKernel.start

    def noted(kernel: CudaKernel, grid: tuple[int, ...], dynamic: int) -> Any:
        asked.append(dynamic)
        return start(kernel, grid, dynamic)

    monkeypatch.setattr(CudaKernel, "start", noted)
    units, whole = gpu.info.compute_units, gpu.info.local_memory
    third = whole // 384 * 128

    def launched(options: tuple[str, ...], each: int, *names: str) -> list[int]:
        asked.clear()
        module = gpu.load(program.build(Source("sums.cl", text, options=options), gpu.target, None))
        local = {"sums": [1024], "add": [], "few": [256], "large": [third]}
        size = each * units, 1, 1
        assert gpu.ready([ReadyLaunch(module.kernel(name), size, (1, 1, 1), [Slot(0, Memory), *local[name]]) for name in names]) is not None
        return asked.copy()

    early = (EARLY_START,)
    (share, none), (all_of_it, _) = launched(early, 2, "sums", "add"), launched(early, 1, "sums", "add")
    assert none == 0, "what takes no local memory is left alone"
    assert 2 * (share + 1024) <= whole + 1024 < 3 * (share + 1024), "two groups, and not three"
    assert whole - 128 < all_of_it <= whole
    assert launched(early, 2, "sums", "sums") == [1024, 1024]
    assert launched(early, 2, "sums") == [1024]
    assert launched(early, 2, "sums", "few") == [share, 256]
    assert launched(early, 1000, "sums", "add") == [1024, 0], "a long grid is divided evenly by itself"
    assert launched(early, 2, "large", "add") == [third, 0], "no more than two of these fit as they are"
    assert launched((), 2, "sums", "add") == [1024, 0], "without an early start the driver divides all multiprocessors first"


def test_transposed_views_of_buffers(gpu: Device) -> None:
    a, b = drawn(3, 4), drawn(5, 3)
    result = portatile.matmul(Buffer.from_numpy(a, gpu).T, Buffer.from_numpy(b, gpu).T)
    np.testing.assert_allclose(result.numpy(), a.T @ b.T, rtol=1e-5)


def test_foreign_arrays_on_their_streams(gpu: Device, driver: EmulatedDriver) -> None:
    a, b = drawn(4, 3), drawn(3, 5)
    for stream in (1, 2, 1):  # the legacy stream, the thread's own
        for _ in range(2):
            given = [ForeignArray(driver, x, stream) for x in (a, b, np.zeros((4, 5), np.float32))]
            assert portatile.matmul(given[0], given[1], out=given[2]) is given[2]
            np.testing.assert_allclose(given[2].numpy(), a @ b, rtol=1e-5)


def test_an_output_that_overlaps_is_refused_also_when_the_shape_is_known(gpu: Device) -> None:
    a, b = (Buffer.from_numpy(drawn(4, 4, seed=seed), gpu) for seed in range(2))
    portatile.matmul(a, b, out=Buffer.empty((4, 4), "float32", gpu))
    for out in (a, b):
        with pytest.raises(ArgumentError, match="overlaps"):
            portatile.matmul(a, b, out=out)
    whole = Buffer.from_numpy(drawn(8, 4), gpu)
    with pytest.raises(ArgumentError, match="overlaps"):
        portatile.matmul(whole[:4], b, out=whole[2:6])


def test_a_compiled_product(gpu: Device) -> None:
    product = portatile.compile("gemm", m=4, n=5, k=3, device=gpu.info.id)
    for seed in range(3):
        a, b = drawn(4, 3, seed=seed), drawn(3, 5, seed=seed)
        np.testing.assert_allclose(product(a, b), a @ b, rtol=1e-5)
        np.testing.assert_allclose(product(Buffer.from_numpy(a, gpu), Buffer.from_numpy(b, gpu)).numpy(), a @ b, rtol=1e-5)


def test_stacks(gpu: Device) -> None:
    a, b = drawn(2, 3, 2), drawn(2, 2, 4)
    np.testing.assert_allclose(portatile.matmul(Buffer.from_numpy(a, gpu), Buffer.from_numpy(b, gpu)).numpy(), a @ b, rtol=1e-5)


def test_threads(gpu: Device) -> None:
    """Several threads call at once, each with memory of its own: arguments are never mixed up."""
    wrong: list[int] = []

    def work(seed: int) -> None:
        a, b = drawn(4, 3, seed=seed), drawn(3, 5, seed=seed)
        there = Buffer.from_numpy(a, gpu), Buffer.from_numpy(b, gpu)
        for _ in range(2):
            if not np.allclose(portatile.matmul(*there).numpy(), a @ b, rtol=1e-5):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_released_device_begins_anew(gpu: Device) -> None:
    a, b = drawn(4, 3), drawn(3, 5)
    portatile.matmul(a, b, device=gpu.info.id)
    product = portatile.compile("gemm", m=4, n=5, k=3, device=gpu.info.id)
    before = [Buffer.from_numpy(x, gpu) for x in (a, b)]
    portatile.matmul(*before)
    gpu.release()
    np.testing.assert_allclose(portatile.matmul(a, b, device=gpu.info.id), a @ b, rtol=1e-5)
    anew = [Buffer.from_numpy(x, gpu) for x in (a, b)]
    for call in (portatile.matmul, product):
        for _ in range(2):
            np.testing.assert_allclose(call(*anew).numpy(), a @ b, rtol=1e-5)
        with pytest.raises(ArgumentError, match="a is a Buffer whose memory was released"):
            call(*before)


def test_a_build_without_kernels_is_an_error(gpu: Device) -> None:
    with pytest.raises(CompileError, match="has no kernel"):
        program.build(Source("nothing.cl", "int helper(int x) { return x + 1; }\n"), gpu.target, None)


def test_memory_is_given_back(gpu: Device, driver: EmulatedDriver) -> None:
    a, b = drawn(4, 3), drawn(3, 5)
    there = Buffer.from_numpy(a, gpu), Buffer.from_numpy(b, gpu)
    portatile.matmul(*there)
    before = driver.count("live_bytes")
    for _ in range(5):
        portatile.matmul(*there)
    assert driver.count("live_bytes") <= before + 4096


def test_vectors_steps_and_stacks_of_buffers(gpu: Device) -> None:
    a, v = drawn(4, 6), drawn(6)
    there = Buffer.from_numpy(a, gpu)
    np.testing.assert_allclose((there @ Buffer.from_numpy(v, gpu)).numpy(), a @ v, rtol=1e-5)
    np.testing.assert_allclose(portatile.matmul(there[:, ::-2], Buffer.from_numpy(v[:3], gpu)).numpy(), a[:, ::-2] @ v[:3], rtol=1e-5)
    triangles, right = np.tril(drawn(3, 4, 4)) + 2 * np.eye(4, dtype=np.float32), drawn(3, 4, 2)
    expected = np.linalg.solve(triangles, right)
    for _ in range(3):
        buffer = Buffer.from_numpy(right, gpu)
        assert portatile.trsm(Buffer.from_numpy(triangles, gpu), buffer, out=buffer) is buffer
        np.testing.assert_allclose(buffer.numpy(), expected, rtol=1e-4)
    np.testing.assert_allclose(
        portatile.trsm(Buffer.from_numpy(triangles, gpu), Buffer.from_numpy(right, gpu)).numpy(), expected, rtol=1e-4
    )


def test_a_stream_that_has_finished_is_the_next_queues(gpu: Any) -> None:
    """To make one takes long; a device that is released keeps none."""
    first, other = gpu.queue(), gpu.queue()
    streams = {int(one.stream) for one in (first, other)}
    assert len(streams) == 2
    for one in (first, other):
        one.release()
    with gpu.queue() as again:
        assert int(again.stream) in streams
    gpu.release()
    assert not gpu._streams
    with gpu.queue() as anew:
        anew.finish()
