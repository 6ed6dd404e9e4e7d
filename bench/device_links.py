"""The rates of copies between devices, and between page-locked host arrays and devices, alone and several at once, in both directions."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

import portatile
from portatile.studies.framework.links import at_once

WAYS = ("to", "from", "both ways")


def copied(one: Any, other: Any, nbytes: int, repeat: int) -> list[float]:
    """Bytes a second from a device to another."""
    there, taken = portatile.Buffer.from_numpy(np.zeros(nbytes, np.uint8), one), []
    for _ in range(repeat + 2):
        began = time.perf_counter()
        there.to_device(other)
        taken.append(nbytes / (time.perf_counter() - began))
    return taken[2:]


def links(gpus: Sequence[Any], nbytes: int, repeat: int) -> list[dict[str, Any]]:
    """Bytes a second over the links of each GPU alone and of all at once (in sum): to the GPUs, from them, and in both directions.

    The arrays of the host are page-locked, so that no core copies them. None if locking is refused.
    """
    ends = [_Ends(gpu, nbytes) for gpu in gpus]
    try:
        if not all(end.locked for end in ends):
            return []
        sets = [[end] for end in ends] + ([ends] if len(ends) > 1 else [])
        return [
            {"way": way, "devices": [end.device.info.id for end in chosen], "bytes_per_second": _rates(chosen, way, nbytes, repeat)}
            for chosen in sets
            for way in WAYS
        ]
    finally:
        for end in ends:
            end.release()


class _Ends:
    """A device's ends of its link: memory there, and locked arrays here, one for each way."""

    def __init__(self, device: Any, nbytes: int) -> None:
        self.device = device
        self._here = [np.ones(nbytes, np.uint8) for _ in range(2)]
        self._locks = [device.lock(array) for array in self._here]
        self._there = [device.allocate(nbytes) for _ in range(2)]
        self._queues = [device.queue() for _ in range(2)]

    @property
    def locked(self) -> bool:
        """Whether the system let both arrays be locked."""
        return all(lock is not None for lock in self._locks)

    def to(self) -> None:
        """Copy one array to the device, and wait for it."""
        self._queues[0].upload(self._there[0], self._here[0])

    def back(self) -> None:
        """Copy one array from the device, and wait for it."""
        self._queues[1].download(self._here[1], self._there[1])

    def release(self) -> None:
        """Give everything back."""
        for one in (*self._queues, *self._there, *self._locks):
            if one is not None:
                one.release()


def _rates(ends: Sequence[_Ends], way: str, nbytes: int, repeat: int) -> list[float]:
    """Bytes a second of all copies together, until the last has ended."""
    jobs = [job for end in ends for job, wanted in ((end.to, "to"), (end.back, "from")) if way in (wanted, "both ways")]
    return [nbytes * len(jobs) / at_once(jobs) for _ in range(repeat + 1)][1:]
