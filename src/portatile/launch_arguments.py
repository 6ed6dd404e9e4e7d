"""The arguments of a plan's launches: constants, and gaps that each run fills with its own memory and numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from portatile.device.base import Device, Image, Memory, Queue
from portatile.device.module import LoadedKernel
from portatile.images import ImageForm, Sampler
from portatile.records import Arg, Size3, TensorMap

# Plain tuples, because every run unpacks them, which takes several times as long for a NamedTuple.
Gap = tuple[int, str, type, object]
"""An argument that each run passes: its index and name, its kind as in ``constant_or_gap``, and the form of an image or tensor map."""
LoadedLaunch = tuple[LoadedKernel, Size3, Size3, list[Any], tuple[Gap, ...]]
"""A loaded launch: kernel, global and local size, a value for every argument, and the gaps that each run fills."""
BoundLaunch = tuple[LoadedKernel, Size3, Size3, list[Any]]
"""Kernel, sizes and arguments, as ``Queue.launch`` takes them."""


def constant_or_gap(arg: Arg) -> tuple[str, type | None, object]:
    """The name of an argument, its kind, and its constant value or form.

    The kind is Memory for an operand, ImageForm for an operand that is read through an image, TensorMap for one that the TMA reads, a NumPy
    type for a scalar of the caller, and None for a constant.
    """
    if arg.kind in ("buffer", "image"):
        return arg.name, Memory, None
    if arg.kind == "view":
        return arg.name, ImageForm, ImageForm("image1d_buffer_t", (int(arg.value or 0), arg.channels), arg.dtype)
    if arg.kind == "tensor_map":
        return arg.name, TensorMap, arg.map
    if arg.kind == "local":
        return arg.name, None, int(arg.value or 0)
    if arg.dtype == "sampler_t":
        return arg.name, None, Sampler.of_bits(int(arg.value or 0))
    kind = np.dtype(arg.dtype).type
    if isinstance(arg.value, str):
        return arg.name, None, np.void(bytes.fromhex(arg.value))
    return (arg.name, kind, None) if arg.value is None else (arg.name, None, kind(arg.value))


class GapValues:
    """The values other than plain memory that fill the gaps of one plan's launches; kept for the next run if that needs the same."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self.numbers: dict[str, tuple[object, np.generic]] = {}
        """The last value of each scalar, and its conversion to the kernel's type."""
        self._maps: dict[int, tuple[int, np.void]] = {}  # by the identity of a TensorMap: the last address, and its map

    def image(self, queue: Queue, memory: Memory, form: Any) -> Image:
        """The image over ``memory``; an image that is a copy is updated first."""
        image = self._device.image_over(memory, form)
        if image.copied:
            queue.copy(image, memory, image.nbytes)
        return image

    def number(self, name: str, value: float, kind: type) -> Any:
        """A scalar of the caller in the kernel's type. Floats are cached: a queue need not set the same object again."""
        number = kind(value)
        if type(value) is float:
            self.numbers[name] = value, number
        return number

    def tensor_map(self, memory: Memory, form: Any) -> Any:
        """The map of a matrix in ``memory``, made again only if the address differs from the last run's."""
        address = memory.handle
        if type(address) is not int:
            return self._device.tensor_map(memory, form)
        last = self._maps.get(id(form))
        if last is None or last[0] != address:
            last = self._maps[id(form)] = address, self._device.tensor_map(memory, form)
        return last[1]
