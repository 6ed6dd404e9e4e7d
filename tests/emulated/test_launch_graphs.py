"""Launches that come again run as a graph: the same results for other addresses and numbers, on every stream, and after a release."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from portatile import program
from portatile.device.base import Device, Memory, Queue, Ready, ReadyLaunch
from portatile.device.cuda import graph
from portatile.device.cuda.driver import call
from portatile.device.cuda.driver import driver as cuda
from portatile.device.cuda.graph import GraphNode
from portatile.device.event import Event
from portatile.device.launches import Slot
from portatile.errors import LaunchError
from portatile.execute import Executable
from portatile.records import Arg, Launch, Plan, Source
from support.cuda_driver import EmulatedDriver

TEXT = """
kernel void put(global float *x, float value) { x[get_global_id(0)] = value; }
kernel void twice(global float *x, global float *y) { x[get_global_id(0)] = 2 * y[get_global_id(0)]; }
"""
N = 4
LAUNCHES = 5


def chain(gpu: Device) -> Ready:
    """x = value, y = 2 x, x = 2 y, y = 2 x, x = 2 y: sixteen times the value. Values are x, y and the number."""
    module = gpu.load(program.build(Source("chain.cl", TEXT), gpu.target, None))
    put, twice = module.kernel("put"), module.kernel("twice")
    sizes, x, y = ((N, 1, 1), (N, 1, 1)), Slot(0, Memory), Slot(1, Memory)
    launches = [ReadyLaunch(put, *sizes, [x, Slot(2, np.float32)])]
    launches += [ReadyLaunch(twice, *sizes, pair) for pair in ([y, x], [x, y]) * 2]
    result = gpu.ready(launches)
    assert result is not None
    return result


def run(ready: Ready, queue: Queue, place: Sequence[Memory], value: float) -> Any:
    ready.run(queue, (place[0].handle, place[1].handle, value), True)
    result = np.empty(N, np.float32)
    queue.download(result, place[0])
    return result


@pytest.fixture
def pairs(gpu: Device) -> list[list[Memory]]:
    """Memory for x and y, three times."""
    return [[gpu.allocate(4 * N) for _ in range(2)] for _ in range(3)]


def test_a_graph_runs_what_the_launches_did(gpu: Device, driver: EmulatedDriver, pairs: list[list[Memory]]) -> None:
    """Three sets of addresses by turns, each with a graph of its own after two runs."""
    ready, queue = chain(gpu), gpu.default_queue()
    graphs, launches = (driver.count(name) for name in ("graphs", "launches"))
    for turn in range(12):
        value = turn % 3 + 0.5
        np.testing.assert_array_equal(run(ready, queue, pairs[turn % 3], value), np.full(N, 16 * value, np.float32))
    assert driver.count("launches") - launches == 3 * 2 * LAUNCHES, "the first runs alone"
    assert driver.count("graphs") - graphs == 3 * 2
    assert [name for name, *_ in driver.log[-LAUNCHES:]] == ["put", *["twice"] * 4]


def test_a_single_launch_becomes_a_graph_too(gpu: Device, driver: EmulatedDriver, pairs: list[list[Memory]]) -> None:
    module, queue = gpu.load(program.build(Source("chain.cl", TEXT), gpu.target, None)), gpu.default_queue()
    ready = gpu.ready([ReadyLaunch(module.kernel("put"), (N, 1, 1), (N, 1, 1), [Slot(0, Memory), Slot(1, np.float32)])])
    assert ready is not None
    graphs, result = driver.count("graphs"), np.empty(N, np.float32)
    for turn in range(8):
        place, value = pairs[turn % 2][0], turn % 2 + 0.5
        ready.run(queue, (place.handle, value), True)
        queue.download(result, place)
        np.testing.assert_array_equal(result, np.full(N, value, np.float32))
    assert driver.count("graphs") - graphs == 4


def test_runs_of_an_executable_are_launches(gpu: Device, driver: EmulatedDriver, pairs: list[list[Memory]]) -> None:
    """One by one with their arguments packed from the third run on, never a graph; with other memory, numbers and queues."""
    (x, y), (other, _), _ = pairs
    args = (Arg("x", "buffer", "out"), Arg("value", "scalar", "in", dtype="float32"))
    plan = Plan((Launch(Source("chain.cl", TEXT), "put", (N, 1, 1), (N, 1, 1), args),), ())
    timed, graphs, result = gpu.queue(profiling=True), driver.count("graphs"), np.empty(N, np.float32)
    with Executable(gpu, plan, lambda source: program.build(source, gpu.target, None)) as executable:
        for turn in range(9):
            memory, value, launches = (x, y, other)[turn % 3], 0.5 + turn // 2, driver.count("launches")
            executable.run(gpu.default_queue(), {"x": memory}, {"value": value})
            gpu.default_queue().download(result, memory)
            np.testing.assert_array_equal(result, np.full(N, value, np.float32))
            assert driver.count("launches") - launches == 1
        events: list[Event] = []
        executable.run(timed, {"x": x}, {"value": 7.0}, events)
        executable.run(timed, {"x": x}, {"value": 8.0})
        timed.download(result, x)
        np.testing.assert_array_equal(result, np.full(N, 8, np.float32))
        assert len(events) == 1
        executable.run(gpu.default_queue(), {"x": x}, {"value": float("inf")})
        gpu.default_queue().download(result, x)
        assert np.isinf(result).all()
        other.release()
        with pytest.raises(LaunchError, match="released"):
            executable.run(gpu.default_queue(), {"x": other}, {"value": 1.0})
    assert driver.count("graphs") == graphs
    timed.release()


def test_graphs_that_come_by_turns_stay(
    gpu: Device, driver: EmulatedDriver, pairs: list[list[Memory]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where more sets of values come by turns than there may be graphs, some run as graphs each time; others make way for what is new."""
    ready, queue = chain(gpu), gpu.default_queue()
    monkeypatch.setattr(graph, "_MOST", 4)

    def turns(values: Sequence[float], count: int) -> list[int]:
        replayed = []
        for _ in range(count):
            before = driver.count("graphs")
            for value in values:
                np.testing.assert_array_equal(run(ready, queue, pairs[0], value), np.full(N, 16 * value, np.float32))
            replayed.append(driver.count("graphs") - before)
        return replayed

    assert turns((1.0, 2.0, 3.0, 4.0, 5.0, 6.0), 8)[3:] == [4] * 5
    assert turns((7.0, 8.0), 8)[-2:] == [2, 2]
    assert len(gpu.graphs) == 4  # type: ignore[attr-defined]


