"""OpenCL through pyopencl: every device of every platform that the loader knows or can be told of."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from portatile import settings
from portatile.device import ptxas
from portatile.device.base import Device, Finding, Image, Kernel, Memory, Module, Queue, Survey, Target
from portatile.device.copies import address
from portatile.device.opencl import icd
from portatile.device.opencl.borrow import Borrowed
from portatile.device.opencl.compiler import binary_of, construct, log_of
from portatile.device.opencl.image import description, pixel, sampling
from portatile.device.opencl.info import describe
from portatile.device.opencl.pool import Pool
from portatile.device.opencl.queue import ClImage, ClKernel, ClMemory, ClQueue, cl, failure, import_error
from portatile.errors import ArgumentError, CompileError, DeviceError, LaunchError
from portatile.form import ImageForm, Sampler
from portatile.records import ArgKind, Backend, Binary, Entry, Parameter, Resources, Source

BACKEND: Backend = "opencl"

_MAGIC = b"portatile-opencl-1\n"
_DIGEST_BYTES = 16
_KEPT_PROGRAMS = 32


def survey() -> Survey:
    """Every usable device of every platform, numbered as ``pyopencl.get_platforms()`` numbers them in this process."""
    if cl is None:
        remedy = "install it: pip install pyopencl pocl-binary-distribution"
        return Survey((), (Finding("broken", "OpenCL", f"pyopencl cannot be imported: {import_error}", remedy),))
    settings.shelter_caches()
    with icd.vendors() as findings:
        try:
            platforms = cl.get_platforms()
        except cl.Error as error:
            remedy = "install an OpenCL library, for example: pip install pocl-binary-distribution"
            return Survey((), (*findings, Finding("broken", "OpenCL", f"the loader finds no platform: {error}", remedy)))
    devices: list[Device] = []
    seen: set[tuple[str, str, str]] = set()
    for p, platform in enumerate(platforms):
        try:
            found = platform.get_devices()
        except cl.Error as error:
            findings.append(Finding("broken", platform.name.strip(), f"lists no devices: {error}", "reinstall that OpenCL library"))
            continue
        identity = (platform.name, platform.version, ";".join(sorted(d.name for d in found)))
        if identity in seen:
            findings.append(Finding("ok", platform.name.strip(), f"platform {p} is registered twice; the second is ignored"))
            continue
        seen.add(identity)
        if _is_pocl(platform) and shutil.which("ld", path=settings.search_path()) is None:
            detail = "PoCL links kernels with 'ld', which is not on PATH: the first launch would end the process"
            findings.append(Finding("broken", platform.name.strip(), detail, "install binutils (Debian: apt install binutils)"))
            continue
        devices += [ClDevice(f"opencl:{p}:{d}", handle) for d, handle in enumerate(found)]
        findings.append(Finding("ok", platform.name.strip(), f"{platform.version.strip()}: {len(found)} device(s)"))
    return Survey(tuple(devices), tuple(findings))


def _is_pocl(platform: Any) -> bool:
    return "Portable Computing Language" in platform.name


def payload(data: bytes) -> bytes:
    """The driver's own binary inside the data of a Binary, for programs that load it without this back end."""
    return data[len(_MAGIC) + _DIGEST_BYTES :]


