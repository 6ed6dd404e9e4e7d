"""A batch of orbitals on several devices: which device takes which orbitals, and where the results are put together."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from portatile import device as devices
from portatile.arguments.axes import AXES
from portatile.device import Selector, staging
from portatile.device.base import Device
from portatile.device.buffer import Buffer
from portatile.device.event import Event
from portatile.device.page_locked import locked
from portatile.runtime import batches, forecast, perform
from portatile.runtime.device_threads import Part, together
from portatile.runtime.forecast import Forecast
from portatile.runtime.pieces import Pieces, about_in_time
from portatile.runtime.splits import Share, Split, keep
from portatile.wavelets.batch import moved_back
from portatile.wavelets.flow import DevicePipeline, Into, PipelinePlace

_MOST = 4096
_settled: dict[tuple[object, ...], str] = {}
"""The device that computes such batches alone from now on, by selector, what is computed, the batch's shape and dtype, and its place."""
perform.forgetting.append(_settled.clear)

Compute = Callable[[slice, str, Into], Any]
"""Computes these orbitals of the batch on the device of that id; the result may be in the array that ``Into`` makes, or in another one."""


def over_devices(psi: Any, device: Selector | None, compute: Compute, what: str, add: bool = False) -> Any:
    """The results of ``compute(orbitals, device, into)`` for parts of a batch of orbitals, computed on several devices at once.

    The results are concatenated, or with ``add``, for sums over orbitals, added up. A single orbital is computed by the first device. Each
    device takes as many orbitals as its rate allows; those of a device that fails are left to the others. One device computes all where it
    was measured to be faster alone, or where the others would do too little. Rates and times are kept under the name ``what``. ``psi`` is a
    NumPy array or a Buffer; the result is on the host or on its device.
    """
    assert device is not None
    selector = device if isinstance(device, str) or not isinstance(device, Sequence) else tuple(device)
    kind = selector, what, psi.shape, psi.dtype, psi.device if isinstance(psi, Buffer) else locked.holds(psi)
    if (alone := _settled.get(kind)) is not None:
        return compute(slice(None), alone, locked.empty)
    named = devices.several(device)
    if len(named) == 1 or psi.ndim <= AXES or psi.shape[0] < len(named):
        return moved_back(compute(slice(None), named[0].info.id, locked.empty), psi)
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
    found = moved_back(compute(slice(None), asked.told.quickest, locked.empty), psi)
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
        """The record of a call that the quickest device computes alone."""
        share = Share(self.told.quickest, self.orbitals, 1, seconds)
        return Split(self.task.problem, "", seconds, (share,), self.told.why, expected, forecast=self.told)


def _asked(psi: Any, named: Sequence[Device], what: str) -> _Asked:
    """The devices that should take part, and the forecast of their time."""
    problem, own = batches.problem(what, psi.shape, psi.dtype.name), psi.device if isinstance(psi, Buffer) else None
    in_place = own is None and locked.holds(psi)
    taking, left_out = forecast.worthwhile(named, batches.task(problem, named, own, in_place))
    task = batches.task(problem, taking, own, in_place)
    return _Asked(named, taking, task, forecast.of(taking, task), left_out)


def _shared(psi: Any, asked: _Asked, compute: Compute, add: bool) -> Any:
    """The result, computed by all devices that take part, each in a thread of its own."""
    began, result, task = time.perf_counter(), _Result(psi, add), asked.task
    by_id = {one.info.id: one for one in asked.devices}

    def run(share: Share, pieces: Pieces) -> None:
        device = by_id[share.device]
        flows = not add and isinstance(psi, np.ndarray) and locked.holds(psi) and not device.info.unified_memory
        with DevicePipeline(device, len(by_id)) if flows else nullcontext() as flow:
            _Member(device, task, share, flow).run(pieces, asked.orbitals, compute, result)

    shares = tuple(Share(name) for name in by_id)
    step = task.work / asked.orbitals
    known = {name: task.work / one.seconds / step for name, one in asked.told.alone.items()}
    pieces = Pieces(asked.orbitals, 1, {name: known.get(name, 0.0) for name in by_id})
    copying = [psi.device, *asked.devices] if isinstance(psi, Buffer) else []
    together([Part(share, partial(run, share)) for share in shares], pieces, copying)
    whole = result.whole()
    seconds = time.perf_counter() - began
    warm = pieces.shown
    shown = {share.device: warm[share.device] * step for share in shares if share.pieces and share.device in warm and not share.failure}
    if not any(share.failure for share in shares):
        forecast.learn_together(asked.devices, task, seconds, shown, about_in_time(asked.orbitals, 1, pieces.rates))
    far = sum(share.steps for share in shares if not by_id[share.device].info.unified_memory) / asked.orbitals
    crossed = round(far * (psi.nbytes + (0 if add else whole.nbytes))) if isinstance(psi, np.ndarray) else 0
    keep(asked.named, Split(task.problem, batches.ORBITALS, seconds, shares, asked.left_out, forecast=asked.told, crossed=crossed))
    return whole


class _Member:
    """The work of one device: one piece after another, or two at a time where it has a pipeline."""

    def __init__(self, device: Device, task: forecast.Shared, share: Share, flow: DevicePipeline | None) -> None:
        self._device, self._task, self._share, self._flow = device, task, share, flow
        self._under_way: deque[tuple[int, int]] = deque()
        self._ends: deque[Event | None] = deque()
        self._since = 0.0

    def run(self, pieces: Pieces, most: int, compute: Compute, result: _Result) -> None:
        """Take pieces until there are none; after an exception hand back those that are not finished."""
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


class _Result:
    """Collects the results of the parts, on the host or on the device of ``psi``: concatenated, or added up."""

    def __init__(self, psi: Any, add: bool) -> None:
        self._psi, self._add, self._lock = psi, add, threading.Lock()
        self._whole: Any = None
        self._sums: dict[int, Any] = {}  # by first orbital: added in that order

    def into(self, first: int, flow: DevicePipeline | None = None) -> Into:
        """An ``Into`` that gives a part on the host its place in the whole array; ``flow``: the pipeline by which it may come."""

        def made(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
            if self._add or isinstance(self._psi, Buffer):
                return np.empty(shape, dtype)
            found: NDArray[Any] = self._made(shape[1:], np.dtype(dtype))[first : first + shape[0]]
            return found

        return PipelinePlace(made, flow)

    def _made(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """The whole array, made at the first call, for orbitals with results of this shape."""
        with self._lock:
            if self._whole is None:
                shape = (self._psi.shape[0], *shape)
                on_host = not isinstance(self._psi, Buffer)
                self._whole = locked.empty(shape, dtype) if on_host else Buffer.empty(shape, dtype, self._psi.device)
            return self._whole

    def take(self, first: int, part: Any) -> None:
        """Put a part in its place, or keep it for the sum; returns when that is done."""
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
