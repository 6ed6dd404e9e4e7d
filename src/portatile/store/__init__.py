"""ResultStore: trials in, trials out; one SQLite file that several tuners share."""

from __future__ import annotations

import contextlib
import sqlite3
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

import msgspec

from portatile import settings
from portatile.errors import StoreError
from portatile.records import Config, DeviceInfo, Problem, canonical, digest, from_json, to_json
from portatile.trials import UNRACED, Status, Trial

VERSION = 1
_BUSY_SECONDS = 30.0
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
# Columns that files of this format may lack: an earlier portatile, which writes without them, can go on using a file that has them.
_ADDED = {"rank": "REAL", "cold": "INTEGER NOT NULL DEFAULT 0"}
# Of every configuration its newest trial counts, unless that failed: then the configuration does not. Warm and cold apart. Only keys are
# sorted; records are fetched in the end.
_PLACED = """
SELECT id, problem, device, config, late, seconds,
    row_number() OVER (PARTITION BY problem, device ORDER BY late, seconds, id) AS place
FROM (
    SELECT id, problem, device, config, {cold} AS late, COALESCE({rank}, median * {unraced}) AS seconds FROM trials WHERE id IN (
        SELECT max(id) FROM trials WHERE {where} AND status != 'skipped' GROUP BY problem, device, config, {cold}
    ) AND status = 'ok' AND median IS NOT NULL
)
"""

_CROSSED = """
place <= ? OR (device, config) IN (SELECT device, config FROM placed WHERE place = 1)
OR (problem, device, config) IN
    (SELECT problem, device, config FROM trials WHERE id IN (SELECT min(id) FROM trials WHERE {where} GROUP BY problem, device))
"""

REPAIR = "`portatile doctor --repair` keeps all that can be read"


class DamagedError(ValueError):
    """A record that is no trial."""


def decoded(raw: bytes) -> Trial:
    """The trial of a record; raises DamagedError for one that is damaged."""
    try:
        return from_json(raw, Trial)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:  # a ValueError: invalid UTF-8
        raise DamagedError(str(error)) from None


def device_key(device: DeviceInfo) -> str:
    """What makes two devices the same for a result: the hardware and its back end, not the driver, the machine or its place in a list."""
    kind = {"backend": device.backend, "platform": device.platform, "name": device.name, "architecture": device.architecture}
    return digest(canonical(kind | {"vendor": device.vendor, "compute_units": device.compute_units}))


@dataclass(frozen=True)
class Query:
    """Which trials are wanted; ``None`` is any. ``device`` compares as ``device_key`` does, so ``driver`` is asked for by itself."""

    problem: Problem | None = None
    workload: str | None = None
    device: DeviceInfo | None = None
    driver: str | None = None
    source: str | None = None
    config: Config | None = None
    status: Status | None = None

    def _where(self) -> tuple[str, list[str]]:
        wanted = {
            "problem": None if self.problem is None else self.problem.key,
            "workload": self.workload,
            "device": None if self.device is None else device_key(self.device),
            "driver": self.driver,
            "source": self.source,
            "config": None if self.config is None else canonical(self.config),
            "status": self.status,
        }
        given = {column: value for column, value in wanted.items() if value is not None}
        return " AND ".join(f"{column} = ?" for column in given) or "1", list(given.values())


