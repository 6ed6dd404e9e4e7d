"""All at once that may happen to a fleet: workers killed, a kernel that hangs, scheduler and database server gone and back."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from portatile import device as devices
from portatile import workloads
from portatile.records import Config, canonical, digest, from_json, to_json
from portatile.space import ParameterSpace
from portatile.store import ResultStore, postgresql, results
from portatile.strategies import Search, Strategy
from portatile.trials import Trial
from portatile.tuning.protocol import Timing
from portatile.tuning.search.deadlines import PhaseLimits
from portatile.tuning.search.request import Progress

distributed = pytest.importorskip("distributed", reason="Dask distributed is not installed (extra cluster)")
pytest.importorskip("psycopg", reason="psycopg is not installed (extra cluster)")

from portatile.fleet import search, serve, session  # noqa: E402 - only where Dask is
from support import fleets  # noqa: E402
from support.ports import free_port  # noqa: E402
from support.postgresql import PostgresServer, programs  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*leaked semaphore", "ignore:Port", "ignore:another search")
LIMITS = PhaseLimits(launch=20, least=1.0, factor=3.0)
LISTED = 24
QUICK = Timing(samples=3, burst=0.0005, most=0.05, race=0.2)


def with_a_hang(usual: Any, hanging: Config) -> Any:
    """What stands for the module ``session``: as ``usual``, but one configuration's kernel hangs on a real device."""
    evaluate_usual, name, info = usual.evaluate, canonical(hanging), to_json(fleets.INFO)

    def evaluate(order: bytes, config: bytes, *binaries: Any) -> bytes:  # goes to the workers by value, and imports there
        from dataclasses import replace

        from portatile.records import DeviceInfo, canonical, to_json

        if canonical(from_json(config, dict)) != name:
            return bytes(evaluate_usual(order, config, *binaries))
        hang_in_plans(name)
        trial = from_json(session.evaluate(order, config), Trial)
        return to_json(replace(trial, device=from_json(info, DeviceInfo)))

    return SimpleNamespace(evaluate=evaluate, finish=usual.finish, close=session.close, compile_texts=usual.compile_texts)


def hang_in_plans(name: str) -> None:
    """In this process the kernel of a configuration never ends, and the tuner takes a real processor."""
    import msgspec

    from portatile import workloads

    os.environ["PORTATILE_DEVICE"] = "cpu"
    workload: Any = workloads.get(fleets.PROBLEM.workload)
    usual = type(workload).plan

    def plan(problem: Any, config: Config, info: Any) -> Any:
        made = usual(workload, problem, config, info)
        if canonical(config) != name or not made.steps:
            return made
        (step,) = made.steps
        endless = step.source.text.replace("{\n", "{\n    volatile int endless = 1; while (endless) {}\n", 1)
        return replace(made, steps=(msgspec.structs.replace(step, source=replace(step.source, text=endless)),))

    workload.plan = plan


def in_order(configs: Sequence[Config]) -> Strategy:
    """A strategy that wants these, the first ones first."""

    def strategy(space: ParameterSpace, rng: np.random.Generator, start: Sequence[Config]) -> Search:
        left = {canonical(config): config for config in configs}
        while left:
            for trial in (yield list(left.values())):
                left.pop(canonical(trial.config), None)

    return strategy


def scheduler_at(port: int) -> Any:
    """A process that runs a scheduler: forked by one that has loaded Dask."""
    process = multiprocessing.get_context("forkserver").Process(target=serve.run_scheduler, args=("127.0.0.1", port, fleets.silent))
    process.start()
    return process


@pytest.mark.drawn(1 / 3)
def test_nothing_is_lost_or_counted_twice_and_the_winner_is_as_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four workers, two of which are killed; all of a list is evaluated, so that a search alone finds the same winner."""
    found = programs()
    if found is None:
        pytest.skip("no PostgreSQL server here (Debian's package postgresql)")
    if not any(one.info.kind == "cpu" for one in devices.devices()):
        pytest.skip("no CPU through OpenCL")
    default = workloads.get(fleets.PROBLEM.workload).default(fleets.PROBLEM, fleets.INFO)
    every = sorted([default, *(config for config in fleets.every() if config != default)][:LISTED], key=fleets.seconds_of)
    alone, *others = [config for config in every if config != default]
    first, second, hanging = others[:3]
    deaths = {canonical(first): 1, canonical(second): 1}
    usual = fleets.without_device(tmp_path, lambda config: deaths.get(canonical(config), 0))
    monkeypatch.setattr(search, "session", with_a_hang(usual, hanging))
    monkeypatch.setattr(postgresql, "PATIENCE", 0.1)
    monkeypatch.setattr(results, "_RETRY", 0.0)
    port = free_port()
    running = [scheduler_at(port)]
    with PostgresServer(found) as server:

        def restart_scheduler() -> None:
            os.kill(running[0].pid, signal.SIGKILL)
            running[0].join()
            running[0] = scheduler_at(port)

        due: dict[int, Callable[[], None]] = {4: server.kill, 6: restart_scheduler, 9: server.start}

        def listen(progress: Progress) -> None:
            if (act := due.pop(progress.evaluations, None)) is not None:
                act()

        asked = replace(fleets.request(len(every)), strategy=in_order([hanging, first, second, *every]), limits=LIMITS, timing=QUICK)
        address = f"tcp://127.0.0.1:{port}"
        try:
            with (
                fleets.workers(address, 4),
                ResultStore(server.url) as store,
                pytest.warns(RuntimeWarning, match="will be sent when it is back"),
            ):
                result = search.tune(asked, fleets.once_there(address, 4), store, listen)
        finally:
            running[0].kill()
            running[0].join()
        assert not due, "everything happened"
        assert {len((tmp_path / digest(name)).read_text()) for name in deaths} == {1}, "two workers were killed"
        with ResultStore.reader(server.url) as kept:
            fleets.each_once(result, kept, len(every))
    assert result.failures == {"timeout": 1}
    assert {canonical(one.config): one.status for one in result.trials}[canonical(hanging)] == "timeout"
    assert result.best.config == min((default, alone), key=fleets.seconds_of)
