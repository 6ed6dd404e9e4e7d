"""The workspace of many shapes: as much memory as the largest needs, whoever computed before, and results that do not mind."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from portatile import workloads
from portatile.device.base import Device
from portatile.device.buffer import Buffer
from portatile.records import Config, DeviceInfo, Problem, Value
from portatile.runtime.one_device.engine import Engine, Prepared
from portatile.select import Choice
from support.seeds import new_seed

pytestmark = pytest.mark.unoptimised

GEMM = workloads.get("gemm")
POINT: dict[str, Value] = {"FORM": "generic", "TR": 4, "TC": 4, "VL": 4, "TRR": 1, "TCR": 1, "TBR": 8, "TBC": 8, "KB": 8}


def config(problem: Problem, info: DeviceInfo, **wanted: Value) -> Config:
    space = GEMM.space(problem, info)
    fixed = {name: [value] for name, value in {**POINT, **wanted}.items()}
    return next(iter(space.restricted({**space.parameters, **fixed})))


class Meter:
    """The bytes, and the images, that are allocated on a device."""

    def __init__(self, device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = self.images = 0
        kind = type(device)
        for name in ("allocate", "image_of"):
            monkeypatch.setattr(kind, name, self.counted(getattr(kind, name), name == "image_of"))
        result = type(device.allocate(4))
        release = result.release

        def released(memory: Any) -> None:
            getattr(memory, "counted", lambda: None)()
            release(memory)

        monkeypatch.setattr(result, "release", released)

    def counted(self, make: Any, image: bool) -> Any:
        def wrapped(opened: Device, what: Any) -> Any:
            memory = make(opened, what)
            self.count(memory.nbytes, image)
            memory.counted = weakref.finalize(memory, self.count, -memory.nbytes, image)
            return memory

        return wrapped

    def count(self, nbytes: int, image: bool) -> None:
        self.now += nbytes
        self.images += image * (1 if nbytes > 0 else -1)


@pytest.fixture
def engine(device: Device) -> Iterator[Engine]:
    result = Engine(device)
    yield result
    result.forget()


def multiply(engine: Engine, prepared: Prepared, rng: np.random.Generator) -> None:
    """Run it on random operands; the queue is not waited for before the results are read."""
    m, n, k = (prepared.problem.sizes[name] for name in "mnk")
    a, b = rng.random((m, k), np.float32), rng.random((k, n), np.float32)
    placed = {name: Buffer.from_numpy(array, engine.device) for name, array in (("a", a), ("b", b), ("c", np.zeros((m, n), np.float32)))}
    memory = {name: buffer.memory for name, buffer in placed.items()}
    for _ in range(2):
        prepared.run(engine.device.default_queue(), memory, {"alpha": 1.0, "beta": 0.0})
    assert np.allclose(placed["c"].numpy(), a @ b, rtol=1e-4), prepared.problem.sizes


def test_the_largest_shape_says_how_much(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(new_seed("workspaces"))
    sizes = [24, 40, 8, 88, 16, 64]
    prepared = []
    for size in sizes:
        problem = GEMM.problem({"m": size, "n": size + 4, "k": 192})
        choice = Choice(config(problem, engine.device.info, SPLIT_K=2, TXC=False), "tuned", "for a test")
        prepared.append(engine.prepare(problem, choice))
    meter = Meter(engine.device, monkeypatch)
    needs = [one.executable.plan.workspace for one in prepared]
    assert min(needs) > 0
    for _ in range(2):
        for one in prepared:
            multiply(engine, one, rng)
    assert max(needs) <= meter.now <= max(needs) + 64
    engine.forget()
    assert meter.now == 0
    multiply(engine, prepared[0], rng)  # who still holds it can use it
    assert needs[0] <= meter.now <= needs[0] + 64


def test_few_images_are_kept(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    if not engine.device.info.images:
        pytest.skip("no images")
    rng = np.random.default_rng(new_seed("images"))
    prepared = []
    for size in range(16, 16 + 4 * 7, 4):
        problem = GEMM.problem({"m": size, "n": 20, "k": 32})
        prepared.append(engine.prepare(problem, Choice(config(problem, engine.device.info, SPLIT_K=1, TXC=True), "tuned", "for a test")))
    each = sum(temporary.kind == "image" for temporary in prepared[0].executable.plan.temporaries)
    assert each > 0
    meter = Meter(engine.device, monkeypatch)
    for one in [*prepared, *reversed(prepared)]:
        multiply(engine, one, rng)
    assert each <= meter.images <= 8 < each * len(prepared)


def test_queues_do_not_share(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs on two queues runs at once."""
    problem = GEMM.problem({"m": 24, "n": 24, "k": 192})
    prepared = engine.prepare(problem, Choice(config(problem, engine.device.info, SPLIT_K=2, TXC=False), "tuned", "for a test"))
    memory = {name: Buffer.from_numpy(np.zeros((24, 192), np.float32), engine.device).memory for name in "abc"}
    meter = Meter(engine.device, monkeypatch)
    needs = prepared.executable.plan.workspace
    with engine.device.queue() as one, engine.device.queue() as other:
        for queue in (one, other):
            prepared.run(queue, memory, {"alpha": 1.0, "beta": 0.0})
            queue.finish()
        assert meter.now >= 2 * needs
    del one, other, queue
    gc.collect()
    assert meter.now == 0


def test_constant_memory_is_no_larger_than_its_chunk(engine: Engine) -> None:
    """A `__constant` argument may have 64 KiB and no more, however large the block is that stood in its place."""
    large = GEMM.problem({"m": 88, "n": 92, "k": 192})
    multiply(
        engine,
        engine.prepare(large, Choice(config(large, engine.device.info, SPLIT_K=2, TXC=False), "tuned", "for a test")),
        np.random.default_rng(0),
    )
    coulomb, info = workloads.get("coulomb"), engine.device.info
    problem = coulomb.problem({"atoms": 70, "nx": 40, "ny": 3, "nz": 1})
    form: dict[str, Value] = {"WGX": 32, "WGY": 1, "SPLIT": 1, "PX": 2, "PY": 1, "VL": 1, "UNROLL": 1, "RSQRT": "rsqrt", "POLY": 0}
    form |= {"DEGREE": 3, "RESIDENT": 0, "CHUNK": -64}
    assert coulomb.space(problem, info).violated(form) is None
    prepared = engine.prepare(problem, Choice(form, "tuned", "for a test"))
    queue = engine.device.default_queue()
    memory = {name: Buffer.from_numpy(np.ones(shape, np.float32), engine.device).memory for name, shape in coulomb.shapes(problem).items()}
    prepared.run(queue, memory, dict(coulomb.scalars))
    queue.finish()
    (given,) = [memory.nbytes for name, memory in prepared.executable._workspaces[queue].items() if name == "charges"]
    assert given == 16 * 64
    engine.forget()
