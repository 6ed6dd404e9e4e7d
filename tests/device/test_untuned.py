"""An untuned product is timed in a few configurations when it comes again, and the fastest is kept for later calls and processes."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import portatile
from portatile import cache, workloads
from portatile.device.base import Device
from portatile.device.buffer import Buffer
from portatile.errors import DeviceError
from portatile.records import Config
from portatile.runtime.one_device.engine import Engine
from portatile.select import Choice
from portatile.workloads.gemm import Gemm
from support.seeds import new_seed

pytestmark = pytest.mark.unoptimised

GEMM = workloads.get("gemm")
PROBLEM = GEMM.problem({"m": 63, "n": 46, "k": 57})
UNTUNED = "portatile.runtime.one_device.untuned"


@pytest.fixture(autouse=True)
def contenders(device: Device, own_directories: None, monkeypatch: pytest.MonkeyPatch) -> list[Config]:
    """What is timed beside the default, on processors too."""
    monkeypatch.setenv("PORTATILE_TIME_UNTUNED", "on")
    monkeypatch.setattr(f"{UNTUNED}._KINDS", ("cpu", "gpu"))
    monkeypatch.setattr("portatile.runtime.one_device.engine._engines", {})  # those of earlier tests have their caches
    monkeypatch.setattr("portatile.runtime.perform._remembered", {})
    found = [GEMM.preset(name, PROBLEM) for name in ("medium", "magma-plain")]
    monkeypatch.setattr(Gemm, "contenders", lambda self, problem, device: found)
    if device.info.kind == "cpu":  # what keeps a GPU's clocks high takes a processor longer than the test
        monkeypatch.setattr(f"{UNTUNED}._AHEAD", 1 << 12)
    return found


def timed(monkeypatch: pytest.MonkeyPatch, *seconds: float) -> list[int]:
    """Let bursts take so long, by the place of what runs; each call is noted."""
    places: list[int] = []
    order: dict[object, int] = {}

    def burst(queue: object, clock: object, run: object, runs: int) -> float:
        places.append(order.setdefault(run, len(order)) % len(seconds))
        run()  # type: ignore[operator]
        return seconds[places[-1]]

    monkeypatch.setattr(f"{UNTUNED}.back_to_back", burst)
    return places


def test_the_fastest_runs_and_is_kept(device: Device, contenders: list[Config], monkeypatch: pytest.MonkeyPatch) -> None:
    places = timed(monkeypatch, 3e-4, 1e-4, 2e-4)
    engine = Engine(device)
    assert engine.choose(PROBLEM).reason == "default"  # to ask is not to compute
    first = engine.prepare(PROBLEM)
    assert (first.choice.reason, first.waits, places) == ("default", True, [])  # it may never come again
    prepared = engine.prepare_again(PROBLEM)
    assert (prepared.choice.reason, prepared.waits) == ("timed", False)
    assert engine.prepare(PROBLEM) is prepared
    assert prepared.choice.config == contenders[0]
    assert "the fastest of 3" in prepared.choice.explanation
    assert "where default takes 300 us" in prepared.choice.explanation
    assert sorted(set(places)) == [0, 1, 2]
    places.clear()
    assert engine.choose(PROBLEM) == prepared.choice
    assert Engine(device).prepare_again(PROBLEM).choice == prepared.choice  # as in the next process
    assert places == []
    result = cache.default()
    for _, _, path in result.entries():
        path.write_bytes(path.read_bytes()[:-1])
    assert Engine(device).prepare_again(PROBLEM).choice == prepared.choice
    assert places != [], "a damaged entry is no entry"


@pytest.mark.parametrize(("seconds", "name"), [((1e-4, 1.2e-4, 1e-3), "slower"), ((1e-4, 0.99e-4, 1e-3), "by noise alone")])
def test_the_default_stays(seconds: tuple[float, ...], name: str, device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    timed(monkeypatch, *seconds)
    choice = Engine(device).prepare_again(PROBLEM).choice
    assert (choice.reason, choice.config) == ("default", GEMM.default(PROBLEM, device.info)), name


def test_nothing_is_timed(device: Device, contenders: list[Config], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the user turns it off, where nothing else may be faster, of large problems, of those without elements, with little memory."""
    places = timed(monkeypatch, 3e-4, 1e-4, 2e-4)
    monkeypatch.setenv("PORTATILE_TIME_UNTUNED", "off")
    Engine(device).prepare_again(PROBLEM)
    monkeypatch.setenv("PORTATILE_TIME_UNTUNED", "on")
    with portatile.memory_limit("20K"):
        Engine(device).prepare_again(PROBLEM)
    Engine(device).prepare_again(GEMM.problem({"m": 5, "n": 0, "k": 3}))
    Engine(device).choose(GEMM.problem({"m": 1 << 14, "n": 1 << 14, "k": 1 << 14}))
    tuned = Choice(GEMM.default(PROBLEM, device.info), "tuned", "")
    monkeypatch.setattr(Engine, "_chosen", lambda self, problem: tuned)
    assert Engine(device).prepare_again(PROBLEM).choice is tuned
    monkeypatch.undo()
    assert places == []


