"""The compiler in an OpenCL device's driver: programs, their logs, and binaries that other processes can load."""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from typing import Any
from weakref import WeakValueDictionary

from portatile.device import ptx, ptxas, x86
from portatile.device.opencl import build_warnings, declarations, sm90a
from portatile.device.opencl.context import ClContext
from portatile.device.opencl.disassembly import disassembled
from portatile.device.opencl.driver import cl
from portatile.device.opencl.first_launches import quiet
from portatile.device.target import Instruction, Target, for_compiler
from portatile.dialect.places import Places, quoted
from portatile.errors import CompileError, DeviceError
from portatile.records import ArgKind, Binary, Entry, Parameter, Resources, Source

_OWN_NAME = re.compile(r"'_cl_(\w+)'")
_IN_HEADERS = re.compile(r"(?<=\d) <Spelling=[^>\n]*>")
_MAGIC = b"portatile-opencl-1\n"
_DIGEST_BYTES = 16
_KEPT_PROGRAMS = 32


class Programs:
    """The programs of one device: recently built ones by the data of their Binary, and binaries protected by a checksum."""

    def __init__(self, device: ClContext) -> None:
        self._device = device
        self._programs: OrderedDict[bytes, Any] = OrderedDict()
        self.drafts: WeakValueDictionary[bytes, Any] = WeakValueDictionary()  # programs whose binaries are yet to be made

    def seal(self, payload: bytes) -> bytes:
        """A driver's binary, preceded by a checksum of it and of the device's identity.

        Drivers crash on truncated binaries and on those of another version: PoCL aborts the process.
        """
        return _MAGIC + self._checksum(payload) + payload

    def take(self, binary: Binary) -> Any:
        """The ``pyopencl.Program`` of a binary: the one that was built in this process, if it is kept."""
        return self._programs.pop(binary.data, None) or self.drafts.get(binary.data) or self.program(binary)

    def program(self, binary: Binary) -> Any:
        """The ``pyopencl.Program`` that the driver makes of a binary."""
        start, identity = len(_MAGIC) + _DIGEST_BYTES, self._device.info.id
        payload = binary.data[start:]
        if binary.data[:start] != _MAGIC + self._checksum(payload):
            raise CompileError(f"the binary is damaged, or was built for another device or driver than {identity}: build it again")
        try:
            program = cl.Program(self._device.context, self._device.alike, [payload] * len(self._device.alike))
        except cl.Error as error:
            raise CompileError(f"{identity} refuses the binary", str(error)) from None
        construct(program, [], self._device, f"{identity} refuses the binary")
        return program

    def keep(self, data: bytes, program: Any) -> None:
        """Keep a program that was just built, so that loading its binary in this process costs nothing."""
        self._programs[data] = program
        while len(self._programs) > _KEPT_PROGRAMS:
            self._programs.popitem(last=False)

    def clear(self) -> None:
        """Drop the programs that are kept."""
        self._programs.clear()

    def _checksum(self, payload: bytes) -> bytes:
        state = hashlib.blake2b(digest_size=_DIGEST_BYTES)
        state.update(f"{self._device.info.compiler}\n{self._device.info.architecture}\n".encode())
        state.update(payload)
        return state.digest()