class ResultStore:
    """Trials in a file, each committed as it is added, so that a killed process loses none.

    Several processes may read and write one file at once. Where the file cannot be written (no permission, disk full, locked
    for too long) the store warns once and keeps what is added from then on in memory; what the file holds stays readable.
    A store that is only read neither makes a file nor changes one, and says nothing where it may not be written. Raises StoreError
    for a file that a newer version wrote, that is damaged, or that is something else.
    """

    def __init__(self, path: Path | None, read_only: bool = False, lenient: bool = False) -> None:
        """Open or create the store at ``path``; ``None`` keeps everything in memory. With ``read_only`` no file is an empty store.

        ``lenient``: records that cannot be read are left out, and the first of them is warned of once.
        """
        self.path = path
        self._lenient = lenient
        self._warned = False
        self._read_only = read_only
        self._memory: sqlite3.Connection | None = None
        self._file: sqlite3.Connection | None = None
        if path is None:
            self._memory = create(":memory:")
        else:
            self._file = self._read_file(path) if read_only else self._open(path)
            if read_only and self._file is None and path.exists():
                raise StoreError(f"the result store {path} cannot be read; is it a file that you may read?")

    @classmethod
    def default(cls) -> ResultStore:
        """The user's store, where the settings say."""
        return cls(settings.load().store_path)

    @classmethod
    def reader(cls, path: Path | None = None, lenient: bool = False) -> ResultStore:
        """The store at ``path``, else the user's, to be read only."""
        return cls(path or settings.load().store_path, read_only=True, lenient=lenient)

    def add(self, trial: Trial) -> None:
        """Append a trial and commit it; raises StoreError where the store was opened to be read only."""
        if self._read_only:
            raise StoreError(f"the result store {self.path} was opened for reading only")
        row = row_of(trial)
        if self._file is not None and self._memory is None and self.path is not None and not self.path.exists():
            self._file.close()  # somebody removed it: what is added goes to a new one, not into nothing
            self._file = self._open(self.path)
        if self._memory is None and self._file is not None:
            try:
                insert(self._file, row)
                return
            except sqlite3.OperationalError as error:
                self._forget(error)
            except sqlite3.DatabaseError as error:
                raise self._unusable(error) from error
        assert self._memory is not None
        insert(self._memory, row)

    def remove(self, query: Query) -> int:
        """Delete the trials that match; returns how many there were. Raises StoreError where the file cannot be written."""
        if self._read_only or self._file is None or self._memory is not None:
            raise StoreError(f"the result store {self.path} cannot be written")
        where, values = query._where()
        try:
            return self._file.execute(f"DELETE FROM trials WHERE {where}", values).rowcount
        except sqlite3.Error as error:
            raise self._unusable(error) from error

    def trials(self, query: Query | None = None) -> list[Trial]:
        """The trials that match, oldest first."""
        where, values = (query or Query())._where()
        return self._read(f"SELECT id, record FROM trials WHERE {where} ORDER BY id", values)

    def best(self, problem: Problem, device: DeviceInfo) -> Trial | None:
        """The fastest valid trial of the problem on the device, with any driver, or None: the leader of that problem."""
        return next(iter(self._leaders(Query(problem=problem, device=device), 1)), None)

    def leaders(self, workload: str | None = None, count: int = 1) -> list[Trial]:
        """The ``count`` fastest valid configurations of every problem on every device, fastest first.

        Of each configuration its newest trial counts, and one whose newest trial failed does not. They are ordered by ``Trial.rank``: a
        time from a race as it is, any other as if it were 10 % longer, so that a lucky measurement does not beat the winner
        of a race. Trials with cold caches come after all others of their problem and device.
        """
        return self._leaders(Query(workload=workload), count)

    def crossed(self, workload: str, count: int = 5) -> list[Trial]:
        """The ``leaders``, each problem's first trial (its default), and what its fastest took on the device's other problems."""
        return self._leaders(Query(workload=workload), count, _CROSSED)

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        for connection in (self._file, self._memory):
            if connection is not None:
                connection.close()

    def __enter__(self) -> ResultStore:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _leaders(self, query: Query, count: int, wanted: str = "place <= ?") -> list[Trial]:
        where, values = query._where()
        found: list[Trial] = []
        for connection in filter(None, (self._file, self._memory)):
            there = self._columns(connection)  # a file that cannot be written keeps the columns it had; GROUP BY 0 would be an error
            columns = {name: name if name in there else default for name, default in (("rank", "NULL"), ("cold", "(0 + 0)"))}
            placed = _PLACED.format(where=where, unraced=UNRACED, **columns)
            chosen = f"SELECT id, late, seconds FROM placed WHERE {wanted.format(where=where)}"
            ranked = f"WITH placed AS ({placed}) SELECT id, record FROM trials JOIN ({chosen}) USING (id) ORDER BY late, seconds, id"
            found += self._read(ranked, [*values, count, *(values if "{where}" in wanted else ())], (connection,))
        return sorted(found, key=lambda trial: (trial.cold, trial.rank))

    def _columns(self, connection: sqlite3.Connection) -> set[str]:
        try:
            return _columns(connection)
        except sqlite3.Error as error:
            raise self._unusable(error) from error

    def _open(self, path: Path) -> sqlite3.Connection | None:
        """A connection that can write; else one that can read, or none, and what is added goes to memory."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            return create(str(path))
        except (OSError, sqlite3.OperationalError) as error:
            self._forget(error)
        except (sqlite3.DatabaseError, StoreError) as error:
            raise self._unusable(error) from error
        return self._read_file(path)

    def _read_file(self, path: Path) -> sqlite3.Connection | None:
        """A connection that can only read, or none where there is no file, or none that can be read."""
        with contextlib.suppress(OSError):
            if not path.is_file():
                return None
        for mode in ("mode=ro", "immutable=1"):  # the second where not even the write-ahead log's index can be made
            try:
                connection = sqlite3.connect(f"file:{quote(str(path))}?{mode}", uri=True, timeout=_BUSY_SECONDS, check_same_thread=False)
                check_version(connection)
                if _version(connection) == 0:  # it was made, and nothing came into it: the disk is full
                    connection.close()
                    return create(":memory:")
            except sqlite3.OperationalError:
                continue
            except (sqlite3.DatabaseError, StoreError) as error:
                raise self._unusable(error) from error
            return connection
        return None

    def _forget(self, error: Exception) -> None:
        self._memory = create(":memory:")
        message = (
            f"the result store {self.path} cannot be written ({error}); results are kept until this process ends. Set PORTATILE_DATA_DIR"
        )
        warnings.warn(message, RuntimeWarning, stacklevel=4)

    def _read(self, statement: str, values: Sequence[object], connections: Sequence[sqlite3.Connection] | None = None) -> list[Trial]:
        found = []
        for connection in (self._file, self._memory) if connections is None else connections:
            if connection is not None:
                try:
                    rows = connection.execute(statement, values).fetchall()
                except sqlite3.Error as error:
                    raise self._unusable(error) from error
                found += [trial for number, raw in rows if (trial := self._trial(number, raw)) is not None]
        return found

    def _trial(self, number: int, raw: bytes) -> Trial | None:
        """A record as a trial; None where it is damaged and the store is lenient, else StoreError."""
        try:
            return decoded(raw)
        except DamagedError as error:
            told = StoreError(f"the result store {self.path} holds a damaged record: trial {number} ({error}). {REPAIR}")
            if not self._lenient:
                raise told from error
            if not self._warned:
                warnings.warn(f"{told}. Going on without it", RuntimeWarning, stacklevel=2)
                self._warned = True
            return None

    def _unusable(self, error: Exception) -> StoreError:
        return StoreError(f"the result store {self.path} cannot be used: {error}. {REPAIR}, move it away or set PORTATILE_DATA_DIR")


def known_results() -> Callable[[str], Sequence[Trial]]:
    """What has been tuned, by name of the workload: the leaders of the user's store and of the results that come with the package.

    Times of two machines are not comparable, even if their devices have one name. So the package's results for a problem do not count
    once the problem was tuned here, which begins with them.

    Read once per workload. A store that cannot be used warns and counts as empty: it must not stop a computation.
    """
    memo: dict[str, Sequence[Trial]] = {}
    path = settings.load().store_path

    def load(workload: str) -> Sequence[Trial]:
        if workload not in memo:
            own = list(_leaders_of(path, workload))
            tried = Counter(map(_place, own))  # one alone is the default's
            memo[workload] = [*own, *(trial for trial in shipped(workload) if tried[_place(trial)] <= 1)]
        return memo[workload]

    return load


def _place(trial: Trial) -> tuple[str, str]:
    return trial.problem.key, device_key(trial.device)


def shipped(workload: str | None = None) -> list[Trial]:
    """The results that come with the package: every ``tuning/shipped/*.json``, each a list of trials."""
    folder = resources.files("portatile").joinpath("tuning", "shipped")
    if not folder.is_dir():
        return []
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".json")), key=lambda file: file.name)
    found = (trial for file in files for trial in from_json(file.read_bytes(), list[Trial]))
    return [trial for trial in found if workload in (None, trial.problem.workload)]


def _leaders_of(path: Path, workload: str, count: int = 5) -> Iterable[Trial]:
    try:
        if not path.is_file():
            return []
    except OSError:  # a folder that this user may not enter
        return []
    try:
        with ResultStore.reader(path, lenient=True) as store:
            return store.crossed(workload, count)
    except StoreError as error:
        warnings.warn(f"{error}; going on without it", RuntimeWarning, stacklevel=2)
        return []


def create(name: str) -> sqlite3.Connection:
    """A connection that commits every statement by itself, to a file that has the tables."""
    connection = sqlite3.connect(name, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("BEGIN IMMEDIATE")  # fails here, and not at the first trial, where the file cannot be written
        check_version(connection)
        if _version(connection) == 0:
            for statement in filter(str.strip, _TABLES.split(";")):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {VERSION}")
        for name in _ADDED.keys() - _columns(connection):
            connection.execute(f"ALTER TABLE trials ADD COLUMN {name} {_ADDED[name]}")
        connection.execute("COMMIT")
        with contextlib.suppress(sqlite3.OperationalError):  # another process may be at it; without the log the store is only slower
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")  # a killed process loses nothing; only a power failure could
    except BaseException:
        connection.close()
        raise
    return connection


def _columns(connection: sqlite3.Connection) -> set[str]:
    return {row[1] for row in connection.execute("PRAGMA table_info(trials)")}


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def check_version(connection: sqlite3.Connection) -> None:
    version = _version(connection)
    if version > VERSION:
        raise StoreError(f"a newer portatile wrote it (its format is {version}, this one knows {VERSION})")
    if version == 0 and connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise StoreError("it is an SQLite file of another program")


def row_of(trial: Trial) -> tuple[object, ...]:
    median = trial.median if trial.status == "ok" and trial.samples else None
    keys = (trial.problem.workload, trial.problem.key, device_key(trial.device), trial.device.driver, trial.source)
    rank = None if median is None or trial.standing is None else trial.rank
    return (*keys, canonical(trial.config), trial.status, median, to_json(trial), rank, int(trial.cold))


def insert(connection: sqlite3.Connection, row: tuple[object, ...]) -> None:
    connection.execute(
        "INSERT INTO trials (workload, problem, device, driver, source, config, status, median, record, rank, cold)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        row,
    )
