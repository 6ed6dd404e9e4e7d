"""Operations on one orbital or on each of a batch, in a device's own memory where that is faster."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
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
from portatile.device.buffer import Buffer, refuse_masks
from portatile.device.event import Event
from portatile.device.page_locked import locked
from portatile.errors import ArgumentError
from portatile.runtime import batches, forecast, memory_limit, perform, several
from portatile.runtime.forecast import Forecast
from portatile.runtime.pieces import Pieces, about_in_time
from portatile.runtime.several import Part
from portatile.runtime.splits import Share, Split, keep
from portatile.wavelets.flow import Flow

_FREE = 16  # points by which an axis grows at most
_AT_ONCE = 6  # orbitals that a device processes at once
_ARRAYS = 3  # of an orbital that it holds then: what was sent, what lies between the passes, the result
_FLYING = 2 * _ARRAYS  # such arrays that it must hold, or nothing is sent there as a whole
_SMALL = 1 << 20  # bytes of orbitals for which a second thread does not pay
_TOGETHER = 1 << 25  # bytes of orbitals that travel together: a step takes Python 0.3 ms, the link twice as long for these
_STAGED = 1 << 23  # of those that a thread copies to pinned memory first
_MOST = 4096
_settled: dict[tuple[object, ...], str] = {}
"""The device that computes a batch alone from now on, by the devices that were named, what is computed, and where the batch lies."""
perform.forgetting.append(_settled.clear)


def moves(psi: Any, others: tuple[Any, ...], device: str | None) -> bool:
    """Whether to process NumPy arrays in the device's memory: it has its own, and they fit."""
    if not isinstance(psi, np.ndarray):
        return False
    chosen = devices.get(device)
    arrays = (*(other.nbytes for other in others), *[_largest(psi)] * _FLYING)
    return not chosen.info.unified_memory and not memory_limit.too_large(chosen, arrays)


def _largest(psi: NDArray[Any]) -> int:
    """Bytes of an orbital, or of what a transform makes of it, at most."""
    shape = psi.shape[-AXES:]
    return int(psi.itemsize * max(4 * prod(shape), 2 * prod(n + _FREE for n in shape)))


def stays(orbitals: Any, device: str | None) -> bool:
    """Whether the orbitals are a Buffer, on the requested device if one is named."""
    return isinstance(orbitals, Buffer) and (device is None or devices.get(device) is orbitals.device)


def on_device(array: Any, device: str | None) -> Any:
    """A NumPy array as a Buffer; a Buffer as it is."""
    return Buffer.from_numpy(array, devices.get(device)) if isinstance(array, np.ndarray) else array


def one_device(device: Selector | None) -> str | None:
    """The selector of a single device; None for several, which ``over_devices`` deals with."""
    return device if isinstance(device, str) and device != devices.EVERY else None


Into = Callable[[tuple[int, ...], Any], NDArray[Any]]
"""Gives the host memory of a shape and dtype that a batch's result is written to, such as ``np.empty``."""


Batched = Callable[[Buffer], Any]
"""Computes a batch of orbitals that lies on a device at once; None where it does not."""


Compute = Callable[[slice, str, Into], Any]
"""Computes these orbitals on a device; the result may lie where ``Into`` says."""


def over_devices(psi: Any, device: Selector | None, compute: Compute, what: str, add: bool = False) -> Any:
    """``compute(orbitals, device, into)`` for parts of a batch of orbitals, on several devices at once; their results one after another.

    ``add``: the results are sums over orbitals, and are added up. A single orbital is computed by the first device. Each device takes as
    many orbitals as its rate allows; one that fails leaves them to the others. Where one device alone was measured to be faster, or the
    others would do too little, it computes all; rates and times are kept under the name ``what``. ``psi`` is a NumPy array or a Buffer,
    beside which the result lies.
    """
    assert device is not None
    selector = device if isinstance(device, str) or not isinstance(device, Sequence) else tuple(device)
    kind = selector, what, psi.shape, psi.dtype, psi.device if isinstance(psi, Buffer) else locked.holds(psi)
    if (alone := _settled.get(kind)) is not None:
        return compute(slice(None), alone, locked.empty)
    named = devices.several(device)
    if len(named) == 1 or psi.ndim <= AXES or psi.shape[0] < len(named):
        return back(compute(slice(None), named[0].info.id, locked.empty), psi)
    asked = _asked(psi, named, what)
    if asked.told.settled and asked.task.places[asked.told.quickest] != forecast.REMOTE:
        if len(_settled) >= _MOST:
            _settled.clear()
        _settled[kind] = asked.told.quickest
        keep(named, asked.by_one(asked.told.alone[asked.told.quickest].seconds, True))
        return compute(slice(None), asked.told.quickest, locked.empty)
    if isinstance(psi, Buffer):
        psi.device.default_queue().finish()
    if not asked.told.quickest:
        return _shared(psi, asked, compute, add)
    began = time.perf_counter()
    found = back(compute(slice(None), asked.told.quickest, locked.empty), psi)
    seconds = time.perf_counter() - began
    forecast.learn_alone(next(one for one in named if one.info.id == asked.told.quickest), asked.task, seconds)
    keep(named, asked.by_one(seconds))
    return found


