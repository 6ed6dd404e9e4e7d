"""A connection to a PostgreSQL server with the interface of sqlite3: the same statements, the same table, the same exceptions.

Every statement is committed by itself. A broken connection is retried for ``PATIENCE`` seconds; then sqlite3.OperationalError is raised, as
for a file that cannot be written. A row that is sent twice, because the answer to the first attempt was lost, is stored once: the digest of
its record is unique.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from portatile.errors import StoreError, UsageError
from portatile.store import sqlite
from portatile.store.rows import COLUMNS

SCHEMES = ("postgresql://", "postgres://")
PATIENCE = 10.0
"""Seconds that a statement waits for a server that does not answer."""
_PAUSE = 0.25  # seconds between two attempts
_CONNECT_SECONDS = 5
_LOCK = 0x706F7274  # key of the advisory lock for creating tables: "port" in ASCII
_TABLES = """
CREATE TABLE IF NOT EXISTS portatile_format (version INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS trials (
    id BIGSERIAL PRIMARY KEY,
    workload TEXT NOT NULL,
    problem TEXT NOT NULL,
    device TEXT NOT NULL,
    driver TEXT NOT NULL,
    source TEXT NOT NULL,
    config TEXT NOT NULL,
    status TEXT NOT NULL,
    median DOUBLE PRECISION,
    record BYTEA NOT NULL,
    rank DOUBLE PRECISION,
    cold INTEGER NOT NULL DEFAULT 0,
    digest BYTEA NOT NULL UNIQUE
);
CREATE INDEX IF NOT EXISTS by_problem ON trials (problem, device, config);
CREATE INDEX IF NOT EXISTS by_workload ON trials (workload);
INSERT INTO portatile_format SELECT {version} WHERE NOT EXISTS (SELECT * FROM portatile_format);
"""
_INSERT = (
    f"INSERT INTO trials ({', '.join(COLUMNS)}, digest) VALUES ({', '.join(['%s'] * (len(COLUMNS) + 1))}) ON CONFLICT (digest) DO NOTHING"
)


def is_url(place: str) -> bool:
    """Whether a store's place is a server's address rather than a file's name; raises UsageError for another kind of server."""
    if "://" in place and not place.startswith(SCHEMES):
        raise UsageError(
            f"PORTATILE_STORE={shown(place)!r} is neither a file nor a PostgreSQL address; write postgresql://user@host/database"
        )
    return place.startswith(SCHEMES)


def shown(url: str) -> str:
    """The address without its password."""
    parts = urlsplit(url)
    if not parts.password:
        return url
    return urlunsplit(parts._replace(netloc=parts.netloc.replace(f":{parts.password}@", ":***@")))


class Server:
    """A connection to the trials on a server. Thread-safe."""

    def __init__(self, url: str) -> None:
        """Connect, and create missing tables. Raises StoreError if a newer version created them, else sqlite3's errors."""
        self.url = url
        self._psycopg = _driver()
        self._connection: Any = None
        self._lock = threading.RLock()
        self._connect()

    def execute(self, statement: str, values: Sequence[object] = ()) -> Any:
        """Run a statement with sqlite3's placeholders; returns a cursor."""
        return self._run(statement.replace("?", "%s"), values)

    def insert(self, row: tuple[object, ...]) -> None:
        """Append a row of ``COLUMNS``, unless it exists already."""
        record = row[COLUMNS.index("record")]
        assert isinstance(record, bytes)
        self._run(_INSERT, (*row, hashlib.sha256(record).digest()))

    def close(self) -> None:
        """Close the connection; a second call does nothing."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _run(self, statement: str, values: Sequence[object]) -> Any:
        psycopg, until = self._psycopg, time.monotonic() + PATIENCE
        with self._lock:
            while True:
                try:
                    if self._connection is None:
                        self._connect()
                    return self._connection.execute(statement, values)
                except (psycopg.OperationalError, psycopg.InterfaceError, sqlite3.OperationalError) as error:
                    self.close()
                    if time.monotonic() > until:
                        raise sqlite3.OperationalError(_first_line(error)) from error
                    time.sleep(_PAUSE)
                except psycopg.Error as error:
                    raise sqlite3.DatabaseError(_first_line(error)) from error

    def _connect(self) -> None:
        psycopg = self._psycopg
        try:
            connection = psycopg.connect(self.url, autocommit=True, connect_timeout=_CONNECT_SECONDS, application_name="portatile")
            try:
                _make_tables(connection)
            except BaseException:
                connection.close()
                raise
        except psycopg.OperationalError as error:
            raise sqlite3.OperationalError(_first_line(error)) from error
        except psycopg.Error as error:
            raise sqlite3.DatabaseError(_first_line(error)) from error
        self._connection = connection


def _make_tables(connection: Any) -> None:
    """Create missing tables; processes that start at the same time wait for each other."""
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        known = connection.execute("SELECT to_regclass('portatile_format')").fetchone()[0]
        if known is None:
            connection.execute(_TABLES.format(version=sqlite.VERSION))
        version = connection.execute("SELECT max(version) FROM portatile_format").fetchone()[0]
    if version > sqlite.VERSION:
        raise StoreError(sqlite.newer(version))


def _driver() -> Any:
    try:
        import psycopg
    except ImportError:
        remedy = "pip install 'portatile[cluster]', in a clone '.[cluster]'"
        raise UsageError(f"a result store on a PostgreSQL server needs psycopg: {remedy}") from None
    return psycopg


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
