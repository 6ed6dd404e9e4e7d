"""The rates of copies of repeatedly passed host arrays to each device and to several at once, and of copies between devices. If threads
of the host copy, their time is included.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile.device.base import Device
from portatile.device.buffer import Buffer

_TIMES = 8  # copies of an array, of which the fastest counts: pages are locked after the first ones


def to_each(device: Device, array: NDArray[Any]) -> float:
    """Bytes a second of an array to a device: the best of a few times; infinite if it reaches the host's memory."""
    return inf if device.info.unified_memory else array.nbytes / min(at_once([_sending(device, array)]) for _ in range(_TIMES))


def to_all(devices: Sequence[Device], nbytes: int) -> float:
    """Bytes a second of an array of its own to each device at once, in sum; infinite if fewer than two have a link."""
    linked = [device for device in devices if not device.info.unified_memory]
    if len(linked) < 2:
        return inf
    jobs = [_sending(device, np.ones(nbytes, np.uint8)) for device in linked]
    return nbytes * len(linked) / min(at_once(jobs) for _ in range(_TIMES))


def between(devices: Sequence[Device], nbytes: int) -> float:
    """Bytes a second from the first device with a link to the next, where the driver copies between them; else 0."""
    linked = [device for device in devices if not device.info.unified_memory]
    if len(linked) < 2:
        return 0.0
    source, target = (Buffer.empty((nbytes,), np.uint8, device) for device in linked[:2])
    queue, best = target.device.default_queue(), inf
    try:
        for _ in range(_TIMES):
            began = time.perf_counter()
            if not queue.receive(target.memory, source.memory, nbytes):
                return 0.0
            queue.finish()
            best = min(best, time.perf_counter() - began)
    finally:
        queue.finish()
        source.release()
        target.release()
    return nbytes / best


def _sending(device: Device, array: NDArray[Any]) -> Callable[[], None]:
    """A function that copies an array to a device and waits for it."""

    def send() -> None:
        with Buffer.from_numpy(array, device):
            device.default_queue().finish()

    return send


def at_once(jobs: Sequence[Callable[[], None]]) -> float:
    """Seconds until all jobs have ended, a thread for each. Raises what one of them raised."""
    ready, errors = threading.Barrier(len(jobs) + 1), list[Exception]()

    def run(job: Callable[[], None]) -> None:
        ready.wait()
        try:
            job()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    ready.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return time.perf_counter() - began
