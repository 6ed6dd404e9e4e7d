"""A fleet whose workers measure nothing: searches go on when workers are killed or join late, and when scheduler or store are restarted."""

from __future__ import annotations

import asyncio
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from portatile.cli import main
from portatile.errors import DeviceError, DeviceNotFoundError, StoreError, UsageError
from portatile.records import canonical, from_json
from portatile.store import ResultStore
from portatile.tuning.search.request import Progress

distributed = pytest.importorskip("distributed", reason="Dask distributed is not installed (extra cluster)")

from portatile.fleet import members, search, serve  # noqa: E402 - only where Dask is
from support import fleets  # noqa: E402
from support.fleets import each_once, request, winner_is_as_alone  # noqa: E402
from support.ports import free_port  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*leaked semaphore", "ignore:Port")
SEARCH = 12


@pytest.fixture(scope="module")
def processes_() -> Iterator[str]:
    """The address of a fleet of four processes."""
    with fleets.cluster(4, processes=True) as made:
        yield made.scheduler_address


@pytest.fixture(scope="module")
def threads() -> Iterator[Any]:
    """A cluster of two workers in threads."""
    with fleets.cluster(2, processes=False) as made:
        yield made


@pytest.fixture(autouse=True)
def without_device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(search, "session", fleets.without_device(tmp_path))


