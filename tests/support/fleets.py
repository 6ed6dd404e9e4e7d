"""Fleets whose workers measure nothing: the times of configurations are drawn from their names, so that a test only waits for Dask."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dask
import distributed

from portatile import workloads
from portatile.errors import DeviceNotFoundError, UsageError
from portatile.fleet import members, serve, session
from portatile.records import Config, DeviceInfo, Problem, canonical, digest, from_json, to_json
from portatile.store import ResultStore
from portatile.trials import Budget, Trial
from portatile.tuning.search.request import TuningRequest, TuningResult
from support.devices import CPU

INFO: DeviceInfo = replace(CPU, id="opencl:0:0", physical_id="a processor on paper")
PROBLEM: Problem = workloads.problem("stream", "float32", {"n": 4096})


def request(evaluations: int, strategy: str = "random") -> TuningRequest:
    """A search that begins with nothing but the default."""
    return TuningRequest(PROBLEM, None, Budget(evaluations=evaluations), strategy, model=False, warm=0)


def seconds_of(config: Config) -> float:
    """What a configuration takes."""
    return 1e-6 * (1 + int(digest(canonical(config))[:6], 16) / 16**6)


def measured(config: Config, where: str = "") -> Trial:
    """The trial of a configuration on the worker that says so."""
    took = seconds_of(config)
    return Trial(PROBLEM, dict(config), INFO, "source", "ok", (took,) * 3, message=where, time="2026-11-23T10:00:00+00:00")


def without_device(folder: Path, deadly: Callable[[Config], int] = lambda config: 0) -> Any:
    """What stands for the module ``session``: a worker dies the first ``deadly`` times that a configuration is evaluated."""
    times = {canonical(config): count for config in every() if (count := deadly(config))}
    info, given, place = to_json(INFO), to_json(PROBLEM), str(folder)

    def evaluate(order: bytes, config: bytes, *binaries: Any) -> bytes:  # goes to the workers by value, and imports there
        import os
        import signal
        from pathlib import Path

        import distributed

        from portatile.fleet import members
        from portatile.records import DeviceInfo, Problem, canonical, digest, to_json
        from portatile.trials import Trial

        result = from_json(config, dict)
        name = canonical(result)
        deaths = Path(place, digest(name))
        died = len(deaths.read_text()) if deaths.exists() else 0
        members.begins(members.key_of(config))
        if died < times.get(name, 0):
            deaths.write_text("x" * (died + 1))
            os.kill(os.getpid(), signal.SIGKILL)
        took = 1e-6 * (1 + int(digest(name)[:6], 16) / 16**6)
        where = distributed.get_worker().address
        trial = Trial(from_json(given, Problem), result, from_json(info, DeviceInfo), "source", "ok", (took,) * 3, message=where)
        return to_json(trial)

    def finish(order: bytes, configs: bytes) -> bytes:
        from portatile.fleet.session import Decision
        from portatile.records import to_json

        return to_json(Decision((), best, "nothing is measured here"))

    best = measured(min(every(), key=seconds_of))
    return SimpleNamespace(evaluate=evaluate, finish=finish, close=lambda: None, compile_texts=session.compile_texts)


def every() -> list[Config]:
    """All configurations."""
    return list(workloads.get(PROBLEM.workload).space(PROBLEM, INFO))


@contextmanager
def cluster(count: int, processes: bool) -> Iterator[distributed.SpecCluster]:
    """A scheduler here and so many workers with the device: threads of this process, or processes that may be killed."""
    given = serve.options([INFO], 0)[f"device {INFO.id}"]
    one = {"cls": distributed.Nanny, "options": given} if processes else {"cls": distributed.Worker, "options": threaded()}
    scheduler = {"cls": distributed.Scheduler, "options": {"dashboard": False, "port": 0, "host": "127.0.0.1"}}
    with (
        serve._quiet(),
        _forked(),
        distributed.SpecCluster(workers=dict.fromkeys(range(count), one), scheduler=scheduler, silence_logs=40) as made,
    ):
        made.sync(members.register, made.scheduler_address, [INFO])
        yield made


def once_there(address: str, count: int = 1) -> str:
    """The address, as soon as so many workers with a device are there."""
    until = time.monotonic() + 240
    while time.monotonic() < until:
        with suppress(UsageError), members.connected(address) as fleet:
            while time.monotonic() < until:
                with suppress(DeviceNotFoundError):
                    if len(fleet.with_device(fleet.choose(None))) >= count:
                        return address
                time.sleep(0.1)
        time.sleep(0.1)
    raise AssertionError(f"{count} workers are not there")


def silent(text: str) -> None:
    """Say nothing."""


def _forked() -> Any:
    """A context in which workers are forked by a process that has loaded Dask, which takes much less time than to load it again."""
    return dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"})


@contextmanager
def workers(address: str, count: int = 1) -> Iterator[None]:
    """What ``portatile fleet worker`` runs, for so many devices that nobody has, in a thread."""
    infos = [INFO, *(replace(INFO, id=f"opencl:{place}:0", physical_id=f"processor {place} on paper") for place in range(1, count))]
    loop, ready = asyncio.new_event_loop(), threading.Event()
    begun: list[asyncio.Task[None]] = []

    async def serving() -> None:
        begun.append(asyncio.current_task())  # type: ignore[arg-type]
        ready.set()
        with serve._quiet(), _forked():
            await serve.keep_workers(address, infos, 0, silent)

    def run() -> None:
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(serving())
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    ready.wait()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(begun[0].cancel)
        thread.join()


def threaded() -> dict[str, Any]:
    """How a worker in a thread of this process is started."""
    return {"nthreads": 1, "resources": {members.tag(INFO): 1}, "memory_limit": 0, "dashboard": False, "nanny": None}


def each_once(result: TuningResult, store: ResultStore, count: int) -> None:
    """Every configuration was evaluated once and is stored; a finalist once more, with its standing."""
    assert len({canonical(trial.config) for trial in result.trials}) == len(result.trials) == count
    kept = Counter(canonical(trial.config) for trial in store.trials() if trial.standing is None)
    assert set(kept) == {canonical(trial.config) for trial in result.trials}
    assert set(kept.values()) == {1}


def winner_is_as_alone(result: TuningResult) -> None:
    """The best of all that were evaluated is the one that takes least."""
    assert result.best.config == min((trial.config for trial in result.trials if trial.status == "ok"), key=seconds_of)
