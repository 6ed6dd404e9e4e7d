"""Transfers between host and device and within it, by size, with pinned and pageable host memory, as in NVIDIA's bandwidthTest."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from portatile.ceilings import DIRECTIONS, Measured
from portatile.device.base import Device, Memory, Queue
from portatile.device.clock import back_to_back
from portatile.errors import ArgumentError, DeviceError
from portatile.measure.plausible import memory_limit, refuse_impossible

Direction = Literal["htod", "dtoh", "dtod"]
HostMemory = Literal["pinned", "pageable"]
Mode = Literal["quick", "range", "shmoo"]

QUICK_BYTES = 32_000_000
KILO, MEGA = 1000, 1_000_000  # as bandwidthTest counts since version 10

# From each size on, the step to the next: the last size is 68 MB.
_SHMOO = ((0, KILO), (20 * KILO, 2 * KILO), (50 * KILO, 10 * KILO), (100 * KILO, 100 * KILO))
_SHMOO_MEGA = ((MEGA, MEGA), (16 * MEGA, 2 * MEGA), (32 * MEGA, 4 * MEGA))
_SHMOO_LAST = 68 * MEGA

_COPIES = 100  # copies of pinned memory in a burst, but no more than fill _BURST seconds
_BURST = 0.1
_FLUSH_BYTES = 1 << 26  # written between copies of pageable memory, so that the next copy does not find its source in a cache


@dataclass(frozen=True)
class Copy:
    """One copy to measure. ``memory`` is the host's; it is ignored for a copy within the device."""

    direction: Direction
    memory: HostMemory
    nbytes: int

    def __post_init__(self) -> None:
        if self.direction not in DIRECTIONS or self.memory not in ("pinned", "pageable") or self.nbytes < 1:
            raise ArgumentError(f"{self} is not a copy: {', '.join(DIRECTIONS)}; pinned or pageable; at least one byte")


def sizes(mode: Mode, start: int | None = None, end: int | None = None, increment: int | None = None) -> tuple[int, ...]:
    """The sizes of copies in bytes: ``quick`` 32 MB, ``range`` from ``start`` to ``end`` by ``increment``, ``shmoo`` 81 sizes from 1 KB to
    68 MB.

    Raises ArgumentError for a range that is incomplete or empty.

    Examples:
        >>> sizes("range", 1000, 3000, 1000)
        (1000, 2000, 3000)
    """
    options = (start, end, increment)
    if mode != "range":
        if any(value is not None for value in options):
            raise ArgumentError(f"start, end and increment belong to mode range, not {mode}")
        return (QUICK_BYTES,) if mode == "quick" else tuple(_shmoo())
    if start is None or end is None or increment is None:
        raise ArgumentError("mode range needs start, end and increment, in bytes")
    if not (0 < start <= end and increment > 0):
        raise ArgumentError(f"a range from {start} to {end} by {increment} holds no size; start and increment are 1 or more")
    return tuple(range(start, end + 1, increment))


def _shmoo() -> Iterator[int]:
    steps = dict((*_SHMOO, *_SHMOO_MEGA))
    size, step = 0, KILO
    while size < _SHMOO_LAST:
        step = steps.get(size, step)
        size += step
        yield size


def measure(device: Device, copy: Copy, rounds: int = 3) -> Measured:
    """Check that a copy transfers every byte, then time it ``rounds`` times.

    Pinned memory and copies within the device: consecutive asynchronous copies, timed by the device's clock. Pageable memory: one copy at a
    time by the host's clock, with other data in the host's caches. A copy within the device counts its bytes twice, read and written.
    Raises DeviceError for bytes that arrive wrongly and for an impossible measurement.
    """
    with (
        device.allocate(copy.nbytes) as memory,
        device.allocate(copy.nbytes if copy.direction == "dtod" else 1) as other,
        device.queue() as queue,
        device.queue(profiling=True) as clock,
    ):
        ends = _Ends(_host(device, copy), memory, other)
        _check(queue, copy, ends)
        if copy.direction != "dtod" and copy.memory == "pageable":
            samples = [_one_by_one(queue, copy, ends) for _ in range(rounds)]
        else:
            samples = _back_to_back(queue, clock, copy, ends, rounds)
    work = float(copy.nbytes * (2 if copy.direction == "dtod" else 1))
    kind = "device" if copy.direction == "dtod" else copy.memory
    measured = Measured(copy.direction, "B/s", work, tuple(samples), {"memory": kind, "bytes": copy.nbytes})
    limit = 0.0 if copy.direction != "dtod" else memory_limit(device, lambda: 0.0)
    refuse_impossible(measured, device.info, limit)
    return measured


class _Ends(NamedTuple):
    """The ends of copies: host memory, device memory, and more device memory for copies within the device."""

    host: NDArray[np.uint8]
    memory: Memory
    other: Memory


def _host(device: Device, copy: Copy) -> NDArray[np.uint8]:
    pinned = copy.memory == "pinned" and copy.direction != "dtod"
    array = device.pinned(copy.nbytes) if pinned else np.empty(copy.nbytes, np.uint8)
    array[...] = np.random.default_rng(copy.nbytes).integers(0, 256, copy.nbytes, np.uint8)
    return array


def _check(queue: Queue, copy: Copy, ends: _Ends) -> None:
    """Check a copy to the device and back, including one within the device if that is measured."""
    host, memory, other = ends
    sent = host.copy()
    queue.upload(memory, host)
    source = memory
    if copy.direction == "dtod":
        queue.copy(other, memory, copy.nbytes)
        source = other
    host[...] = ~sent
    queue.download(host, source)
    wrong = int(np.count_nonzero(host != sent))
    if wrong:
        raise DeviceError(f"{wrong} of {copy.nbytes} bytes come back wrong from {queue.device.info.id}: transfers cannot be measured")


def _start(queue: Queue, copy: Copy, ends: _Ends, blocking: bool = False) -> None:
    host, memory, other = ends
    if copy.direction == "htod":
        queue.upload(memory, host, blocking=blocking)
    elif copy.direction == "dtoh":
        queue.download(host, memory, blocking=blocking)
    else:
        queue.copy(other, memory, copy.nbytes)


def _back_to_back(queue: Queue, clock: Queue, copy: Copy, ends: _Ends, rounds: int) -> list[float]:
    """Time copies on a queue without profiling by the profiling queue's clock, because profiling slows down each copy."""

    def burst(copies: int) -> float:
        seconds = back_to_back(queue, clock, partial(_start, queue, copy, ends), copies)
        queue.finish()
        return seconds

    first = burst(1)
    copies = min(max(int(_BURST / max(first, 1e-7)), 1), _COPIES)
    return [burst(copies) for _ in range(rounds)]


def _one_by_one(queue: Queue, copy: Copy, ends: _Ends) -> float:
    np.zeros(_FLUSH_BYTES, np.uint8).fill(1)
    queue.finish()
    start = time.perf_counter()
    _start(queue, copy, ends, blocking=True)
    return time.perf_counter() - start
