"""Repair of a damaged result store: what can be read is copied to a new file, and the damaged one is kept aside."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from portatile import store
from portatile.errors import StoreError
from portatile.store import DamagedError

_LOG = ("-wal", "-shm")  # files that SQLite keeps beside a database
_LEAST_ROW = 16  # bytes of a row with its record in a table without removals: bounds the number of rows, which a damaged number may exceed
_SMALLEST = 64  # least bytes of a record: bounds how many a file can hold if its page tree is damaged
WAIT = 5.0


@dataclass(frozen=True)
class Damage:
    """The damage of a store: the trials whose records cannot be read, and SQLite's complaints about the file itself."""

    trials: tuple[int, ...] = ()
    file: str = ""

    def __bool__(self) -> bool:
        return bool(self.trials or self.file)

    def __str__(self) -> str:
        some = ", ".join(map(str, self.trials[:5])) + (", ..." if len(self.trials) > 5 else "")
        return "; ".join(filter(None, (self.file, some and f"{len(self.trials)} damaged records: trials {some}")))


@dataclass(frozen=True)
class Repaired:
    """The numbers of trials that were kept and lost (None if unknown), and the present place of the damaged file."""

    kept: int
    lost: int | None
    aside: Path


def examine(path: Path, wait: float = WAIT) -> Damage:
    """Read every record of a store; no damage if there is no file. Raises StoreError if it is another program's or a newer version's."""
    if not path.exists():
        return Damage()
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=wait)) as connection:
            store.check_version(connection)
            answer = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
            rows: Iterable[tuple[int, bytes]] = ()
            if _has_trials(connection):
                rows = connection.execute("SELECT id, record FROM trials")
            return Damage(tuple(number for number, raw in rows if not _reads(raw)), "" if answer == "ok" else str(answer))
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        return Damage(file=str(error))


def repair(path: Path, wait: float = WAIT) -> Repaired | None:
    """Copy the readable trials of the store to a new file, and move the damaged one aside; None if nothing is damaged.

    Raises StoreError if another process holds the store for ``wait`` seconds, if it is another program's file, or if there is not enough
    space for the new one.
    """
    try:
        damage = examine(path, wait)
    except StoreError as error:
        raise StoreError(f"the result store {path} cannot be repaired: {error}") from error
    if not damage:
        return None
    aside = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}")
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".repair-") as folder, _alone(path, wait):
            copy, fresh = Path(folder, "copy.sqlite"), Path(folder, "fresh.sqlite")
            for end in ("", *_LOG):
                with contextlib.suppress(FileNotFoundError):
                    shutil.copyfile(f"{path}{end}", f"{copy}{end}")
            kept, lost = _salvage(copy, fresh)
            for end in ("", *_LOG):  # a remaining log would be applied to the new file
                with contextlib.suppress(FileNotFoundError):
                    Path(f"{path}{end}").rename(f"{aside}{end}")
            fresh.rename(path)
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"the result store {path} cannot be repaired: {error}") from error
    return Repaired(kept, lost, aside)


@contextlib.contextmanager
def _alone(path: Path, wait: float) -> Iterator[None]:
    """A context manager during which no other process writes to the file, as far as SQLite can still tell."""
    connection = sqlite3.connect(path, timeout=wait, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        if "locked" in str(error) or "busy" in str(error):
            connection.close()
            raise
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        pass  # too damaged to be locked
    try:
        yield
    finally:
        with contextlib.suppress(sqlite3.Error):
            connection.rollback()
        connection.close()


def _salvage(damaged: Path, fresh: Path) -> tuple[int, int | None]:
    """Copy every trial that can be read; returns how many, and how many are lost, None if the file does not tell how many there were."""
    kept = lost = 0
    last = _last(damaged)
    with contextlib.closing(store.create(str(fresh))) as new:
        new.execute("BEGIN")
        for raw in _records(damaged, last):
            if raw is not None and _reads(raw):
                store.insert(new, store.row_of(store.decoded(raw)))
                kept += 1
            else:
                lost += 1
        new.execute("COMMIT")
        new.execute("PRAGMA journal_mode = DELETE")  # the file is moved without a log
    return kept, lost if last is not None else None


def _last(path: Path) -> int | None:
    """The number of the last trial, None if the damage hides it."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        try:
            last = int(connection.execute("SELECT max(id) FROM trials").fetchone()[0] or 0)
        except (sqlite3.DatabaseError, UnicodeDecodeError):
            return None
    return min(last, path.stat().st_size // _LEAST_ROW)


def _records(path: Path, last: int | None) -> Iterator[bytes | None]:
    """The records, each looked up by its number, so that a damaged page costs only the records on it; None for a lost one.

    ``last`` is the last number; if unknown, all numbers are tried that a file of this size can hold.
    """
    with contextlib.closing(sqlite3.connect(path)) as connection:
        for number in range(1, (path.stat().st_size // _SMALLEST if last is None else last) + 1):
            try:
                row = connection.execute("SELECT record FROM trials WHERE id = ?", (number,)).fetchone()
            except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
                if "not a database" in str(error) or "no such table" in str(error):
                    return
                if last is not None:
                    yield None
                continue
            if row is not None:
                yield row[0]


def _has_trials(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'trials'").fetchone() is not None


def _reads(raw: bytes) -> bool:
    try:
        store.decoded(raw)
    except DamagedError:
        return False
    return True
