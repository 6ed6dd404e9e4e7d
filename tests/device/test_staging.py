"""Large arrays on their way through pinned memory: every byte arrives, and the caller's array is free when it should be."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Thread

import numpy as np
import pytest

import portatile
from portatile import wavelets
from portatile.device import staging
from portatile.device.base import Device
from portatile.device.buffer import Buffer
from portatile.errors import DeviceError
from support.seeds import new_seed


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Of 4 KiB, for all arrays that have something in them, on devices too that need none."""
    staging._kept.clear()
    monkeypatch.setattr(staging, "_BLOCK", 1 << 12)
    monkeypatch.setattr(staging, "pays", lambda device, array: array.nbytes > 0)
    yield
    staging._kept.clear()


@pytest.mark.parametrize("nbytes", [1, 4095, 4096, 4097, 8192, 12289, 100_003])
def test_a_round_trip(device: Device, nbytes: int) -> None:
    array = np.random.default_rng(new_seed(str(nbytes))).integers(0, 256, nbytes, np.uint8)
    with Buffer.from_numpy(array, device) as there:
        assert np.array_equal(there.numpy(), array)
        assert np.array_equal(there[nbytes // 3 :].numpy(), array[nbytes // 3 :])


def test_an_array_may_change_once_it_is_uploaded(device: Device) -> None:
    rng = np.random.default_rng(new_seed("change"))
    first, second = rng.random((70, 301)), rng.random((70, 301))
    given = first.copy()
    with Buffer.from_numpy(given, device) as there:
        given[...] = np.nan
        assert np.array_equal(there.numpy(), first)
        there.assign(second)
        assert np.array_equal(there.numpy(), second)


def test_routines_of_host_arrays(device: Device) -> None:
    """Padded operands and a padded result, whose elements between the rows stay."""
    rng = np.random.default_rng(new_seed("routines"))
    a, b = rng.random((90, 133))[:, :120], rng.random((120, 77))
    kept = np.full((90, 80), np.nan)
    portatile.matmul(a, b, out=kept[:, :77], device=device.info.id)
    assert np.allclose(kept[:, :77], a @ b, rtol=1e-12)
    assert np.isnan(kept[:, 77:]).all()


def test_threads_take_turns(device: Device) -> None:
    rng = np.random.default_rng(new_seed("threads"))
    arrays = [rng.random(9001) for _ in range(4)]
    wrong: list[int] = []

    def trips(number: int) -> None:
        for _ in range(10):
            with Buffer.from_numpy(arrays[number], device) as there:
                if not np.array_equal(there.numpy(), arrays[number]):
                    wrong.append(number)

    threads = [Thread(target=trips, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_released_device_stages_anew(device: Device) -> None:
    array = np.random.default_rng(new_seed("release")).random(5000)
    for _ in range(2):
        with Buffer.from_numpy(array, device) as there:
            assert np.array_equal(there.numpy(), array)
        device.release()


def test_arrays_arrive_one_after_another(device: Device) -> None:
    """Several on their way at once, more than there are blocks, and by two threads that need the same ones."""
    rng = np.random.default_rng(new_seed("after"))
    arrays = [rng.random(size) for size in (3, 900, 5001, 512, 1, 700)]
    there = [Buffer.from_numpy(array, device) for array in arrays]
    found = [[np.full(array.shape, np.nan) for array in arrays] for _ in range(2)]

    def fetched(into: list[np.ndarray]) -> None:
        with device.queue() as queue, staging.Downloads(queue) as downloads:
            for array, buffer in zip(into, there, strict=True):
                downloads.add(array, buffer.memory, buffer.offset)

    device.default_queue().finish()
    threads = [Thread(target=fetched, args=(into,)) for into in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for into in found:
        for array, came in zip(arrays, into, strict=True):
            np.testing.assert_array_equal(came, array)


def test_a_failure_gives_the_blocks_back(device: Device) -> None:
    array = np.random.default_rng(new_seed("failure")).random(2000)

    def fails(there: Buffer) -> None:
        with device.queue() as queue, staging.Downloads(queue) as downloads:
            downloads.add(np.empty_like(array), there.memory)
            raise ValueError("on the way")

    with Buffer.from_numpy(array, device) as there:
        for _ in range(2 * staging._BLOCKS):
            with pytest.raises(ValueError, match="on the way"):
                fails(there)
        assert np.array_equal(there.numpy(), array)


def test_orbitals_are_fetched_by_a_thread_of_its_own(twins: tuple[Device, Device], both: list[str]) -> None:
    """Every result lies at its place; what fails in the thread is raised here."""
    psi = np.random.default_rng(new_seed("orbitals")).random((7, 16, 12, 20))
    expected = [wavelets.magicfilter3d(one, device=both[0]) for one in psi]
    np.testing.assert_allclose(wavelets.magicfilter3d(psi, device=both[1]), expected, rtol=1e-13, atol=1e-13)

    def failing(*args: object) -> None:
        raise DeviceError("the link is broken")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(staging.Downloads, "add", failing)
        with pytest.raises(DeviceError, match="the link is broken"):
            wavelets.magicfilter3d(psi, device=both[1])
    np.testing.assert_allclose(wavelets.kinetic(psi, device=both[1])[3], wavelets.kinetic(psi[3], device=both[0]), rtol=1e-12, atol=1e-12)