@pytest.mark.drawn(1 / 2)
def test_workers_killed_in_the_middle_cost_no_trial(processes_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two configurations each end the first worker that evaluates them; one ends all."""
    first, second, always = fleets.every()[5:8]
    deaths = {canonical(first): 1, canonical(second): 1, canonical(always): 99}
    monkeypatch.setattr(search, "session", fleets.without_device(tmp_path, lambda config: deaths.get(canonical(config), 0)))
    monkeypatch.setattr(search._Search, "_slots", lambda search: SEARCH)  # some wait where others end their worker
    seen: list[Progress] = []
    with ResultStore(None) as store:
        asked = replace(request(SEARCH), start=(first, always, second))
        result = search.tune(asked, processes_, store, seen.append)
        each_once(result, store, SEARCH)
        winner_is_as_alone(result)
        status = {canonical(one.config): one.status for one in result.trials}
        assert (status[canonical(first)], status[canonical(second)]) == ("ok", "ok")
        assert result.failures == {"crash": 1}
        (crash,) = (one for one in result.trials if one.config == always)
        assert "quarantined" in crash.message
        again = search.tune(replace(asked, budget=replace(asked.budget, evaluations=4)), processes_, store)
        assert again.best.config in [one.config for one in result.trials]
        assert sum(canonical(one.config) == canonical(always) for one in store.trials()) == 1, "it is never tried again"
    deaths = sorted(len(file.read_text()) for file in tmp_path.iterdir())
    assert deaths[:2] == [1, 1]
    assert 2 <= deaths[2] <= 3
    assert [one.evaluations for one in seen] == list(range(1, SEARCH + 1))


def test_a_worker_that_joins_late_gets_work(threads: Any) -> None:
    joined: list[str] = []

    async def join() -> str:
        worker = await distributed.Worker(threads.scheduler_address, **fleets.threaded())
        late.append(worker)
        return str(worker.address)

    async def leave() -> None:
        await late[0].close()

    late: list[Any] = []

    def listen(progress: Progress) -> None:
        if progress.evaluations == 3 and not joined:
            joined.append(threads.sync(join))

    with ResultStore(None) as store:
        try:
            result = search.tune(request(40), threads.scheduler_address, store, listen)
        finally:
            threads.sync(leave)
        each_once(result, store, 40)
        winner_is_as_alone(result)
    done = Counter(one.message for one in result.trials)
    assert done[joined[0]] > 0
    assert len(done) == 3


@pytest.mark.drawn(1 / 2)
def test_the_scheduler_is_restarted() -> None:
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"

    def started() -> Any:
        """A process that runs a scheduler: forked by one that has loaded Dask."""
        process = multiprocessing.get_context("forkserver").Process(target=serve.run_scheduler, args=("127.0.0.1", port, fleets.silent))
        process.start()
        return process

    running = [started()]
    restarted: list[int] = []

    def listen(progress: Progress) -> None:
        if progress.evaluations == 3 and not restarted:
            running[0].kill()
            running[0].join()
            running[0] = started()
            restarted.append(1)

    try:
        with fleets.workers(address), ResultStore(None) as store:
            result = search.tune(request(SEARCH), fleets.once_there(address), store, listen)
            assert restarted
            each_once(result, store, SEARCH)
            winner_is_as_alone(result)
    finally:
        running[0].kill()
        running[0].join()


@pytest.mark.parametrize(("cause", "calls"), [(OSError("timed out"), 2), (ValueError("a mistake"), 1)])
def test_a_scheduler_that_does_not_answer_is_waited_for(cause: Exception, calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask tells it by an error of another kind, behind which the cause is; any other ends the workers."""
    begun = []

    class Nanny:
        def __init__(self, address: str, **given: Any) -> None:
            begun.append(address)

        async def __aenter__(self) -> None:
            if len(begun) == 2:
                raise asyncio.CancelledError  # as by Ctrl-C
            raise RuntimeError("Nanny failed to start.") from cause

        async def __aexit__(self, *ended: object) -> None: ...

    monkeypatch.setattr(distributed, "Nanny", Nanny)
    monkeypatch.setattr(serve, "_AGAIN", 0.0)
    with pytest.raises((asyncio.CancelledError, RuntimeError)):
        asyncio.run(serve.keep_workers("tcp://x:1", [fleets.INFO], 0, fleets.silent))
    assert len(begun) == calls


def test_workers_say_what_they_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for all of a machine, and only where no scheduler answers at once."""
    said: list[str] = []

    class Nanny:
        worker_address = "here"

        def __init__(self, address: str, **given: Any) -> None:
            self.there = "there" in address

        async def __aenter__(self) -> Any:
            while not (self.there or said):
                await asyncio.sleep(0.01)
            return self

        async def __aexit__(self, *ended: object) -> None: ...

        async def finished(self) -> None:
            await asyncio.sleep(0.1)
            raise asyncio.CancelledError  # as by Ctrl-C

    async def registered(*given: object) -> None: ...

    monkeypatch.setattr(distributed, "Nanny", Nanny)
    monkeypatch.setattr(members, "register", registered)
    for address, silent, waited in (("tcp://there:1", 600.0, 0), ("tcp://x:1", 0.05, 1)):
        said.clear()
        monkeypatch.setattr(serve, "_SILENT", silent)
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(serve.keep_workers(address, [fleets.INFO], 2, said.append))
        assert sum("`portatile fleet scheduler` starts one" in line for line in said) == waited


def test_wrong_use_says_what_to_do(threads: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    address = threads.scheduler_address
    with ResultStore(None) as store:
        with pytest.raises(DeviceNotFoundError, match=r"has no device that matches 'h100'; there is: opencl"):
            search.tune(replace(request(2), device="h100"), address, store)
        with pytest.raises(UsageError, match="a fleet minimises time"):
            search.tune(replace(request(2), objective="energy"), address, store)
        monkeypatch.setattr(members, "version", lambda: "another")  # as on a machine where another one is installed
        with pytest.raises(UsageError, match=r"another portatile runs on 127\.0\.0\.1: .* Install the same version"):
            search.tune(request(2), address, store)
    with pytest.raises(UsageError, match="'nowhere' is not an address: write tcp://HOST:PORT"):
        members.Fleet("nowhere")
    with pytest.raises(UsageError, match="are one piece of hardware"):
        serve.options([fleets.INFO, replace(fleets.INFO, id="opencl:9:0")], 0)


def test_workers_that_are_all_gone_end_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_GONE", 0.1)
    empty = SimpleNamespace(address="tcp://x", connected=True, with_device=lambda info: {}, compilers=lambda: 0)
    with ResultStore(None) as store, pytest.raises(DeviceError, match=r"no worker with .* is left at tcp://x"):
        search._Search(request(2), empty, store, None, fleets.INFO, time.monotonic()).run()  # type: ignore[arg-type]


def test_the_command_lists_the_devices(threads: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "devices", threads.scheduler_address]) == 0
    assert capsys.readouterr().out.count(fleets.INFO.id) == 2
    assert main(["fleet", "devices", threads.scheduler_address, "--json"]) == 0
    assert set(from_json(capsys.readouterr().out, dict)) == {"members", "compilers"}


def test_the_commands_of_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(serve, "run_scheduler", lambda host, port, say: asked.append((host, port)))
    monkeypatch.setattr(serve, "run_workers", lambda address, infos, compilers, say: asked.append((address, infos, compilers)))
    assert main(["fleet", "scheduler", "--host", "127.0.0.1", "--port", "0"]) == 0
    assert main(["fleet", "worker", "tcp://x:1", "--device", "none", "--compilers", "3"]) == 0
    assert asked == [("127.0.0.1", 0), ("tcp://x:1", [], 3)]


def test_no_scheduler_there(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(members, "_CONNECT_SECONDS", 0.2)
    assert main(["tune", "stream", "-n", "64", "--scheduler", "tcp://127.0.0.1:9"]) == 2
    assert "portatile fleet scheduler" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert main(["tune", "stream", "-n", "64", "--scheduler", "tcp://127.0.0.1:9"]) == 2
    assert "portatile[cluster]" in capsys.readouterr().err


def test_a_fleet_does_not_begin_with_a_store_of_a_newer_version(threads: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sqlite3

    path = tmp_path / "results.sqlite"
    ResultStore(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreError, match="a newer portatile wrote it"), ResultStore(path) as store:
        search.tune(request(2), threads.scheduler_address, store)
