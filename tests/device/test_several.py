"""One computation over several devices: right for every workload that can be cut, also where a device fails or joins late."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import portatile
from portatile import device as devices
from portatile import wavelets, workloads
from portatile.cli import main
from portatile.device.base import Device
from portatile.device.opencl.device import ClDevice
from portatile.device.opencl.queue import ClQueue
from portatile.errors import ArgumentError, DeviceError, DeviceNotFoundError
from portatile.records import Problem
from portatile.runtime import forecast, rates, several, slabs, splits, triangles
from portatile.store import ResultStore
from support.seeds import new_seed


@pytest.fixture(scope="module")
def twins() -> Iterator[tuple[Device, Device]]:
    """A CPU taken as two devices, each with a context of its own: one reaches the host's memory, to the other everything is copied."""
    first = next((one for one in devices.devices() if isinstance(one, ClDevice) and one.info.kind == "cpu"), None)
    if first is None:
        pytest.skip("no CPU through OpenCL")
    second = type(first)("opencl:9:0", first.cl_device)
    second.info = replace(second.info, unified_memory=False)
    yield first, second
    second.release()


@pytest.fixture
def both(twins: tuple[Device, Device], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Their ids, which select them."""
    every = [*devices.devices(), twins[1]]
    monkeypatch.setattr(devices, "devices", lambda: every)
    known = devices.get

    def get(selector: str | None = None) -> Device:
        return twins[1] if selector == twins[1].info.id else known(selector)

    monkeypatch.setattr(devices, "get", get)
    monkeypatch.setattr(forecast, "_quickest", lambda together, alone: "")  # however quick the small problems here are, they are shared
    monkeypatch.setattr(forecast, "_TINY", 0)
    return [one.info.id for one in twins]


def drawn(seed: int, *shape: int, dtype: str = "float32") -> Any:
    return (np.random.default_rng(seed).random(shape) - 0.5).astype(dtype)


def product(seed: int, device: Any) -> Any:
    return portatile.matmul(drawn(seed, 333, 65), drawn(seed + 1, 65, 129), device=device)


def sum_of_products(seed: int, device: Any) -> Any:
    a, b, c = drawn(seed, 70, 201, dtype="float64"), drawn(seed + 1, 70, 90, dtype="float64"), drawn(seed + 2, 201, 90, dtype="float64")
    return portatile.gemm(a, b, c, alpha=1.5, beta=-0.5, trans_a="T", out=c, device=device)


def columns(seed: int, device: Any) -> Any:
    """A column-major output."""
    out = np.empty((150, 210), np.float32, order="F")
    return portatile.matmul(drawn(seed, 150, 33), drawn(seed + 1, 33, 210), out=out, device=device)


def stack(seed: int, device: Any) -> Any:
    return portatile.matmul(drawn(seed, 9, 20, 30), drawn(seed + 1, 9, 30, 10), device=device)


def solution(seed: int, device: Any) -> Any:
    a = np.tril(drawn(seed, 60, 60, dtype="float64")) + 4 * np.eye(60)
    return portatile.trsm(a, drawn(seed + 1, 60, 300, dtype="float64"), device=device)


def symmetric(seed: int, device: Any) -> Any:
    a, b, c = drawn(seed, 60, 60), drawn(seed + 1, 200, 60), drawn(seed + 2, 200, 60)
    return portatile.symm(a, b, c, side="R", uplo="U", beta=0.5, device=device)


def triangle(seed: int, device: Any) -> Any:
    return portatile.trmm(drawn(seed, 60, 60), drawn(seed + 1, 60, 300), trans="T", device=device)


def rank_k(seed: int, device: Any) -> Any:
    """Two triangles, one of them Hermitian; what is beside them stays."""
    a, c = drawn(seed, 150, 40, dtype="float64"), drawn(seed + 1, 150, 150, dtype="float64")
    z = a[:, :20] + 1j * a[:, 20:]
    return portatile.syrk(a, c, beta=0.5, alpha=2.0, out=c, device=device) + portatile.herk(z, uplo="U", device=device)


def rank_2k(seed: int, device: Any) -> Any:
    a, b, c = (drawn(seed + n, 24, 130) for n in range(3))
    square = portatile.syr2k(a, b, trans="T", uplo="U", device=device)
    return square + portatile.her2k(a.T + 1j * c.T, b.T - 1j * a.T, alpha=0.5 - 1j, device=device)


def volume(seed: int, device: Any) -> Any:
    return portatile.convolve3d_separable(drawn(seed, 40, 36, 44), [0.25, 0.5, 0.25], lower=-1, boundary="grow", device=device)


def filtered(seed: int, device: Any) -> Any:
    return portatile.convolve1d(drawn(seed, 50, 400), [0.25, 0.5, 0.25], lower=-1, device=device)


def potential(seed: int, device: Any) -> Any:
    return portatile.coulomb_potential(drawn(seed, 40, 4), (9, 33, 31), 0.3, origin=(-5, -5, 1), device=device)


def image(seed: int, device: Any) -> Any:
    k, x = [drawn(seed + n, 60) for n in range(5)], [drawn(seed + n, 500) for n in range(3)]
    real, imaginary = portatile.mri_q(*k, *x, device=device)
    return real if seed % 2 else imaginary


def orbitals(seed: int, device: Any) -> Any:
    psi, potential = drawn(seed, 5, 16, 16, 16, dtype="float64"), drawn(seed + 1, 16, 16, 16, dtype="float64")
    applied = wavelets.apply_potential(psi, potential, device=device) + wavelets.kinetic(psi, device=device)
    return applied + wavelets.magicfilter3d(psi, device=device) + wavelets.density(psi, occupation=[2, 2, 2, 1, 1], device=device)


CASES: tuple[Callable[[int, Any], Any], ...] = (
    product,
    sum_of_products,
    columns,
    stack,
    solution,
    symmetric,
    triangle,
    volume,
    orbitals,
    filtered,
    potential,
    image,
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_result_is_that_of_one_device(both: list[str], case: Callable[[int, Any], Any]) -> None:
    seed = new_seed(case.__name__)
    expected = case(seed, both[0])
    for _ in range(2):  # the second knows how fast each device is
        found = case(seed, both)
        np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-5 * float(np.abs(expected).max()))
    assert found.dtype == expected.dtype


def applied(seed: int, device: Any) -> Any:
    """Whole orbitals of a batch."""
    psi, potential = drawn(seed, 5, 16, 16, 16, dtype="float64"), drawn(seed + 1, 16, 16, 16, dtype="float64")
    kinetic = wavelets.kinetic(wavelets.apply_potential(psi, potential, device=device), device=device)
    assert wavelets.density(kinetic, occupation=[2, 2, 2, 1, 1], device=device).shape == (16, 16, 16)
    return wavelets.magicfilter3d(kinetic, device=device)


PLACED = (product, sum_of_products, stack, triangle, symmetric, volume, filtered, applied, potential, image)


@pytest.mark.drawn(1 / 3)
@pytest.mark.parametrize("which", [(0,), (1,), (0, 1, 1)], ids=["here", "there", "both"])
@pytest.mark.parametrize("case", PLACED, ids=lambda case: case.__name__)
def test_operands_that_lie_on_devices(
    both: list[str], twins: tuple[Device, Device], case: Callable[[int, Any], Any], which: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies on a device stays there, what lies on another travels, and the result is where the output belongs."""
    seed, count = new_seed(case.__name__), iter(range(100))
    expected, usual = case(seed, both[0]), drawn

    def placed(*args: Any, **options: Any) -> Any:
        return portatile.Buffer.from_numpy(usual(*args, **options), twins[which[next(count) % len(which)]])

    monkeypatch.setitem(globals(), "drawn", placed)
    for _ in range(2):
        count = iter(range(100))
        found = case(seed, both)
        assert found.device in twins
        np.testing.assert_allclose(found.numpy(), expected, rtol=2e-4, atol=1e-5 * float(np.abs(expected).max()))


@pytest.mark.drawn(1 / 3)
@pytest.mark.unoptimised
@pytest.mark.parametrize("case", [rank_k, rank_2k], ids=lambda case: case.__name__)
def test_triangles_are_shared(both: list[str], case: Callable[[int, Any], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triangles, "PARTS", 4)
    monkeypatch.setattr(rates, "of", lambda *asked, **rest: None)
    seed = new_seed(case.__name__)
    expected, found = case(seed, both[0]), case(seed, both)
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-5 * float(np.abs(expected).max()))


def same_product(seed: int, device: Any) -> Any:
    """Exponents that differ, so that some elements are computed again natively."""
    a, b, c = drawn(seed, 90, 40) * np.exp(9 * drawn(seed + 3, 90, 40)), drawn(seed + 1, 33, 40), drawn(seed + 2, 90, 33)
    return portatile.gemm(a, b, c, beta=0.5, trans_b="T", precision="reproducible", device=device)


def same_triangle(seed: int, device: Any) -> Any:
    a, c = drawn(seed, 90, 40), drawn(seed + 1, 90, 90)
    triangle = portatile.syrk(a, c, alpha=0.3, beta=0.7, precision="reproducible", device=device)
    return triangle + portatile.syr2k(a, a[::-1].copy(), uplo="U", precision="reproducible", device=device)


def same_trapezoid(seed: int, device: Any) -> Any:
    return portatile.trmm(drawn(seed, 40, 40), drawn(seed + 1, 90, 40), side="R", trans="T", precision="reproducible", device=device)


@pytest.mark.drawn(1 / 3)
@pytest.mark.unoptimised
@pytest.mark.parametrize("case", [same_product, same_triangle, same_trapezoid], ids=lambda case: case.__name__)
def test_reproducible_results_are_the_same_bits(both: list[str], case: Callable[[int, Any], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """By one device, shared with another, and in slabs where there is little memory."""
    monkeypatch.setattr(triangles, "PARTS", 4)
    monkeypatch.setattr(rates, "of", lambda *asked, **rest: None)
    seed = new_seed(case.__name__)
    expected = case(seed, both[0]).tobytes()
    assert case(seed, both).tobytes() == expected
    if case is same_triangle:  # which is not cut for want of memory
        return
    cut, run = [], slabs.run
    monkeypatch.setattr(slabs, "run", lambda *task: (cut.append(task), run(*task)))
    for limit in (150_000, 300_000, 600_000):  # workspaces grow with the device's cores
        with contextlib.suppress(DeviceError), portatile.memory_limit(limit):
            assert case(seed, both[0]).tobytes() == expected
            break
    else:
        pytest.fail("no limit was enough")
    assert cut


def test_work_is_shared_and_told(both: list[str], twins: tuple[Device, Device], monkeypatch: pytest.MonkeyPatch) -> None:
    launch, begun = ClQueue.launch, {one: threading.Event() for one in twins}

    def slow(queue: ClQueue, *args: Any, **rest: Any) -> Any:
        begun[queue.device].set()  # type: ignore[index]
        for other in begun.values():  # so that one does not end before the other begins
            other.wait(60)
        return launch(queue, *args, **rest)

    monkeypatch.setattr(ClQueue, "launch", slow)
    monkeypatch.setattr(rates, "of", lambda *asked, **rest: None)  # what other tests showed may leave one of them nothing
    a, b = drawn(1, 2000, 64), drawn(2, 64, 96)
    portatile.matmul(a, b, device=both)
    split = splits.last(_problem(2000, 96, 64), twins)
    assert split is not None
    assert split.size == "m"
    assert sum(share.steps for share in split.shares) == 2000
    assert all(share.pieces for share in split.shares)
    assert 0 < split.efficiency <= 1.05
    assert both[1] in str(split)


def _problem(m: int, n: int, k: int) -> Problem:
    return workloads.problem("gemm", "float32", {"m": m, "n": n, "k": k})


@pytest.mark.parametrize("case", [product, sum_of_products, solution, orbitals], ids=lambda case: case.__name__)
def test_a_device_that_fails_leaves_its_part_to_the_others(
    both: list[str], twins: tuple[Device, Device], case: Callable[[int, Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rates, "of", lambda *asked, **rest: None)  # so that both are given parts
    expected, launch = case(5, both[0]), ClQueue.launch
    case(5, both)
    left = [1]

    def failing(queue: ClQueue, *args: Any, **rest: Any) -> Any:
        if queue.device is twins[1]:
            left[0] -= 1
            if left[0] < 0:
                raise DeviceError("it fell off the bus")
        else:
            time.sleep(0.01)  # so that the other takes part
        return launch(queue, *args, **rest)

    monkeypatch.setattr(ClQueue, "launch", failing)

    def until_it_fails() -> list[Any]:
        found = [case(5, both)]
        while left[0] >= 0 and len(found) < 50:
            found.append(case(5, both))
        return found

    with pytest.warns(RuntimeWarning, match="opencl:9:0 failed .*fell off the bus"):
        found = until_it_fails()
    np.testing.assert_allclose(found, [expected] * len(found), rtol=2e-4, atol=1e-6)


@pytest.mark.parametrize("error", [DeviceError, KeyboardInterrupt])
def test_operands_stay_whole_where_another_device_fails(
    both: list[str], twins: tuple[Device, Device], monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    """The device to which parts travel fails, or the user stops all: what is there afterwards is right, and the next call too."""
    monkeypatch.setattr(rates, "of", lambda *asked, **rest: None)
    a, b, c = drawn(1, 300, 40), drawn(2, 40, 30), drawn(3, 300, 30)
    there = [portatile.Buffer.from_numpy(array, twins[0]) for array in (a, b, c)]
    launch, failed = ClQueue.launch, threading.Event()

    def failing(queue: ClQueue, *args: Any, **rest: Any) -> Any:
        if queue.device is twins[1]:
            failed.set()
            raise DeviceError("it fell off the bus")
        failed.wait(60)
        return launch(queue, *args, **rest)

    if error is DeviceError:
        monkeypatch.setattr(ClQueue, "launch", failing)
        with pytest.warns(RuntimeWarning, match="opencl:9:0 failed .*fell off the bus"):
            found = portatile.gemm(*there, beta=0.5, out=there[2], device=both)
        np.testing.assert_allclose(found.numpy(), a @ b + 0.5 * c, rtol=2e-4, atol=1e-5)
    else:
        monkeypatch.setattr(threading.Thread, "join", _interrupted(threading.Thread.join))
        with pytest.raises(KeyboardInterrupt):
            portatile.gemm(*there, beta=0.5, out=there[2], device=both)
        assert not [one for one in threading.enumerate() if one.name.startswith("portatile-opencl")]
    monkeypatch.undo()
    np.testing.assert_array_equal(there[0].numpy(), a)


def _interrupted(join: Callable[..., None]) -> Callable[..., None]:
    """``Thread.join`` into whose first call Ctrl-C comes."""
    calls = iter(range(10**6))

    def joined(thread: threading.Thread, *args: Any) -> None:
        if next(calls) == 0:
            raise KeyboardInterrupt
        join(thread, *args)

    return joined


def test_all_that_fail_raise(both: list[str], twins: tuple[Device, Device], monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*args: Any, **rest: Any) -> Any:
        raise DeviceError("nobody works")

    monkeypatch.setattr(ClQueue, "launch", failing)
    with pytest.raises(DeviceError, match="nobody works"):
        product(3, both)


def test_wrong_use_says_what_to_do(both: list[str]) -> None:
    a = drawn(1, 8, 8)
    with pytest.raises(ArgumentError, match=f"named twice, as '{both[0]}': name each device once"):
        portatile.matmul(a, a, device=[both[0], both[0]])
    with pytest.raises(ArgumentError, match=f"named twice, as '{both[0]}' and as '{both[0].upper()}': name each"):
        portatile.explain("gemm", m=8, n=8, k=8, device=[both[0], both[0].upper()])
    with pytest.raises(ArgumentError, match="empty list"):
        portatile.matmul(a, a, device=[])
    with pytest.raises(DeviceNotFoundError):
        portatile.matmul(a, a, device=[both[0], "nowhere"])
    there = portatile.Buffer.from_numpy(a, devices.get(both[0]))
    with pytest.raises(ArgumentError, match=r"a is a NumPy array, b a Buffer.*move them to one"):
        portatile.matmul(a, there, device=both)
    with pytest.raises(ArgumentError, match=r"different places .*the host.*; move them to one, by Buffer.from_numpy"):
        portatile.mri_q(*[a[0]] * 5, *[portatile.Buffer.from_numpy(a[0], devices.get(both[0]))] * 3, device=both)
    with pytest.raises(ArgumentError, match=r"opencl:9:0.*name several devices: device=\[\.\.\.\]"):
        portatile.matmul(there, portatile.Buffer.from_numpy(a, devices.get(both[1])))


def test_wrong_use_of_commands_says_what_to_do(
    twins: tuple[Device, Device], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = ["gemm", "-m", "8", "-n", "8", "-k", "8"]
    for command in ("tune", "study hybrid"):
        assert main([*command.split(), *sizes, "--device", twins[0].info.id, "--device", twins[0].info.id]) == 2
        assert "named twice" in capsys.readouterr().err
    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path))
    ResultStore(tmp_path / "results.sqlite").close()
    connection = sqlite3.connect(tmp_path / "results.sqlite")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    for command in (["results"], ["doctor", "--repair"]):
        assert main(command)
        said = capsys.readouterr().err
        assert "results.sqlite" in said
        assert "a newer portatile wrote it" in said


def test_a_problem_that_is_too_small_runs_on_one(both: list[str], twins: tuple[Device, Device]) -> None:
    a, b = drawn(1, 1, 5), drawn(2, 5, 3)
    np.testing.assert_allclose(portatile.matmul(a, b, device=both), a @ b, rtol=1e-5)
    split = splits.last(_problem(1, 3, 5), twins)
    assert split is not None
    assert len(split.shares) == 1
    assert split.note


@pytest.mark.parametrize("on_device", [False, True])
def test_a_tiny_problem_settles_where_it_lies(
    both: list[str], twins: tuple[Device, Device], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, on_device: bool
) -> None:
    """After two calls by each device that may compute it, the fastest one does so without looking at the others."""
    monkeypatch.setattr(forecast, "_TINY", 1e6)
    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(several, "_shared", None)  # it is never shared
    a, b = drawn(1, 31, 17), drawn(2, 17, 29)
    given = [portatile.Buffer.from_numpy(one, twins[1]) if on_device else one for one in (a, b)]
    computing = [portatile.matmul(*given, device=both) for _ in range(4)]
    monkeypatch.setattr(several, "perform", None)
    for found in (*computing, portatile.matmul(*given, device=both)):
        np.testing.assert_allclose(found.numpy() if on_device else found, a @ b, rtol=2e-4, atol=1e-6)
    split = portatile.explain("gemm", m=31, n=29, k=17, device=both)
    assert "computes it alone, which is faster: it is too small to share" in str(split)
    assert split.shares[0].device in (both[1:] if on_device else both)


def test_what_one_device_does_sooner_is_not_shared(both: list[str], twins: tuple[Device, Device], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time alone was measured, and that of the split: both are told."""
    monkeypatch.undo()
    chosen, problem = [twins[0], twins[1]], _problem(640, 96, 48)
    monkeypatch.setattr(devices, "several", lambda selector: tuple(chosen))
    took = {"alone ": 1e-4, "with opencl": 2e-3}
    monkeypatch.setattr(
        rates, "seconds", lambda info, one, what: took[what[:11] if what[0] == "w" else "alone "] * (1 + (info is twins[0].info))
    )
    a, b = drawn(1, 640, 48), drawn(2, 48, 96)
    np.testing.assert_allclose(portatile.matmul(a, b, device=both), a @ b, rtol=2e-4, atol=1e-4)
    split = splits.last(problem, twins)
    assert split is not None
    assert [share.device for share in split.shares] == [both[1]]
    assert f"{both[1]} computes it alone, which is faster" in str(split)
    assert "shared: 4 ms (measured), opencl:9:0 alone: 100 us (measured)" in str(split)


def test_all_devices_are_each_physical_one_once() -> None:
    found = devices.several("all")
    assert len({one.info.physical_id for one in found}) == len(found)
    a, b = drawn(1, 40, 5), drawn(2, 5, 3)
    np.testing.assert_allclose(portatile.matmul(a, b, device="all"), a @ b, rtol=1e-5)


def test_hardware_that_two_back_ends_show_counts_once(
    both: list[str], twins: tuple[Device, Device], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [one.info.physical_id for one in devices.several("all")].count(twins[0].info.physical_id) == 1
    monkeypatch.setattr(twins[1], "info", replace(twins[1].info, physical_id="another"))
    assert {one.info.id for one in devices.several("all")} >= set(both)


def test_rates_are_kept_for_the_next_process(twins: tuple[Device, Device], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path))
    info, small, large = twins[0].info, _problem(8, 8, 8), _problem(800, 800, 800)
    assert rates.of(info, small, 1e3) is None
    rates.learn(info, small, 1e3, 5.0)
    rates.learn(info, large, 1e9, 70.0)
    monkeypatch.setattr(rates, "_known", {})  # as a new process
    assert rates.of(info, small, 2e3) == 5.0
    assert rates.of(info, large, 1e12) == 70.0, "of the nearest size"
    assert rates.of(twins[1].info, small, 1e3) is None, "it is reached in another way"
    (file,) = (tmp_path / "rates").iterdir()
    file.write_bytes(b"damaged")
    monkeypatch.setattr(rates, "_known", {})
    assert rates.of(info, small, 1e3) is None


def test_explain_tells_the_split(both: list[str]) -> None:
    sizes = {"m": 777, "n": 96, "k": 64}
    before = portatile.explain("gemm", device=both, **sizes)
    assert before.expected
    assert "expected" in str(before) or before.note
    portatile.matmul(drawn(1, 777, 64), drawn(2, 64, 96), device=both)
    after = portatile.explain("gemm", device=both, **sizes)
    assert not after.expected
    assert after.seconds > 0
    assert sum(share.steps for share in after.shares) == 777


def test_explain_tells_the_split_of_a_batch(both: list[str]) -> None:
    sizes = {"orbitals": 6, "n1": 8, "n2": 10, "n3": 12}
    before = portatile.explain("kinetic", dtype="float64", device=both, **sizes)
    assert before.expected
    wavelets.kinetic(np.ones(tuple(sizes.values())), device=both)
    after = portatile.explain("kinetic", dtype="float64", device=both, **sizes)
    assert not after.expected
    assert after.size == "orbitals"
    assert sum(share.steps for share in after.shares) == 6
    assert "too few orbitals" in str(portatile.explain("magicfilter3d", device=both, **{**sizes, "orbitals": 1}))
    with pytest.raises(ArgumentError, match="give n3 as whole numbers"):
        portatile.explain("density", device=both, orbitals=6, n1=8, n2=8)
    with pytest.raises(ArgumentError, match="name several devices"):
        portatile.explain("density", device=both[0], **sizes)
