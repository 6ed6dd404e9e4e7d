"""Operations on one orbital or on each of a batch, in a device's own memory where that is faster."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np

from portatile import device as devices
from portatile.arguments.axes import AXES
from portatile.device import Selector, staging
from portatile.device.buffer import Buffer
from portatile.errors import ArgumentError
from portatile.runtime import batches, forecast, memory_limit, several
from portatile.runtime.pieces import Pieces, in_time
from portatile.runtime.several import Part
from portatile.runtime.splits import Share, Split, keep

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


def over_devices(psi: Any, device: Selector | None, compute: Callable[[slice, str], Any], what: str, add: bool = False) -> Any:
    """``compute(orbitals, device)`` for parts of a batch of orbitals, on several devices at once; their results one after another.

    ``add``: the results are sums over orbitals, and are added up. A single orbital is computed by the first device. Each device takes as
    many orbitals as its rate allows; one that fails leaves them to the others. Where one device alone was measured to be faster, it
    computes all; rates and times are kept under the name ``what``. ``psi`` is a NumPy array or a Buffer, beside which the result lies.
    """
    assert device is not None
    chosen = devices.several(device)
    if len(chosen) == 1 or psi.ndim <= AXES or psi.shape[0] < len(chosen):
        return back(compute(slice(None), chosen[0].info.id), psi)
    if isinstance(psi, Buffer):
        psi.device.default_queue().finish()
    task = batches.task(batches.problem(what, psi.shape, psi.dtype.name), chosen, psi.device if isinstance(psi, Buffer) else None)
    told = forecast.of(chosen, task)
    began = time.perf_counter()
    if told.quickest:
        found = back(compute(slice(None), told.quickest), psi)
        seconds = time.perf_counter() - began
        forecast.learn_alone(next(one for one in chosen if one.info.id == told.quickest), task, seconds)
        share = Share(told.quickest, psi.shape[0], 1, seconds)
        keep(chosen, Split(task.problem, "", seconds, (share,), told.why, forecast=told))
        return found
    result = _Result(psi, add)

    def run(share: Share, pieces: Pieces) -> None:
        while (piece := pieces.take(share.device, psi.shape[0])) is not None:
            started = time.perf_counter()
            try:
                result.take(piece[0], compute(slice(*piece), share.device))
            except BaseException:
                pieces.back(*piece)
                raise
            share.seconds += time.perf_counter() - started
            share.steps += piece[1] - piece[0]
            share.pieces += 1
            pieces.done(share.device, piece[1] - piece[0], time.perf_counter() - started)

    shares = tuple(Share(one.info.id) for one in chosen)
    step = task.work / psi.shape[0]
    known = {name: task.work / one.seconds / step for name, one in told.alone.items()}
    pieces = Pieces(psi.shape[0], 1, {share.device: known.get(share.device, 0.0) for share in shares})
    several.together([Part(share, partial(run, share)) for share in shares], pieces)
    whole = result.whole()
    seconds = time.perf_counter() - began
    shown = {share.device: pieces.rates[share.device] * step for share in shares if share.pieces and not share.failure}
    if not any(share.failure for share in shares):
        forecast.learn_together(chosen, task, seconds, shown, in_time(psi.shape[0], 1, pieces.rates)[0])
    keep(chosen, Split(task.problem, batches.ORBITALS, seconds, shares, forecast=told))
    return whole


class _Result:
    """What the parts of a batch give, beside ``psi``: one after another in one array, or added up."""

    def __init__(self, psi: Any, add: bool) -> None:
        self._psi, self._add, self._lock = psi, add, threading.Lock()
        self._whole: Any = None
        self._sums: dict[int, Any] = {}  # by first orbital: added in that order

    def take(self, first: int, part: Any) -> None:
        """Put a part where it belongs; returns when it is there."""
        if isinstance(part, Buffer):
            part.device.default_queue().finish()
        if self._add:
            self._sums[first] = part.numpy() if isinstance(part, Buffer) else part
            return
        with self._lock:
            if self._whole is None:
                shape = (self._psi.shape[0], *part.shape[1:])
                on_host = not isinstance(self._psi, Buffer)
                self._whole = np.empty(shape, part.dtype) if on_host else Buffer.empty(shape, part.dtype, self._psi.device)
        place = self._whole[first : first + part.shape[0]]
        if not isinstance(part, Buffer):
            staging.copied(place, part)
            return
        queue = place.device.default_queue()
        if part.device is place.device:
            queue.copy(place.memory, part.memory, part.nbytes, place.offset, part.offset)
        elif not queue.receive(place.memory, part.memory, part.nbytes, place.offset, part.offset):
            place.assign(part.numpy())
        queue.finish()

    def whole(self) -> Any:
        """The result, when all parts are taken."""
        if not self._add:
            return self._whole
        parts = [self._sums[first] for first in sorted(self._sums)]
        total = np.sum(parts, axis=0, dtype=parts[0].dtype)
        return Buffer.from_numpy(total, self._psi.device) if isinstance(self._psi, Buffer) else total


def at(array: Any, device: str) -> Any:
    """A Buffer on the device that one of several is, copied if it lies elsewhere; other arrays as they are."""
    return array.to_device(devices.get(device)) if isinstance(array, Buffer) else array


def back(result: Any, model: Any) -> Any:
    """A result on the device of ``model``, there to be read, if that is a Buffer."""
    if not isinstance(model, Buffer):
        return result
    result.device.default_queue().finish()
    return result.to_device(model.device)


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
