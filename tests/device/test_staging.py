"""Large arrays on their way through pinned memory: every byte arrives, and the caller's array is free when it should be."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Thread

import numpy as np
import pytest

import portatile
from portatile.device import staging
from portatile.device.base import Device
from portatile.device.buffer import Buffer
from support.seeds import new_seed


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Of 4 KiB, for all arrays that have something in them, on devices too that need none."""
    staging._kept.clear()
    monkeypatch.setattr(staging, "_BLOCK", 1 << 12)
    monkeypatch.setattr(staging, "_pays", lambda device, array: array.nbytes > 0)
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