def test_what_fails_is_left_out(device: Device, contenders: list[Config], monkeypatch: pytest.MonkeyPatch) -> None:
    timed(monkeypatch, 3e-4, 2e-4)
    build = Engine._build
    refused = next(step.source for step in GEMM.plan(PROBLEM, contenders[0], device.info).steps)  # type: ignore[union-attr]

    def refuse(self: Engine, source: object) -> object:
        if source == refused:
            raise DeviceError("refused")
        return build(self, source)  # type: ignore[arg-type]

    monkeypatch.setattr(Engine, "_build", refuse)
    choice = Engine(device).prepare_again(PROBLEM).choice
    assert choice.config == contenders[1]


def test_without_memory_for_a_second_set_the_default_runs(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: object, *given: object) -> None:
        raise DeviceError("out of memory")

    monkeypatch.setattr(f"{UNTUNED}.Untuned._filled", refuse)
    assert Engine(device).prepare_again(PROBLEM).choice.reason == "default"


def test_the_second_call_times(device: Device, contenders: list[Config], monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the first, and not those that are repeated after it."""
    places = timed(monkeypatch, 3e-4, 1e-4, 2e-4)
    rng = np.random.default_rng(new_seed("second call"))
    a, b = (rng.standard_normal((31 + place, 32 + place)).astype(np.float32) for place in (0, 1))
    runs, given = [], [Buffer.from_numpy(array, device) for array in (a, b)]  # of one alignment, as NumPy's arrays are not
    for _ in range(4):
        product = portatile.matmul(*given)
        np.testing.assert_allclose(product.numpy(), a.astype(np.float64) @ b, atol=1e-4)
        runs.append(len(places))
    assert runs[0] == 0 < runs[1] == runs[2] == runs[3]
    assert portatile.explain("gemm", m=31, n=33, k=32, device=device.info.id).config == contenders[0]


def test_calls_are_right(device: Device) -> None:
    """By the device's own clock, with whatever wins, from two threads at once; operands and what is added stay as they are."""
    rng = np.random.default_rng(new_seed("timed"))
    a, b, c = (rng.standard_normal(shape).astype(np.float32) for shape in ((63, 57), (57, 46), (63, 46)))
    kept = [array.copy() for array in (a, b, c)]
    results: list[np.ndarray] = []

    def call() -> None:
        results.append(portatile.gemm(a, b, c, alpha=2.0, beta=-1.0, device=device.info.id))

    threads = [threading.Thread(target=call) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = 2.0 * a.astype(np.float64) @ b - c
    assert len(results) == 2
    for found in results:
        np.testing.assert_allclose(found, expected, atol=1e-4)
    for array, before in zip((a, b, c), kept, strict=True):
        np.testing.assert_array_equal(array, before)
