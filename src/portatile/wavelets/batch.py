"""Applies an operation to one orbital or to each of a batch, in a device's own memory if it has some."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from math import prod
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from portatile import device as devices
from portatile.arguments.axes import AXES
from portatile.arguments.matrices import is_packed
from portatile.device import Selector, staging
from portatile.device.base import Device, Queue
from portatile.device.buffer import Buffer
from portatile.device.masked_arrays import refuse_masks
from portatile.device.page_locked import locked
from portatile.device.side_by_side import threads
from portatile.errors import ArgumentError
from portatile.runtime.one_device import memory_limit
from portatile.wavelets.flow import DevicePipeline, Into, PipelinePlace

_FREE = 16  # bound of the points by which an axis with free boundaries grows
_AT_ONCE = 6  # groups of orbitals that a device processes at once
_ARRAYS = 3  # arrays of an orbital on the device: the input, the intermediate one between passes, the result
_FLYING = 2 * _ARRAYS  # arrays that must fit the device for a batch to be processed in its memory
_SMALL = 1 << 20  # bytes of orbitals for which a second thread does not pay
# bytes of a group in page-locked memory: a step takes Python 0.3 ms, and the link takes twice as long for this many bytes
_TOGETHER = 1 << 25
_STAGED = 1 << 23  # bytes of a group that a thread first copies to page-locked memory


def in_device_memory(psi: Any, others: tuple[Any, ...], device: str | None) -> bool:
    """Whether ``psi`` is a NumPy array to be processed in the device's memory: the device has its own, and the arrays fit."""
    if not isinstance(psi, np.ndarray):
        return False
    chosen = devices.get(device)
    arrays = (*(other.nbytes for other in others), *[_most_bytes(psi)] * _FLYING)
    return not chosen.info.unified_memory and not memory_limit.too_large(chosen, arrays)


def _most_bytes(psi: NDArray[Any]) -> int:
    """An upper bound of the bytes of an orbital and of its transform."""
    shape = psi.shape[-AXES:]
    return int(psi.itemsize * max(4 * prod(shape), 2 * prod(n + _FREE for n in shape)))


def on_device(array: Any, device: str | None) -> Any:
    """A NumPy array as a Buffer; a Buffer unchanged."""
    return Buffer.from_numpy(array, devices.get(device)) if isinstance(array, np.ndarray) else array


def one_device(device: Selector | None) -> str | None:
    """The selector of a single device; None for several, which ``over_devices`` handles."""
    return device if isinstance(device, str) and device != devices.EVERY else None


Batched = Callable[[Buffer], Any]
"""Computes a batch of orbitals on a device in a single call; returns None for batches that it does not support."""


def moved_to(array: Any, device: str) -> Any:
    """A Buffer on ``device``, copied if it is elsewhere; any other array unchanged."""
    return array.to_device(devices.get(device)) if isinstance(array, Buffer) else array


def moved_back(result: Any, model: Any) -> Any:
    """A result on the device of ``model`` after waiting for it, if ``model`` is a Buffer; otherwise the result unchanged."""
    if not isinstance(model, Buffer):
        return result
    result.device.default_queue().finish()
    return result.to_device(model.device)


def selected(array: Any, orbitals: slice) -> Any:
    """These orbitals of a batch. For all of them it is the same object, so that its recorded call is found."""
    return array if orbitals == slice(None) else array[orbitals]


def for_each(
    psi: Any,
    apply: Callable[[Any, Any], Any],
    others: tuple[Any, ...],
    device: str | None,
    into: Into = locked.empty,
    batched: Batched = lambda orbitals: None,
) -> Any:
    """``apply(orbital, out)`` for one orbital or each of a batch. Intermediate arrays stay on a device that has its own memory.

    ``apply`` may write its result to ``out``, a NumPy array or None, or return another array. The result of a batch of NumPy arrays is
    written to the array that ``into`` makes. ``batched`` computes a group at once if it supports it. While the device computes a group, the
    next one is uploaded and earlier results are downloaded. Raises ArgumentError for an empty batch.
    """
    if psi.ndim > AXES and not psi.shape[0]:
        raise ArgumentError("a batch without orbitals has no result")
    if isinstance(psi, np.ndarray):
        if in_device_memory(psi, others, device):
            return _through_device_memory(psi, _DeviceOperation(devices.get(device), apply, batched), into)
        if psi.ndim == AXES:
            return apply(psi, None)
        first = apply(psi[0], None)
        made = into((psi.shape[0], *first.shape), first.dtype)
        staging.copied(made[0], first)
        for place, orbital in enumerate(psi[1:], 1):
            if (one := apply(orbital, made[place])) is not made[place] and not np.shares_memory(one, made[place]):
                staging.copied(made[place], one)
        return made
    return apply(psi, None) if psi.ndim == AXES else _one_by_one(psi, apply)


def _one_by_one(psi: Buffer, apply: Callable[[Any, Any], Any]) -> Buffer:
    """``apply`` for each orbital of a batch on a device, with the results in one Buffer."""
    first = apply(psi[0], None)
    whole = Buffer.empty((psi.shape[0], *first.shape), first.dtype, first.device)
    for place in range(psi.shape[0]):
        part = first if place == 0 else apply(psi[place], None)
        first.device.default_queue().copy(whole.memory, part.memory, part.nbytes, whole[place].offset, part.offset)
    return whole


