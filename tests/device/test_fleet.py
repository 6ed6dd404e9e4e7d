"""A fleet on this machine: trials go on when workers are killed, hang or join late and when the scheduler is restarted."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from portatile import device as devices
from portatile import processes, workloads
from portatile.cli import main
from portatile.errors import DeviceError, DeviceNotFoundError, UsageError
from portatile.records import Config, DeviceInfo, Problem, canonical, from_json
from portatile.store import ResultStore
from portatile.trials import Budget
from portatile.tuning.protocol import Timing
from portatile.tuning.search.deadlines import PhaseLimits
from portatile.tuning.search.request import Progress, TuningRequest, TuningResult
from support.trials import trial

distributed = pytest.importorskip("distributed", reason="Dask distributed is not installed (extra cluster)")

from portatile.fleet import agreement, members, search, serve, session  # noqa: E402 - only where Dask is

pytestmark = pytest.mark.filterwarnings("ignore:.*leaked semaphore", "ignore:a worker on:RuntimeWarning")
QUICK = Timing(samples=3, burst=0.0005, most=0.05, race=0.2)
PROBLEM = workloads.problem("stream", "float32", {"n": 4096})


@pytest.fixture(scope="module")
def info() -> DeviceInfo:
    found = next((one.info for one in devices.devices() if one.info.kind == "cpu"), None)
    if found is None:
        pytest.skip("no CPU through OpenCL")
    return found


@pytest.fixture(scope="module")
def fleet(info: DeviceInfo) -> Iterator[str]:
    """Three workers that take one processor for a device each; what they time disturbs the others, which is no matter here."""
    given = [serve.options([info], 0)[f"device {info.id}"] for _ in range(3)]
    workers = {number: {"cls": distributed.Nanny, "options": one} for number, one in enumerate(given)}
    scheduler = {"cls": distributed.Scheduler, "options": {"dashboard": False, "port": 0, "host": "127.0.0.1"}}
    with serve._quiet(), distributed.SpecCluster(workers=workers, scheduler=scheduler, silence_logs=40) as cluster:
        asyncio.run(members.register(cluster.scheduler_address, [info]))
        yield cluster.scheduler_address


@pytest.fixture(autouse=True)
def no_one_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three workers on two cores never agree about the default."""
    monkeypatch.setattr(agreement, "LEAST", float("inf"))


def request(evaluations: int, seed: int = 0) -> TuningRequest:
    return TuningRequest(PROBLEM, None, Budget(evaluations=evaluations), "random", seed, timing=QUICK, model=False, warm=0)


def each_once(result: TuningResult, store: ResultStore, count: int) -> None:
    """Every configuration was evaluated once and is stored; a finalist once more, with its standing."""
    assert len({canonical(one.config) for one in result.trials}) == len(result.trials) == count
    kept = Counter(canonical(one.config) for one in store.trials() if one.standing is None)
    assert set(kept) == {canonical(one.config) for one in result.trials}
    assert set(kept.values()) == {1}


@pytest.mark.drawn(1 / 3)
def test_killed_workers_cost_no_trial(fleet: str) -> None:
    killed: list[int] = []
    seen: list[Progress] = []

    def listen(progress: Progress) -> None:
        seen.append(progress)
        if progress.evaluations in (2, 4):
            with members.connected(fleet) as there:
                process = next(one for one in there.client.run(os.getpid).values() if one not in killed)
            killed.append(process)
            os.kill(process, signal.SIGKILL)

    with ResultStore(None) as store:
        result = search.tune(request(6), fleet, store, listen)
        each_once(result, store, 6)
        assert len(killed) == 2
        assert result.best.status == "ok"
        assert result.failures == {}
    assert [one.evaluations for one in seen] == list(range(1, 7))


def with_faults(poison: Config, hang: Config) -> Callable[..., bytes]:
    """``session.evaluate`` whose worker is killed by one configuration, and whose kernel hangs in another. Sent to workers by value."""

    def evaluate(order: bytes, config: bytes, *binaries: Any) -> bytes:
        import os
        import signal

        from portatile import workloads
        from portatile.fleet import session
        from portatile.records import Plan, canonical, from_json
        from portatile.tuning.protocol import msgspec

        workload: Any = workloads.get("stream")
        given = from_json(config, dict)
        if canonical(given) == canonical(poison):
            os.kill(os.getpid(), signal.SIGKILL)
        if not hasattr(workload, "usual_plan"):
            workload.usual_plan = workload.plan

            def plan(problem: Any, config: Any, info: Any) -> Plan:
                usual = workload.usual_plan(problem, config, info)
                if canonical(config) != canonical(hang):
                    return usual
                steps = []
                for step in usual.steps:
                    endless = step.source.text.replace("{\n", "{\n    volatile int endless = 1; while (endless) {}\n", 1)
                    steps.append(msgspec.structs.replace(step, source=replace(step.source, text=endless)))
                return replace(usual, steps=tuple(steps))

            workload.plan = plan
        return session.evaluate(order, config, *binaries)

    return evaluate