class _Asked(NamedTuple):
    """A batch that several devices may share: those that were ``named``, those that take part, and what is expected of them."""

    named: Sequence[Device]
    devices: Sequence[Device]
    task: forecast.Shared
    told: Forecast
    left_out: str

    @property
    def orbitals(self) -> int:
        """The number of orbitals."""
        return self.task.problem.sizes[batches.ORBITALS]

    def by_one(self, seconds: float, expected: bool = False) -> Split:
        """The split that is none: the quickest device computes all."""
        share = Share(self.told.quickest, self.orbitals, 1, seconds)
        return Split(self.task.problem, "", seconds, (share,), self.told.why, expected, forecast=self.told)


def _asked(psi: Any, named: Sequence[Device], what: str) -> _Asked:
    """What is expected of the devices."""
    problem, own = batches.problem(what, psi.shape, psi.dtype.name), psi.device if isinstance(psi, Buffer) else None
    in_place = own is None and locked.holds(psi)
    taking, left_out = forecast.worthwhile(named, batches.task(problem, named, own, in_place))
    task = batches.task(problem, taking, own, in_place)
    return _Asked(named, taking, task, forecast.of(taking, task), left_out)


def _shared(psi: Any, asked: _Asked, compute: Compute, add: bool) -> Any:
    """All devices that take part, each in a thread of its own."""
    began, result, task = time.perf_counter(), _Result(psi, add), asked.task
    by_id = {one.info.id: one for one in asked.devices}

    def run(share: Share, pieces: Pieces) -> None:
        device = by_id[share.device]
        flows = not add and isinstance(psi, np.ndarray) and locked.holds(psi) and not device.info.unified_memory
        with Flow(device) if flows else nullcontext() as flow:
            _Member(device, task, share, flow).run(pieces, asked.orbitals, compute, result)

    shares = tuple(Share(name) for name in by_id)
    step = task.work / asked.orbitals
    known = {name: task.work / one.seconds / step for name, one in asked.told.alone.items()}
    pieces = Pieces(asked.orbitals, 1, {name: known.get(name, 0.0) for name in by_id})
    several.together([Part(share, partial(run, share)) for share in shares], pieces)
    whole = result.whole()
    seconds = time.perf_counter() - began
    warm = pieces.shown
    shown = {share.device: warm[share.device] * step for share in shares if share.pieces and share.device in warm and not share.failure}
    if not any(share.failure for share in shares):
        forecast.learn_together(asked.devices, task, seconds, shown, about_in_time(asked.orbitals, 1, pieces.rates))
    keep(asked.named, Split(task.problem, batches.ORBITALS, seconds, shares, asked.left_out, forecast=asked.told))
    return whole


