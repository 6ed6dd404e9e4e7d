"""The devices that the tests run on: every one found, and a reason where there is no GPU; and a few kernels loaded there."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from portatile import device as devices
from portatile import processes, program
from portatile.device import findings
from portatile.device.base import Device, Queue
from portatile.device.module import Module
from portatile.device.opencl.device import ClDevice
from portatile.records import Binary, Source
from portatile.runtime.host import numpy_products
from portatile.runtime.several_devices import forecast, tries
from portatile.runtime.several_devices.pieces import Pieces
from portatile.tuning.final import ranking
from portatile.tuning.search.spending import Spending
from portatile.wavelets import over_devices
from support import forked, order, seeds
from support.unoptimised import optimiser

__all__ = ["optimiser"]  # of every test of this folder

_KERNELS = Path(__file__).with_name("kernels.cl").read_text()
_UNHURRIED = 60.0  # seconds for a final comparison, which ends with its last round however many are left
_CONNECTIONS = "CUDA_DEVICE_MAX_CONNECTIONS"  # of a process to a GPU; one is opened in a third of the time that the usual eight take
_FEW = 4  # processes; more may wait for each other at the end of a run, which is then put in another order
_LEAST_CORES = 4  # of a process that shares the machine with others: enough for tuning to compile variants side by side
_FEWER_CORES = 3  # where there are more processes than cores: enough for one that compiles ahead


def _take_share() -> None:
    """Under pytest-xdist keep to a few cores of the machine, for a tuner starts as many workers as it may use cores.

    And to a data directory of its own: searches at the same time find each other there, and say so. And to one of the GPUs, where
    CUDA_VISIBLE_DEVICES names several: each process that opens one takes half a gigabyte of it.
    """
    worker, count = os.environ.get("PYTEST_XDIST_WORKER", "")[2:], int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if not worker.isdigit():
        return
    os.environ["PORTATILE_DATA_DIR"] = folder = tempfile.mkdtemp(prefix=f"portatile-tests-{worker}-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    if len(gpus) > 1:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpus[int(worker) % len(gpus)]
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        width = max(_LEAST_CORES if count <= len(cores) else _FEWER_CORES, len(cores) // count)
        os.sched_setaffinity(0, {cores[(int(worker) * width + place) % len(cores)] for place in range(width)})


numpy_products.LEAST_LAUNCH = 0.0  # however little time a product takes, here it is computed by a device
_take_share()
FOUND = {device.info.id: device for device in devices.devices() if "oclgrind" not in device.info.platform.lower()}
MISSING = [] if any(device.info.kind == "gpu" for device in FOUND.values()) else ["gpu"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where a kind of device is missing, one case of each file says so for all; of ``thinned`` cases a share runs.

    On a machine with a GPU, whose processor has several drivers perhaps, each test runs on one of these, on another for each run seed.
    """
    said: set[Path] = set()

    def left_out(item: pytest.Item) -> bool:
        asked = getattr(item, "callspec", None)
        if asked is None or "device" not in asked.params:
            return False
        if asked.params["device"] not in MISSING:
            return _on_another_driver(item, asked.params["device"]) or _thinned(item, asked.params)
        repeated = item.path in said
        said.add(item.path)
        return repeated

    seeds.leave_out(config, items, left_out)
    count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if count > _FEW:
        items[:] = order.spread(items, count)


def _on_another_driver(item: pytest.Item, device: str) -> bool:
    """Whether ``device`` is the processor, for which this test's cases are run through another driver."""
    drivers = sorted(name for name, found in FOUND.items() if found.info.kind == "cpu")
    if seeds.DRAWS or not seeds.on_gpu_machine() or device not in drivers:
        return False
    return drivers[seeds.hashed(seeds.run_seed(), item.nodeid.partition("[")[0]) % len(drivers)] != device


def _thinned(item: pytest.Item, params: dict[str, object]) -> bool:
    """Whether a case marked ``thinned(share)`` is not drawn, on a device where compiling takes long; beside a GPU ``drawn(share)`` too."""
    found = FOUND.get(str(params["device"]))
    if found is None or len(params) == 1 or not found.target.defers:
        return False
    markers = (item.get_closest_marker(name) for name in ("thinned", "drawn"))
    return any(marker is not None and not seeds.drawn(marker.args[0], item.nodeid, beside_a_gpu=True) for marker in markers)


@pytest.fixture(autouse=True)
def workers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches of this process fork their workers, which start in a tenth of the time; real ones where a test is about their start or
    end, where there is a GPU, and where every case is asked for. On a GPU each uses one queue.
    """
    if seeds.on_gpu_machine():
        environment = processes.environment
        monkeypatch.setattr(processes, "environment", lambda: {_CONNECTIONS: "1", **environment()})
    elif not (seeds.DRAWS or "earlier_children" in request.fixturenames):
        monkeypatch.setattr(processes, "start", forked.start)


@pytest.fixture(params=[*FOUND, *MISSING])
def device(request: pytest.FixtureRequest) -> Device:
    """Each device of this machine in turn."""
    if request.param not in FOUND:
        pytest.skip("no GPU found: " + ("; ".join(finding.detail for finding in findings() if finding.level != "ok") or "none is visible"))
    return FOUND[request.param]


@pytest.fixture(scope="session")
def binaries() -> dict[str, Binary]:
    return {}


@pytest.fixture
def binary(device: Device, binaries: dict[str, Binary]) -> Binary:
    if device.info.id not in binaries:
        binaries[device.info.id] = program.build(Source("kernels.cl", _KERNELS), device.target, None)
    return binaries[device.info.id]


@pytest.fixture
def module(device: Device, binary: Binary) -> Iterator[Module]:
    with device.load(binary) as loaded:
        yield loaded


@pytest.fixture
def queue(device: Device) -> Iterator[Queue]:
    with device.queue() as made:
        yield made


@pytest.fixture
def all_near(monkeypatch: pytest.MonkeyPatch) -> None:
    """However disturbed the machine is, all valid variants of a search race: none is too slow, or left out for lack of time."""
    monkeypatch.setattr(ranking, "NEAR", 1e6)
    monkeypatch.setattr(ranking, "NEAR_DEFAULT", 1e6)
    by_budget = Spending.race_seconds

    def unhurried(spending: Spending) -> float:
        seconds = by_budget(spending)
        return max(seconds, _UNHURRIED) if spending.budget.seconds is None and spending.race > 0 else seconds

    monkeypatch.setattr(Spending, "race_seconds", unhurried)


@pytest.fixture(scope="session")  # a process has one device of an id
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
    monkeypatch.setattr(tries, "may_be_disturbed", lambda *times: False)  # nor is one device timed alone once more
    monkeypatch.setattr(forecast, "_TINY", 0)
    monkeypatch.setattr(forecast, "_LITTLE", 0.0)
    monkeypatch.setattr(Pieces, "_late", lambda pieces, device: False)  # however slow a device is for a moment, it takes part
    monkeypatch.setattr(over_devices, "_settled", {})
    return [twin.info.id for twin in twins]
