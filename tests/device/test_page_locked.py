"""Host arrays that are locked because they come again: every byte arrives, and pages are free before their array is."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import portatile
from portatile import wavelets
from portatile.device import page_locked, staging
from portatile.device.base import Device
from portatile.device.buffer import Buffer
from portatile.device.copies import address
from portatile.device.page_locked import PageLocked, locked
from portatile.errors import DeviceError, UsageError
from portatile.runtime import perform
from portatile.runtime.in_parts import slabs
from portatile.wavelets import batch, flow
from portatile.wavelets.flow import DevicePipeline
from support.seeds import new_seed

pytestmark = pytest.mark.unoptimised


class _Lock:
    """A lock of nothing, which says what is locked."""

    every: set[int] = set()

    def __init__(self, array: NDArray[Any]) -> None:
        self._start = address(array)
        self.every.add(self._start)

    @property
    def alive(self) -> bool:
        return self._start in self.every

    def wait(self) -> None: ...

    def release(self) -> None:
        self.every.discard(self._start)


@pytest.fixture
def locks(device: Device, monkeypatch: pytest.MonkeyPatch) -> Iterator[set[int]]:
    """Where what is locked begins; devices that lock no pages seem to. Small arrays are locked too, through staging, the second time."""
    _Lock.every.clear()
    locked.forget()
    monkeypatch.setattr(page_locked, "_LEAST", 1)
    monkeypatch.setattr(page_locked, "_OFTEN", 1)
    monkeypatch.setattr(page_locked, "_DROPPED", 1)
    monkeypatch.setattr(staging, "_NOTED", 1)
    monkeypatch.setattr(staging, "worthwhile", lambda one, array: array.nbytes > 0)
    if not device.locks_pages:
        monkeypatch.setattr(type(device), "locks_pages", True)
        monkeypatch.setattr(type(device), "lock", lambda self, array: _Lock(array))
    yield _Lock.every
    locked.forget()


def test_an_array_that_comes_again_is_locked(device: Device, locks: set[int]) -> None:
    rng = np.random.default_rng(new_seed("again"))
    array = rng.random((70, 301))
    for turn in range(4):
        array[...] = rng.random(array.shape)
        with Buffer.from_numpy(array, device) as there:
            assert np.array_equal(there.numpy(), array)
        assert locked.holds(array) == (turn > 0)
        assert locked.holds(array[3:9]) == (turn > 0)
        assert not locked.holds(array[:, 3:9])


def test_an_array_is_unlocked_before_it_is_gone(device: Device, locks: set[int]) -> None:
    array = np.random.default_rng(new_seed("gone")).random(5000)
    for _ in range(2):
        Buffer.from_numpy(array[:2000], device).release()
    assert not locked.holds(array)
    Buffer.from_numpy(array, device).release()
    assert locked.holds(array)
    before = locked._nbytes
    assert before == array.nbytes
    del array
    gc.collect()
    assert not locked._blocks
    assert not locked._seen
    assert locked._nbytes == 0
    assert not locks


def test_what_the_caller_does_not_own_stays_unlocked(device: Device, locks: set[int]) -> None:
    array = np.frombuffer(bytearray(8000), np.float64)
    for _ in range(3):
        Buffer.from_numpy(array, device).release()
    assert not locked.holds(array)


def test_results_take_over_each_other_s_memory(device: Device, locks: set[int]) -> None:
    """Of those that are kept each has its own."""
    rng = np.random.default_rng(new_seed("results"))
    a, b = rng.random((90, 120)), rng.random((120, 77))
    expected = a @ b
    kept = []
    with Buffer.from_numpy(a, device) as there:
        for turn in range(8):
            found = there.numpy()
            assert np.array_equal(found, a)
            found[...] = np.nan
            if turn % 3 == 2:
                kept.append(found)
                found[...] = turn
            del found
    assert [set(one.ravel()) for one in kept] == [{2.0}, {5.0}]
    for _ in range(6):
        np.testing.assert_allclose(portatile.matmul(a, b, device=device.info.id), expected, rtol=1e-12)


def test_memory_that_no_result_takes_is_given_back(device: Device, locks: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while, and where results are of many sizes."""
    rng = np.random.default_rng(new_seed("idle"))
    arrays = [rng.random(1000 * size) for size in range(1, 6)]

    def kept() -> int:
        return sum(len(results.free) for results in locked._results.values())

    def fetched(array: NDArray[Any]) -> None:
        with Buffer.from_numpy(array, device) as there:
            for _ in range(4):
                assert np.array_equal(there.numpy(), array)

    fetched(arrays[0])
    assert kept() == 1
    monkeypatch.setattr(page_locked, "_IDLE", -1.0)
    fetched(arrays[1])
    assert not locked._results[arrays[0].nbytes].free
    monkeypatch.setattr(page_locked, "_IDLE", 60.0)
    monkeypatch.setattr(page_locked, "_SIZES", 3)
    for array in arrays:
        fetched(array)
    assert len(locked._results) == 3
    assert kept() == 3


