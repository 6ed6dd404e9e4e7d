"""Every routine inside a graph that is captured on the caller's stream, after one call: in the emulated driver, which says what a real one
refuses meanwhile. Arrays are those of a library that is known, which are recorded, and of one that is not.
"""

from __future__ import annotations

import ctypes
import gc
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import portatile
from portatile import Buffer, cache, device, program, wavelets
from portatile.arguments import described
from portatile.device.base import Device, Memory, ReadyLaunch
from portatile.device.cuda import graph_memory
from portatile.device.cuda.driver import call
from portatile.device.cuda.driver import driver as cuda
from portatile.device.launches import Slot
from portatile.errors import UsageError
from portatile.images import ImageForm
from portatile.records import Source
from portatile.runtime import perform
from portatile.runtime.one_device import scratch
from support import capture_cases, fake_cuda
from support.cuda_driver import EmulatedDriver
from support.ptx_machine.thread import GLOBAL_BASE

CASES = capture_cases.cases()
KNOWN, UNKNOWN = "torch", "another"
OF_ANOTHER = ("gemm", "trsm", "symm", "convolve1d", "mri_q", "magicfilter3d", "apply_potential", "kinetic")
EVERY = [*[(KNOWN, name) for name in CASES], *[(UNKNOWN, name) for name in OF_ANOTHER]]
"""Libraries and routines: for one that the recorder does not know, a routine of each kind."""


class Arrays:
    """Makes arrays in the driver's memory whose library works on ``stream``."""

    def __init__(self, driver: EmulatedDriver, stream: int) -> None:
        self.driver, self.stream = driver, stream

    def place(self, shape: tuple[int, ...], dtype: Any) -> int:
        return int(self.driver.library.emulated_take(max(int(np.prod(shape)) * np.dtype(dtype).itemsize, 1)))


