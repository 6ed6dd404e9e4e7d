"""The result store: what goes in comes out, from several processes at once, and a store in trouble says so."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from portatile import store as stores
from portatile.errors import StoreError
from portatile.records import to_json
from portatile.store import Query, ResultStore, known, known_results, sqlite
from support.trials import DEVICE, PROBLEM, trial


def test_trials_survive_the_file(tmp_path: Path) -> None:
    written = [trial(1), trial(2, status="crash"), trial(3, 0.5)]
    with ResultStore(tmp_path / "deep" / "results.sqlite") as store:
        for one in written:
            store.add(one)
    with ResultStore(tmp_path / "deep" / "results.sqlite") as store:
        assert store.trials() == written


def test_queries_select(tmp_path: Path) -> None:
    other_problem = replace(PROBLEM, sizes={"m": 65, "n": 32, "k": 16})
    other_driver = replace(DEVICE, driver="2.0", id="opencl:1:0")
    other_device = replace(DEVICE, name="another device")
    written = [
        trial(1),
        trial(2, status="wrong"),
        trial(1, problem=other_problem),
        trial(1, device=other_driver),
        trial(1, device=other_device),
    ]
    with ResultStore(tmp_path / "results.sqlite") as store:
        for one in written:
            store.add(one)
        assert store.trials(Query(problem=PROBLEM)) == [written[0], written[1], written[3], written[4]]
        assert store.trials(Query(problem=PROBLEM, device=DEVICE)) == [written[0], written[1], written[3]]
        assert store.trials(Query(problem=PROBLEM, device=DEVICE, driver="1.0")) == written[:2]
        assert store.trials(Query(status="wrong")) == [written[1]]
        assert store.trials(Query(source="source 2")) == [written[1]]
        assert store.trials(Query(workload="matmul")) == []
        shuffled = dict(reversed(list(written[0].config.items())))
        assert store.trials(Query(config=shuffled, problem=PROBLEM, device=other_device)) == [written[4]]


def test_best_is_the_fastest_valid_trial(tmp_path: Path) -> None:
    with ResultStore(tmp_path / "results.sqlite") as store:
        assert store.best(PROBLEM, DEVICE) is None
        for one in (trial(1, 2.0), trial(2, 0.5), trial(3, 0.1, "wrong"), trial(4, 0.7)):
            store.add(one)
        result = store.best(PROBLEM, DEVICE)
        assert result is not None
        assert result.config["TILE"] == 2
        assert [leader.config["TILE"] for leader in store.leaders("gemm", 2)] == [2, 4]


def test_memory_store_keeps_nothing_on_disk() -> None:
    with ResultStore(None) as store:
        store.add(trial(1))
        assert store.trials() == [trial(1)]


def test_several_processes_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    script = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from pathlib import Path
from support.trials import trial
from portatile.store import ResultStore
with ResultStore(Path({str(path)!r})) as store:
    for i in range(40):
        store.add(trial(int(sys.argv[1]) * 100 + i))
"""
    workers = [subprocess.Popen([sys.executable, "-W", "error", "-c", script, str(number)]) for number in range(3)]
    assert [worker.wait(120) for worker in workers] == [0, 0, 0]
    with ResultStore(path) as store:
        assert len({one.config["TILE"] for one in store.trials()}) == 120


