"""One computation over several devices: right for every workload that can be cut, also where a device fails."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import portatile
from portatile import device, wavelets
from portatile.device.base import Device, Memory, Queue
from portatile.device.opencl.queue import ClQueue
from portatile.errors import DeviceError
from portatile.runtime.in_parts import slabs
from portatile.runtime.several_devices import rates, triangles
from portatile.workspaces import Workspaces
from support.seeds import new_seed

pytestmark = pytest.mark.unoptimised


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
        result = case(seed, both)
        np.testing.assert_allclose(result, expected, rtol=2e-4, atol=1e-5 * float(np.abs(expected).max()))
    assert result.dtype == expected.dtype


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
        result = case(seed, both)
        assert result.device in twins
        np.testing.assert_allclose(result.numpy(), expected, rtol=2e-4, atol=1e-5 * float(np.abs(expected).max()))


@pytest.mark.drawn(1 / 3)
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
            result = portatile.gemm(*there, beta=0.5, out=there[2], device=both)
        np.testing.assert_allclose(result.numpy(), a @ b + 0.5 * c, rtol=2e-4, atol=1e-5)
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


@pytest.mark.parametrize("on_device", [False, True])
def test_a_workspace_is_kept_for_the_next_call(both: list[str], on_device: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels of pieces run on the queue that lasts: to make gigabytes of memory takes as long as to compute with them."""
    lasting: list[bool] = []
    usual = Workspaces._make

    def made(self: Workspaces, temporary: Any, queue: Queue) -> Memory:
        lasting.append(queue is queue.device.default_queue())
        return usual(self, temporary, queue)

    monkeypatch.setattr(Workspaces, "_make", made)
    seed = new_seed("workspace")
    a, b = drawn(seed, 900, 300, dtype="float64"), drawn(seed + 1, 300, 500, dtype="float64")
    there = [portatile.Buffer.from_numpy(one, device.get(both[0])) for one in (a, b)] if on_device else [a, b]
    for _ in range(2):
        found = portatile.matmul(*there, device=both)
        np.testing.assert_allclose(found.numpy() if on_device else found, a @ b, rtol=1e-12, atol=1e-12)
    assert lasting or on_device
    assert all(lasting)