def library(name: str, arrays: Arrays) -> type:
    """A type of arrays: PyTorch's tensors as far as anybody looks, or another library's, which knows its stream alone."""

    class Tensor(fake_cuda.Tensor):
        __module__ = "torch" if name == "torch" else "another"

        def __init__(self, shape: tuple[int, ...], dtype: str = "float32", strides: Any = None, place: int = 0) -> None:
            super().__init__(tuple(shape), dtype, strides, place or arrays.place(shape, dtype))

        def new_empty(self, shape: tuple[int, ...]) -> Any:
            return Tensor(shape, self._dtype.name)

        def _bytes(self) -> tuple[int, ...]:
            return tuple(step * self._dtype.itemsize for step in self._strides)

        def host(self) -> np.ndarray[Any, Any]:
            """The array's memory, which the emulated device shares with the host."""
            size = sum((n - 1) * step for n, step in zip(self.shape, self._bytes(), strict=True)) + self._dtype.itemsize
            raw = (ctypes.c_ubyte * size).from_address(self._place)
            return np.ndarray(self.shape, self._dtype, np.frombuffer(raw, np.uint8), 0, self._bytes())  # type: ignore[call-overload,no-any-return]

        def _of(self, seen: np.ndarray[Any, Any]) -> Any:
            """Another view of the memory."""
            steps = tuple(step // self._dtype.itemsize for step in seen.strides)
            return Tensor(seen.shape, self._dtype.name, steps, seen.__array_interface__["data"][0])

        def __getitem__(self, key: Any) -> Any:
            return self._of(self.host()[key])

        @property
        def T(self) -> Any:
            return self._of(self.host().T)

        def reshape(self, *shape: Any) -> Any:
            return self._of(self.host().reshape(*shape))

        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            return {**super().__cuda_array_interface__, "stream": arrays.stream}

    return Tensor


@pytest.fixture
def stream(gpu: Device) -> Iterator[Any]:
    """A stream of the caller's."""
    with gpu.current():  # type: ignore[attr-defined]
        result = call(cuda.cuStreamCreate, 1)
        yield result
        perform.forget()
        engine = perform.engine_of(gpu)
        engine._streams.pop(int(result), None)
        call(cuda.cuStreamDestroy, result)


@pytest.fixture
def tensor(request: pytest.FixtureRequest, driver: EmulatedDriver, stream: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[type]:
    """A library's type of arrays."""
    monkeypatch.setattr(described, "known", {})
    with fake_cuda.torch(int(stream), monkeypatch):
        yield library(request.param, Arrays(driver, int(stream)))


@contextmanager
def captured(stream: Any) -> Iterator[list[Any]]:
    """What is queued on the stream becomes a graph, which is in the list afterwards."""
    found: list[Any] = []
    call(cuda.cuStreamBeginCapture, stream, cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL)
    try:
        yield found
    finally:
        error, graph = cuda.cuStreamEndCapture(stream)
        if not int(error):
            found += [graph, call(cuda.cuGraphInstantiate, graph, 0)]


def on_device(tensor: type, case: capture_cases.Case) -> list[Any]:
    made = []
    for array in case.arrays:
        there = tensor(array.shape, array.dtype.name)
        there.host()[...] = array
        made.append(there)
    return made


def hosts(result: Any) -> list[np.ndarray[Any, Any]]:
    return [one.host() for one in (result if isinstance(result, tuple) else (result,))]


@pytest.fixture
def idle(gpu: Device, driver: EmulatedDriver) -> Iterator[EmulatedDriver]:
    """The driver, which notes launches instead of running them."""
    gpu.default_queue().finish()
    driver.runs = False
    yield driver
    driver.runs = True


def queued(driver: EmulatedDriver, work: Callable[[], Any], *arrays: Any) -> tuple[Any, list[Any]]:
    """What ``work`` gives and which kernels it runs, with the places of arrays, and of what it gives, in place of addresses."""
    driver.log.clear()
    result = work()
    ends = [(host.__array_interface__["data"][0], host) for one in (*arrays, result) if one is not None for host in hosts(one)]

    def named(argument: bytes) -> object:
        value = int.from_bytes(argument, "little")
        if len(argument) != 8 or value < GLOBAL_BASE:
            return argument
        found = [(at, value - start) for at, (start, host) in enumerate(ends) if start <= value < start + host.nbytes]
        return found[0] if found else "memory of the package's own"

    return result, [(name, grid, block, tuple(map(named, arguments))) for name, grid, block, arguments in driver.log]


@pytest.mark.drawn(1 / 3)
@pytest.mark.parametrize(("tensor", "name"), EVERY, indirect=["tensor"])
def test_a_routine_is_captured_after_one_call(idle: EmulatedDriver, tensor: type, stream: Any, name: str) -> None:
    """The graph runs what the call did, on the caller's arrays."""
    case = CASES[name]
    given = on_device(tensor, case)
    _, expected = queued(idle, lambda: case.call(*given), *given)
    assert expected
    with captured(stream) as found:
        result, meanwhile = queued(idle, lambda: case.call(*given), *given)
    assert found, "the capture was made invalid"
    assert not meanwhile, "nothing runs while it is captured"
    for _ in range(2):
        _, replayed = queued(idle, lambda: call(cuda.cuGraphLaunch, found[1], stream), *given, result)
        assert replayed == expected
    call(cuda.cuGraphDestroy, found[0])
    assert queued(idle, lambda: case.call(*given), *given)[1] == expected


@pytest.mark.drawn(1 / 3)
@pytest.mark.parametrize(("tensor", "name"), EVERY, indirect=["tensor"])
def test_memory_is_handed_out_again_after_a_capture(gpu: Device, idle: EmulatedDriver, tensor: type, stream: Any, name: str) -> None:
    """What the captured stream used waits for nothing that is in the graph."""
    case = CASES[name]
    given = on_device(tensor, case)
    for _ in range(4):  # from the third run on launches are prepared
        case.call(*given)
    gpu.allocate(12345).release()
    with captured(stream) as found:
        case.call(*given)
    assert found, "the capture was made invalid"
    gpu.allocate(12345).release()


@pytest.mark.drawn(1 / 3)
@pytest.mark.parametrize(("tensor", "name"), EVERY[::2], indirect=["tensor"])
def test_what_was_never_called_is_refused_with_the_reason(idle: EmulatedDriver, tensor: type, stream: Any, name: str) -> None:
    """Nothing of it goes into the graph, and the capture goes on."""
    perform.forget()
    case = CASES[name]
    given = on_device(tensor, case)
    with captured(stream) as found, pytest.raises(UsageError, match="was not called before this capture: call it once before"):
        case.call(*given)
    assert found, "the capture was made invalid"
    idle.log.clear()
    call(cuda.cuGraphLaunch, found[1], stream)
    assert not idle.log


def test_a_device_is_opened_while_somebody_captures(idle: EmulatedDriver, stream: Any) -> None:
    """The first call of a process may stand in a capture, which is to say why it refuses and not to become invalid."""
    other = device.get("cuda:1")
    other.release()
    with captured(stream) as found:
        other.foreign_queue(0)  # type: ignore[attr-defined]
    assert found, "the capture was made invalid"


def test_objects_are_released_while_somebody_captures(idle: EmulatedDriver, stream: Any) -> None:
    """Python may collect them at any time: programs, pinned memory, queues."""
    gpu = device.get("cuda:0")
    text = Source("one.cl", "kernel void one(global float *x) { x[0] = 1; }")
    module, queue, pinned = gpu.load(program.build(text, gpu.target, cache.default())), gpu.queue(), gpu.pinned(1000)
    with captured(stream) as found:
        module.release()
        queue.release()
        del pinned
    assert found, "the capture was made invalid"


def products(gpu: Device, size: int) -> None:
    """Of host arrays and of Buffers, for the first time and again; with memory of their own, which goes back."""
    a, b = np.ones((2, size, size), np.float32)
    for _ in range(3):
        portatile.matmul(a, b, device=gpu.info.id)
        there = Buffer.from_numpy(a, gpu), Buffer.from_numpy(b, gpu)
        portatile.trsm(*there, out=there[1]).numpy()
    gpu.allocate(1 << 20).release()
    gpu.recycled.clear()  # type: ignore[attr-defined]
    gpu.default_queue().upload(there[0].memory, a, blocking=False)
    gpu.finish()  # type: ignore[attr-defined]


def textures(gpu: Device, size: int) -> None:
    """More images over rows of memory than are kept, and one of rows."""
    memory = gpu.allocate(1 << 16)
    for pixels in range(300):
        gpu.image_over(memory, ImageForm("image1d_buffer_t", (size + pixels, 4))).release()
    gpu.image(64, size, 4, "float32").release()


@pytest.mark.parametrize("elsewhere", [False, True], ids=["the same thread", "another thread"])
@pytest.mark.parametrize("work", [products, textures])
def test_other_work_goes_on_while_somebody_captures(
    gpu: Device, idle: EmulatedDriver, stream: Any, work: Callable[[Device, int], None], elsewhere: bool
) -> None:
    size = 9 if elsewhere else 11
    with captured(stream) as found, ThreadPoolExecutor(1) as pool:
        if elsewhere:
            pool.submit(work, gpu, size).result()
        else:
            work(gpu, size)
    assert found, "the capture was made invalid"


@pytest.mark.parametrize("tensor", [KNOWN], indirect=True)
def test_a_capture_that_was_broken_off_is_said_to_be(idle: EmulatedDriver, tensor: type, stream: Any) -> None:
    given = on_device(tensor, CASES["analysis3d"])
    wavelets.analysis3d(*given)
    with captured(stream) as found:
        cuda.cuCtxSynchronize()
        with pytest.raises(UsageError, match="was broken off before this call"):
            wavelets.analysis3d(*given)
    assert not found
    wavelets.analysis3d(*given)


@pytest.mark.parametrize("tensor", [KNOWN], indirect=True)
def test_what_gives_numbers_cannot_be_captured(idle: EmulatedDriver, tensor: type, stream: Any) -> None:
    arrays = CASES["apply_potential"].arrays
    given = on_device(tensor, capture_cases.Case(arrays, wavelets.potential_energy))
    wavelets.potential_energy(*given)
    with captured(stream) as found, pytest.raises(UsageError, match="captured"):
        wavelets.potential_energy(*given)
    assert found
    wavelets.potential_energy(*given)


@pytest.mark.parametrize(("tensor", "name"), [(KNOWN, "matmul"), (KNOWN, "trsm"), (UNKNOWN, "convolve1d")], indirect=["tensor"])
def test_the_values_of_a_graph(driver: EmulatedDriver, tensor: type, stream: Any, name: str) -> None:
    case = CASES[name]
    given = on_device(tensor, case)
    expected = [host.copy() for host in hosts(case.call(*given))]
    with captured(stream) as found:
        result = case.call(*given)
    for host in hosts(result):
        host[...] = np.nan
    call(cuda.cuGraphLaunch, found[1], stream)
    for host, wanted in zip(hosts(result), expected, strict=True):
        np.testing.assert_array_equal(host, wanted)
    a, b = case.arrays[0], case.arrays[min(1, len(case.arrays) - 1)]
    if name == "matmul":
        np.testing.assert_allclose(expected[0], a @ b, rtol=1e-5)
    elif name == "trsm":
        np.testing.assert_allclose(a @ expected[0], b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("tensor", [KNOWN], indirect=True)
def test_a_workspace_goes_with_its_graph(
    gpu: Device, idle: EmulatedDriver, tensor: type, stream: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls of one capture share it; nothing stands between their kernels; it comes back with what was instantiated, not before."""
    monkeypatch.setenv("PORTATILE_TIME_UNTUNED", "off")
    perform.forget()
    rng = np.random.default_rng(1)
    arrays = rng.random((16, 9000), np.float32), rng.random((9000, 16), np.float32), np.zeros((16, 16), np.float32)
    a, b, out = on_device(tensor, capture_cases.Case(arrays, portatile.matmul))
    _, once = queued(idle, lambda: portatile.matmul(a, b, out=out), a, b, out)
    assert len(once) == 1, "the last of the groups that share k adds up"
    graph_memory.sweep(gpu)  # type: ignore[arg-type]
    others = list(gpu.of_graphs)  # type: ignore[attr-defined]
    for count in (1, 3):
        with captured(stream) as found:
            for _ in range(count):
                portatile.matmul(a, b, out=out)
        (needs,) = [needs for gone, needs in gpu.of_graphs if (gone, needs) not in others]  # type: ignore[attr-defined]
        counter, sums = sorted(needs.memories, key=lambda memory: memory.nbytes)
        assert ctypes.string_at(counter.handle, counter.nbytes) == bytes(4)
        assert sums.nbytes >= 2 * 16 * 16 * 4
        _, replayed = queued(idle, lambda: call(cuda.cuGraphLaunch, found[1], stream), a, b, out)
        assert replayed == count * once
        call(cuda.cuGraphDestroy, found[0])
        assert not graph_memory.sweep(gpu)
        call(cuda.cuGraphExecDestroy, found[1])
        assert graph_memory.sweep(gpu)
        assert gpu.of_graphs == others  # type: ignore[attr-defined]


@pytest.mark.parametrize("packed", [False, True])
def test_a_graph_keeps_the_kernels_that_it_launches(gpu: Device, driver: EmulatedDriver, stream: Any, packed: bool) -> None:
    """A module is unloaded when its last kernel is gone, but not before the graph, of which nobody here knows when it runs."""
    text = "kernel void put(global float *x, float value) { x[get_global_id(0)] = value; }"
    module, memory = gpu.load(program.build(Source("put.cl", text), gpu.target, None)), gpu.allocate(32)
    kernel, size, queue = module.kernel("put"), (8, 1, 1), gpu.foreign_queue(int(stream))
    slots: list[Any] = [Slot(0, Memory), Slot(1, np.float32)]
    ready = gpu.ready([ReadyLaunch(kernel, size, size, slots)])
    assert ready is not None
    gpu.default_queue().finish()
    with captured(stream) as found:
        if packed:
            ready.run(queue, (memory.handle, 3.0), True)
        else:
            queue.launch(kernel, size, size, [memory, np.float32(3)])
    loaded = weakref.ref(module)
    del module, kernel, ready
    gc.collect()
    assert loaded() is not None
    call(cuda.cuGraphLaunch, found[1], stream)
    call(cuda.cuStreamSynchronize, stream)
    result = np.empty(8, np.float32)
    gpu.default_queue().download(result, memory)
    np.testing.assert_array_equal(result, np.full(8, 3, np.float32))
    call(cuda.cuGraphDestroy, found[0])
    call(cuda.cuGraphExecDestroy, found[1])
    graph_memory.sweep(gpu)  # type: ignore[arg-type]
    gc.collect()
    assert loaded() is None


@pytest.mark.parametrize(("tensor", "name"), [(KNOWN, "magicfilter3d"), (UNKNOWN, "convolve1d"), (KNOWN, "kinetic")], indirect=["tensor"])
def test_a_graph_keeps_the_filters_that_it_reads(gpu: Device, idle: EmulatedDriver, tensor: type, stream: Any, name: str) -> None:
    """They are constants of the package's own, of which only the latest are kept for later calls."""
    case = CASES[name]
    given = on_device(tensor, case)
    for _ in range(4):
        case.call(*given)
    with captured(stream) as found:
        case.call(*given)
    filters = [weakref.ref(kept.memory) for kept in scratch.scratch(gpu)._constants.values()]
    scratch.scratch(gpu)._constants.clear()
    perform.forget()
    gc.collect()
    assert sum(kept() is not None for kept in filters) == 1
    call(cuda.cuGraphDestroy, found[0])
    call(cuda.cuGraphExecDestroy, found[1])
    graph_memory.sweep(gpu)  # type: ignore[arg-type]
    gc.collect()
    assert all(kept() is None for kept in filters)


@pytest.mark.parametrize("tensor", [KNOWN], indirect=True)
def test_initial_values_of_calls_that_come_again(driver: EmulatedDriver, tensor: type, stream: Any) -> None:
    """Zeros, or those of C, beside the triangle that is computed; each time in other memory."""
    rng = np.random.default_rng(7)
    for _ in range(4):
        a, c = rng.random((9, 5), np.float32), rng.random((9, 9), np.float32)
        given = on_device(tensor, capture_cases.Case((a, c), portatile.syrk))
        from_zeros, from_c = portatile.syrk(given[0]), portatile.syrk(given[0], given[1], beta=2.0)
        call(cuda.cuStreamSynchronize, stream)
        np.testing.assert_allclose(from_zeros.host(), np.tril(a @ a.T), rtol=1e-5)
        np.testing.assert_allclose(from_c.host(), np.where(np.tri(9, dtype=bool), a @ a.T + 2 * c, c), rtol=1e-5)


def test_every_routine_is_here() -> None:
    assert capture_cases.routines() == {name.split(",")[0] for name in CASES} | set(capture_cases.LEFT_OUT)