class ClTarget(Target):
    """The compiler inside an OpenCL device's driver."""

    backend = "opencl"

    def __init__(self, device: ClContext, programs: Programs) -> None:
        self._device, self._programs = device, programs
        self.defers = "Portable Computing Language" in device.info.platform
        self.architecture = device.info.architecture
        self.compiler = device.info.compiler

    def compile(self, source: Source, entries: tuple[Entry, ...] = ()) -> Binary:
        """Build OpenCL C with the driver's compiler, without pyopencl's disk cache.

        The driver may have a cache of its own: for cold timings start the process with ``device.COLD_COMPILER``. NVIDIA reports registers
        and spills only when it actually compiles.
        """
        program, binary = self._built(source, entries)
        # a draft's data only identifies the program in this process; loaded elsewhere, it would be refused as damaged
        data = os.urandom(32) if self.draft else self._sealed(program, binary.log, source.file)
        self._programs.keep(data, program)
        return replace(binary, data=data)

    def defer(self, source: Source, entries: tuple[Entry, ...] = ()) -> tuple[Binary, Callable[[], Binary]]:
        """Postpone PoCL's binaries, which contain each kernel for any work-group and for the sizes that were launched before."""
        program, binary = self._built(source, entries)
        name = os.urandom(32)
        self._programs.keep(name, program)
        self._programs.drafts[name] = program
        return replace(binary, data=name), lambda: replace(binary, data=self._sealed(program, binary.log, source.file))

    def _built(self, source: Source, entries: tuple[Entry, ...]) -> tuple[Any, Binary]:
        """The driver's program, and its Binary without the data."""
        device = self._device
        # definitions are prepended as text, because some drivers split options at blanks; #line preserves the user's line numbers
        defines = "".join(f"#define {name} {value}\n" for name, value in source.defines)
        given = [option for option in for_compiler(source.options) if not option.startswith("-arch=")]
        options = [*given, "-cl-kernel-arg-info"]
        if device.nvidia:
            options.append("-cl-nv-verbose")
        text = f"{defines}#line 1 {quoted(source.file)}\n{source.text}"
        program = self._program(text, options, f"{source.file} does not build for {device.info.name}")
        log = _relocated(log_of(program, device), text)
        try:
            kernels = program.all_kernels()
        except cl.Error as error:
            raise CompileError(f"{source.file}: the driver names no kernels: {error}", log) from None
        if not kernels:  # some drivers build such a text without an error
            raise CompileError(f"{source.file}: it contains no kernel", log)
        declared = entries or tuple(_entry(kernel, device.cl_device) for kernel in kernels)
        if device.nvidia and sm90a.MARK in text:
            program = self._again(program, f"{source.file} does not build for {device.info.name} with instructions of sm_90a")
            kernels, log = program.all_kernels(), log_of(program, device)
        reported = ptxas.parse(log)
        resources = {_own_name(k.function_name): reported.get(k.function_name) or _resources(k, device.cl_device) for k in kernels}
        return program, Binary(b"", "opencl", declared, resources, log)

    def _program(self, text: str, options: list[str], message: str) -> Any:
        """The ``pyopencl.Program`` of a text, built with only the declarations that it needs, where these can be determined."""
        device = self._device
        head = declarations.declared(text, options, device.info.compiler)
        if head is not None:
            program = cl.Program(device.context, head + text)
            try:
                construct(program, [*options, declarations.OPTION], device, message, text)
                return program
            except CompileError:
                pass  # the driver reports the error, or finds the missing declarations
        program = cl.Program(device.context, text)
        construct(program, options, device, message, text)
        return program

    def _again(self, program: Any, message: str) -> Any:
        """The program of the PTX of ``program``, in which instructions that were comments are enabled."""
        device = self._device
        try:
            text = sm90a.instructions(binary_of(program).rstrip(b"\0").decode())
            made = cl.Program(device.context, [device.cl_device], [text.encode()])
        except (cl.Error, UnicodeDecodeError) as error:
            raise CompileError(message, str(error)) from None
        construct(made, ["-cl-nv-verbose"], device, message)
        return made

    def _sealed(self, program: Any, log: str, file: str) -> bytes:
        """The driver's binary of a built program, in the form that devices load."""
        try:
            with quiet(self.compiler):
                data = binary_of(program)
            return self._programs.seal(data)
        except cl.Error as error:
            raise CompileError(f"{file}: the driver gives no binary: {error}", log) from None

    def payload(self, binary: Binary) -> bytes:
        return binary.data[len(_MAGIC) + _DIGEST_BYTES :]

    def assembly(self, binary: Binary) -> str:
        """PTX from NVIDIA's driver; disassembled machine code from PoCL."""
        data = self.payload(binary).rstrip(b"\0")
        if b".version" in data[:4096]:
            return data.decode()
        return disassembled(self.payload(binary)) if self.defers else super().assembly(binary)

    def instructions(self, assembly: str) -> Iterable[Instruction]:
        """The instructions; none for processors whose machine code is not supported here."""
        if ".version" in assembly[:4096]:
            return ptx.instructions(assembly)
        return x86.instructions(assembly) if self.architecture.startswith("x86") else ()

    def settle(self, binary: Binary) -> None:
        """Load the binary: NVIDIA's are PTX, and the first process to load one waits for its compilation, which the driver caches."""
        if self._device.nvidia and os.environ.get("CUDA_CACHE_DISABLE", "0") == "0":
            self._programs.program(binary)


