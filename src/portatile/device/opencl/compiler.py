"""pyopencl's programs: build one, read its log, take its binary."""

from __future__ import annotations

import ctypes
import re
import warnings
from functools import cache
from typing import TYPE_CHECKING, Any

from portatile.device.opencl.queue import cl
from portatile.errors import CompileError, DeviceError

if TYPE_CHECKING:
    from portatile.device.opencl.device import ClDevice


def construct(program: Any, options: list[str], device: ClDevice, message: str, text: str = "") -> None:
    """Build a ``pyopencl.Program``; raises CompileError with the log in the lines of ``text``, DeviceError where memory is short."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a log that is not empty is kept in the Binary
        program.get_info(cl.program_info.REFERENCE_COUNT)  # an access before the build keeps pyopencl's own cache out
        try:
            program.build(options, devices=[device.cl_device])
        except cl.Error as error:
            if getattr(error, "code", None) in (cl.status_code.OUT_OF_HOST_MEMORY, cl.status_code.OUT_OF_RESOURCES):
                raise DeviceError(f"{message}: {error}") from None
            raise CompileError(message, _relocated(log_of(program, device), text) or str(error)) from None


def log_of(program: Any, device: ClDevice) -> str:
    """What the driver says of a build."""
    try:
        return str(program.get_build_info(device.cl_device, cl.program_build_info.LOG) or "").strip("\0 \n")
    except cl.Error:
        return ""


def _relocated(log: str, text: str) -> str:
    """A log whose places are lines of the whole text, as NVIDIA's are, with the file and line that ``#line`` gives them."""
    places, file, line = [], "<kernel>", 1
    for row in text.splitlines():
        places.append(f"{file}:{line}")
        line += 1
        if found := re.match(r'\s*#\s*line\s+(\d+)(?:\s+"([^"]*)")?', row):
            line, file = int(found.group(1)), found.group(2) or file

    def place(found: re.Match[str]) -> str:
        row = int(found.group(1))
        return places[row - 1] if 0 < row <= len(places) else found.group(0)

    return re.sub(r"<kernel>:(\d+)", place, log)


def binary_of(program: Any) -> bytes:
    """The binary of a ``pyopencl.Program`` of one device. Raises ``pyopencl.Error``.

    A driver may compile when it is asked: PoCL does, at the question for the size, and other threads of Python run meanwhile.
    """
    ask = _question()
    if ask is not None:
        size = ctypes.c_size_t()
        ask(program.int_ptr, cl.program_info.BINARY_SIZES, ctypes.sizeof(size), ctypes.byref(size), None)
    found: bytes = program.get_info(cl.program_info.BINARIES)[0]
    return found


@cache
def _question() -> Any:
    """``clGetProgramInfo`` called directly, None where the library behind pyopencl cannot be."""
    try:
        ask = ctypes.CDLL(cl._cl.__file__).clGetProgramInfo  # also finds what that module is linked with
    except (AttributeError, OSError):
        return None
    ask.argtypes = [ctypes.c_void_p, ctypes.c_uint, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p]
    ask.restype = ctypes.c_int
    return ask