class ClTarget(Target):
    """The compiler inside an OpenCL device's driver."""

    backend: Backend = BACKEND

    def __init__(self, device: ClDevice) -> None:
        self._device = device
        self.defers = "Portable Computing Language" in device.info.platform
        self.architecture = device.info.architecture
        self.compiler = device.info.compiler

    def compile(self, source: Source, entries: tuple[Entry, ...] = ()) -> Binary:
        """Build OpenCL C with the driver's compiler; pyopencl's own disk cache is not used.

        The driver may cache too: for cold timings start the process with ``device.COLD_COMPILER``. NVIDIA prints
        registers and spills only when it did compile.
        """
        program, binary = self._built(source, entries)
        # a draft's data only names the program that is kept: loaded elsewhere, it would be refused as damaged
        data = os.urandom(32) if self.draft else self._sealed(program, binary.log, source.file)
        self._device.keep(data, program)
        return replace(binary, data=data)

    def defer(self, source: Source, entries: tuple[Entry, ...] = ()) -> tuple[Binary, Callable[[], Binary]]:
        """PoCL's binaries hold each kernel for any work-group too, and what was launched before they are made."""
        program, binary = self._built(source, entries)
        name = os.urandom(32)
        self._device.keep(name, program)
        self._device.drafts[name] = program
        return replace(binary, data=name), lambda: replace(binary, data=self._sealed(program, binary.log, source.file))

    def _built(self, source: Source, entries: tuple[Entry, ...]) -> tuple[Any, Binary]:
        """The driver's program, and all of its Binary but the data."""
        device = self._device
        # definitions as text, not as options, which some drivers split at blanks; #line keeps the user's lines
        defines = "".join(f"#define {name} {value}\n" for name, value in source.defines)
        options = [*source.options, "-cl-kernel-arg-info"]
        if device.nvidia:
            options.append("-cl-nv-verbose")
        text = f'{defines}#line 1 "{source.file}"\n{source.text}'
        program = cl.Program(device.context, text)
        construct(program, options, device, f"{source.file} does not build for {device.info.name}", text)
        log = log_of(program, device)
        try:
            kernels = program.all_kernels()
        except cl.Error as error:
            raise CompileError(f"{source.file}: the driver names no kernels: {error}", log) from None
        found = entries or tuple(_entry(kernel, device.cl_device) for kernel in kernels)
        reported = ptxas.parse(log)
        resources = {k.function_name: reported.get(k.function_name) or _resources(k, device.cl_device) for k in kernels}
        return program, Binary(b"", "opencl", found, resources, log)

    def _sealed(self, program: Any, log: str, file: str) -> bytes:
        """The driver's binary of a built program, as devices load it."""
        try:
            return self._device.seal(binary_of(program))
        except cl.Error as error:
            raise CompileError(f"{file}: the driver gives no binary: {error}", log) from None

    def settle(self, binary: Binary) -> None:
        """NVIDIA's binaries are PTX: the first to load one waits for its machine code, which the driver's cache has from then on."""
        if self._device.nvidia and os.environ.get("CUDA_CACHE_DISABLE", "0") == "0":
            self._device.program(binary)


def _entry(kernel: Any, device: Any) -> Entry:
    info = cl.kernel_arg_info
    parameters = []
    try:
        for i in range(kernel.num_args):
            kind_name = kernel.get_arg_info(i, info.TYPE_NAME)
            kind = _kind(kernel.get_arg_info(i, info.ADDRESS_QUALIFIER), kind_name)
            parameters.append(Parameter(kernel.get_arg_info(i, info.NAME), kind, kind_name))
    except cl.Error:
        parameters = []  # a driver need not keep them
    fixed = tuple(kernel.get_work_group_info(cl.kernel_work_group_info.COMPILE_WORK_GROUP_SIZE, device))
    name = kernel.function_name
    return Entry(name, name, tuple(parameters), (fixed[0], fixed[1], fixed[2]) if any(fixed) else None)


def _kind(qualifier: int, type_name: str) -> ArgKind:
    spaces = cl.kernel_arg_address_qualifier
    if type_name.startswith("image"):
        return "image"
    if qualifier == spaces.LOCAL:
        return "local"
    return "buffer" if qualifier in (spaces.GLOBAL, spaces.CONSTANT) else "scalar"


def _resources(kernel: Any, device: Any) -> Resources:
    """What the driver tells of any kernel: static local memory. Private memory is not comparable between drivers."""
    return Resources(local_memory=int(kernel.get_work_group_info(cl.kernel_work_group_info.LOCAL_MEM_SIZE, device)))


class ClModule(Module):
    """A built program."""

    def __init__(self, device: ClDevice, program: Any, binary: Binary) -> None:
        self._device, self._program, self._binary = device, program, binary
        self._kernels: dict[str, ClKernel] = {}

    def kernel(self, name: str) -> Kernel:
        kernel = self._kernels.get(name)
        if kernel is None:
            entry = self._binary.entry(name)
            try:
                handle = cl.Kernel(self._program, entry.symbol)
            except cl.Error as error:
                raise ArgumentError(f"the binary has no kernel {name!r}: {error}") from None
            kernel = self._kernels[name] = ClKernel(self._device, handle, entry, self._binary.resources.get(name, Resources()))
        return kernel

    def release(self) -> None:
        for kernel in self._kernels.values():
            kernel.release()
        self._kernels.clear()
        self._program = None