def test_a_released_device_locks_anew(device: Device, locks: set[int]) -> None:
    array = np.random.default_rng(new_seed("release")).random(5000)
    for _ in range(2):
        for _ in range(3):
            with Buffer.from_numpy(array, device) as there:
                assert np.array_equal(there.numpy(), array)
        device.release()


def test_no_more_is_locked_than_may_be(device: Device, locks: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTATILE_PAGE_LOCKED", "50000")
    rng = np.random.default_rng(new_seed("limit"))
    arrays = [rng.random(2500) for _ in range(4)]
    for _ in range(3):
        for array in arrays:
            with Buffer.from_numpy(array, device) as there:
                assert np.array_equal(there.numpy(), array)
    assert sum(map(locked.holds, arrays)) in (1, 2)
    assert locked._nbytes <= 50000


def test_routines_of_locked_arrays(both: list[str], device: Device, locks: set[int]) -> None:
    """Alone and shared, and orbitals; outputs are poisoned."""
    rng = np.random.default_rng(new_seed("routines"))
    a, b = rng.random((400, 96)), rng.random((96, 130))
    psi = rng.random((9, 16, 12, 20))
    filtered = [wavelets.magicfilter3d(one, device=both[0]) for one in psi]
    for _ in range(4):
        for on in (device.info.id, both):
            out = np.full((400, 130), np.nan)
            np.testing.assert_allclose(portatile.matmul(a, b, out=out, device=on), a @ b, rtol=1e-12)
            np.testing.assert_allclose(portatile.matmul(a, b, device=on), a @ b, rtol=1e-12)
            np.testing.assert_allclose(wavelets.magicfilter3d(psi, device=on), filtered, rtol=1e-13, atol=1e-13)


def test_large_products_cross_in_slabs(twins: tuple[Device, Device], both: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Staged, and locked where ranges are narrow at both ends; the bits are those of the whole."""
    rng = np.random.default_rng(new_seed("slabs"))
    a, b = rng.random((1500, 70)), rng.random((70, 90))
    expected = portatile.matmul(a, b, device=both[1])
    monkeypatch.setattr(type(twins[1]), "locks_pages", True)
    monkeypatch.setattr(slabs, "BESIDE", 1)
    monkeypatch.setattr(slabs, "_CROSSING", 1)
    widths: list[list[int]] = []
    pipeline = slabs.pipeline

    def counted(engine: Any, task: Any, cut: Any, width: int, ranges: Any) -> None:
        every = list(ranges)
        widths.append([high - low for low, high in every])
        pipeline(engine, task, cut, width, every)

    monkeypatch.setattr(slabs, "pipeline", counted)
    out = np.full(expected.shape, np.nan)
    try:
        for turn in range(2):
            perform.forget()
            out[...] = np.nan
            assert np.array_equal(portatile.matmul(a, b, out=out, device=both[1]), expected)
            assert sum(widths[-1]) == 1500
            assert (widths[-1][0] < max(widths[-1])) == (turn > 0)
            for array in (a, out):
                page_locked.locked._locked(_Locks(twins[1]), array)  # type: ignore[arg-type]
    finally:
        locked.forget()


class _Locks:
    """A device that seems to lock pages."""

    def __init__(self, device: Device) -> None:
        self.info = device.info

    def lock(self, array: NDArray[Any]) -> _Lock:
        return _Lock(array)


@pytest.mark.parametrize("boundary", ["periodic", "grow"])
def test_locked_orbitals_flow(twins: tuple[Device, Device], both: list[str], boundary: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some at a time, through memory that is used again; results that are dropped on the way, too; what fails is raised."""
    monkeypatch.setattr(page_locked, "_LEAST", 1)
    monkeypatch.setattr(type(twins[1]), "locks_pages", True)
    monkeypatch.setattr(type(twins[1]), "lock", lambda self, array: _Lock(array))
    monkeypatch.setattr(flow, "_LANES", 2)
    monkeypatch.setattr(flow, "_SHARE", twins[1].info.global_memory // 100_000)
    rng = np.random.default_rng(new_seed(boundary))
    psi, v = rng.random((13, 12, 10, 14)), rng.random((12, 10, 14))
    monkeypatch.setattr(batch, "_TOGETHER", 2 * psi[0].nbytes)
    begun: list[int] = []
    through = DevicePipeline.through
    monkeypatch.setattr(
        DevicePipeline, "through", lambda self, orbitals, *rest: (begun.append(len(orbitals)), through(self, orbitals, *rest))[1]
    )
    expected = [wavelets.magicfilter3d(one, boundary=boundary, device=both[0]) for one in psi]
    locked._locked(twins[1], psi)
    try:
        for on in (both[1], both):
            begun.clear()
            np.testing.assert_allclose(wavelets.magicfilter3d(psi, boundary=boundary, device=on), expected, rtol=1e-13, atol=1e-13)
            assert begun or on is both, "of two, one may be so late that the other has computed all"
        if boundary == "periodic":
            applied = [wavelets.apply_potential(one, v, device=both[0]) for one in psi]
            np.testing.assert_allclose(wavelets.apply_potential(psi, v, device=both), applied, rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(wavelets.kinetic(psi, device=both[1])[7], wavelets.kinetic(psi[7], device=both[0]), rtol=1e-12)

        def failing(*args: object, **rest: object) -> None:
            raise DeviceError("the link is broken")

        with monkeypatch.context() as patched:
            patched.setattr(DevicePipeline, "_lane", failing)
            with pytest.raises(DeviceError, match="the link is broken"):
                wavelets.magicfilter3d(psi, device=both[1])
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", ".*the link is broken", RuntimeWarning)  # if it came to a piece
                np.testing.assert_allclose(wavelets.magicfilter3d(psi, boundary=boundary, device=both), expected, rtol=1e-13, atol=1e-13)
    finally:
        locked.forget()


def test_threads_may_lock_at_once(device: Device, locks: set[int]) -> None:
    from concurrent.futures import ThreadPoolExecutor

    rng = np.random.default_rng(new_seed("threads"))
    arrays = [rng.random(1000) for _ in range(3)]

    def trip(number: int) -> bool:
        with Buffer.from_numpy(arrays[number % 3], device) as there:
            return np.array_equal(there.numpy(), arrays[number % 3])

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(trip, range(60)))


def test_an_eighth_of_the_memory_may_be_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the container's, where that is less."""
    monkeypatch.delenv("PORTATILE_PAGE_LOCKED", raising=False)
    container = tmp_path / "memory.max"
    monkeypatch.setattr(page_locked, "_CONTAINER", container)
    found = []
    for text in (None, "max\n", "8000000\n"):
        if text is not None:
            container.write_text(text)
        page_locked._memory.cache_clear()
        found.append(page_locked.limit())
    page_locked._memory.cache_clear()
    assert found[0] == found[1] > found[2] == 1_000_000
    monkeypatch.setenv("PORTATILE_PAGE_LOCKED", "0")
    assert page_locked.limit() == 0
    monkeypatch.setenv("PORTATILE_PAGE_LOCKED", "2M")
    assert page_locked.limit() == 2 << 20
    monkeypatch.setenv("PORTATILE_PAGE_LOCKED", "much")
    with pytest.raises(UsageError, match="PORTATILE_PAGE_LOCKED"):
        page_locked.limit()


def test_small_results_are_not_watched() -> None:
    assert PageLocked().empty((3, 4), np.float32).shape == (3, 4)
