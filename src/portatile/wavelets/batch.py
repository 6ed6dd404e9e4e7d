"""Operations on one orbital or on each of a batch, in a device's own memory where that is faster."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np

from portatile import device as devices
from portatile.arguments.axes import AXES
from portatile.device import Selector
from portatile.device.buffer import Buffer
from portatile.errors import ArgumentError
from portatile.runtime import memory_limit, several
from portatile.runtime.pieces import Pieces
from portatile.runtime.several import Part, Share

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


def one_device(device: Selector | None) -> str | None:
    """The selector of a single device; None for several, which ``over_devices`` deals with."""
    return device if isinstance(device, str) and device != devices.EVERY else None


def over_devices(psi: Any, device: Selector | None, compute: Callable[[slice, str], Any], add: bool = False) -> Any:
    """``compute(orbitals, device)`` for parts of a batch of orbitals, on several devices at once; their results one after another.

    ``add``: the results are sums over orbitals, and are added up. A single orbital is computed by the first device. Each device takes as
    many orbitals as its rate allows; one that fails leaves them to the others. The result of a Buffer lies where the Buffer does.
    Raises ArgumentError for arrays of other libraries.
    """
    assert device is not None
    chosen = devices.several(device)
    if not isinstance(psi, (np.ndarray, Buffer)) and len(chosen) > 1:
        raise ArgumentError("several devices take NumPy arrays and Buffers here: leave device out, or pass Buffer.wrap of the array")
    if len(chosen) == 1 or psi.ndim <= AXES or psi.shape[0] < len(chosen):
        return back(compute(slice(None), chosen[0].info.id), psi)
    found: dict[int, Any] = {}

    def run(share: Share, pieces: Pieces) -> None:
        while (piece := pieces.take(share.device, psi.shape[0])) is not None:
            began = time.perf_counter()
            try:
                found[piece[0]] = back(compute(slice(*piece), share.device), psi)
            except BaseException:
                pieces.back(*piece)
                raise
            share.seconds += time.perf_counter() - began
            share.steps += piece[1] - piece[0]
            pieces.done(share.device, piece[1] - piece[0], time.perf_counter() - began)

    if isinstance(psi, Buffer):
        psi.device.default_queue().finish()
    shares = [Share(one.info.id) for one in chosen]
    several.together(
        [Part(share, partial(run, share)) for share in shares], Pieces(psi.shape[0], 1, {share.device: 0.0 for share in shares})
    )
    parts = [found[first] for first in sorted(found)]
    if isinstance(psi, Buffer) and add:
        return Buffer.from_numpy(np.sum([part.numpy() for part in parts], axis=0, dtype=parts[0].dtype), psi.device)
    if isinstance(psi, Buffer):
        return _joined(parts)
    return np.sum(parts, axis=0, dtype=parts[0].dtype) if add else np.concatenate(parts)


def at(array: Any, device: str) -> Any:
    """A Buffer on the device that one of several is, copied if it lies elsewhere; other arrays as they are."""
    return array.to_device(devices.get(device)) if isinstance(array, Buffer) else array


def back(result: Any, model: Any) -> Any:
    """A result on the device of ``model``, there to be read, if that is a Buffer."""
    if not isinstance(model, Buffer):
        return result
    result.device.default_queue().finish()
    return result.to_device(model.device)


def _joined(parts: list[Buffer]) -> Buffer:
    """Batches one after another."""
    first = parts[0]
    whole = Buffer.empty((sum(part.shape[0] for part in parts), *first.shape[1:]), first.dtype, first.device)
    place = 0
    for part in parts:
        first.device.default_queue().copy(whole.memory, part.memory, part.nbytes, place, part.offset)
        place += part.nbytes
    return whole


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