def test_newer_store_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    ResultStore(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {sqlite.VERSION + 1}")
    connection.close()
    with pytest.raises(StoreError, match=r"newer portatile wrote it .*Set PORTATILE_STORE to another file or server, or upgrade portatile"):
        ResultStore(path)


def test_foreign_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE songs (title TEXT)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="another program"):
        ResultStore(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("damage", ["text", "torn", "record"])
def test_damaged_file_is_named(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "results.sqlite"
    with ResultStore(path) as store:
        for number in range(200):
            store.add(trial(number))
    if damage == "text":
        path.write_text("these are no results" * 1000)
    elif damage == "torn":
        raw = bytearray(path.read_bytes())
        raw[4096 : 4096 * 8] = b"\xa5" * (4096 * 7)
        path.write_bytes(raw)
    else:
        connection = sqlite3.connect(path)
        connection.execute("UPDATE trials SET record = ? WHERE id = 3", (b'{"problem": 1}',))
        connection.commit()
        connection.close()
    with pytest.raises(StoreError, match=str(path)):
        ResultStore(path).trials()


def test_unwritable_folder_keeps_results_in_memory(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.warns(RuntimeWarning, match="cannot be written") as warned:
        store = ResultStore(blocked / "results.sqlite")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.add(trial(1))
        store.add(trial(2))
    assert len(warned) == 1
    assert store.trials() == [trial(1), trial(2)]
    store.close()


def test_read_only_file_is_still_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "results.sqlite"
    with ResultStore(path) as store:
        store.add(trial(1))
    create = stores.create

    def refuse(name: str) -> sqlite3.Connection:
        if name == ":memory:":
            return create(name)
        raise sqlite3.OperationalError("attempt to write a readonly database")  # root, as whom the tests may run, is never refused

    monkeypatch.setattr(sqlite, "create", refuse)
    with pytest.warns(RuntimeWarning, match="cannot be written"):
        store = ResultStore(path)
    store.add(trial(2))
    assert store.trials() == [trial(1), trial(2)]
    store.close()


@pytest.mark.filterwarnings("error")
def test_what_is_only_read_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "deep" / "results.sqlite"
    with ResultStore.reader(path) as store:
        assert store.trials() == store.leaders() == []
    assert not path.parent.exists()
    with ResultStore(path) as store:
        store.add(trial(1))
    before = path.read_bytes()
    monkeypatch.setattr(sqlite, "create", lambda name: pytest.fail("it was opened for writing"))
    with ResultStore.reader(path) as store:
        assert store.trials() == store.leaders() == [trial(1)]
        with pytest.raises(StoreError, match="for reading only"):
            store.add(trial(2))
    assert path.read_bytes() == before
    monkeypatch.setenv("PORTATILE_DATA_DIR", str(path.parent))
    assert trial(1) in known_results()("gemm")


@pytest.mark.filterwarnings("error")
def test_a_file_on_a_file_system_that_cannot_be_written_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "results.sqlite"
    with ResultStore(path) as store:
        store.add(trial(1))
    connect = sqlite3.connect
    refused = []

    def refuse(name: str, **options: object) -> sqlite3.Connection:
        if "immutable" not in name:  # the index of the write-ahead log cannot be made there
            refused.append(name)
            raise sqlite3.OperationalError("unable to open database file")
        return connect(name, **options)  # type: ignore[call-overload,no-any-return]

    monkeypatch.setattr(sqlite3, "connect", refuse)
    with ResultStore.reader(path) as store:
        assert store.trials() == [trial(1)]
    assert len(refused) == 1


def test_a_folder_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be read"):
        ResultStore.reader(tmp_path)


def test_a_store_that_is_removed_while_in_use_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "results.sqlite"
    with ResultStore(path) as store:
        store.add(trial(1))
        for file in list(path.parent.iterdir()):
            file.unlink()
        path.parent.rmdir()
        store.add(trial(2))
        assert store.trials() == [trial(2)]
        with ResultStore.reader(path) as other:
            assert other.trials() == [trial(2)]


def test_a_disk_too_full_for_the_first_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "results.sqlite"
    create = stores.create

    def full(name: str) -> sqlite3.Connection:
        if name == ":memory:":
            return create(name)
        path.touch()  # SQLite makes the file, and finds no room for its first page
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(sqlite, "create", full)
    with pytest.warns(RuntimeWarning, match="full"):
        store = ResultStore(path)
    assert store.trials() == store.leaders() == []
    store.add(trial(1))
    assert store.trials() == store.leaders() == [trial(1)]
    store.close()
    monkeypatch.undo()
    with ResultStore.reader(path) as store:
        assert store.trials() == store.leaders() == []
    with ResultStore(path) as store:
        store.add(trial(2))
    with ResultStore.reader(path) as store:
        assert store.trials() == [trial(2)]


def test_a_full_disk_is_called_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the index of the log finds no room, SQLite says no more than that input or output failed."""
    path = tmp_path / "results.sqlite"
    with ResultStore(path) as store:
        store.add(trial(1))
    create = stores.create

    def full(name: str) -> sqlite3.Connection:
        if name == ":memory:":
            return create(name)
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(sqlite, "create", full)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=0))
    with pytest.warns(RuntimeWarning, match="disk I/O error, no space is left on the disk"):
        store = ResultStore(path)
    store.add(trial(2))
    assert store.trials() == [trial(1), trial(2)]
    store.close()


def test_full_disk_goes_on_in_memory(tmp_path: Path) -> None:
    with ResultStore(tmp_path / "results.sqlite") as store:
        store.add(trial(1))
        assert store._file is not None
        pages = store._file.execute("PRAGMA page_count").fetchone()[0]
        store._file.execute(f"PRAGMA max_page_count = {pages}")  # what a full disk answers
        long = replace(trial(2), message="x" * 100_000)
        with pytest.warns(RuntimeWarning, match="full"):
            store.add(long)
        store.add(trial(3))
        assert store.trials() == [trial(1), long, trial(3)]


def test_known_results_are_the_leaders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path))
    elsewhere = trial(98, 0.5, device=replace(DEVICE, name="another"))
    ours = trial(99, 0.5)  # of a device of this name, but another machine
    monkeypatch.setattr(known, "shipped", lambda workload=None: [elsewhere, ours])
    assert known_results()("gemm") == [elsewhere, ours]
    assert not (tmp_path / "results.sqlite").exists()  # looking creates nothing
    with ResultStore.default() as store:
        store.add(trial(0, 1.0))
        assert [one.config["TILE"] for one in known_results()("gemm")] == [0, 98, 99], "there was no time but for the default"
        for number in range(1, 20):
            store.add(trial(number, 1.0 + number))
    assert [one.config["TILE"] for one in known_results()("gemm")] == [0, 1, 2, 3, 4, 98], "what was tuned here counts"
    (tmp_path / "results.sqlite").write_text("damaged" * 1000)
    with pytest.warns(RuntimeWarning, match="going on without it"):
        assert known_results()("gemm") == [elsewhere, ours]


def test_shipped_results_can_be_read() -> None:
    for one in stores.shipped():
        assert one.status == "ok"
        assert to_json(one)