class _Member:
    """One device at work on orbitals of a batch: on one piece after another, or on two at a time where they flow."""

    def __init__(self, device: Device, task: forecast.Shared, share: Share, flow: Flow | None) -> None:
        self._device, self._task, self._share, self._flow = device, task, share, flow
        self._under_way: deque[tuple[int, int]] = deque()
        self._ends: deque[Event | None] = deque()
        self._since = 0.0

    def run(self, pieces: Pieces, most: int, compute: Compute, result: _Result) -> None:
        """Take pieces until there are none; hands back those that are not finished when it raises."""
        name, flow = self._share.device, self._flow
        try:
            while True:
                piece = pieces.take(name, most, wait=not self._under_way)
                if piece is not None:
                    if not self._under_way:
                        self._since = time.perf_counter()
                    self._under_way.append(piece)
                    result.take(piece[0], compute(slice(*piece), name, result.into(piece[0], flow)))
                    self._ends.append(None if flow is None else flow.end())
                elif not self._under_way:
                    return
                if piece is None or flow is None or len(self._under_way) > 1:
                    self._finish(pieces)
        except BaseException:
            for piece in self._under_way:
                pieces.back(*piece)
            raise

    def _finish(self, pieces: Pieces) -> None:
        """Wait for the piece that was begun first, and count it."""
        end = self._ends.popleft()
        if end is not None:
            end.wait()
        low, high = self._under_way.popleft()
        now = time.perf_counter()
        seconds, self._since = now - self._since, now
        cold = forecast.is_first(self._device, self._task.problem, self._task.places[self._share.device])
        pieces.done(self._share.device, high - low, seconds, cold)
        self._share.seconds += seconds
        self._share.steps += high - low
        self._share.pieces += 1


