"""Captures of PyTorch's while something else goes on: objects are collected, other threads compute for the first time and again."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import pytest

import portatile
from portatile import Buffer, program
from portatile import device as devices
from portatile.cache import default as default_cache
from portatile.images import ImageForm
from portatile.records import Source
from support import capture_cases

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch sees no GPU")

CASES = capture_cases.cases()
TEXT = "kernel void one(global float *x, float value) { x[get_global_id(0)] = value + NUMBER; }"


def parts(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


class Dropped:
    """Objects of each kind that a device is asked for, in a cycle that only the collector frees."""

    def __init__(self, number: int) -> None:
        gpu = devices.get("cuda:0")
        source = Source("one.cl", TEXT.replace("NUMBER", str(number)))
        module = gpu.load(program.build(source, gpu.target, default_cache()))
        queue, memory = gpu.queue(), gpu.allocate(4096)
        queue.launch(module.kernel("one"), (64, 1, 1), (64, 1, 1), [memory, np.float32(1)])
        self.kept = [module, queue, memory, gpu.pinned(1000), gpu.pinned(1 << 23), queue.marker(), Buffer.empty((300, 300), "float64", gpu)]
        self.compiled = portatile.compile("gemm", m=31 + number % 3, n=17, k=9, device="cuda:0")
        self.itself = self


def releases(number: int) -> None:
    """Drops what ``Dropped`` holds while something is captured."""
    gc.collect()


def allocations(number: int) -> None:
    """New memory, from the pool and beside it, which goes back at once."""
    gpu = devices.get("cuda:0")
    kept = [gpu.allocate((number + 1) << 20) for _ in range(3)]
    kept[0].release()
    gpu.image(64, 64 + number, 4, "float32").release()
    for place in range(300):  # textures over memory, more than are kept
        gpu.image_over(kept[1], ImageForm("image1d_buffer_t", (64 + place, 4))).release()
    Buffer.empty((1000 + number, 7), "float32", gpu)


def check(case: capture_cases.Case, amid: Callable[[], None]) -> None:
    """A call is captured with ``amid`` before, between and behind two of them; the graph gives what the call did."""
    given = [torch.from_numpy(array).cuda() for array in case.arrays]
    expected = [part.clone() for part in parts(case.call(*given))]
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        amid()
        first = case.call(*given)
        amid()
        result = case.call(*given)
        amid()
    del first
    for _ in range(2):
        graph.replay()
        torch.cuda.synchronize()
        assert all(torch.equal(one, wanted) for one, wanted in zip(parts(result), expected, strict=True))


@pytest.mark.parametrize("name", CASES)
def test_objects_are_collected_amid_a_capture(name: str) -> None:
    for number in range(2):
        Dropped(number)
        check(CASES[name], lambda number=number: releases(number))  # type: ignore[misc]


@pytest.mark.parametrize("name", ["matmul", "trsm", "analysis3d", "convolve3d_separable, out"])
def test_memory_comes_and_goes_amid_a_capture(name: str) -> None:
    for number in range(3):
        check(CASES[name], lambda number=number: allocations(number))  # type: ignore[misc]


def on_host(number: int) -> None:
    """Products of NumPy arrays, of a new shape each time: compiled or found, loaded, copied."""
    rng = np.random.default_rng(number)
    a, b = rng.random((20 + number % 7, 30), np.float32), rng.random((30, 10 + number), np.float32)
    np.testing.assert_allclose(portatile.matmul(a, b, device="cuda:0"), a @ b, rtol=1e-4)


def on_buffers(number: int) -> None:
    """Buffers, which are made, multiplied and read."""
    a, b = np.random.default_rng(number).random((2, 64, 64))
    there = [Buffer.from_numpy(one, devices.get("cuda:0")) for one in (a, b)]
    np.testing.assert_allclose(portatile.matmul(*there).numpy(), a @ b, rtol=1e-10)
    np.testing.assert_allclose(portatile.trsm(there[0], there[1]).shape, (64, 64))


@cache
def tensors() -> tuple[Any, Any, list[Any]]:
    """Operands, outputs and streams for two threads, which PyTorch allocates before anything is captured."""
    made = torch.ones(2, 256, 256, device="cuda"), torch.zeros(2, 256, 256, device="cuda"), [torch.cuda.Stream() for _ in range(2)]
    torch.cuda.synchronize()
    return made


def on_tensors(number: int) -> None:
    """PyTorch's tensors on a stream of the thread's own, in new shapes and in old ones."""
    (a, b), outs, streams = tensors()
    rows, columns = 20 + number % 64, 1 + number % 200
    with torch.cuda.stream(streams[number % 2]):
        portatile.matmul(a[:rows], b[:, :columns], out=outs[number % 2][:rows, :columns])
        right = outs[number % 2][:rows]
        portatile.trsm(a[:rows, :rows], right, out=right)


def on_kernels(number: int) -> None:
    """A kernel of the user's, compiled and loaded."""
    Dropped(1000 + number)
    gc.collect()


@contextmanager
def beside(work: Callable[[int], None], threads: int = 2) -> Iterator[None]:
    """``work`` again and again in other threads; what fails there fails here."""
    over, failed = threading.Event(), []

    def loop(at: int) -> None:
        number = at
        while not over.is_set():
            try:
                work(number)
            except BaseException as error:
                failed.append(error)
                return
            number += threads

    started = [threading.Thread(target=loop, args=(at,)) for at in range(threads)]
    for one in started:
        one.start()
    try:
        yield
    finally:
        over.set()
        for one in started:
            one.join()
    if failed:
        raise failed[0]


@pytest.mark.parametrize("work", [on_host, on_buffers, on_tensors, on_kernels])
@pytest.mark.parametrize("name", ["matmul", "matmul, a new result", "trsm", "syr2k", "analysis3d", "mri_fhd"])
def test_other_threads_compute_amid_captures(name: str, work: Callable[[int], None]) -> None:
    work(0)
    with beside(work):
        for _ in range(10):
            check(CASES[name], lambda: None)
