"""A worker of a fleet with a real device: it checks, times, ends what hangs and compares; and a fleet on this machine in one line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from portatile import device as devices
from portatile import workloads
from portatile.cli import main
from portatile.records import Config, DeviceInfo, Plan, canonical, from_json, to_json
from portatile.trials import Trial
from portatile.tuning.protocol import Timing
from portatile.tuning.search.deadlines import PhaseLimits

pytest.importorskip("distributed", reason="Dask distributed is not installed (extra cluster)")

from portatile.fleet import session

pytestmark = pytest.mark.filterwarnings("ignore:.*leaked semaphore", "ignore:another search")
QUICK = Timing(samples=3, burst=0.0005, most=0.05, race=0.2)
PROBLEM = workloads.problem("stream", "float32", {"n": 4096})


@pytest.fixture
def info(monkeypatch: pytest.MonkeyPatch) -> Iterator[DeviceInfo]:
    result = next((device.info for device in devices.devices() if device.info.kind == "cpu"), None)
    if result is None:
        pytest.skip("no CPU through OpenCL")
    monkeypatch.setenv("PORTATILE_DEVICE", result.id)  # as a worker has it
    yield result
    session.close()


@pytest.mark.drawn(1 / 2)
def test_a_kernel_that_hangs_times_out_and_the_worker_goes_on(info: DeviceInfo, monkeypatch: pytest.MonkeyPatch) -> None:
    workload: Any = workloads.get("stream")
    default, usual = workload.default(PROBLEM, info), workload.plan
    hang = {**default, "PER_ITEM": 4}
    assert hang in workload.space(PROBLEM, info)

    def plan(problem: Any, config: Config, info: DeviceInfo) -> Plan:
        result: Plan = usual(problem, config, info)
        if canonical(config) != canonical(hang) or not result.steps:
            return result
        (step,) = result.steps
        endless = step.source.text.replace("{\n", "{\n    volatile int endless = 1; while (endless) {}\n", 1)
        return replace(result, steps=(msgspec.structs.replace(step, source=replace(step.source, text=endless)),))

    monkeypatch.setattr(workload, "plan", plan)
    limits = PhaseLimits(launch=20, least=1.0, factor=3.0)
    order = to_json(session.SessionRequest(PROBLEM, timing=QUICK, limits=limits, model=False))
    first, hung = (from_json(session.evaluate(order, to_json(config)), Trial) for config in (default, hang))
    assert (first.status, hung.status) == ("ok", "timeout")
    decision = from_json(session.finish(order, to_json([default])), session.Decision)
    assert decision.best.config == default


@pytest.mark.drawn(1 / 3)
@pytest.mark.usefixtures("own_directories")
def test_one_line_tunes_on_a_fleet_of_this_machine(info: DeviceInfo, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["tune", "stream", "-n", "4096", "--budget", "2", "--device", info.id, "--json"]
    assert main([*asked, "--scheduler", "local"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert output["device"]["id"] == info.id
    assert len(output["trials"]) == 2
    assert {one["status"] for one in output["trials"]} == {"ok"}
