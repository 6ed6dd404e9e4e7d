"""A cache of buffers over host arrays on which a processor computes in place: creating a buffer takes longer than a small launch."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile.device.base import Memory
from portatile.device.copies import address

_MOST = 256  # entries; a buffer over host memory takes some hundred bytes


class HostBuffers:
    """Buffers by the address and size of their host arrays; ``share`` makes one.

    They do not keep the array alive. A buffer that outlives its array is used only if another array lies at the same address, for which it
    is valid, too: a processor's driver uses the address and never copies. Not thread-safe.
    """

    def __init__(self, share: Callable[[NDArray[Any]], Memory | None]) -> None:
        self._share = share
        self._known: OrderedDict[object, Memory | None] = OrderedDict()  # None for an array that was passed only once, as most are

    def of(self, array: NDArray[Any]) -> Memory | None:
        """The buffer over an array that was passed before; None the first time, and where the driver cannot use the array in place."""
        key = address(array), array.nbytes, array.flags.writeable
        known = self._known
        if key not in known:
            if len(known) >= _MOST:
                _release(known.popitem(last=False)[1])
            known[key] = None
            return None
        memory = known[key]
        if memory is None and array.flags.c_contiguous:
            kept = {name: array.__array_interface__[name] for name in ("shape", "data", "version")}
            interface = {**kept, "typestr": f"|V{array.itemsize}"}  # in place of dtypes that NumPy cannot read from the interface
            memory = known[key] = self._share(np.asarray(SimpleNamespace(__array_interface__=interface)))
        known.move_to_end(key)
        return memory

    def release(self) -> None:
        """Release all buffers."""
        for memory in self._known.values():
            _release(memory)
        self._known.clear()


def _release(memory: Memory | None) -> None:
    if memory is not None:
        memory.release()
