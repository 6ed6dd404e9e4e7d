"""Several devices whose memory is full, and shared calls of several threads at once: each ends, and with the right result."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import portatile
from portatile import wavelets
from portatile.device.base import Device
from portatile.device.opencl.device import ClDevice
from portatile.errors import DeviceError
from portatile.runtime.in_parts import slab_pipeline
from portatile.runtime.several_devices import rates
from support.seeds import new_seed

pytestmark = pytest.mark.unoptimised


def drawn(seed: int, *shape: int, dtype: str = "float32") -> Any:
    return (np.random.default_rng(seed).random(shape) - 0.5).astype(dtype)


def product(seed: int, device: Any) -> Any:
    return portatile.matmul(drawn(seed, 333, 65), drawn(seed + 1, 65, 129), device=device)


def triangle(seed: int, device: Any) -> Any:
    return portatile.syrk(drawn(seed, 150, 40), device=device)


def orbitals(seed: int, device: Any) -> Any:
    return wavelets.kinetic(drawn(seed, 5, 16, 16, 16, dtype="float64"), device=device)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("spared", [0, 1, 2])
@pytest.mark.parametrize("case", [product, triangle, orbitals], ids=lambda case: case.__name__)
def test_a_device_without_memory_leaves_its_part_to_the_others(
    both: list[str], twins: tuple[Device, Device], case: Callable[[int, Any], Any], spared: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever allocation is refused: none of the pieces that it took is lost, for which the others would wait."""
    monkeypatch.setattr(rates, "of", lambda *asked, **rest: None)  # so that both are given parts
    seed = new_seed(f"{case.__name__} {spared}")
    expected, allocate = case(seed, both[0]), ClDevice.allocate
    case(seed, both)
    left = [spared]

    def full(device: ClDevice, *args: Any, **rest: Any) -> Any:
        if device is twins[1]:
            left[0] -= 1
            if left[0] < 0:
                raise DeviceError("out of memory")
        return allocate(device, *args, **rest)

    monkeypatch.setattr(ClDevice, "allocate", full)

    def until_it_is_full() -> list[Any]:
        found = [case(seed, both)]
        while left[0] >= 0 and len(found) < 20:
            found.append(case(seed, both))
        return found

    with pytest.warns(RuntimeWarning, match="opencl:9:0 failed .*out of memory"):
        found = until_it_is_full()
    np.testing.assert_allclose(found, [expected] * len(found), rtol=2e-4, atol=1e-5)


@pytest.mark.timeout(120)
def test_calls_of_two_threads_do_not_wait_for_each_other(
    both: list[str], twins: tuple[Device, Device], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has begun on one device while the other call is at work there, and neither may wait for its other half meanwhile."""
    monkeypatch.setattr(twins[0], "info", replace(twins[0].info, unified_memory=False))
    monkeypatch.setattr(rates, "of", lambda *asked, **rest: None)
    seed = new_seed("two threads")
    operands = [(drawn(seed + n, 300 + n, 40), drawn(seed + n + 2, 40, 30)) for n in range(2)]
    for a, b in operands:
        portatile.matmul(a, b, device=both)
    pipeline, all_took = slab_pipeline.pipeline, threading.Barrier(4)

    def crossed(engine: Any, task: Any, *args: Any) -> None:
        """The first call goes first on the first device, the second on the second."""
        first = threading.current_thread() not in seen
        seen.add(threading.current_thread())
        if first:
            all_took.wait(30)
            if (task.problem.sizes["m"] == len(operands[0][0])) != (engine.device is twins[0]):
                time.sleep(0.2)
        pipeline(engine, task, *args)

    seen: set[threading.Thread] = set()
    monkeypatch.setattr(slab_pipeline, "pipeline", crossed)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda one: portatile.matmul(*one, device=both), operands))
    assert len(seen) == 4
    for (a, b), result in zip(operands, found, strict=True):
        np.testing.assert_allclose(result, a @ b, rtol=2e-4, atol=1e-5)


def test_what_a_device_needs_whole_comes_to_it_once(both: list[str], twins: tuple[Device, Device], monkeypatch: pytest.MonkeyPatch) -> None:
    """However many pieces it takes, they go through one pipeline."""
    monkeypatch.setattr(rates, "of", lambda *asked, **rest: None)  # the first pieces are small
    pipeline, begun, collected = slab_pipeline.pipeline, list[Any](), list[Any]()

    def counted(engine: Any, task: Any, cut: Any, width: int, ranges: Any, told: Any) -> None:
        begun.append(engine.device)
        pipeline(engine, task, cut, width, ranges, lambda low, high, seconds: (collected.append(low), told(low, high, seconds))[1])

    monkeypatch.setattr(slab_pipeline, "pipeline", counted)
    seed = new_seed("one pipeline")
    a, b = drawn(seed, 1333, 65), drawn(seed + 1, 65, 129)
    for _ in range(20):
        begun.clear()
        collected.clear()
        np.testing.assert_allclose(portatile.matmul(a, b, device=both), a @ b, rtol=2e-4, atol=1e-5)
        assert len(begun) <= 1
        if len(collected) > 2:
            break
    assert len(collected) > 2
