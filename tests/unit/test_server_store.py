"""A store on a PostgreSQL server keeps what a file keeps: nothing lost, nothing twice, also where the server is killed in the middle."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from portatile import settings
from portatile.cli import main
from portatile.errors import StoreError, UsageError
from portatile.store import Query, ResultStore, known_results, postgresql, results
from portatile.tuning.search.request import Progress
from support.postgresql import PostgresServer, programs
from support.trials import DEVICE, PROBLEM, some, trial


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    pytest.importorskip("psycopg", reason="psycopg is not installed (extra cluster)")
    result = programs()
    if result is None:
        pytest.skip("no PostgreSQL server here (Debian's package postgresql)")
    with PostgresServer(result) as running:
        yield running


@pytest.fixture
def url(server: PostgresServer) -> Iterator[str]:
    yield server.url
    import psycopg

    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS trials, portatile_format")


def test_it_answers_as_a_file_does(url: str) -> None:
    given = [*some(1), trial(3, 0.3), trial(4, 0.2), trial(4, 0.5), trial(5, 0.1), trial(5, 0.0, "wrong")]
    with ResultStore(None) as file, ResultStore(url) as store:
        for one in given:
            file.add(one)
            store.add(one)
        for query in (Query(), Query(problem=PROBLEM), Query(status="wrong"), Query(device=DEVICE, workload="gemm"), Query(workload="x")):
            assert store.trials(query) == file.trials(query)
        assert store.leaders(count=3) == file.leaders(count=3)
        assert store.for_prediction("gemm") == file.for_prediction("gemm")
        assert store.best(PROBLEM, DEVICE) == file.best(PROBLEM, DEVICE)

    with ResultStore.reader(url) as again:
        assert again.trials() == given
        with pytest.raises(StoreError, match="reading only"):
            again.add(given[0])


def test_the_environment_names_it(url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PORTATILE_STORE", url)
    assert settings.load().store == url
    with ResultStore.default() as store:
        store.add(trial(1, 0.5))
    assert [one.config["TILE"] for one in known_results()("gemm") if one.device == DEVICE] == [1]
    assert main(["results"]) == 0
    assert "gemm" in capsys.readouterr().out
    assert main(["doctor", "--repair"]) == 2
    with ResultStore.default() as store:
        assert store.remove(Query(problem=PROBLEM)) == 1


_WRITER = """
import sys
from support.trials import trial
from portatile.store import ResultStore
with ResultStore(sys.argv[1]) as store:
    for number in range(40):
        store.add(trial(100 * int(sys.argv[2]) + number, 0.1 + number))
"""


def test_several_processes_begin_and_write_at_once(url: str) -> None:
    command = [sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{_WRITER}", url]
    writers = [subprocess.Popen([*command, str(number)]) for number in range(3)]
    assert [writer.wait(240) for writer in writers] == [0, 0, 0]
    with ResultStore.reader(url) as store:
        assert sorted(one.config["TILE"] for one in store.trials()) == sorted(100 * a + b for a in range(3) for b in range(40))  # type: ignore[type-var]


def test_a_trial_sent_twice_is_there_once(url: str) -> None:
    with ResultStore(url) as store:
        store.add(trial(1))
        store.add(trial(1))
        store.add(trial(2))
        assert [one.config["TILE"] for one in store.trials()] == [1, 2]


def test_a_server_killed_in_the_middle_loses_nothing(server: PostgresServer, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with ResultStore(url) as store:
        store.add(trial(1))
        server.kill()
        server.start()
        store.add(trial(2))  # by a new connection, without a word
        server.kill()
        monkeypatch.setattr(postgresql, "PATIENCE", 0.1)
        monkeypatch.setattr(results, "_RETRY", 0.0)
        with pytest.warns(RuntimeWarning, match="will be sent when it is back"):
            store.add(trial(3))
        store.add(trial(4))
        assert [one.config["TILE"] for one in store.trials()] == [3, 4]
        server.start()
        store.add(trial(5))
        assert [one.config["TILE"] for one in store.trials()] == [1, 2, 3, 4, 5]
        server.kill()
        with pytest.warns(RuntimeWarning, match="will be sent"):
            store.add(trial(6))
        server.start()
    with ResultStore.reader(url) as store:
        assert [one.config["TILE"] for one in store.trials()] == [1, 2, 3, 4, 5, 6]


@pytest.mark.filterwarnings("ignore:Port")
def test_a_fleet_goes_on_while_the_server_is_gone(
    server: PostgresServer, url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("distributed", reason="Dask distributed is not installed (extra cluster)")
    from portatile.fleet import search
    from support import fleets

    monkeypatch.setattr(postgresql, "PATIENCE", 0.1)
    monkeypatch.setattr(results, "_RETRY", 0.0)
    monkeypatch.setattr(search, "session", fleets.without_device(tmp_path))

    def listen(progress: Progress) -> None:
        if progress.evaluations == 3:
            server.kill()
        if progress.evaluations == 6:
            server.start()

    warned = pytest.warns(RuntimeWarning, match="will be sent when it is back")
    with fleets.cluster(2, processes=False) as fleet, ResultStore(url) as store, warned:
        result = search.tune(fleets.request(10), fleet.scheduler_address, store, listen)
    with ResultStore.reader(url) as kept:
        fleets.each_once(result, kept, 10)
    fleets.winner_is_as_alone(result)


def test_a_newer_schema_is_refused(url: str) -> None:
    import psycopg

    ResultStore(url).close()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE portatile_format SET version = 99")
    with pytest.raises(StoreError, match=r"a newer portatile wrote it .*or upgrade portatile"):
        ResultStore(url)


@pytest.mark.usefixtures("server")
def test_no_server_there(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = "postgresql://me:secret@127.0.0.1:9/x"
    with pytest.raises(StoreError, match="Is the server there") as raised:
        ResultStore(gone)
    assert "secret" not in str(raised.value)
    monkeypatch.setenv("PORTATILE_STORE", gone)
    with pytest.warns(RuntimeWarning, match="going on without it"):
        assert all(one.device != DEVICE for one in known_results()("gemm"))


def test_another_kind_of_server_is_refused() -> None:
    with pytest.raises(UsageError, match="postgresql://user@host/database"):
        ResultStore("mysql://host/x")


def test_without_the_driver_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(UsageError, match=r"portatile\[cluster\]"):
        ResultStore("postgresql://host/x")
