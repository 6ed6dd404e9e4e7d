"""Arrays of PyTorch, CuPy and JAX in and out: the caller's memory, the caller's stream, no copy and no wait on the host.

Three proofs each: the pointers that kernels are given, the calls that the driver gets, and a stream that is still busy with what the
caller queued before when the call is back. PyTorch's profiler is asked too.
"""

from __future__ import annotations

import contextlib
import gc
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import portatile
from portatile import program
from portatile.device.base import Device
from portatile.device.buffer import Buffer
from portatile.device.cuda import kernel as cuda_kernel
from portatile.device.cuda.driver import driver
from portatile.device.cuda.packed import PackedLaunches
from portatile.device.foreign_arrays import caller_stream
from portatile.records import Source
from portatile.runtime import perform

SEED = 24
M, K, N = 193, 65, 127
WAITS = ("cuStreamSynchronize", "cuEventSynchronize", "cuCtxSynchronize")
COPIES = ("cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuMemcpyDtoDAsync", "cuMemcpy2DAsync")
LAUNCHES = ("cuLaunchKernel", "cuLaunchKernelEx", "cuGraphLaunch")  # some start early; a launch that comes again is a graph
SPIN = """
extern "C" __global__ void spin(long long cycles)
{
    const long long start = clock64();
    while (clock64() - start < cycles) ;
}
"""
SCALE = "__kernel void scale(__global const float *x, __global float *y, float a) { y[get_global_id(0)] = a * x[get_global_id(0)]; }"
LONG = 600_000_000  # cycles: a third of a second on any GPU of today


