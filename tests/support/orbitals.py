"""Arrays of orbitals as callers have them, and results on the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from portatile.device.base import Device
from portatile.device.buffer import Buffer
from portatile.wavelets import batch

WAYS = ("numpy", "moved", "buffer")


def host(array: Any) -> NDArray[Any]:
    """The array, from a device where it is a Buffer."""
    return array.numpy() if isinstance(array, Buffer) else array


def giver(way: str, device: Device, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], Any]:
    """What makes a caller's array of a NumPy array in one of WAYS; ``moved``: as for a device with memory of its own."""
    if way == "moved":
        monkeypatch.setattr(batch, "in_device_memory", lambda psi, others, name: isinstance(psi, np.ndarray))
    return (lambda array: Buffer.from_numpy(array, device)) if way == "buffer" else (lambda array: array)
