"""Memory that outlives a call: intermediate arrays of a routine, small constants that are uploaded once, and pinned memory."""

from __future__ import annotations

import threading
from collections import OrderedDict

import numpy as np
from numpy.typing import NDArray

from portatile.device.base import Device, Memory
from portatile.device.buffer import Buffer

SHARE = 16  # a block of up to 1/16 of the device's memory is kept between calls; a larger one lives as long as its caller holds it
_CONSTANTS = 64  # constants that are kept for each device
_PINNED = 1 << 28  # bytes of pinned memory that are kept for each ``place``


class Scratch:
    """The scratch memory of one device. Blocks belong to whoever holds the engine's lock and uses the default queue, which runs in order.
    ``changes`` counts how often a block or pinned array was replaced.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._blocks: dict[int, Memory] = {}
        self._pinned: dict[int, NDArray[np.uint8]] = {}
        self._constants: OrderedDict[tuple[str, tuple[int, ...], bytes], Buffer] = OrderedDict()
        self._lock = threading.Lock()
        self.changes = 0

    def block(self, place: int, nbytes: int) -> Memory:
        """Memory of at least ``nbytes``, the same block for each call with this ``place``; its content lasts until the next such call."""
        if nbytes > self._device.info.global_memory // SHARE:
            return self._device.allocate(nbytes)
        memory = self._blocks.get(place)
        if memory is None or memory.nbytes < nbytes:
            if memory is not None:
                self._device.default_queue().finish()  # kernels may still read the old block
                memory.release()
            memory = self._blocks[place] = self._device.allocate(nbytes)
            self.changes += 1
        return memory

    def pinned(self, place: int, nbytes: int) -> NDArray[np.uint8]:
        """Pinned memory of at least ``nbytes``, the same for each call with this ``place``: the system pins only about 2 GB per second."""
        array = self._pinned.get(place)
        if array is None or array.nbytes < nbytes:
            array = self._device.pinned(nbytes)
            if nbytes <= _PINNED:
                self._pinned[place] = array
                self.changes += 1
        return array

    def has(self, array: NDArray[np.generic]) -> bool:
        """Whether ``constant`` has a copy of the array already."""
        return _key(array) in self._constants

    def constant(self, array: NDArray[np.generic]) -> Buffer:
        """A device copy of a small array; nobody may write to it."""
        key = _key(array)
        with self._lock:
            buffer = self._constants.pop(key, None) or Buffer.from_numpy(array, self._device)
            self._constants[key] = buffer  # keeps the most recently used last
            if len(self._constants) > _CONSTANTS:
                self._constants.popitem(last=False)
            return buffer


def _key(array: NDArray[np.generic]) -> tuple[str, tuple[int, ...], bytes]:
    return array.dtype.str, array.shape, array.tobytes()


_kept: dict[tuple[Device, object], Scratch] = {}


def scratch(device: Device) -> Scratch:
    """The device's scratch memory, made once, and again after a fault has invalidated the device's memory."""
    key = device, device.generation
    of_device = _kept.get(key)
    if of_device is None:
        for other in [other for other in _kept if other[0] is device]:
            del _kept[other]
        of_device = _kept.setdefault(key, Scratch(device))
    return of_device


def forget() -> None:
    """Release everything."""
    _kept.clear()