class _DeviceOperation(NamedTuple):
    """An operation on orbitals in a device's memory: ``apply`` computes one, ``batched`` a batch if it supports it."""

    device: Device
    apply: Callable[[Any, Any], Any]
    batched: Batched

    def of(self, orbitals: Buffer) -> Any:
        """The results of a batch."""
        done = self.batched(orbitals)
        return _one_by_one(orbitals, self.apply) if done is None else done


def _through_device_memory(psi: NDArray[Any], on_device: _DeviceOperation, into: Into) -> NDArray[Any]:
    """The result for NumPy orbitals, processed in the device's memory in groups."""
    if psi.ndim == AXES:
        found: NDArray[Any] = on_device.apply(Buffer.from_numpy(psi, on_device.device), None).numpy()
        return found
    refuse_masks(psi, "the array")
    if not locked.holds(psi):
        return _by_threads(psi, on_device, into)
    if isinstance(into, PipelinePlace) and into.flow is not None:
        return _by_pipeline(psi, on_device, into, into.flow)
    with DevicePipeline(on_device.device, group_size(on_device.device, psi)) as flow:
        whole = _by_pipeline(psi, on_device, into, flow)
        flow.end().wait()
    return whole


def _by_pipeline(psi: NDArray[Any], on_device: _DeviceOperation, into: Into, flow: DevicePipeline) -> NDArray[Any]:
    """The result for page-locked orbitals by a pipeline; it is complete after ``flow.end()``."""
    whole: NDArray[Any] | None = None
    count = psi.shape[0]

    def place(first: int, done: Any) -> NDArray[Any]:
        nonlocal whole
        if whole is None:
            whole = into((count, *done.shape[1:]), done.dtype)
        return whole[first : first + done.shape[0]]

    first = 0
    while first < count:
        group = max(min(flow.group, flow.sent, count - first), 1)  # small at first: the first upload overlaps with no computation
        flow.through(psi[first : first + group], on_device.of, partial(place, first))
        first += group
    flow.collect()
    assert whole is not None
    return whole


def _by_threads(psi: NDArray[Any], on_device: _DeviceOperation, into: Into) -> NDArray[Any]:
    """Several threads each upload groups and download results, so that the link moves one group while the host copies another."""
    device = on_device.device
    whole: NDArray[Any] | None = None
    count, group = psi.shape[0], group_size(device, psi)
    making, places = threading.Lock(), SimpleQueue[int]()
    for place in range(0, count, group):
        places.put(place)

    def move(place: int, back: Queue) -> None:
        nonlocal whole
        orbitals = np.ascontiguousarray(psi[place : place + group])
        sent = Buffer.empty(orbitals.shape, orbitals.dtype, device)
        staging.upload(device.default_queue(), sent.memory, orbitals, blocking=False, most=1)
        done = on_device.of(sent)
        back.wait_for(device.default_queue().marker())
        device.default_queue().flush()
        with making:
            if whole is None:
                whole = into((count, *done.shape[1:]), done.dtype)
        target = whole[place : place + len(orbitals)]
        if is_packed(done):
            staging.download(back, target, done.memory, done.offset, most=1)
        else:
            target[...] = done.numpy(back)

    def work() -> None:
        with device.queue() as back:
            try:
                while True:
                    move(places.get_nowait(), back)
            except Empty:
                return
            except BaseException:
                with suppress(Empty):  # leave no work to the other threads, so that they end
                    while True:
                        places.get_nowait()
                raise

    _in_threads(work, min(_thread_count(device, psi, group), -(-count // group)))
    assert whole is not None
    return whole


def group_size(device: Device, psi: NDArray[Any], beside: int = 1) -> int:
    """The number of orbitals in a group: enough to make the overhead of a step small, and few enough for several groups to overlap.

    ``beside``: the number of devices that share a batch; their threads contend for the GIL, so their groups are larger.
    """
    together = _TOGETHER * beside if locked.holds(psi) else _STAGED
    count = max(min(together // max(psi[0].nbytes, 1), psi.shape[0] * beside // _AT_ONCE), 1)
    while count > 1 and memory_limit.too_large(device, (count * _most_bytes(psi),) * (_ARRAYS * 2)):
        count //= 2
    return int(count)


def _thread_count(device: Device, psi: NDArray[Any], group: int) -> int:
    """The number of threads that feed groups of this size to a device: as many as pay, and as fit their groups into its memory."""
    if group * psi[0].nbytes < _SMALL:
        return 1
    count = min(threads(), _AT_ONCE if staging.worthwhile(device, psi[:group]) else 2)
    while count > 2 and memory_limit.too_large(device, (group * _most_bytes(psi),) * (_ARRAYS * count)):
        count -= 1
    return count


def _in_threads(work: Callable[[], None], count: int) -> None:
    """Run ``work`` in ``count`` threads, including this one; an exception of one of them is raised when all have ended."""
    if count == 1:
        work()
        return
    with ThreadPoolExecutor(count - 1, "portatile-orbitals") as pool:
        others = [pool.submit(work) for _ in range(count - 1)]
        work()
    for other in others:
        other.result()
