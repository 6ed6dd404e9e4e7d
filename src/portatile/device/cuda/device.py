"""CUDA through cuda-bindings: every GPU the driver shows, in its primary context, which CuPy and PyTorch share."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, Literal
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from portatile.device.base import Device, Finding, Image, Kernel, Memory, Module, Queue, Survey, Target
from portatile.device.cuda import compiler
from portatile.device.cuda.compiler import CudaTarget
from portatile.device.cuda.driver import Current, attribute, call, driver, failure, import_error, running
from portatile.device.cuda.image import PITCH, Rows, longest_row, texture
from portatile.device.cuda.info import describe
from portatile.device.cuda.kernel import CudaKernel
from portatile.device.cuda.memory import CudaImage, CudaMemory, CudaPinned
from portatile.device.cuda.queue import CudaQueue
from portatile.errors import ArgumentError, CompileError, DeviceError, LaunchError
from portatile.form import ImageForm
from portatile.records import Backend, Binary, Resources

BACKEND: Backend = "cuda"

_POOL_KEEPS = 1 << 30  # bytes of freed memory that the pool keeps for the next allocation
_KEPT_EVENTS = 256
_LARGEST_ROW = 2**31 - 1  # bytes
_LARGEST_PLANE = 2**32 - 1


def target(architecture: str, kind: Literal["cubin", "ptx"] = "cubin") -> Target:
    """NVRTC for an architecture such as ``sm_90``, for which no GPU is needed; ``kind="ptx"`` gives text to read.

    Raises DeviceNotFoundError where NVRTC is missing or does not know the architecture.
    """
    made = CudaTarget(architecture, kind)
    compiler.check_architecture(architecture)
    return made


def ordinal(pointer: int) -> int:
    """The number of the GPU whose memory a pointer is; raises ArgumentError for one that is no device memory."""
    if driver is None:
        raise ArgumentError(f"CUDA memory needs cuda-bindings, which cannot be imported: {import_error}")
    if pointer == 0:  # an empty array
        return 0
    call(driver.cuInit, 0)
    error, *found = driver.cuPointerGetAttribute(driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer)
    if int(error):
        raise ArgumentError(str(failure(error, f"{pointer:#x} is no device memory")))
    return int(found[0])


def survey() -> Survey:
    """Every GPU that ``CUDA_VISIBLE_DEVICES`` leaves, numbered as the driver numbers them."""
    if driver is None:
        return Survey((), (Finding(_level(), "CUDA", f"cuda-bindings cannot be imported: {import_error}", compiler.REMEDY),))
    reason = compiler.available()
    nvrtc = Finding(_level(), "NVRTC", reason, compiler.REMEDY) if reason else Finding("ok", "NVRTC", _nvrtc_version())
    try:
        call(driver.cuInit, 0)
        version = int(call(driver.cuDriverGetVersion))
        count = int(call(driver.cuDeviceGetCount))
    except Exception as error:  # the bindings raise types of their own where there is no driver
        hidden = "NO_DEVICE" in str(error)
        level = "absent" if hidden else _level()
        advice = "install NVIDIA's driver; in a container, start it with its GPU support"
        advice = "check CUDA_VISIBLE_DEVICES, which may hide every GPU" if hidden else advice
        return Survey((), (nvrtc, Finding(level, "CUDA driver", f"cannot be used: {str(error).splitlines()[0]}", advice)))
    driver_text = f"{version // 1000}.{version % 1000 // 10}"
    findings = [nvrtc, Finding("ok", "CUDA driver", f"CUDA {driver_text}: {count} GPU(s)")]
    if reason is not None:
        return Survey((), tuple(findings))
    return Survey(tuple(CudaDevice(index, driver_text) for index in range(count)), tuple(findings))


def _nvrtc_version() -> str:
    return CudaTarget("sm_90").compiler


def _level() -> Literal["absent", "broken"]:
    """How bad it is that CUDA cannot be used: a fault only where there is an NVIDIA GPU."""
    return "broken" if any(Path(node).exists() for node in ("/dev/nvidiactl", "/dev/dxg", "/proc/driver/nvidia/version")) else "absent"


class CudaModule(Module):
    """A loaded cubin."""

    def __init__(self, device: CudaDevice, module: Any, binary: Binary) -> None:
        self._device, self._module, self._binary = device, module, binary
        self._generation = device.generation
        self._kernels: dict[str, CudaKernel] = {}

    def kernel(self, name: str) -> Kernel:
        kernel = self._kernels.get(name)
        if kernel is None:
            entry = self._binary.entry(name)
            with self._device.current():
                try:
                    function = call(driver.cuModuleGetFunction, self._module, entry.symbol.encode())
                except DeviceError as error:
                    raise ArgumentError(f"the binary has no kernel {name!r}: {error}") from None
                kernel = CudaKernel(self._device, function, entry, self._binary.resources.get(name, Resources()))
            self._kernels[name] = kernel
        return kernel

    def release(self) -> None:
        module, self._module = self._module, None
        self._kernels.clear()
        if module is not None and self._generation == self._device.generation:
            with self._device.current():
                driver.cuModuleUnload(module)

    def __del__(self) -> None:
        if running and getattr(self, "_module", None) is not None:
            self.release()


class CudaDevice(Device):
    """One GPU. Memory comes from a pool of our own in the order of a private stream, so nothing waits for the GPU."""

    def __init__(self, index: int, driver_text: str) -> None:
        self._handle = call(driver.cuDeviceGet, index)
        self.info = describe(index, self._handle, driver_text)
        self.target = CudaTarget(self.info.architecture)
        self._lock = threading.RLock()
        self._context: tuple[Any, int] | None = None
        self._pool: Any = None
        self._stream: Any = None
        self._fence_event: Any = None
        self._ready_event: Any = None
        self.allocations = 0  # of the pool
        self._rows = Rows(self)
        self._events: dict[bool, list[Any]] = {False: [], True: []}
        self._queues: WeakSet[CudaQueue] = WeakSet()
        self._guests: WeakSet[CudaQueue] = WeakSet()  # queues on other libraries' streams, which may be gone when nobody calls
        self._default: CudaQueue | None = None

    @property
    def context(self) -> tuple[Any, int]:
        """The primary context and its number, retained at first use."""
        if self._context is None:
            self.check_own()
            with self._lock:
                if self._context is None:
                    context = call(driver.cuDevicePrimaryCtxRetain, self._handle)
                    with Current(context, int(context)):
                        self._open(context)
                    self._context = (context, int(context))
        return self._context

    @property
    def memory_rate(self) -> float:
        """Two transfers to a clock, as memories of doubled rate are told."""
        try:
            kilohertz = self.attribute("MEMORY_CLOCK_RATE")
            bits = self.attribute("GLOBAL_MEMORY_BUS_WIDTH")
        except DeviceError:
            return 0.0
        return 2 * 1e3 * kilohertz * bits / 8

    def current(self) -> Current:
        """``with device.current():`` runs with the device's context."""
        return Current(*self.context)

    def load(self, binary: Binary) -> Module:
        if binary.kind not in ("cubin", "ptx"):
            raise CompileError(f"{self.info.id} loads cubin and PTX, not {binary.kind}")
        damaged = "the binary is damaged: build it again"
        if binary.kind == "cubin" and not compiler.is_whole(binary.data):
            raise CompileError(f"{self.info.id}: {damaged}")
        with self.current():
            error, *module = driver.cuModuleLoadData(binary.data if binary.kind == "cubin" else binary.data.rstrip(b"\0") + b"\0")
            if int(error):
                raise CompileError(str(failure(error, f"{self.info.id} refuses the binary for {self.info.architecture}; {damaged}")))
            return CudaModule(self, module[0], binary)

    def allocate(self, nbytes: int) -> Memory:
        with self.current(), self._lock:
            if self._pool is None:
                error, *found = driver.cuMemAlloc(max(nbytes, 1))
            else:
                error, *found = driver.cuMemAllocFromPoolAsync(max(nbytes, 1), self._pool, self._stream)
            if int(error):
                free, total = call(driver.cuMemGetInfo)
                what = f"{self.info.id} cannot allocate {nbytes} bytes ({free} of {total} are free)"
                raise DeviceError(str(failure(error, what)))
            if self._pool is not None:
                call(driver.cuEventRecord, self._ready_event, self._stream)
                self.allocations += 1
                for queue in list(self._queues):
                    if queue.stream is not None:
                        self.admit(queue.stream)
            return CudaMemory(self, int(found[0]), nbytes)

    def free(self, pointer: int, generation: int) -> None:
        """Give memory back once everything queued so far is done; does not wait."""
        if generation != self.generation or self._context is None:
            return
        with self.current(), self._lock:
            if self._pool is None:
                driver.cuMemFree(pointer)
                return
            for queue in list(self._queues):
                if queue.stream is not None:
                    self._fence(queue.stream)
            for queue in list(self._guests):
                driver.cuStreamWaitEvent(self._stream, queue.last, 0)
            driver.cuMemFreeAsync(pointer, self._stream)

    def adopt(self, pointer: int, nbytes: int, owner: object) -> Memory:
        return CudaMemory(self, pointer, nbytes, owner)

    def image_of(self, form: ImageForm) -> Image:
        limit, row = self.info.image_2d_max, form.width * form.pixel
        plain = form.type == "image2d_t"
        if plain and not (form.width <= limit[0] and form.height <= limit[1]):
            raise LaunchError(f"an {form} does not fit {self.info.id}: at most {limit[1]} x {limit[0]}")
        if row > _LARGEST_ROW or row * form.height > _LARGEST_PLANE:
            raise LaunchError(f"an {form} does not fit {self.info.id}: a row has at most {_LARGEST_ROW} bytes, a plane {_LARGEST_PLANE}")
        step = max(self.attribute("TEXTURE_PITCH_ALIGNMENT"), PITCH) if plain else 1
        pitch = -(-row // step) * step
        if plain and pitch > self.info.image_row_max:
            raise LaunchError(f"an {form} does not fit {self.info.id}: a row has at most {self.info.image_row_max} bytes")
        if form.type == "image1d_buffer_t":
            memory = self.allocate(row)
            assert isinstance(memory, CudaMemory)
            image, image.owner, memory.pointer = self._view(memory, form), None, None  # the image owns it from here on
            return image
        with self.current():
            memory = self.allocate(pitch * form.height * form.depth)
            assert isinstance(memory, CudaMemory)
            assert memory.pointer is not None
            handle = call(driver.cuTexObjectCreate, *texture(memory.pointer, form, pitch), None) if plain else None
        pointer, memory.pointer = memory.pointer, None  # the image owns it from here on
        return CudaImage(self, pointer, form, pitch, handle)

    def _view(self, memory: Memory, form: ImageForm) -> CudaImage:
        assert isinstance(memory, CudaMemory)
        assert memory.pointer is not None
        limit = longest_row(form, self._handle)
        if form.width > limit:
            raise LaunchError(f"an {form} does not fit {self.info.id}: at most {limit} pixels")
        with self.current(), self._lock:
            return CudaImage(self, memory.pointer, form, form.nbytes, row=self._rows.take(memory.pointer, form), owner="the memory's")

    def attribute(self, name: str) -> int:
        """One of the driver's ``CU_DEVICE_ATTRIBUTE_``."""
        return attribute(self._handle, name)

    def share(self, array: NDArray[Any]) -> Memory | None:
        return None

    def pinned(self, nbytes: int) -> NDArray[np.uint8]:
        return np.asarray(CudaPinned(self, max(nbytes, 1)))[:nbytes]

    def queue(self, profiling: bool = False, out_of_order: bool = False) -> Queue:
        return CudaQueue(self, profiling, out_of_order)

    def foreign_queue(self, stream: int) -> Queue:
        return CudaQueue(self, False, False, stream)

    def default_queue(self) -> Queue:
        if self._default is None:
            with self._lock:
                if self._default is None:
                    self._default = CudaQueue(self, False, False)
        return self._default

    def register(self, queue: CudaQueue) -> None:
        """Take note of a queue, which from now on waits for memory to be there before it is used.

        A stream of another library is touched only while that library's caller is here: its queue calls ``admit`` itself, and
        marks with its event ``last`` how far memory is in use.
        """
        with self._lock:
            (self._queues if queue.last is None else self._guests).add(queue)
            if queue.last is None:
                self.admit(queue.stream)

    def admit(self, stream: Any) -> None:
        """Make a stream wait until all memory that was allocated so far is there."""
        if self._pool is not None:
            call(driver.cuStreamWaitEvent, stream, self._ready_event, 0)

    def retire(self, queue: CudaQueue, stream: Any) -> None:
        """Forget a queue; memory that it used is reused only after what it has queued."""
        with self._lock, self.current():
            self._queues.discard(queue)
            self._guests.discard(queue)
            if self._pool is not None:
                if queue.last is None:
                    self._fence(stream)
                else:
                    driver.cuStreamWaitEvent(self._stream, queue.last, 0)
            if queue.last is not None:
                driver.cuEventDestroy(queue.last)

    def take_event(self, timing: bool) -> Any:
        """A ``CUevent``, one that was given back where there is one: making one takes longer than recording it."""
        try:
            return self._events[timing].pop()
        except IndexError:
            flags = driver.CUevent_flags
            return call(driver.cuEventCreate, int(flags.CU_EVENT_DEFAULT if timing else flags.CU_EVENT_DISABLE_TIMING))

    def give_event(self, event: Any, timing: bool) -> None:
        """Keep an event for the next ``take_event``; what was asked to wait for it waits for the point it had."""
        if len(self._events[timing]) < _KEPT_EVENTS:
            self._events[timing].append(event)
        else:
            driver.cuEventDestroy(event)

    def release(self) -> None:
        with self._lock:
            if self._context is None:
                return
            for queue in [*self._queues, *self._guests]:
                queue.release()
            self._default = None
            with self.current():
                for event in (*self._events[False], *self._events[True]):
                    driver.cuEventDestroy(event)
                self._events = {False: [], True: []}
                self._rows.release()
                if self._pool is not None:
                    driver.cuStreamSynchronize(self._stream)
                    driver.cuEventDestroy(self._fence_event)
                    driver.cuEventDestroy(self._ready_event)
                    driver.cuStreamDestroy(self._stream)
                    driver.cuMemPoolDestroy(self._pool)
            self._pool = self._stream = self._fence_event = self._ready_event = self._context = None
            self.generation += 1
            driver.cuDevicePrimaryCtxRelease(self._handle)

    def abandon(self) -> None:
        super().abandon()
        self._context = self._default = None

    def _open(self, context: Any) -> None:
        """The pool, its stream and its fence, where the driver has pools."""
        if not self.attribute("MEMORY_POOLS_SUPPORTED"):
            return
        properties = driver.CUmemPoolProps()
        properties.allocType = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        properties.handleTypes = driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_NONE
        properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        properties.location.id = int(self._handle)
        self._pool = call(driver.cuMemPoolCreate, properties)
        threshold = driver.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        call(driver.cuMemPoolSetAttribute, self._pool, threshold, driver.cuuint64_t(_POOL_KEEPS))
        self._stream = call(driver.cuStreamCreate, int(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
        quiet = int(driver.CUevent_flags.CU_EVENT_DISABLE_TIMING)
        self._fence_event, self._ready_event = call(driver.cuEventCreate, quiet), call(driver.cuEventCreate, quiet)

    def _fence(self, stream: Any) -> None:
        """Make the pool's stream wait for what ``stream`` holds now."""
        driver.cuEventRecord(self._fence_event, stream)
        driver.cuStreamWaitEvent(self._stream, self._fence_event, 0)