def values(shape: tuple[int, int], seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(SEED + seed).uniform(-1, 1, shape).astype(np.float32)


def check_product(got: np.ndarray[Any, Any], a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> None:
    bound = 2 * K * 2**-24 * (np.abs(a).astype(float) @ np.abs(b))
    assert (np.abs(got - a.astype(float) @ b) <= bound).all()


class Library(ABC):
    """What the tests need of one library, on a stream of one GPU beside its default one."""

    xp: Any

    @abstractmethod
    def side(self) -> contextlib.AbstractContextManager[Any]:
        """Its current stream is the side stream inside."""

    @abstractmethod
    def array(self, host: np.ndarray[Any, Any]) -> Any: ...

    @abstractmethod
    def pointer(self, array: Any) -> int: ...

    @abstractmethod
    def keep_busy(self) -> None:
        """Queue a long kernel on the side stream."""

    @abstractmethod
    def busy(self) -> bool:
        """Whether the side stream has work left."""

    @abstractmethod
    def host(self, array: Any) -> np.ndarray[Any, Any]:
        """The values, once the side stream is done."""


class Torch(Library):
    def __init__(self, gpu: int) -> None:
        self.xp = pytest.importorskip("torch")
        if not self.xp.cuda.is_available():
            pytest.skip("this PyTorch sees no GPU")
        self.stream = self.xp.cuda.Stream(device=gpu)

    def side(self) -> contextlib.AbstractContextManager[Any]:
        return self.xp.cuda.stream(self.stream)  # type: ignore[no-any-return]

    def array(self, host: np.ndarray[Any, Any]) -> Any:
        return self.xp.from_numpy(host).to(self.stream.device)

    def pointer(self, array: Any) -> int:
        return int(array.data_ptr())

    def keep_busy(self) -> None:
        self.xp.cuda._sleep(LONG)

    def busy(self) -> bool:
        return not self.stream.query()

    def host(self, array: Any) -> np.ndarray[Any, Any]:
        self.stream.synchronize()
        return array.cpu().numpy()  # type: ignore[no-any-return]


class Cupy(Library):
    def __init__(self, gpu: int) -> None:
        self.xp = pytest.importorskip("cupy")
        if not self.xp.cuda.is_available():
            pytest.skip("this CuPy sees no GPU")
        self.gpu = self.xp.cuda.Device(gpu)
        with self.gpu:
            self.stream = self.xp.cuda.Stream(non_blocking=True)
        self.spin = self.xp.RawKernel(SPIN, "spin")

    @contextlib.contextmanager
    def side(self) -> Iterator[None]:
        with self.gpu, self.stream:
            yield

    def array(self, host: np.ndarray[Any, Any]) -> Any:
        return self.xp.asarray(host)

    def pointer(self, array: Any) -> int:
        return int(array.data.ptr)

    def keep_busy(self) -> None:
        self.spin((1,), (1,), (np.int64(LONG),))

    def busy(self) -> bool:
        return not self.stream.done

    def host(self, array: Any) -> np.ndarray[Any, Any]:
        self.stream.synchronize()
        return self.xp.asnumpy(array)  # type: ignore[no-any-return]


LIBRARIES: dict[str, Callable[[int], Library]] = {"torch": Torch, "cupy": Cupy}


@pytest.fixture
def cuda(device: Device) -> Device:
    if device.info.backend != "cuda":
        pytest.skip("arrays of these libraries lie in CUDA memory")
    return device


_CALLS: list[str] = []
"""The names of the driver's functions that were called."""


@pytest.fixture
def noting(cuda: Device, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Calls of the driver are noted. Launches that come again keep its function, so none from before or after may be met."""
    perform.forget()
    with monkeypatch.context() as patch:
        for name in (*WAITS, *COPIES, *LAUNCHES):
            if hasattr(driver, name):
                patch.setattr(driver, name, _noted(getattr(driver, name), name, _CALLS))
        yield
    perform.forget()


def number(cuda: Device) -> int:
    """The GPU's index, which all libraries share."""
    return int(cuda.info.id.removeprefix("cuda:"))


@pytest.fixture(params=LIBRARIES)
def library(noting: None, cuda: Device, request: pytest.FixtureRequest) -> Library:
    return LIBRARIES[request.param](number(cuda))


class Seen:
    """What went to the driver while ``watched`` lasted: its calls by name, and the pointers of every launch."""

    def __init__(self) -> None:
        self.calls = _CALLS
        self.pointers: list[list[int]] = []


def _noted(function: Callable[..., Any], name: str, calls: list[str]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        calls.append(name)
        return function(*args)

    return call


@contextlib.contextmanager
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[Seen]:
    seen = Seen()
    with monkeypatch.context() as patch:
        pack = cuda_kernel.CudaKernel.pack

        def note(self: cuda_kernel.CudaKernel, args: Sequence[Any]) -> tuple[int, int]:
            seen.pointers.append([arg.handle for arg in args if isinstance(arg, cuda_kernel.CudaMemory)])
            return pack(self, args)

        patch.setattr(cuda_kernel.CudaKernel, "pack", note)
        run = PackedLaunches.run

        def noted(self: PackedLaunches, queue: Any, values: Sequence[Any], borrows: bool) -> object:
            seen.pointers.append([value for value in values if isinstance(value, int)])  # of a launch whose arguments are packed already
            return run(self, queue, values, borrows)

        patch.setattr(PackedLaunches, "run", noted)
        _CALLS.clear()
        yield seen
    seen.calls = list(_CALLS)


def operands(library: Library) -> tuple[Any, Any, Any, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """a, b and a place for the product, made on the side stream, and a and b on the host."""
    host_a, host_b = values((M, K)), values((K, N), seed=1)
    with library.side():
        a, b, out = (library.array(host) for host in (host_a, host_b, np.full((M, N), np.nan, np.float32)))
        portatile.matmul(a, b, out=out)  # compiled, loaded and checked from here on
        library.host(out)
    return a, b, out, host_a, host_b


@pytest.mark.parametrize("given", [True, False], ids=["out", "new"])
def test_a_product_stays_where_the_caller_is(library: Library, given: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel reads and writes the caller's arrays; the call is back while the stream still does what was queued before."""
    a, b, out, host_a, host_b = operands(library)
    before = library.pointer(out)
    with library.side():
        library.keep_busy()
        with watched(monkeypatch) as seen:
            product = portatile.matmul(a, b, out=out) if given else portatile.matmul(a, b)
        assert library.busy(), "the call waited for the stream"
    assert not {*WAITS, *COPIES} & set(seen.calls)
    assert len([name for name in seen.calls if name in LAUNCHES]) == len(seen.pointers) > 0
    assert type(product) is type(a)
    if given:
        assert product is out
        assert library.pointer(out) == before
    touched = {pointer for launch in seen.pointers for pointer in launch}
    assert library.pointer(product) in touched
    assert {library.pointer(a), library.pointer(b)} <= touched
    check_product(library.host(product), host_a, host_b)


def test_products_follow_the_librarys_own_work(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chain through both: what the library does before and after is in the same stream, in order, without a wait between."""
    a, b, out, host_a, host_b = operands(library)

    def chain() -> Any:
        twice = a * 2
        portatile.matmul(twice, b, out=out)
        out[...] += 1
        return portatile.matmul(out, b.T)

    with library.side():
        library.host(chain())  # everybody's kernels are loaded from here on
        library.keep_busy()
        with watched(monkeypatch) as seen:
            result = chain()
        assert library.busy()
    assert not {*WAITS, *COPIES} & set(seen.calls)
    expected = (2 * (host_a.astype(float) @ host_b) + 1) @ host_b.T
    np.testing.assert_allclose(library.host(result), expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


def test_a_kernel_of_ones_own_on_the_callers_stream(library: Library, cuda: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    host = values((4096, 1)).reshape(-1)
    module = cuda.load(program.build(Source("scale.cl", SCALE), cuda.target, None))
    kernel = module.kernel("scale")
    with library.side():
        x, y = library.array(host), library.array(np.zeros_like(host))
        with cuda.foreign_queue(caller_stream(x)) as queue:
            library.keep_busy()
            with watched(monkeypatch) as seen:
                arguments = [Buffer.wrap(x).memory, Buffer.wrap(y).memory, np.float32(3)]
                queue.launch(kernel, (4096, 1, 1), (128, 1, 1), arguments)
            assert library.busy()
    assert seen.calls == ["cuLaunchKernel"]
    assert seen.pointers == [[library.pointer(x), library.pointer(y)]]
    np.testing.assert_array_equal(library.host(y), np.float32(3) * host)
    module.release()


def test_a_stream_may_end_before_its_queue(library: Library, cuda: Device) -> None:
    """What the library destroys is not touched again when memory is allocated or given back."""
    a, b, out, host_a, host_b = operands(library)
    with library.side():
        product = portatile.matmul(a, b)
        check_product(library.host(product), host_a, host_b)
    del library.stream, a, b, out, product
    gc.collect()
    for _ in range(3):
        with Buffer.from_numpy(host_a, cuda) as ours:
            np.testing.assert_array_equal(ours.numpy(), host_a)


def test_a_buffer_is_handed_over_in_place(library: Library, cuda: Device) -> None:
    """Ours to theirs through DLPack: the same memory, seen in order by the side stream."""
    host = values((31, 17))
    ours = Buffer.from_numpy(host, cuda)
    with library.side():
        theirs = library.xp.from_dlpack(ours)
        assert library.pointer(theirs) == ours.memory.handle
        doubled = theirs * 2
    np.testing.assert_array_equal(library.host(doubled), 2 * host)


def test_the_profiler_sees_kernels_and_no_copy(cuda: Device) -> None:
    """What PyTorch's profiler records of a call on a side stream."""
    library = Torch(number(cuda))
    profiler = pytest.importorskip("torch.profiler")
    a, b, out, host_a, host_b = operands(library)
    activities = [profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.CUDA]
    with library.side(), profiler.profile(activities=activities) as profile:
        portatile.matmul(a, b, out=out)
        library.busy()
    library.stream.synchronize()
    names = [event.name for event in profile.events()]
    kernels = [event.name for event in profile.events() if str(event.device_type).endswith("CUDA")]
    if not kernels:
        pytest.skip("the profiler records no kernels on this machine")
    print(sorted(set(names)))
    copied = [name for name in names if name.startswith(("Memcpy", "cudaMemcpy", "cuMemcpy"))]
    waited = [name for name in names if name in ("cudaStreamSynchronize", "cudaEventSynchronize", *WAITS)]
    assert not copied
    assert not waited
    check_product(library.host(out), host_a, host_b)


def test_jax_arrays_in_and_out(cuda: Device, noting: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """JAX's arrays cannot be written: they are read in place, and a Buffer's memory becomes one without a copy."""
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax = pytest.importorskip("jax")
    try:
        opened = jax.devices("cuda")[number(cuda)]
    except RuntimeError as error:
        pytest.skip(f"this JAX sees no GPU: {error}")
    host_a, host_b = values((M, K)), values((K, N), seed=1)
    a, b = jax.device_put(host_a, opened).block_until_ready(), jax.device_put(host_b, opened).block_until_ready()
    out = Buffer.empty((M, N), "float32", cuda)
    portatile.matmul(a, b, out=out)
    with watched(monkeypatch) as seen:
        portatile.matmul(a, b, out=out)
        product = jax.dlpack.from_dlpack(out)
    assert not {*WAITS, *COPIES} & set(seen.calls)
    touched = {pointer for launch in seen.pointers for pointer in launch}
    assert {a.unsafe_buffer_pointer(), b.unsafe_buffer_pointer(), out.memory.handle} <= touched
    assert product.unsafe_buffer_pointer() == out.memory.handle
    check_product(np.asarray(product), host_a, host_b)
