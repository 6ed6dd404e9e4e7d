"""Which trial the store calls the best: a race's word counts, newer trials replace older ones, luck does not win."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from portatile import store as stores
from portatile.records import Layout, from_json, to_json
from portatile.store import ResultStore, sqlite
from portatile.trials import Certificate, Check, Standing, Trial
from support.trials import DEVICE, PROBLEM, trial


def raced(tile: int, seconds: float, place: int = 1, stands: float | None = None) -> Trial:
    standing = Standing(seconds if stands is None else stands, (0.9 * seconds, 1.1 * seconds), place, True, "race")
    return replace(trial(tile, seconds), standing=standing)


def best(*trials: Trial) -> object:
    with ResultStore(None) as store:
        for one in trials:
            store.add(one)
        result = store.best(PROBLEM, DEVICE)
        assert [result] == (store.leaders("gemm", 1) or [None])
        return None if result is None else result.config["TILE"]


def test_luck_does_not_beat_a_race() -> None:
    assert best(raced(1, 1.0), trial(2, 0.95)) == 1
    assert best(trial(2, 0.95), raced(1, 1.0)) == 1
    assert best(raced(1, 1.0), trial(2, 0.85)) == 2  # that is more than luck


def test_a_race_replaces_the_lucky_measurement_of_the_same_configuration() -> None:
    assert best(trial(1, 0.5), trial(2, 0.6), raced(1, 1.0)) == 2
    assert best(trial(1, 0.5), raced(1, 1.0), raced(2, 0.99, 2, 1.000001)) == 1  # tied, and the race decided


def test_a_configuration_that_fails_now_is_out() -> None:
    assert best(trial(1, 0.5), trial(2, 0.6), trial(1, status="wrong")) == 2
    assert best(trial(1, 0.5), trial(1, status="wrong")) is None
    assert best(trial(1, status="crash"), trial(1, 0.5), trial(2, 0.6)) == 1
    assert best(trial(1, 0.5), trial(1, status="skipped")) == 1  # nothing was found out


def test_cold_times_come_last() -> None:
    cold = replace(trial(1, 0.1), cold=True)
    assert best(cold, trial(2, 0.5)) == 2
    assert best(cold) == 1
    assert best(trial(1, 0.5), replace(trial(1, 0.1), cold=True, status="wrong", samples=()), trial(2, 0.6)) == 1


def test_records_of_winners_survive_the_file(tmp_path: Path) -> None:
    check = Check({"m": 1, "n": 3, "k": 5}, 0.25, 1e-6, {"a": Layout((7, 1), 3)})
    proof = Certificate("1.0", "compiler 1", "source 1", (check,), "", "2026-01-01T00:00:00+00:00")
    one = replace(raced(1, 1.0), certificate=proof, conditions={"power_w": 300.0})
    with ResultStore(tmp_path / "results.sqlite") as store:
        store.add(one)
    with ResultStore(tmp_path / "results.sqlite") as store:
        assert store.trials() == [one]
    assert proof.holds(DEVICE, "source 1")
    assert not proof.holds(replace(DEVICE, driver="2.0"), "source 1")
    assert not proof.holds(replace(DEVICE, compiler="compiler 2"), "source 1")
    assert not proof.holds(DEVICE, "source 2")
    assert one.energy == 300.0
    assert trial(1).energy is None


OLD_TABLES = """
CREATE TABLE trials (id INTEGER PRIMARY KEY, workload TEXT NOT NULL, problem TEXT NOT NULL, device TEXT NOT NULL, driver TEXT NOT NULL,
    source TEXT NOT NULL, config TEXT NOT NULL, status TEXT NOT NULL, median REAL, record BLOB NOT NULL);
PRAGMA user_version = 1;
"""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A store as it was before races: without the columns, and records without the fields."""
    path = tmp_path / "results.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript(OLD_TABLES)
    for tile, seconds in ((1, 0.7), (2, 0.5)):
        row = stores.row_of(trial(tile, seconds))
        record = from_json(to_json(trial(tile, seconds)), dict)
        for name in ("certificate", "standing", "conditions", "cold"):
            del record[name]
        connection.execute("INSERT INTO trials VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (*row[:8], to_json(record)))
    connection.commit()
    connection.close()
    return path


def test_an_older_store_is_read_and_extended(old: Path) -> None:
    with ResultStore(old) as store:
        assert [leader.config["TILE"] for leader in store.leaders()] == [2]
        store.add(raced(1, 0.52))
        assert [leader.config["TILE"] for leader in store.leaders()] == [1]
    with sqlite3.connect(old) as connection:  # an older portatile names its columns when it writes
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
        row = stores.row_of(trial(3, 0.1))[:9]
        names = "workload, problem, device, driver, source, config, status, median, record"
        connection.execute(f"INSERT INTO trials ({names}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    connection.close()
    with ResultStore(old) as store:
        assert [leader.config["TILE"] for leader in store.leaders()] == [3]


def test_an_older_store_that_cannot_be_written_is_read(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create = stores.create

    def refuse(name: str) -> sqlite3.Connection:
        if name == ":memory:":
            return create(name)
        raise sqlite3.OperationalError("attempt to write a readonly database")

    monkeypatch.setattr(sqlite, "create", refuse)
    with pytest.warns(RuntimeWarning, match="cannot be written"), ResultStore(old) as store:
        assert [leader.config["TILE"] for leader in store.leaders()] == [2]


def test_a_certificate_is_printed_as_lines() -> None:
    checks = (Check({"m": 1, "n": 3}, 0.25, 1e-6), Check({"m": 7, "n": 5}, 0.0, 1e-6))
    proof = Certificate("1.0", "compiler 1", "0123456789abcdef", checks, "", "2026-01-01")
    first, second, holds = str(proof).splitlines()
    assert (first, second) == ("m=1 n=3: error 0.25 of the allowed", "m=7 n=5: error 0 of the allowed")
    assert holds == "driver 1.0, compiler 1, kernel text 0123456789ab, 2026-01-01"
    assert str(replace(proof, checks=(), failure="C[0] is wrong")).splitlines()[:2] == ["checked on nothing", "failed: C[0] is wrong"]
