"""Several devices tuned by one call: at once where they do not disturb each other; after a failure or Ctrl-C there is what was found."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import portatile
from portatile import device as devices
from portatile import workloads
from portatile.cli import main
from portatile.device.base import Device
from portatile.errors import ArgumentError, DeviceNotFoundError
from portatile.store import ResultStore
from portatile.trials import Budget
from portatile.tuning.protocol import Timing
from portatile.tuning.search import many_devices, planner
from portatile.tuning.search.request import Progress, TuningRequest

pytestmark = pytest.mark.usefixtures("own_directories")
QUICK = Timing(samples=3, burst=0.0005, most=0.05, race=0.2)


@pytest.fixture
def twice(device: Device, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """One device taken for two pieces of hardware that do not disturb each other; both are opened by the name of the one."""
    return [replace(device.info, kind="gpu", physical_id=name) for name in ("one", "two")]


def request(evaluations: int = 3) -> TuningRequest:
    workload = workloads.get("stream")
    return TuningRequest(
        workload.problem(dict.fromkeys(workload.sizes, 4096)), None, Budget(evaluations=evaluations), "random", timing=QUICK
    )


@pytest.mark.drawn(1 / 2)
@pytest.mark.filterwarnings("ignore:another search")
def test_both_are_tuned_at_once(twice: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the same operands, which are drawn once."""
    together, running, made, usual = threading.Barrier(2, timeout=240), set(), list[object](), planner.cases
    monkeypatch.setattr(planner, "cases", lambda *given: (made.append(given), usual(*given))[1])

    def listen(progress: Progress) -> None:
        running.add(threading.get_ident())

    def store() -> ResultStore:
        together.wait()  # passes only while two searches are under way
        return ResultStore(tmp_path / "results.sqlite")

    results = many_devices.tune(request(), twice, store, listen)
    assert len(results) == len(running) == 2
    assert len(made) == 1
    with ResultStore.reader(tmp_path / "results.sqlite") as kept:
        assert len(kept.trials()) >= 2


@pytest.mark.drawn(1 / 2)
@pytest.mark.filterwarnings("ignore:another search")
def test_a_device_that_fails_is_warned_of(twice: list[Any], tmp_path: Path) -> None:
    gone = [twice[0], replace(twice[1], id="opencl:7:7")]
    with pytest.warns(RuntimeWarning, match="opencl:7:7 was not tuned: no device matches"):
        (result,) = many_devices.tune(request(), gone, lambda: ResultStore(None))
    assert result.best.status == "ok"
    with pytest.raises(DeviceNotFoundError):
        many_devices.tune(request(), gone[1:], lambda: ResultStore(None))


@pytest.mark.filterwarnings("ignore:another search")
def test_an_interrupt_ends_all_with_what_they_have(twice: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt = many_devices._Interrupt()
    monkeypatch.setattr(many_devices, "_Interrupt", lambda: interrupt)

    def listen(progress: Progress) -> None:
        if progress.best is not None:
            interrupt.asked.set()

    results = many_devices.tune(request(1000), [*twice, replace(twice[0], kind="cpu")], lambda: ResultStore(None), listen)
    assert [result.stopped for result in results][:1] == ["interrupted"]
    assert 1 <= len(results) <= 2, "nothing is begun after it"


@pytest.mark.drawn(1 / 2)
def test_the_command_and_the_call(device: Device, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", "stream", "-n", "4096", "--budget", "2", "--device", "all", "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert [result["device"]["id"] for result in output] == [one.info.id for one in devices.several("all")]
    results = portatile.tune("stream", device=[device.info.id], n=4096, budget="2")
    assert [result.device.id for result in results] == [device.info.id]
    with pytest.raises(ArgumentError, match="named twice"):
        portatile.tune("stream", device=[device.info.id, device.info.id], n=4096, budget="2")