@pytest.mark.drawn(1 / 3)
def test_a_configuration_that_ends_workers_is_quarantined_and_one_that_hangs_times_out(
    fleet: str, info: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = workloads.get("stream")
    default = workload.default(PROBLEM, info)
    poison, hang = (one for one in ({**default, "PER_ITEM": 2}, {**default, "PER_ITEM": 4}))
    space = workload.space(PROBLEM, info)
    assert poison in space
    assert hang in space
    faulty = SimpleNamespace(
        evaluate=with_faults(poison, hang), finish=session.finish, close=session.close, compile_texts=session.compile_texts
    )
    monkeypatch.setattr(search, "session", faulty)
    asked = replace(request(4, seed=3), start=(poison, hang), limits=PhaseLimits(launch=20, least=5.0))
    with ResultStore(None) as store:
        result = search.tune(asked, fleet, store)
        each_once(result, store, 4)
        by_config = {canonical(one.config): one for one in result.trials}
        assert by_config[canonical(poison)].status == "crash"
        assert "quarantined" in by_config[canonical(poison)].message
        assert by_config[canonical(hang)].status == "timeout"
        monkeypatch.setattr(search, "session", session)
        again = search.tune(replace(asked, budget=Budget(evaluations=3)), fleet, store)
        assert {canonical(one.config): one.status for one in again.trials}[canonical(poison)] == "crash", "it is never tried again"
        assert sum(canonical(one.config) == canonical(poison) for one in store.trials()) == 1


@pytest.mark.drawn(1 / 3)
def test_the_scheduler_is_restarted(info: DeviceInfo, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"

    def started(*words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "portatile", "fleet", *words]
        return subprocess.Popen(command, env=processes.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    scheduler = ["scheduler", "--host", "127.0.0.1", "--port", str(port)]
    running = [started(*scheduler), started("worker", address, "--device", info.id)]
    restarted: list[int] = []

    def listen(progress: Progress) -> None:
        if progress.evaluations == 2 and not restarted:
            running[0].kill()
            running[0].wait()
            running[0] = started(*scheduler)
            restarted.append(1)

    try:
        with ResultStore(None) as store:
            result = search.tune(request(4), _once_there(address), store, listen)
            assert restarted
            each_once(result, store, 4)
    finally:
        for process in running:
            process.send_signal(signal.SIGINT)
        for process in running:
            process.wait(30)


def _once_there(address: str) -> str:
    """The address, as soon as a worker with a device is there."""
    until = time.monotonic() + 60
    while True:
        try:
            with members.connected(address) as fleet:
                fleet.choose(None)
                return address
        except (UsageError, DeviceNotFoundError):
            assert time.monotonic() < until
            time.sleep(0.2)


@pytest.mark.drawn(1 / 3)
def test_wrong_use_says_what_to_do(fleet: str, info: DeviceInfo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with ResultStore(None) as store:
        with pytest.raises(DeviceNotFoundError, match=r"has no device that matches 'h100'; there is: opencl"):
            search.tune(replace(request(2), device="h100"), fleet, store)
        with pytest.raises(UsageError, match="a fleet minimises time"):
            search.tune(replace(request(2), objective="energy"), fleet, store)
        monkeypatch.setattr(members, "version", lambda: "another")  # as on a machine where another one is installed
        with pytest.raises(UsageError, match="other versions of portatile run on"):
            search.tune(request(2), fleet, store)
    with pytest.raises(UsageError, match="are one piece of hardware"):
        serve.options([info, replace(info, id="opencl:9:0")], 0)


@pytest.mark.drawn(1 / 3)
def test_workers_that_are_all_gone_end_the_search(info: DeviceInfo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_GONE", 0.1)
    empty = SimpleNamespace(address="tcp://x", connected=True, with_device=lambda info: {}, compilers=lambda: 0)
    with ResultStore(None) as store, pytest.raises(DeviceError, match=r"no worker with .* is left at tcp://x"):
        search._Search(request(2), empty, store, None, info, time.monotonic()).run()  # type: ignore[arg-type]


@pytest.mark.drawn(1 / 3)
def test_the_command_lists_the_devices(fleet: str, info: DeviceInfo, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "devices", fleet]) == 0
    shown = capsys.readouterr().out
    assert shown.count(info.id) >= 1  # those that were killed before may not be back
    assert main(["fleet", "devices", fleet, "--json"]) == 0
    assert set(from_json(capsys.readouterr().out, dict)) == {"members", "compilers"}


@pytest.mark.drawn(1 / 3)
def test_no_scheduler_there(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(members, "_CONNECT_SECONDS", 0.2)
    assert main(["tune", "stream", "-n", "64", "--scheduler", "tcp://127.0.0.1:9"]) == 2
    assert "portatile fleet scheduler" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert main(["tune", "stream", "-n", "64", "--scheduler", "tcp://127.0.0.1:9"]) == 2
    assert "portatile[cluster]" in capsys.readouterr().err


@pytest.mark.drawn(1 / 3)
def test_workers_that_disagree_about_the_default_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    problem = Problem("gemm", {"m": 1}, "float32")
    same = {name: trial(1, seconds, problem=problem) for name, seconds in (("a", 1.0), ("b", 1.02), ("c", 2.5))}
    assert agreement.disagreeing(same) == {"c"}
    assert agreement.disagreeing({"a": same["a"]}) == set()
    assert agreement.disagreeing({"a": same["a"], "x": trial(1, status="crash", problem=problem)}) == set()