class ClDevice(Device):
    """One device of one OpenCL platform, with a context of its own."""

    def __init__(self, identity: str, device: Any) -> None:
        self.cl_device = device
        self.info = describe(identity, device)
        self.nvidia = "cl_nv_device_attribute_query" in device.extensions
        self.target = ClTarget(self)
        self._lock = threading.RLock()
        self._context: Any = None
        self._default: ClQueue | None = None
        self._abandoned: tuple[object, ...] = ()
        self._programs: OrderedDict[bytes, Any] = OrderedDict()
        self.drafts: WeakValueDictionary[bytes, Any] = WeakValueDictionary()  # programs whose binaries are still to be made
        self._samplers: dict[Sampler, Any] = {}
        self._share_alignment: int | None = None
        self._borrowed = Borrowed(self.share)
        self._pool = Pool(self.info.global_memory)

    @property
    def context(self) -> Any:
        """The ``pyopencl.Context``, created at first use."""
        if self._context is None:
            self.check_own()
            with self._lock:
                if self._context is None:
                    try:
                        self._context = cl.Context([self.cl_device])
                    except cl.Error as error:
                        raise DeviceError(f"{self.info.id}: no context: {error}") from None
        return self._context

    def seal(self, payload: bytes) -> bytes:
        """A driver's binary behind a checksum over it and the device's identity.

        Drivers crash on binaries that are cut short or another version's: PoCL ends the process.
        """
        return _MAGIC + self._checksum(payload) + payload

    def load(self, binary: Binary) -> Module:
        if binary.kind != "opencl":
            raise CompileError(f"{self.info.id} loads OpenCL binaries, not {binary.kind}")
        return ClModule(self, self._programs.pop(binary.data, None) or self.drafts.get(binary.data) or self.program(binary), binary)

    def program(self, binary: Binary) -> Any:
        """The ``pyopencl.Program`` that the driver makes of a binary."""
        start = len(_MAGIC) + _DIGEST_BYTES
        payload = binary.data[start:]
        if binary.data[:start] != _MAGIC + self._checksum(payload):
            raise CompileError(f"the binary is damaged, or was built for another device or driver than {self.info.id}: build it again")
        try:
            program = cl.Program(self.context, [self.cl_device], [payload])
        except cl.Error as error:
            raise CompileError(f"{self.info.id} refuses the binary", str(error)) from None
        construct(program, [], self, f"{self.info.id} refuses the binary")
        return program

    def keep(self, data: bytes, program: Any) -> None:
        """Remember a program that was just built, so that loading its binary in this process costs nothing."""
        self._programs[data] = program
        while len(self._programs) > _KEPT_PROGRAMS:
            self._programs.popitem(last=False)

    def allocate(self, nbytes: int) -> Memory:
        what = f"{self.info.id} cannot allocate {nbytes} bytes: at most {self.info.max_allocation} in one piece"
        if nbytes > self.info.max_allocation:  # NVIDIA's driver would only say so at the first use
            raise DeviceError(what)
        context, pool = self.context, self._pool
        buffer = pool.take(nbytes)
        while buffer is None:
            try:
                buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, max(nbytes, 1))
            except cl.Error as error:
                if not pool.clear():
                    raise DeviceError(f"{what}, and {error}") from None
        return ClMemory(self, buffer, nbytes, pool=pool)

    def image_of(self, form: ImageForm) -> Image:
        limit = self.info.image_2d_max
        if not self.info.images:
            raise LaunchError(f"{self.info.id} has no images")
        if form.type.startswith("image2d") and not (form.width <= limit[0] and form.height <= limit[1]):
            raise LaunchError(f"an {form} does not fit {self.info.id}: at most {limit[1]} x {limit[0]}")
        backing = None
        try:
            if form.type == "image1d_buffer_t":
                backing = cl.Buffer(self.context, cl.mem_flags.READ_WRITE, form.nbytes)
            handle = cl.Image(self.context, cl.mem_flags.READ_WRITE, pixel(form), desc=description(form, backing))
        except cl.Error as error:
            raise LaunchError(f"{self.info.id} has no {form}: {error}") from None
        return ClImage(self, handle, form, backing)

    def _view(self, memory: Memory, form: ImageForm) -> Image:
        assert isinstance(memory, ClMemory)
        try:
            handle = cl.Image(self.context, cl.mem_flags.READ_ONLY, pixel(form), desc=description(form, memory.buffer))
        except cl.Error as error:
            raise LaunchError(f"{self.info.id} has no {form} over a buffer: {error}") from None
        return ClImage(self, handle, form, memory.buffer, own=False)

    def sampler(self, wanted: Sampler) -> Any:
        """The ``pyopencl.Sampler``, made once in a context."""
        found = self._samplers.get(wanted)
        if found is None:
            try:
                found = self._samplers[wanted] = cl.Sampler(self.context, *sampling(wanted))
            except cl.Error as error:
                raise LaunchError(f"{self.info.id} has no {wanted}: {error}") from None
        return found

    def share(self, array: NDArray[Any]) -> Memory | None:
        if not self.info.unified_memory or array.nbytes == 0 or not array.flags.c_contiguous:
            return None
        if self._share_alignment is None:
            self._share_alignment = self._probe_sharing()
        if not self._share_alignment or address(array) % self._share_alignment:
            return None
        access = cl.mem_flags.READ_WRITE if array.flags.writeable else cl.mem_flags.READ_ONLY
        try:
            return ClMemory(self, cl.Buffer(self.context, access | cl.mem_flags.USE_HOST_PTR, hostbuf=array), array.nbytes, array)
        except cl.Error:
            return None

    def borrow(self, array: NDArray[Any]) -> Memory | None:
        return self._borrowed.of(array) if self.info.kind == "cpu" else None

    def pinned(self, nbytes: int) -> NDArray[np.uint8]:
        owner = _Pinned(self, max(nbytes, 1))
        return np.asarray(owner)[:nbytes]

    def queue(self, profiling: bool = False, out_of_order: bool = False) -> Queue:
        made = ClQueue(self, profiling, out_of_order, self._pool)
        if self._pool.handed and self._default is not None:  # memory that was handed on may still be in use there
            event = self._default.marker()
            self._default.flush()
            made.wait_for(event)
        return made

    def default_queue(self) -> Queue:
        if self._default is None:
            with self._lock:
                if self._default is None:
                    self._default = ClQueue(self, False, False)
        return self._default

    def release(self) -> None:
        with self._lock:
            if self._context is None:
                return
            if self._default is not None:
                self._default.release()
            self._borrowed.release()
            self._pool.close()
            self._pool = Pool(self.info.global_memory)
            self._default = self._context = self._share_alignment = None
            self._programs.clear()
            self._samplers.clear()
            self.generation += 1

    def abandon(self) -> None:
        super().abandon()
        self._abandoned = self._context, self._default, self._borrowed, self._pool  # kept, because to drop them would ask the driver
        self._context = self._default = None

    def _checksum(self, payload: bytes) -> bytes:
        state = hashlib.blake2b(digest_size=_DIGEST_BYTES)
        state.update(f"{self.info.compiler}\n{self.info.architecture}\n".encode())
        state.update(payload)
        return state.digest()

    def _probe_sharing(self) -> int:
        """The alignment from which on commands act on a host array itself, 0 for never: told by filling one."""
        queue = self.default_queue()
        for alignment in (16, 4096):
            raw = np.zeros(16384, np.uint8)
            start = -raw.ctypes.data % 8192 + alignment
            array = raw[start : start + 4096]
            with ClMemory(
                self, cl.Buffer(self.context, cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR, hostbuf=array), 4096
            ) as memory:
                queue.fill(memory, b"\x5a")
                queue.finish()
                if bool((array == 0x5A).all()):
                    return alignment
        return 0


class _Pinned:
    """Host memory that the driver allocated, mapped for as long as an array refers to it."""

    def __init__(self, device: ClDevice, nbytes: int) -> None:
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.ALLOC_HOST_PTR
        queue = device.default_queue()
        assert isinstance(queue, ClQueue)
        try:
            self._buffer = cl.Buffer(device.context, flags, nbytes)
            access = cl.map_flags.READ | cl.map_flags.WRITE
            self._array, _ = cl.enqueue_map_buffer(queue.cl_queue, self._buffer, access, 0, (nbytes,), np.uint8)
        except cl.Error as error:
            raise failure(error, f"{device.info.id} cannot allocate {nbytes} bytes of pinned memory") from None
        self._queue = queue.cl_queue
        self.__array_interface__ = self._array.__array_interface__

    def __del__(self) -> None:
        array = getattr(self, "_array", None)
        if array is not None:
            array.base.release(self._queue)
