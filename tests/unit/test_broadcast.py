"""Host arrays that several devices need whole: each brings a part, takes the others' in few copies, and ends with all of it."""

from __future__ import annotations

import threading
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from portatile.errors import DeviceError
from portatile.runtime import broadcast
from portatile.runtime.broadcast import Broadcast
from support.seeds import new_seed

CHUNK = 16


class Memory:
    """Bytes of a device."""

    def __init__(self, nbytes: int) -> None:
        self.bytes = np.zeros(nbytes, np.uint8)

    def release(self) -> None: ...


class Queue:
    """A queue whose device's memory is an array here; it notes what comes from the host and from others."""

    def __init__(self, slow: threading.Barrier | None = None, fails: bool = False) -> None:
        self.device: Any = self
        self.uploads: list[int] = []
        self.received: list[tuple[int, int]] = []
        self._slow, self._fails = slow, fails

    def allocate(self, nbytes: int) -> Any:
        return Memory(nbytes)

    def marker(self) -> Any:
        return SimpleNamespace(wait=self._wait)

    def _wait(self) -> None:
        with suppress(threading.BrokenBarrierError):  # once one of them has brought its last
            if self._slow is not None:
                self._slow.wait(0.5)

    def flush(self) -> None: ...

    def receive(self, target: Any, source: Any, nbytes: int, target_offset: int, source_offset: int) -> bool:
        if self._fails:
            raise DeviceError("the other device has failed")
        target.bytes[target_offset : target_offset + nbytes] = source.bytes[source_offset : source_offset + nbytes]
        self.received.append((target_offset, nbytes))
        return True


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    def upload(queue: Queue, memory: Any, array: Any, offset: int, blocking: bool) -> None:
        memory.bytes[offset : offset + array.nbytes] = array
        queue.uploads.append(offset)

    monkeypatch.setattr(broadcast, "_CHUNK", CHUNK)
    monkeypatch.setattr(broadcast, "staging", SimpleNamespace(upload=upload))


def placed(queues: list[Queue], array: Any) -> list[Any]:
    """What each queue's device has, all at once."""
    memories: list[Any] = [None] * len(queues)
    with Broadcast() as common:

        def place(which: int) -> None:
            memories[which] = common.place(queues[which], "b", array)  # type: ignore[arg-type]

        threads = [threading.Thread(target=place, args=(which,)) for which in range(len(queues))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return [memory.bytes[: array.nbytes] for memory in memories]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_each_ends_with_all_of_it(count: int) -> None:
    array = np.random.default_rng(new_seed("broadcast")).integers(0, 256, 40 * CHUNK + 5, np.uint8)
    queues = [Queue() for _ in range(count)]
    for found in placed(queues, array):
        np.testing.assert_array_equal(found, array)
    assert sorted(first for queue in queues for first in queue.uploads) == list(range(0, array.nbytes, CHUNK)), "each once from the host"


def test_what_one_brings_lies_side_by_side() -> None:
    """Two that are equally fast: each takes the other's part in few copies."""
    barrier = threading.Barrier(2)
    array = np.random.default_rng(new_seed("halves")).integers(0, 256, 32 * CHUNK, np.uint8)
    queues = [Queue(barrier) for _ in range(2)]
    for found in placed(queues, array):
        np.testing.assert_array_equal(found, array)
    for queue in queues:
        apart = sum(after - before != CHUNK for before, after in zip(queue.uploads, queue.uploads[1:], strict=False))
        assert apart <= 3
        assert len(queue.received) <= 8


def test_what_cannot_come_from_another_comes_from_the_host() -> None:
    array = np.random.default_rng(new_seed("failed")).integers(0, 256, 12 * CHUNK, np.uint8)
    for found in placed([Queue(fails=True), Queue(fails=True)], array):
        np.testing.assert_array_equal(found, array)