def test_values_that_always_change_go_one_by_one(gpu: Device, driver: EmulatedDriver, pairs: list[list[Memory]]) -> None:
    ready, queue = chain(gpu), gpu.default_queue()
    graphs = driver.count("graphs")
    for value in range(1, 40):
        np.testing.assert_array_equal(run(ready, queue, pairs[value % 3], float(value)), np.full(N, 16 * value, np.float32))
    assert driver.count("graphs") == graphs


def test_zeros_of_both_signs(gpu: Device, pairs: list[list[Memory]]) -> None:
    ready, queue = chain(gpu), gpu.default_queue()
    for value in (0.0, -0.0) * 5:
        assert struct.pack("f", run(ready, queue, pairs[0], value)[0]) == struct.pack("f", value)


def test_queues_have_graphs_of_their_own(gpu: Device, driver: EmulatedDriver, pairs: list[list[Memory]]) -> None:
    ready = chain(gpu)
    queues = [gpu.queue() for _ in range(6)]  # more than are kept
    for turn in range(5):
        for at, queue in enumerate(queues[: 2 if turn < 4 else 6]):
            before = driver.count("graphs")
            np.testing.assert_array_equal(run(ready, queue, pairs[at % 3], 1.0 + at), np.full(N, 16 + 16 * at, np.float32))
            assert driver.count("graphs") - before == (turn >= 2 and at < 2)
    for queue in queues:
        queue.release()


def test_an_interrupt_while_a_graph_is_made(gpu: Device, pairs: list[list[Memory]], monkeypatch: pytest.MonkeyPatch) -> None:
    ready, queue = chain(gpu), gpu.default_queue()
    for value in (1.0, 2.0, 3.0, 4.0) * 3:
        run(ready, queue, pairs[0], value)
    described, seen = GraphNode.described, []

    def interrupted(self: GraphNode) -> Any:
        seen.append(self)
        if len(seen) == 3:
            raise KeyboardInterrupt
        return described(self)

    monkeypatch.setattr(GraphNode, "described", interrupted)
    for _ in range(2):
        run(ready, queue, pairs[1], 5.0)
    with pytest.raises(KeyboardInterrupt):
        run(ready, queue, pairs[1], 5.0)
    for place, value in ((0, 1.0), (1, 5.0), (0, 2.0), (0, 3.0), (0, 4.0)) * 4:
        np.testing.assert_array_equal(run(ready, queue, pairs[place], value), np.full(N, 16 * value, np.float32))


def test_a_driver_that_makes_no_graph(
    gpu: Device, driver: EmulatedDriver, pairs: list[list[Memory]], monkeypatch: pytest.MonkeyPatch
) -> None:
    ready, queue = chain(gpu), gpu.default_queue()
    monkeypatch.setattr(cuda, "cuGraphCreate", lambda flags: (cuda.CUresult.CUDA_ERROR_NOT_SUPPORTED, None))
    before = driver.count("graphs")
    for value in (1, 1, 1, 2, 2, 2):
        np.testing.assert_array_equal(run(ready, queue, pairs[0], float(value)), np.full(N, 16 * value, np.float32))
    assert driver.count("graphs") == before


