"""Devices of exported folders through NVIDIA's driver, by ctypes."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import numpy as np

from portatile.shipping.loader.table import part

_ALIGNMENT = 128  # bytes; where each of several local arguments of a CUDA kernel begins
_PITCH = 512  # bytes; textures and their rows begin at a multiple of it
_LINEAR, _PITCH2D, _BORDER = 2, 3, 3  # names of the CUDA driver's header, by number
_SWIZZLE_128B, _PROMOTION_128B, _ELEMENTS = 3, 2, {1: 0, 2: 1, 4: 2}  # of tensor maps; elements by their bytes
_DYNAMIC_SHARED, _CC_MAJOR, _CC_MINOR, _OPT_IN_BYTES = 8, 75, 76, 48 * 1024  # names of the CUDA driver's header, by number


class Cuda:
    """One GPU through NVIDIA's driver. ``driver`` is its library, or something with the same functions."""

    platform = "NVIDIA CUDA"

    def __init__(self, driver: Any, index: int) -> None:
        self.driver, self.index = driver, index
        self._context: Any = None
        text = ctypes.create_string_buffer(256)
        self._call("cuDeviceGetName", text, 256, index)
        self.name = text.value.decode()

    def _call(self, name: str, *args: Any) -> None:
        code = getattr(self.driver, name)(*args)
        if code:
            raise RuntimeError(f"{name} failed with CUDA's error {code}")

    def _ready(self) -> None:
        if self._context is None:
            self._context = ctypes.c_void_p()
            self._call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), self.index)
        self._call("cuCtxSetCurrent", self._context)

    def build(self, program: dict[str, Any]) -> Any:
        self._ready()
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._call("cuDeviceGetAttribute", ctypes.byref(major), _CC_MAJOR, self.index)
        self._call("cuDeviceGetAttribute", ctypes.byref(minor), _CC_MINOR, self.index)
        here, binaries = f"sm_{major.value}{minor.value}", program["binaries"]
        cubin = next((b for b in binaries if b["kind"] == "cubin" and b["architecture"].rstrip("af") == here), None)
        chosen = cubin or next(b for b in binaries if b["kind"] == "ptx")  # for another GPU the driver compiles the PTX
        data = part(chosen["file"], chosen["digest"]) + b"\0"
        module = ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(module), data)
        return module

    def kernel(self, module: Any, symbol: str) -> Any:
        function = ctypes.c_void_p()
        self._call("cuModuleGetFunction", ctypes.byref(function), module, symbol.encode())
        return function

    def buffer(self, nbytes: int) -> Any:
        self._ready()
        pointer = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(max(nbytes, 4)))
        return pointer

    def image(self, image: dict[str, Any]) -> Any:
        """Rows a whole number of ``_PITCH`` apart and a texture over them, in the structure that kernels take by value."""
        width, height = image["width"], image["height"]
        pitch = -(-width * _bytes(image) // _PITCH) * _PITCH
        pointer = self.buffer(pitch * height).value
        texture = self._texture(_PITCH2D, struct.pack("<QIIQQQ", pointer, *_format(image), width, height, pitch), image)
        return ctypes.create_string_buffer(struct.pack("<QQiiii", texture, pointer, width, height, pitch, _code(image)))

    def view(self, memory: Any, image: dict[str, Any]) -> Any:
        """A texture over memory, from an aligned address on, and how many pixels lie before the first."""
        pointer, pixel, width = memory.value, _bytes(image), image["value"]
        ahead = pointer % _PITCH // pixel
        row = struct.pack("<QIIQ", pointer - ahead * pixel, *_format(image), (ahead + width) * pixel)
        texture = self._texture(_LINEAR, row, image)
        fields = texture, pointer, width, 1, width * pixel, _code(image), 1, ahead
        return ctypes.create_string_buffer(struct.pack("<QQiiiiiI", *fields))

    def _texture(self, kind: int, place: bytes, image: dict[str, Any]) -> int:
        resource = struct.pack("<I4x128sI4x", kind, place, 0)
        sampling = struct.pack("<3III84x", *3 * (_BORDER,), 0, 0 if image["dtype"][0] == "f" else 1)  # nearest; integers as they are
        texture = ctypes.c_uint64()
        self._call("cuTexObjectCreate", ctypes.byref(texture), resource, sampling, None)
        return texture.value

    def tensor_map(self, memory: Any, form: dict[str, Any]) -> Any:
        """The 128 bytes by which the TMA of compute capability 9.0 finds boxes of a matrix, or of a stack of them."""
        sides, pitches, box = [form["columns"], form["rows"]], [form["pitch"]], [form["wide"], form["high"]]
        if form["planes"]:
            sides, pitches, box = [*sides, form["planes"]], [*pitches, form["step"]], [*box, 1]
        descriptor = (ctypes.c_uint64 * 24)()  # the driver writes from a multiple of 64 bytes on
        place = ctypes.c_void_p(-(-ctypes.addressof(descriptor) // 64) * 64)
        matrix = _ELEMENTS[form["itemsize"]], len(sides), ctypes.c_void_p(memory.value + form["offset"])
        lists = (ctypes.c_uint64, sides), (ctypes.c_uint64, pitches), (ctypes.c_uint32, box), (ctypes.c_uint32, [1] * len(sides))
        geometry = [(kind * len(values))(*values) for kind, values in lists]
        self._call("cuTensorMapEncodeTiled", place, *matrix, *geometry, 0, _SWIZZLE_128B, _PROMOTION_128B, 0)
        return ctypes.create_string_buffer(ctypes.string_at(place, 128), 128)

    def local(self, nbytes: int) -> int:
        return nbytes

    def upload(self, memory: Any, array: Any) -> None:
        self._ready()
        self._call("cuMemcpyHtoD_v2", memory, ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes))

    def download(self, array: Any, memory: Any) -> None:
        self._call("cuMemcpyDtoH_v2", ctypes.c_void_p(array.ctypes.data), memory, ctypes.c_size_t(array.nbytes))

    def run(self, function: Any, work_items: list[int], group: list[int], args: list[Any]) -> None:
        dynamic = 0
        values: list[Any] = []
        for arg in args:
            if type(arg) is int:  # local memory: its offset is the argument
                values.append(ctypes.c_uint32(dynamic))
                dynamic += -(-arg // _ALIGNMENT) * _ALIGNMENT
            else:
                values.append(np.array(arg) if isinstance(arg, np.generic) else arg)
        places = [value.ctypes.data if isinstance(value, np.ndarray) else ctypes.addressof(value) for value in values]
        block = (ctypes.c_void_p * max(len(places), 1))(*places)
        if dynamic > _OPT_IN_BYTES:
            self._call("cuFuncSetAttribute", function, _DYNAMIC_SHARED, dynamic)
        grid = [count // size for count, size in zip(work_items, group, strict=True)]
        self._call("cuLaunchKernel", function, *grid, *group, dynamic, None, block, None)


def _bytes(image: dict[str, Any]) -> int:
    """The bytes of a pixel."""
    return int(image["channels"] * np.dtype(image["dtype"]).itemsize)


def _format(image: dict[str, Any]) -> tuple[int, int]:
    """The CUDA driver's number for the type of a channel, and how many there are."""
    return {"float32": 0x20, "float16": 0x10, "uint32": 3, "int32": 10}[image["dtype"]], image["channels"]


def _code(image: dict[str, Any]) -> int:
    """The type of a pixel in the encoding of kernels: channels, bytes of a channel, and its kind."""
    dtype = np.dtype(image["dtype"])
    return int(image["channels"] | dtype.itemsize << 8 | {"f": 1, "i": 2, "u": 3}[dtype.kind] << 16)


def find_cuda(driver: Any = None) -> list[Cuda]:
    try:
        driver = driver or ctypes.CDLL("libcuda.so.1")
    except OSError:
        return []
    count = ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        return []
    return [Cuda(driver, index) for index in range(count.value)]
