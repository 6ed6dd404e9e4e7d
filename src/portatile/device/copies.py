"""Checks of the arguments of copies, fills and launches, shared by all back ends."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_void_p
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile.device.base import Device, Image, Memory
from portatile.errors import ArgumentError

_HEAD = object.__basicsize__  # bytes of a Python object before its own fields; the first field of an array is its address


def _has_address_first() -> bool:
    """Whether array objects begin with the address of their data, as in NumPy's C interface."""
    array = np.empty(3)[1:]
    return bool(c_void_p.from_address(id(array) + _HEAD).value == array.__array_interface__["data"][0])


def _asked_address(array: NDArray[Any]) -> c_void_p:
    return c_void_p(array.__array_interface__["data"][0])


def _read_address(array: NDArray[Any]) -> c_void_p:
    return c_void_p.from_address(id(array) + _HEAD)  # 0.3 us; the array's Python attributes take ten times as long


pointer: Callable[[NDArray[Any]], c_void_p] = _read_address if _has_address_first() else _asked_address
"""A host array's address as a ctypes argument, valid as long as the array."""


def address(array: NDArray[Any]) -> int:
    """The address of a host array's first element."""
    if pointer is _read_address:
        return c_void_p.from_address(id(array) + _HEAD).value or 0
    return int(array.__array_interface__["data"][0])


def check_contiguous(array: NDArray[Any]) -> None:
    """Raise ArgumentError for a host array that is not C-contiguous."""
    if not array.flags.c_contiguous:
        raise ArgumentError(f"an array of shape {array.shape} and strides {array.strides} is not C-contiguous: copy it first")


def check_fits(memory: Memory, offset: int, nbytes: int) -> None:
    """Raise ArgumentError for bytes outside of ``memory``, for a part of an image, and for released memory."""
    if not memory.alive:
        raise ArgumentError("this memory has been released")
    if offset < 0 or nbytes < 0 or offset + nbytes > memory.nbytes:
        raise ArgumentError(f"{nbytes} bytes from byte {offset} on are not within memory of {memory.nbytes} bytes")
    if (offset or nbytes != memory.nbytes) and isinstance(memory, Image):
        raise ArgumentError(f"images are copied as a whole: {memory.nbytes} bytes, not {nbytes} from {offset} on")


def check_fill(pattern: bytes, offset: int, nbytes: int) -> None:
    """Raise ArgumentError for a pattern that is not 1, 2 or 4 bytes long, and for a range that is not aligned to it."""
    if len(pattern) not in (1, 2, 4) or nbytes % len(pattern) or offset % len(pattern):
        raise ArgumentError(f"a pattern of {len(pattern)} bytes does not fill {nbytes} bytes from {offset} on: 1, 2 or 4 bytes, aligned")


def complaint(arg: object, device: Device) -> str:
    """The message for a value that no kernel on ``device`` takes as an argument: why, and what to pass instead."""
    if not isinstance(arg, Memory):
        name = arg.dtype.name if isinstance(arg, np.generic) else type(arg).__name__
        return f"{arg!r} is a {name}; pass memory of {device.info.id}, a NumPy scalar, a Sampler, or the bytes of local memory as an int"
    if arg.handle is None:
        return "this memory has been released"
    return f"this memory belongs to {arg.device.info.id}, the queue to {device.info.id}"