def _entry(kernel: Any, device: Any) -> Entry:
    info = cl.kernel_arg_info
    parameters = []
    try:
        for i in range(kernel.num_args):
            kind_name = kernel.get_arg_info(i, info.TYPE_NAME)
            kind = _kind(kernel.get_arg_info(i, info.ADDRESS_QUALIFIER), kind_name)
            parameters.append(Parameter(_own_name(kernel.get_arg_info(i, info.NAME)), kind, kind_name))
    except cl.Error:
        parameters = []  # a driver need not keep the parameters
    fixed = tuple(kernel.get_work_group_info(cl.kernel_work_group_info.COMPILE_WORK_GROUP_SIZE, device))
    symbol = kernel.function_name
    return Entry(_own_name(symbol), symbol, tuple(parameters), (fixed[0], fixed[1], fixed[2]) if any(fixed) else None)


def _own_name(symbol: str) -> str:
    """The name in the kernel text: PoCL's headers add a prefix to functions named like built-in ones, such as ``dot`` or ``sign``."""
    return symbol.removeprefix("_cl_")


def _kind(qualifier: int, type_name: str) -> ArgKind:
    spaces = cl.kernel_arg_address_qualifier
    if type_name.startswith("image"):
        return "image"
    if qualifier == spaces.LOCAL:
        return "local"
    return "buffer" if qualifier in (spaces.GLOBAL, spaces.CONSTANT) else "scalar"


def _resources(kernel: Any, device: Any) -> Resources:
    """The resources that every driver reports: static local memory. Private memory is not comparable between drivers."""
    return Resources(local_memory=int(kernel.get_work_group_info(cl.kernel_work_group_info.LOCAL_MEM_SIZE, device)))


def construct(program: Any, options: list[str], device: ClContext, message: str, text: str = "") -> None:
    """Build a ``pyopencl.Program``; raises CompileError with the log in lines of ``text``, DeviceError if memory is short."""
    with build_warnings.left_out():
        program.get_info(cl.program_info.REFERENCE_COUNT)  # an access before the build disables pyopencl's own cache
        try:
            program.build(options, devices=device.alike)
        except cl.Error as error:
            if getattr(error, "code", None) in (cl.status_code.OUT_OF_HOST_MEMORY, cl.status_code.OUT_OF_RESOURCES):
                raise DeviceError(f"{message}: {error}") from None
            raise CompileError(message, _relocated(log_of(program, device), text) or str(error)) from None


def log_of(program: Any, device: ClContext) -> str:
    """The driver's build log, with PoCL's internal function names replaced by OpenCL's, and without locations in PoCL's headers."""
    try:
        log = str(program.get_build_info(device.cl_device, cl.program_build_info.LOG) or "").strip("\0 \n")
    except cl.Error:
        return ""
    return _IN_HEADERS.sub("", _OWN_NAME.sub(r"'\1'", log))


def _relocated(log: str, text: str) -> str:
    """A log whose line numbers count the whole text, as NVIDIA's do, with file and line as given by ``#line``."""
    if "<kernel>:" not in log:
        return log
    places, lines = Places(text, "<kernel>"), text.count("\n") + 1

    def place(match: re.Match[str]) -> str:
        return places.at(int(match[1])) if 0 < int(match[1]) <= lines else match[0]

    return re.sub(r"<kernel>:(\d+)", place, log)


def binary_of(program: Any) -> bytes:
    """The binary of a ``pyopencl.Program`` that is built for one device, or for several identical ones. Raises ``pyopencl.Error``.

    The call may compile: PoCL does when it is asked for the size of the binary. The GIL is released meanwhile.
    """
    ask = _program_info_function()
    if ask is not None:
        size = ctypes.c_size_t()
        ask(program.int_ptr, cl.program_info.BINARY_SIZES, ctypes.sizeof(size), ctypes.byref(size), None)
    binaries: list[bytes] = program.get_info(cl.program_info.BINARIES)
    return next(filter(None, binaries), b"")  # it may be built for only some of a context's devices


@cache
def _program_info_function() -> Any:
    """``clGetProgramInfo`` as a C function, None if the library behind pyopencl cannot be called directly."""
    try:
        ask = ctypes.CDLL(cl._cl.__file__).clGetProgramInfo  # also finds symbols of the libraries that the module is linked with
    except (AttributeError, OSError):
        return None
    ask.argtypes = [ctypes.c_void_p, ctypes.c_uint, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p]
    ask.restype = ctypes.c_int
    return ask
