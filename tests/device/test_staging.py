"""Large arrays on their way through pinned memory: every byte arrives, and the caller's array is free when it should be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Thread
from typing import Any

import numpy as np
import pytest

import portatile
from portatile import wavelets
from portatile.device import staging
from portatile.device.base import Device
from portatile.device.buffer import Buffer
from portatile.errors import DeviceError
from portatile.runtime.in_parts.broadcast import Broadcast
from portatile.wavelets import batch
from support.seeds import new_seed

pytestmark = pytest.mark.unoptimised


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Of 4 KiB, for all arrays that have something in them, on devices too that need none."""
    staging._kept.clear()
    monkeypatch.setattr(staging, "_BLOCK", 1 << 12)
    monkeypatch.setattr(staging, "worthwhile", lambda device, array: array.nbytes > 0)
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


@pytest.mark.lengthy
def test_a_released_device_stages_anew(device: Device) -> None:
    array = np.random.default_rng(new_seed("release")).random(5000)
    for _ in range(2):
        with Buffer.from_numpy(array, device) as there:
            assert np.array_equal(there.numpy(), array)
        device.release()


@pytest.mark.lengthy
def test_a_failure_gives_the_blocks_back(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """More failures than there are blocks, in the copy and before it; then everything arrives."""
    array = np.random.default_rng(new_seed("failure")).random(9000)
    with Buffer.from_numpy(array, device) as there:
        for name in ("upload", "download"):
            usual = getattr(type(device.default_queue()), name)
            calls = iter(range(10**6))

            def failing(
                queue: object, *args: object, usual: Callable[..., object] = usual, calls: Iterator[int] = calls, **rest: Any
            ) -> object:
                if next(calls) % 3 == 1:
                    raise DeviceError("the link is broken")
                return usual(queue, *args, **rest)

            with monkeypatch.context() as patched:
                patched.setattr(type(device.default_queue()), name, failing)
                for _ in range(2 * staging._BLOCKS):
                    with pytest.raises(DeviceError, match="the link is broken"):
                        there.assign(array) if name == "upload" else there.numpy()
        assert np.array_equal(there.numpy(), array)
        there.assign(array[::-1].copy())
        assert np.array_equal(there.numpy(), array[::-1])


def test_orbitals_are_moved_by_several_threads(twins: tuple[Device, Device], both: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every result lies at its place; what fails in one of them is raised here, and the others end."""
    monkeypatch.setattr(batch, "_SMALL", 0)
    monkeypatch.setattr(batch, "threads", lambda: 4)
    psi = np.random.default_rng(new_seed("orbitals")).random((7, 16, 12, 20))
    expected = [wavelets.magicfilter3d(one, device=both[0]) for one in psi]
    np.testing.assert_allclose(wavelets.magicfilter3d(psi, device=both[1]), expected, rtol=1e-13, atol=1e-13)

    def failing(*args: object, **rest: object) -> None:
        raise DeviceError("the link is broken")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(staging, "download", failing)
        with pytest.raises(DeviceError, match="the link is broken"):
            wavelets.magicfilter3d(psi, device=both[1])
    np.testing.assert_allclose(wavelets.kinetic(psi, device=both[1])[3], wavelets.kinetic(psi[3], device=both[0]), rtol=1e-12, atol=1e-12)


def test_an_operand_that_devices_share_arrives_on_each(twins: tuple[Device, Device], both: list[str]) -> None:
    """Where no driver copies between them, each takes it from the host, and what was given out lasts until the end."""
    rng = np.random.default_rng(new_seed("shared"))
    a, b = rng.random((400, 96)), rng.random((96, 130))
    for _ in range(2):
        np.testing.assert_allclose(portatile.matmul(a, b, device=both), a @ b, rtol=1e-12)
    with Broadcast() as common:
        for device in twins:
            queue = device.default_queue()
            memory = common.place(queue, "b", b)
            found = np.empty_like(b)
            staging.download(queue, found, memory)
            np.testing.assert_array_equal(found, b)
