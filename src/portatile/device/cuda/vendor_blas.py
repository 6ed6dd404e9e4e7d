"""cuBLAS on a CUDA device's own memory and streams, through ctypes: for comparisons. float32 is computed without TF32."""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from portatile.device.base import Device, Memory, Queue
from portatile.device.cuda.context import CudaContext
from portatile.device.cuda.queue import CudaQueue
from portatile.device.vendor_blas import VendorBlas
from portatile.errors import DeviceError
from portatile.records import Size3

_AS_IS = 0  # CUBLAS_OP_N
_REAL = {"float32": ("cublasSgemm_v2", ctypes.c_float), "float64": ("cublasDgemm_v2", ctypes.c_double)}


def vendor_blas(device: Device) -> VendorBlas:
    """The cuBLAS library that is found first."""
    assert isinstance(device, CudaContext)
    return Cublas(device)


class Cublas(VendorBlas):
    """A handle of the library that is found first. Raises DeviceError where there is none."""

    name = "cuBLAS"

    def __init__(self, device: CudaContext) -> None:
        self._library = _loaded()
        self._device = device
        self._handle = ctypes.c_void_p()
        with device.current():
            self._call("cublasCreate_v2", ctypes.byref(self._handle))
        number = ctypes.c_int()
        self._call("cublasGetVersion_v2", self._handle, ctypes.byref(number))
        self.version = f"{number.value // 10000}.{number.value // 100 % 100}.{number.value % 100}"
        self._numbers = {dtype: (kind(1), kind(0)) for dtype, (_, kind) in _REAL.items()}

    def gemm(self, queue: Queue, dtype: str, sizes: Size3, operands: Sequence[Memory]) -> None:
        """Compute a row-major C = A B as the column-major product of the transposed matrices: B' A'."""
        assert isinstance(queue, CudaQueue)
        m, n, k = sizes
        a, b, c = (ctypes.c_void_p(int(memory.handle)) for memory in operands)
        one, zero = self._numbers[dtype]
        with self._device.current():
            self._call("cublasSetStream_v2", self._handle, ctypes.c_void_p(int(queue.stream)))
            self._call(_REAL[dtype][0], self._handle, _AS_IS, _AS_IS, n, m, k, ctypes.byref(one), b, n, a, k, ctypes.byref(zero), c, n)

    def release(self) -> None:
        handle, self._handle = self._handle, ctypes.c_void_p()
        if handle:
            with self._device.current():
                self._call("cublasDestroy_v2", handle)

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._library, name)(*arguments)
        if status:
            raise DeviceError(f"{name} reports {status}")


def _loaded() -> ctypes.CDLL:
    for path in _places():
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    raise DeviceError("cuBLAS is not installed: pip install nvidia-cublas")


def _places() -> Iterator[str]:
    """The libraries to try: first that of the system's loader, then those of NVIDIA's wheels."""
    if path := ctypes.util.find_library("cublas"):
        yield path
    wheels = importlib.util.find_spec("nvidia")
    for folder in wheels.submodule_search_locations or () if wheels is not None else ():
        yield from map(str, sorted(Path(folder).glob("*/lib/libcublas.so.*"), reverse=True))
