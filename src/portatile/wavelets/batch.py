"""Operations on one orbital or on each of a batch, in a device's own memory where that is faster."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from portatile import device as devices
from portatile.arguments.axes import AXES
from portatile.device.buffer import Buffer
from portatile.errors import ArgumentError
from portatile.runtime import memory_limit

_FREE = 16  # points by which an axis grows at most


def moves(psi: Any, others: tuple[Any, ...], device: str | None) -> bool:
    """Whether to process NumPy arrays in the device's memory: it has its own, and they fit."""
    if not isinstance(psi, np.ndarray):
        return False
    chosen = devices.get(device)
    shape = psi.shape[-AXES:]
    most = psi.itemsize * max(4 * prod(shape), 2 * prod(n + _FREE for n in shape))
    return not chosen.info.unified_memory and not memory_limit.too_large(chosen, (*(other.nbytes for other in others), *[most] * 4))


def stays(orbitals: Any, device: str | None) -> bool:
    """Whether the orbitals are a Buffer, on the requested device if one is named."""
    return isinstance(orbitals, Buffer) and (device is None or devices.get(device) is orbitals.device)


def on_device(array: Any, device: str | None) -> Any:
    """A NumPy array as a Buffer; a Buffer as it is."""
    return Buffer.from_numpy(array, devices.get(device)) if isinstance(array, np.ndarray) else array


def each(psi: Any, apply: Callable[[Any], Any], others: tuple[Any, ...], device: str | None) -> Any:
    """``apply`` to one orbital, or to each of a batch; on a device with memory of its own nothing comes back in between."""
    orbitals = [psi] if psi.ndim == AXES else [psi[place] for place in range(psi.shape[0])]
    if not orbitals:
        raise ArgumentError("a batch of no orbitals has no result")
    if isinstance(psi, np.ndarray):
        moved = moves(psi, others, device)
        host = []
        for orbital in orbitals:  # a result leaves the device before the next orbital comes
            one = apply(on_device(orbital, device) if moved else orbital)
            host.append(one.numpy() if isinstance(one, Buffer) else one)
            del one
        return host[0] if psi.ndim == AXES else np.stack(host)
    if psi.ndim == AXES:
        return apply(psi)
    first = apply(orbitals[0])
    whole = Buffer.empty((len(orbitals), *first.shape), first.dtype, first.device)
    for place, orbital in enumerate(orbitals):
        part = first if place == 0 else apply(orbital)
        first.device.default_queue().copy(whole.memory, part.memory, part.nbytes, whole[place].offset, part.offset)
    return whole
