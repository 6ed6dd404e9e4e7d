"""A damaged result store: routines go on, commands say which record, and repair keeps all that can be read."""

from __future__ import annotations

import sqlite3
import warnings
from pathlib import Path

import pytest
from click.testing import CliRunner

from portatile import doctor, repair
from portatile.cli.doctor import command
from portatile.errors import StoreError
from portatile.store import ResultStore, known_results
from portatile.trials import Trial
from support.trials import trial


def filled(path: Path, count: int = 40) -> list[Trial]:
    written = [trial(number, 1.0 + number) for number in range(count)]
    with ResultStore(path) as store:
        for one in written:
            store.add(one)
    return written


def flip(path: Path, number: int) -> None:
    """One byte of a record becomes one that is no UTF-8."""
    connection = sqlite3.connect(path)
    (raw,) = connection.execute("SELECT record FROM trials WHERE id = ?", (number,)).fetchone()
    connection.execute("UPDATE trials SET record = ? WHERE id = ?", (raw.replace("é".encode(), b"\xff\xa9"), number))
    connection.commit()
    connection.close()


def test_one_damaged_byte_is_named_and_does_not_stop_routines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path))
    path = tmp_path / "results.sqlite"
    written = filled(path)
    flip(path, 2)
    with ResultStore.reader(path) as store, pytest.raises(StoreError, match=r"trial 2 .*doctor --repair"):
        store.trials()
    with pytest.warns(RuntimeWarning, match="trial 2") as warned:
        result = known_results()("gemm")
    assert len(warned) == 1
    assert [one for one in result if one in written] == [written[0], *written[2:5]], "the others still count"


@pytest.mark.parametrize("damage", ["byte", "json", "depth", "page", "header", "index"])
def test_repair_keeps_what_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path))
    path = tmp_path / "results.sqlite"
    written = filled(path, 200)
    assert repair.examine(path) == repair.Damage()
    assert repair.repair(path) is None
    if damage == "byte":
        flip(path, 7)
    elif damage in ("json", "depth"):
        connection = sqlite3.connect(path)
        connection.execute("UPDATE trials SET record = ? WHERE id = 7", (b"{" if damage == "json" else b'{"problem":' + b"[" * 100_000,))
        connection.commit()
        connection.close()
    else:
        raw = bytearray(path.read_bytes())
        pages = len(raw) // 4096
        start, end = {"page": (20, 23), "header": (0, 1), "index": (2, 3)}[damage]
        assert end < pages
        raw[start * 4096 : end * 4096] = b"\xa5" * ((end - start) * 4096)
        path.write_bytes(raw)
    before = path.read_bytes()
    assert doctor._store(path).level == "broken"
    result = CliRunner().invoke(command, ["--repair"])
    assert result.exit_code == 0, result.output
    assert "aside" in result.output or "damaged file is now" in result.output
    with warnings.catch_warnings(), ResultStore(path) as store:
        warnings.simplefilter("error")
        kept = store.trials()
        store.add(trial(999))
    least = {"byte": 199, "json": 199, "depth": 199, "page": 150, "header": 0, "index": 150}[damage]
    assert len(kept) >= least
    assert all(one in written for one in kept)
    (aside,) = (file for file in tmp_path.iterdir() if ".damaged-" in file.name and not file.name.endswith(("-wal", "-shm")))
    assert aside.read_bytes() == before
    assert doctor._store(path).level == "ok"
    assert "nothing is damaged" in CliRunner().invoke(command, ["--repair"]).output


def test_repair_waits_for_nobody(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    filled(path, 5)
    flip(path, 3)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="locked"):
        repair.repair(path, wait=0.1)
    other.rollback()
    other.close()
    done = repair.repair(path)
    assert done is not None
    assert (done.kept, done.lost) == (4, 1)


@pytest.mark.parametrize("left", [0.2, 0.6, None])
def test_what_cannot_be_counted_is_not_called_nothing(left: float | None, tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    filled(path, 30)
    whole = path.read_bytes()
    path.write_bytes(b"hello\n" if left is None else whole[: int(left * len(whole))])
    done = repair.repair(path)
    assert done is not None
    assert done.lost is None
    assert done.kept < 30
    assert not repair.examine(path)


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE songs (title TEXT)")
    connection.close()
    with pytest.raises(StoreError, match="another program"):
        repair.repair(path)
