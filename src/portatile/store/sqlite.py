"""SQLite files of trials: their tables, their version, and connections to them."""

from __future__ import annotations

import contextlib
import sqlite3

from portatile.errors import StoreError
from portatile.store.rows import COLUMNS

MAGIC = b"SQLite format 3\0"
"""The first bytes of every SQLite file."""
VERSION = 1
BUSY_SECONDS = 30.0
FOREIGN = "it is an SQLite file of another program"
_TABLES = """
CREATE TABLE trials (
    id INTEGER PRIMARY KEY,
    workload TEXT NOT NULL,
    problem TEXT NOT NULL,
    device TEXT NOT NULL,
    driver TEXT NOT NULL,
    source TEXT NOT NULL,
    config TEXT NOT NULL,
    status TEXT NOT NULL,
    median REAL,
    record BLOB NOT NULL,
    rank REAL,
    cold INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX by_problem ON trials (problem, device, config);
CREATE INDEX by_workload ON trials (workload);
"""
# Columns that older files of this format may lack; an older portatile, which writes without them, can still use a file that has them.
_ADDED = {"rank": "REAL", "cold": "INTEGER NOT NULL DEFAULT 0"}


def create(name: str) -> sqlite3.Connection:
    """A connection that commits every statement by itself, to a file that has the tables."""
    connection = sqlite3.connect(name, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("BEGIN IMMEDIATE")  # fails here rather than at the first trial if the file cannot be written
        check_version(connection)
        if version_of(connection) == 0:
            for statement in filter(str.strip, _TABLES.split(";")):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {VERSION}")
        for name in _ADDED.keys() - columns(connection):
            connection.execute(f"ALTER TABLE trials ADD COLUMN {name} {_ADDED[name]}")
        connection.execute("COMMIT")
        with contextlib.suppress(sqlite3.OperationalError):  # another process may be doing so; without the log the store is only slower
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("SELECT id FROM trials LIMIT 1").fetchone()  # needs space for the log's index
        connection.execute("PRAGMA synchronous = NORMAL")  # a killed process loses nothing; only a power failure could
    except BaseException:
        connection.close()
        raise
    return connection


def columns(connection: sqlite3.Connection) -> set[str]:
    """The columns of its trials."""
    return {row[1] for row in connection.execute("PRAGMA table_info(trials)")}


def version_of(connection: sqlite3.Connection) -> int:
    """The format of a file, 0 for one without tables."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def newer(version: int) -> str:
    """The message about a store of a newer format."""
    return f"a newer portatile wrote it (its format is {version}, this one knows {VERSION})"


def check_version(connection: sqlite3.Connection) -> None:
    """Raise StoreError for a file of a newer format, or of another program."""
    version = version_of(connection)
    if version > VERSION:
        raise StoreError(newer(version))
    if version == 0 and connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise StoreError(FOREIGN)


def insert(connection: sqlite3.Connection, row: tuple[object, ...]) -> None:
    """Append a row of ``COLUMNS``, as ``row_of`` makes it."""
    connection.execute(_INSERT, row)


_INSERT = f"INSERT INTO trials ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"
