"""A batch of orbitals on several devices: which device computes which orbitals, and where the results are collected."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
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
from portatile.runtime import perform
from portatile.runtime.one_device.engine import engine_of
from portatile.runtime.several_devices import batches, forecast, tries
from portatile.runtime.several_devices.device_threads import Part, together
from portatile.runtime.several_devices.expected import Forecast
from portatile.runtime.several_devices.in_turn import in_turn
from portatile.runtime.several_devices.pieces import Pieces, about_in_time
from portatile.runtime.several_devices.splits import Share, Split, keep
from portatile.wavelets.batch import group_size, moved_back
from portatile.wavelets.flow import DevicePipeline, Into, PipelinePlace

_MOST = 4096
_CALLS, _LATER = 64, 4  # calls that one device computes before all are timed again, and the factor by which this number grows each time


@dataclass
class _Settled:
    """A device that computes batches of a kind alone for the next ``left`` of ``calls`` calls; then all are timed once more."""

    device: str
    calls: int
    left: int


_settled: dict[tuple[object, ...], _Settled] = {}
"""Which device computes such batches alone, by selector, operation, shape, dtype, and place of the batch."""
perform.forgetting.append(_settled.clear)
_results: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = {}
"""The shape and dtype of the latest result on the host of such a batch, by its problem."""
_UNDER_WAY = 4  # groups of orbitals in a pipeline: one uploaded, one computed, one downloaded, and one waiting

Compute = Callable[[slice, str, Into], Any]
"""Computes these orbitals of the batch on the device with that id; the result may be in the array that ``Into`` makes, or in another one.
"""


def over_devices(psi: Any, device: Selector | None, compute: Compute, what: str, add: bool = False) -> Any:
    """The results of ``compute(orbitals, device, into)`` for parts of a batch of orbitals, computed on several devices at once.

    The results are concatenated or, for sums over orbitals (``add``), added up. A single orbital is computed by the first device. Each
    device takes as many orbitals as its rate allows; those of a device that fails go to the others. One device computes all if it was
    measured to be faster alone, or if the others would do too little. Rates and times are kept under the name ``what``. ``psi`` is a NumPy
    array or a Buffer; the result is on the host or on its device.
    """
    assert device is not None
    devices.check(device, (Sequence,))
    selector = device if isinstance(device, str) or not isinstance(device, Sequence) else tuple(device)
    kind = selector, what, psi.shape, psi.dtype, psi.device if isinstance(psi, Buffer) else locked.holds(psi)
    if (alone := _settled.get(kind)) is not None and alone.left > 0:
        alone.left -= 1
        return compute(slice(None), alone.device, locked.empty)
    named = devices.several(device)
    if len(named) == 1 or psi.ndim <= AXES or psi.shape[0] < len(named):
        return moved_back(compute(slice(None), named[0].info.id, locked.empty), psi)
    shared_batch = _shared_batch(psi, named, what)
    if alone is not None and not alone.left:
        alone.left = -1
        tries.once_more(tries.key_of(shared_batch.devices[0], shared_batch.task.problem, shared_batch.task.all))
        shared_batch = _shared_batch(psi, named, what)
    if shared_batch.prediction.decided and shared_batch.task.places[shared_batch.prediction.quickest] != forecast.REMOTE:
        if len(_settled) >= _MOST:
            _settled.clear()
        calls = _CALLS if alone is None else alone.calls * _LATER
        _settled[kind] = _Settled(shared_batch.prediction.quickest, calls, calls)
        keep(named, shared_batch.by_one(shared_batch.prediction.alone[shared_batch.prediction.quickest].seconds, True))
        return compute(slice(None), shared_batch.prediction.quickest, locked.empty)
    if isinstance(psi, Buffer):
        psi.device.default_queue().finish()
    if not shared_batch.prediction.quickest:
        return _shared(psi, shared_batch, compute, add)
    began = time.perf_counter()
    found = moved_back(compute(slice(None), shared_batch.prediction.quickest, locked.empty), psi)
    seconds = time.perf_counter() - began
    forecast.learn_alone(next(one for one in named if one.info.id == shared_batch.prediction.quickest), shared_batch.task, seconds)
    keep(named, shared_batch.by_one(seconds))
    return found


class _SharedBatch(NamedTuple):
    """A batch that several devices may share: the devices that were ``named``, those that take part, and the forecast."""

    named: Sequence[Device]
    devices: Sequence[Device]
    task: forecast.Shared
    prediction: Forecast
    left_out: str

    @property
    def orbitals(self) -> int:
        """The number of orbitals."""
        return self.task.problem.sizes[batches.ORBITALS]

    def by_one(self, seconds: float, expected: bool = False) -> Split:
        """The record of a call that the quickest device computes alone."""
        share = Share(self.prediction.quickest, self.orbitals, 1, seconds)
        return Split(self.task.problem, "", seconds, (share,), self.prediction.why, expected, forecast=self.prediction)


def _shared_batch(psi: Any, named: Sequence[Device], what: str) -> _SharedBatch:
    """The devices that should take part, and the forecast of their time."""
    problem, own = batches.problem(what, psi.shape, psi.dtype.name), psi.device if isinstance(psi, Buffer) else None
    in_place = own is None and locked.holds(psi)
    participants, left_out = forecast.worthwhile(named, batches.task(problem, named, own, in_place))
    task = batches.task(problem, participants, own, in_place)
    return _SharedBatch(named, participants, task, forecast.of(participants, task), left_out)


def _shared(psi: Any, shared_batch: _SharedBatch, compute: Compute, add: bool) -> Any:
    """The result, computed by all devices that take part."""
    began, result, task = time.perf_counter(), _Result(psi, add), shared_batch.task
    by_id = {one.info.id: one for one in shared_batch.devices}
    shares = tuple(Share(name) for name in by_id)
    step = task.work / shared_batch.orbitals
    known = {name: task.work / one.seconds / step for name, one in shared_batch.prediction.alone.items()}
    pieces = Pieces(shared_batch.orbitals, 1, {name: known.get(name, 0.0) for name in by_id})
    engines = [engine_of(one) for one in shared_batch.devices]
    made = [engine.making for engine in engines]
    kind = task.problem.key
    if not add and result.begin(_results.get(kind)) and not any(one.info.unified_memory for one in shared_batch.devices):
        _by_one_thread(psi, shared_batch, shares, pieces, _Work(compute, result))
    else:
        _by_threads(psi, shared_batch, shares, pieces, _Work(compute, result))
    whole = result.whole()
    seconds = time.perf_counter() - began
    if isinstance(whole, np.ndarray) and not add:
        if len(_results) >= _MOST:
            _results.clear()
        _results[kind] = whole.shape, whole.dtype
    warm = pieces.shown
    shown = {share.device: warm[share.device] * step for share in shares if share.pieces and share.device in warm and not share.failure}
    if not any(share.failure for share in shares):
        making = max(engine.making - before for engine, before in zip(engines, made, strict=True))
        forecast.learn_together(shared_batch.devices, task, seconds, shown, about_in_time(shared_batch.orbitals, 1, pieces.rates), making)
    far = sum(share.steps for share in shares if not by_id[share.device].info.unified_memory) / shared_batch.orbitals
    crossed = round(far * (psi.nbytes + (0 if add else whole.nbytes))) if isinstance(psi, np.ndarray) else 0
    keep(
        shared_batch.named,
        Split(task.problem, batches.ORBITALS, seconds, shares, shared_batch.left_out, forecast=shared_batch.prediction, crossed=crossed),
    )
    return whole


class _Work(NamedTuple):
    """How each piece is computed, and where its result goes."""

    compute: Compute
    result: _Result


def _by_threads(psi: Any, shared_batch: _SharedBatch, shares: Sequence[Share], pieces: Pieces, work: _Work) -> None:
    """Compute all pieces, each device in its own thread."""
    by_id = {one.info.id: one for one in shared_batch.devices}

    def run(share: Share, pieces: Pieces) -> None:
        device = by_id[share.device]
        flows = not work.result.add and isinstance(psi, np.ndarray) and locked.holds(psi) and not device.info.unified_memory
        with DevicePipeline(device, group_size(device, psi, len(by_id))) if flows else nullcontext() as flow:
            _Member(device, shared_batch, share, work, flow).run(pieces)

    copying = [psi.device, *shared_batch.devices] if isinstance(psi, Buffer) else []
    together([Part(share, partial(run, share)) for share in shares], pieces, copying)


def _by_one_thread(psi: NDArray[Any], shared_batch: _SharedBatch, shares: Sequence[Share], pieces: Pieces, work: _Work) -> None:
    """Compute all pieces of page-locked orbitals from one thread, which never blocks on a transfer."""
    with ExitStack() as stack:
        members = [
            _PieceWorker(device, shared_batch, share, work, group_size(device, psi, len(shares)), stack.enter_context(ExitStack()))
            for device, share in zip(shared_batch.devices, shares, strict=True)
        ]
        in_turn(members, pieces)


class _Member:
    """The work of one device: one piece after another, or two at a time if it has a pipeline."""

    def __init__(self, device: Device, shared_batch: _SharedBatch, share: Share, work: _Work, flow: DevicePipeline | None) -> None:
        self.share = share
        self._device, self._task, self._most, self._work, self._flow = device, shared_batch.task, shared_batch.orbitals, work, flow
        self._under_way: deque[tuple[int, int]] = deque()
        self._ends: deque[Event | None] = deque()
        self._since = 0.0

    def run(self, pieces: Pieces) -> None:
        """Take pieces until there are none; after an exception give back unfinished ones."""
        try:
            while True:
                piece = pieces.take(self.share.device, self._most, wait=not self._under_way)
                if piece is not None:
                    self._begin(piece)
                elif not self._under_way:
                    return
                if piece is None or self._flow is None or len(self._under_way) > 1:
                    self._finish(pieces)
        except BaseException:
            self._hand_back(pieces)
            raise

    def _begin(self, piece: tuple[int, int]) -> None:
        """Compute a piece, or queue it in the pipeline."""
        if not self._under_way:
            self._since = time.perf_counter()
        self._under_way.append(piece)
        compute, result = self._work
        result.take(piece[0], compute(slice(*piece), self.share.device, result.into(piece[0], self._flow)))
        self._ends.append(None if self._flow is None else self._flow.end())

    def _finish(self, pieces: Pieces) -> None:
        """Wait for the oldest piece, and account for it."""
        end = self._ends.popleft()
        if end is not None:
            end.wait()
        low, high = self._under_way.popleft()
        now = time.perf_counter()
        seconds, self._since = now - self._since, now
        cold = forecast.is_first(self._device, self._task.problem, self._task.places[self.share.device])
        pieces.done(self.share.device, high - low, seconds, cold)
        self.share.seconds += seconds
        self.share.steps += high - low
        self.share.pieces += 1

    def _hand_back(self, pieces: Pieces) -> None:
        for piece in self._under_way:
            pieces.give_back(*piece)
        self._under_way.clear()
        self._ends.clear()


class _PieceWorker(_Member):
    """A device whose pipeline is given groups of orbitals, a few at a time, by a thread that never blocks.

    ``group``: orbitals of a group, at most; ``ending`` finishes and closes the pipeline.
    """

    def __init__(self, device: Device, shared_batch: _SharedBatch, share: Share, work: _Work, group: int, ending: ExitStack) -> None:
        super().__init__(device, shared_batch, share, work, None)
        self._group, self._ending = group, ending

    @property
    def busy(self) -> bool:
        return bool(self._under_way)

    def advance(self, pieces: Pieces) -> bool:
        try:
            with self._device.current():
                ended = self._count_ended(pieces)
                return self._begin_another(pieces) or ended
        except BaseException:
            self._ending.close()  # before others compute the pieces that are given back
            self._hand_back(pieces)
            raise

    def _count_ended(self, pieces: Pieces) -> bool:
        ended = False
        while self._ends and ((end := self._ends[0]) is None or end.done):
            self._finish(pieces)
            ended = True
        return ended

    def _begin_another(self, pieces: Pieces) -> bool:
        if len(self._under_way) >= _UNDER_WAY:
            return False
        if self._flow is None:
            self._flow = self._ending.enter_context(DevicePipeline(self._device, self._group))
        most = max(min(self._group, self._flow.sent), 1)  # small at first: the first upload overlaps with no computation
        piece = pieces.take(self.share.device, most, wait=False)
        if piece is not None:
            self._begin(piece)
        return piece is not None


class _Result:
    """Collects the results of the parts, on the host or on the device of ``psi``: concatenated, or added up."""

    def __init__(self, psi: Any, add: bool) -> None:
        self._psi, self.add, self._lock = psi, add, threading.Lock()
        self._whole: Any = None
        self._sums: dict[int, Any] = {}  # by first orbital, and added in that order

    def begin(self, known: tuple[tuple[int, ...], np.dtype[Any]] | None) -> bool:
        """Make the whole array, of a ``known`` shape and dtype; returns whether it and the orbitals are page-locked."""
        if known is None or isinstance(self._psi, Buffer) or not locked.holds(self._psi):
            return False
        return locked.holds(self._made(known[0][1:], known[1]))

    def into(self, first: int, flow: DevicePipeline | None = None) -> Into:
        """An ``Into`` that places a part on the host in the whole array; ``flow``: the pipeline through which it may come."""

        def made(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
            if self.add or isinstance(self._psi, Buffer):
                return np.empty(shape, dtype)
            found: NDArray[Any] = self._made(shape[1:], np.dtype(dtype))[first : first + shape[0]]
            return found

        return PipelinePlace(made, flow)

    def _made(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """The whole array for orbitals with results of this shape, made at the first call that knows the shape."""
        with self._lock:
            shape = (self._psi.shape[0], *shape)
            if self._whole is None or self._whole.shape != shape or self._whole.dtype != dtype:  # ``begin`` may have assumed another one
                on_host = not isinstance(self._psi, Buffer)
                self._whole = locked.empty(shape, dtype) if on_host else Buffer.empty(shape, dtype, self._psi.device)
            return self._whole

    def take(self, first: int, part: Any) -> None:
        """Copy a part to its place, or keep it for the sum; returns when that is done."""
        if isinstance(part, Buffer):
            part.device.default_queue().finish()
        if self.add:
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
        """The result, once all parts have been taken."""
        if not self.add:
            return self._whole
        parts = [self._sums[first] for first in sorted(self._sums)]
        total = np.sum(parts, axis=0, dtype=parts[0].dtype)
        return Buffer.from_numpy(total, self._psi.device) if isinstance(self._psi, Buffer) else total