class _Place(NamedTuple):
    """An ``Into`` that says by which flow the result may come, too."""

    made: Into
    flow: Flow | None = None

    def __call__(self, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        return self.made(shape, dtype)


class _Result:
    """What the parts of a batch give, beside ``psi``: one after another in one array, or added up."""

    def __init__(self, psi: Any, add: bool) -> None:
        self._psi, self._add, self._lock = psi, add, threading.Lock()
        self._whole: Any = None
        self._sums: dict[int, Any] = {}  # by first orbital: added in that order

    def into(self, first: int, flow: Flow | None = None) -> Into:
        """Gives a part of an array on the host its place in the whole, to which it may come by a flow."""

        def made(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
            if self._add or isinstance(self._psi, Buffer):
                return np.empty(shape, dtype)
            found: NDArray[Any] = self._made(shape[1:], np.dtype(dtype))[first : first + shape[0]]
            return found

        return _Place(made, flow)

    def _made(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """The whole, for orbitals of this shape."""
        with self._lock:
            if self._whole is None:
                shape = (self._psi.shape[0], *shape)
                on_host = not isinstance(self._psi, Buffer)
                self._whole = locked.empty(shape, dtype) if on_host else Buffer.empty(shape, dtype, self._psi.device)
            return self._whole

    def take(self, first: int, part: Any) -> None:
        """Put a part where it belongs; returns when it is there."""
        if isinstance(part, Buffer):
            part.device.default_queue().finish()
        if self._add:
            self._sums[first] = part.numpy() if isinstance(part, Buffer) else part
            return
        place = self._made(part.shape[1:], part.dtype)[first : first + part.shape[0]]
        if not isinstance(part, Buffer):
            if part.__array_interface__["data"] != place.__array_interface__["data"]:
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


def some(array: Any, orbitals: slice) -> Any:
    """These orbitals of a batch; all of them as it is, so that a call with it is found again."""
    return array if orbitals == slice(None) else array[orbitals]


def each(
    psi: Any,
    apply: Callable[[Any, Any], Any],
    others: tuple[Any, ...],
    device: str | None,
    into: Into = locked.empty,
    batched: Batched = lambda orbitals: None,
) -> Any:
    """``apply(orbital, out)`` to one orbital, or to each of a batch; on a device with memory of its own nothing comes back in between.

    ``apply`` may write to ``out``, a NumPy array or None, or give another array. The result of a batch of NumPy arrays lies where
    ``into`` says. While the device computes some orbitals, ``batched`` where it takes them, others are sent and results are fetched.
    """
    if psi.ndim > AXES and not psi.shape[0]:
        raise ArgumentError("a batch of no orbitals has no result")
    if isinstance(psi, np.ndarray):
        if moves(psi, others, device):
            return _moved(psi, _OnDevice(devices.get(device), apply, batched), into)
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
    """``apply`` to each orbital of a batch on a device."""
    first = apply(psi[0], None)
    whole = Buffer.empty((psi.shape[0], *first.shape), first.dtype, first.device)
    for place in range(psi.shape[0]):
        part = first if place == 0 else apply(psi[place], None)
        first.device.default_queue().copy(whole.memory, part.memory, part.nbytes, whole[place].offset, part.offset)
    return whole


class _OnDevice(NamedTuple):
    """What is computed of orbitals in a device's memory: of one by ``apply``, of a batch by ``batched`` if that takes it."""

    device: Device
    apply: Callable[[Any, Any], Any]
    batched: Batched

    def of(self, orbitals: Buffer) -> Any:
        """The results of a batch."""
        done = self.batched(orbitals)
        return _one_by_one(orbitals, self.apply) if done is None else done


def _moved(psi: NDArray[Any], on_device: _OnDevice, into: Into) -> NDArray[Any]:
    """NumPy orbitals in the device's memory, some at a time; of a single one the result has its shape."""
    if psi.ndim == AXES:
        found: NDArray[Any] = on_device.apply(Buffer.from_numpy(psi, on_device.device), None).numpy()
        return found
    refuse_masks(psi, "the array")
    if not locked.holds(psi):
        return _by_threads(psi, on_device, into)
    if isinstance(into, _Place) and into.flow is not None:
        return _flowing(psi, on_device, into, into.flow)
    with Flow(on_device.device) as flow:
        whole = _flowing(psi, on_device, into, flow)
        flow.end().wait()
    return whole


def _flowing(psi: NDArray[Any], on_device: _OnDevice, into: Into, flow: Flow) -> NDArray[Any]:
    """Locked orbitals through a flow; the result is there when the flow has come to its end."""
    whole: NDArray[Any] | None = None
    count, some = psi.shape[0], _at_a_time(on_device.device, psi)

    def place(first: int, done: Any) -> NDArray[Any]:
        nonlocal whole
        if whole is None:
            whole = into((count, *done.shape[1:]), done.dtype)
        return whole[first : first + done.shape[0]]

    for first in range(0, count, some):
        flow.through(psi[first : first + some], on_device.of, partial(place, first))
    flow.collect()
    assert whole is not None
    return whole


def _by_threads(psi: NDArray[Any], on_device: _OnDevice, into: Into) -> NDArray[Any]:
    """Several threads each bring orbitals there, and their results back, so that the link moves some while the host copies others."""
    device = on_device.device
    whole: NDArray[Any] | None = None
    count, some = psi.shape[0], _at_a_time(device, psi)
    making, places = threading.Lock(), SimpleQueue[int]()
    for place in range(0, count, some):
        places.put(place)

    def move(place: int, back: Queue) -> None:
        nonlocal whole
        orbitals = np.ascontiguousarray(psi[place : place + some])
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
                with suppress(Empty):  # nothing is left for the others, who end then
                    while True:
                        places.get_nowait()
                raise

    _at_once(work, min(_beside(device, psi, some), -(-count // some)))
    assert whole is not None
    return whole


def _at_a_time(device: Device, psi: NDArray[Any]) -> int:
    """The number of a batch's orbitals that travel together: enough for each step to cost little, and few enough to travel by turns."""
    together = _TOGETHER if locked.holds(psi) else _STAGED
    count = max(min(together // max(psi[0].nbytes, 1), psi.shape[0] // _AT_ONCE), 1)
    while count > 1 and memory_limit.too_large(device, (count * _largest(psi),) * (_ARRAYS * 2)):
        count //= 2
    return count


def _beside(device: Device, psi: NDArray[Any], some: int) -> int:
    """How many times so many orbitals a device processes at once: as often as pays, and as it has the memory for."""
    if some * psi[0].nbytes < _SMALL:
        return 1
    count = min(staging.threads(), _AT_ONCE if staging.pays(device, psi[:some]) else 2)
    while count > 2 and memory_limit.too_large(device, (some * _largest(psi),) * (_ARRAYS * count)):
        count -= 1
    return count


def _at_once(work: Callable[[], None], count: int) -> None:
    """``work`` in so many threads, this one counted; raises what one of them did, when all have ended."""
    if count == 1:
        work()
        return
    with ThreadPoolExecutor(count - 1, "portatile-orbitals") as pool:
        others = [pool.submit(work) for _ in range(count - 1)]
        work()
    for other in others:
        other.result()