def test_a_capture_gets_the_launches_themselves(gpu: Device, driver: EmulatedDriver, pairs: list[list[Memory]]) -> None:
    ready = chain(gpu)
    with gpu.current():  # type: ignore[attr-defined]
        stream = call(cuda.cuStreamCreate, 1)
        queue = gpu.foreign_queue(int(stream))
        for _ in range(4):
            run(ready, queue, pairs[0], 1.0)
        call(cuda.cuStreamBeginCapture, stream, cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL)
        ready.run(queue, (pairs[1][0].handle, pairs[1][1].handle, 3.0), False)
        captured = call(cuda.cuStreamEndCapture, stream)
        executable = call(cuda.cuGraphInstantiate, captured, 0)
        np.testing.assert_array_equal(run(ready, queue, pairs[0], 2.0), np.full(N, 32, np.float32))
        call(cuda.cuGraphLaunch, executable, stream)
        result = np.empty(N, np.float32)
        queue.download(result, pairs[1][0])
    np.testing.assert_array_equal(result, np.full(N, 48, np.float32))


def test_another_context_of_the_thread_is_put_back(gpu: Device, pairs: list[list[Memory]]) -> None:
    ready, queue = chain(gpu), gpu.default_queue()
    nobody = cuda.CUcontext(0)
    for value in (1, 1, 1, 2, 1):
        cuda.cuCtxSetCurrent(nobody)
        np.testing.assert_array_equal(run(ready, queue, pairs[0], float(value)), np.full(N, 16 * value, np.float32))
        assert int(cuda.cuCtxGetCurrent()[1]) in (0, gpu.context[1])  # type: ignore[attr-defined]


def test_graphs_make_way_for_others_and_go_with_the_device(gpu: Device, pairs: list[list[Memory]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph, "_MOST", 2)
    several, queue = [chain(gpu) for _ in range(4)], gpu.default_queue()
    for _ in range(5):
        for at, ready in enumerate(several):
            value = 1.0 + at
            np.testing.assert_array_equal(run(ready, queue, pairs[0], value), np.full(N, 16 * value, np.float32))
    alive = [found for reference in gpu.graphs if (found := reference()) is not None and found.executable]  # type: ignore[attr-defined]
    assert len(alive) == 2
    gpu.release()
    del several, alive, ready
    place = [gpu.allocate(4 * N) for _ in range(2)]
    ready = chain(gpu)
    for _ in range(4):
        np.testing.assert_array_equal(run(ready, gpu.default_queue(), place, 1.0), np.full(N, 16, np.float32))


def test_a_launch_that_fails_says_which(gpu: Device, pairs: list[list[Memory]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "cuLaunchKernel", lambda *args: (cuda.CUresult.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,))
    ready, queue = chain(gpu), gpu.default_queue()
    with pytest.raises(LaunchError, match="kernel 'put'"):
        run(ready, queue, pairs[0], 1.0)


def test_launches_of_images_are_told_one_by_one(gpu: Device, driver: EmulatedDriver) -> None:
    """However often they come: an image is no address."""
    text = "kernel void copy(read_only image2d_t from, global float4 *to) { to[get_global_id(0)] = (float4)(get_image_width(from)); }"
    source, args = Source("copy.cl", text), (Arg("from"), Arg("to", "buffer", "out"))
    plan = Plan((Launch(source, "copy", (N, 1, 1), (N, 1, 1), args),), ())
    queue, given = gpu.default_queue(), {"from": gpu.image(8, 8, 4, "float32"), "to": gpu.allocate(16 * N)}
    queue.finish()
    driver.runs = False
    try:
        with Executable(gpu, plan, lambda source: program.build(source, gpu.target, None)) as executable:
            driver.log.clear()
            for _ in range(6):
                executable.run(queue, given, {})
    finally:
        driver.runs = True
    assert [name for name, *_ in driver.log] == ["copy"] * 6
    assert len({arguments for *_, arguments in driver.log}) == 1


def test_structures_by_value_are_the_same_in_every_repeated_run(gpu: Device) -> None:
    text = "typedef struct { int add; float factor; } two_t;\n"
    text += "kernel void put(two_t t, global float *to, float x) { to[get_global_id(0)] = t.factor * x + t.add; }"
    given = np.array([(3, 2.0)], [("add", "i4"), ("factor", "f4")])
    args = (
        Arg("t", "scalar", dtype=f"V{given.itemsize}", value=given.tobytes().hex()),
        Arg("to", "buffer", "out"),
        Arg("x", "scalar", dtype="float32"),
    )
    plan, memory = Plan((Launch(Source("put.cl", text), "put", (N, 1, 1), (N, 1, 1), args),), ()), gpu.allocate(4 * N)
    queue, back = gpu.default_queue(), np.empty(N, np.float32)
    with Executable(gpu, plan, lambda source: program.build(source, gpu.target, None)) as executable:
        for x in range(6):
            executable.run(queue, {"to": memory}, {"x": float(x)})
            queue.download(back, memory)
            np.testing.assert_array_equal(back, np.full(N, 2 * x + 3, np.float32))
