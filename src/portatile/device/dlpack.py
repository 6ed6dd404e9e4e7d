"""DLPack by ctypes: memory is exported to or imported from another library without a copy.

The structures are those of dlpack.h 0.8 (unversioned), which every library that supports DLPack reads.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from portatile.errors import ArgumentError

CPU_DEVICE, CUDA_DEVICE = 1, 2  # kDLCPU, kDLCUDA
_NAME, _USED = b"dltensor", b"used_dltensor"
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


_api = ctypes.pythonapi
_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_New.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _api))
_get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", _api))
_set_name = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_SetName", _api))

_exported: dict[int, tuple[object, ...]] = {}


def _release_export(managed: int) -> None:
    _exported.pop(managed, None)


def _destroy_capsule(capsule: int) -> None:
    """The destructor of capsules: an unconsumed capsule still owns its tensor."""
    if _is_valid(capsule, _NAME):
        _release_export(_get_pointer(capsule, _NAME))


_deleter = _Deleter(_release_export)
_destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_destroy_capsule)


@dataclass(frozen=True)
class Strided:
    """An array in memory of a kind (``CUDA_DEVICE``, ``CPU_DEVICE``): strides in bytes; ``owner`` keeps the memory alive."""

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]
    device_id: int
    owner: object
    device_type: int = CUDA_DEVICE


def export(array: Strided) -> object:
    """A DLPack capsule; the consumer's tensor keeps ``array.owner`` alive.

    Raises ArgumentError for a dtype or strides that DLPack cannot describe.
    """
    ndim, itemsize = len(array.shape), array.dtype.itemsize
    if array.dtype.kind not in _CODES or any(s % itemsize for s in array.strides):
        raise ArgumentError(f"DLPack cannot describe dtype {array.dtype} with strides of {array.strides} bytes: copy the array")
    sizes = (ctypes.c_int64 * max(ndim, 1))(*array.shape)
    steps = (ctypes.c_int64 * max(ndim, 1))(*(s // itemsize for s in array.strides))
    managed = _Managed()
    tensor = managed.tensor
    tensor.data, tensor.device_type, tensor.device_id, tensor.ndim = array.pointer, array.device_type, array.device_id, ndim
    tensor.code, tensor.bits, tensor.lanes = _CODES[array.dtype.kind], itemsize * 8, 1
    tensor.shape = ctypes.cast(sizes, ctypes.POINTER(ctypes.c_int64))
    tensor.strides = ctypes.cast(steps, ctypes.POINTER(ctypes.c_int64))
    managed.deleter = ctypes.cast(_deleter, ctypes.c_void_p).value
    address = ctypes.addressof(managed)
    _exported[address] = (managed, sizes, steps, array.owner)
    return _api.PyCapsule_New(address, _NAME, ctypes.cast(_destructor, ctypes.c_void_p))


class _TakenTensor:
    """Another library's tensor; its deleter runs when the last reference is gone."""

    def __init__(self, address: int) -> None:
        self._address = address
        self._deleter = _Managed.from_address(address).deleter

    def __del__(self) -> None:
        if self._deleter:
            _Deleter(self._deleter)(self._address)


def take(capsule: object) -> Strided:
    """Consume a capsule from ``__dlpack__``; raises ArgumentError unless its tensor is in CUDA memory."""
    place = id(capsule)
    if not _is_valid(place, _NAME):
        raise ArgumentError("a DLPack capsule can be taken once only: ask the array for another one (__dlpack__)")
    address = _get_pointer(place, _NAME)
    tensor = _Managed.from_address(address).tensor
    if tensor.device_type != CUDA_DEVICE:
        raise ArgumentError(
            f"a DLPack tensor of device type {tensor.device_type}; only CUDA memory (type {CUDA_DEVICE}) is taken: "
            "copy it to the host as a NumPy array"
        )
    kinds = {code: kind for kind, code in _CODES.items()}
    if tensor.lanes != 1 or tensor.code not in kinds or tensor.bits % 8:
        raise ArgumentError(
            f"a DLPack tensor of type code {tensor.code}, {tensor.bits} bits, {tensor.lanes} lanes is not supported: "
            "convert it to a plain type such as float32"
        )
    dtype = np.dtype(f"{kinds[tensor.code]}{tensor.bits // 8}")
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    strides = tuple(tensor.strides[i] * dtype.itemsize for i in range(tensor.ndim)) if tensor.strides else packed(shape, dtype.itemsize)
    _set_name(place, _USED)
    return Strided((tensor.data or 0) + tensor.byte_offset, shape, strides, dtype, tensor.device_id, _TakenTensor(address))


@lru_cache(4096)
def packed(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """The strides, in bytes, of a C-contiguous array."""
    strides, step = [], itemsize
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))
