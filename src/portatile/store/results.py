"""ResultStore: trials in, trials out; one SQLite file, or one PostgreSQL server, that several tuners share."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

from portatile import settings
from portatile.errors import StoreError
from portatile.records import DeviceInfo, Problem
from portatile.store import postgresql, sqlite
from portatile.store.postgresql import Server
from portatile.store.rows import COLUMNS, DamagedError, Query, decoded, row_of
from portatile.store.sqlite import BUSY_SECONDS
from portatile.trials import UNRACED, Trial
from portatile.user_warnings import warn

Connection = sqlite3.Connection | Server

# The newest trial of every configuration, if it is valid, with its rank among those of its problem and device. Trials with warm and with
# cold caches are ranked separately. Only keys are sorted; the caller fetches the records of the few that it needs.
_PLACED = """
SELECT id, problem, device, config, late, seconds,
    row_number() OVER (PARTITION BY problem, device ORDER BY late, seconds, id) AS place
FROM (
    SELECT id, problem, device, config, {cold} AS late, COALESCE({rank}, median * {unraced}) AS seconds FROM trials WHERE id IN (
        SELECT max(id) FROM trials WHERE {where} AND status != 'skipped' GROUP BY problem, device, config, {cold}
    ) AND status = 'ok' AND median IS NOT NULL
) AS timed
"""

# The leaders; the times of one problem's winner on the device's other problems; and the first trial of each problem, its default.
_FOR_PREDICTION = """
place <= ? OR (device, config) IN (SELECT device, config FROM placed WHERE place = 1)
OR (problem, device, config) IN
    (SELECT problem, device, config FROM trials WHERE id IN (SELECT min(id) FROM trials WHERE {where} GROUP BY problem, device))
"""

_RETRY = 5.0  # seconds between two attempts to reach a server that did not answer
_LEAST_SPACE = 128 << 10  # bytes on the disk of a store
REPAIR = "`portatile doctor --repair` keeps everything that can be read"


class ResultStore:
    """Trials in a file or on a server, each committed as it is added, so that a killed process loses none.

    Several processes may read and write one place at once. If the file cannot be written (no permission, disk full, locked for too long),
    the store warns once and keeps later trials in memory; those in the file stay readable. A server that does not answer is retried, and
    then receives the trials that were kept. A store that is opened for reading neither creates nor changes a file.

    Raises StoreError for a file that a newer version wrote, that is damaged, or that is something else.
    """

    def __init__(self, place: Path | str | None, read_only: bool = False, lenient: bool = False) -> None:
        """Open or create the store at a path or a server's URL; ``None`` keeps everything in memory.

        ``read_only``: a file that does not exist is an empty store. ``lenient``: records that cannot be read are skipped, with one warning.
        """
        url = place if isinstance(place, str) and postgresql.is_url(place) else None
        self.path = None if place is None or url is not None else Path(place)
        self.place = postgresql.shown(url) if url is not None else str(place)
        self._lenient = lenient
        self._warned = False
        self._read_only = read_only
        self._memory: sqlite3.Connection | None = None
        self._file: Connection | None = None
        self._last_attempt = time.monotonic()  # of the latest attempt to reach a server that did not answer
        if url is not None:
            self._file = self._connect(url)
        elif self.path is None:
            self._memory = sqlite.create(":memory:")
        else:
            self._file = self._read_file(self.path) if read_only else self._open(self.path)
            if read_only and self._file is None and self.path.exists():
                raise StoreError(f"the result store {self.path} cannot be read; is it a file that you may read?")

    @classmethod
    def default(cls) -> ResultStore:
        """The user's store, at the place in the settings."""
        return cls(settings.load().store)

    @classmethod
    def reader(cls, path: Path | str | None = None, lenient: bool = False) -> ResultStore:
        """The store at ``path``, else the user's, opened for reading."""
        return cls(path or settings.load().store, read_only=True, lenient=lenient)

    def add(self, trial: Trial) -> None:
        """Append a trial and commit it; raises StoreError if the store was opened for reading."""
        if self._read_only:
            raise StoreError(f"the result store {self.place} was opened for reading only")
        row = row_of(trial)
        if self._file is not None and self._memory is None and self.path is not None and not self.path.exists():
            self._file.close()  # the file was removed; without a new one the trial would be lost
            self._file = self._open(self.path)
        self._resend()
        if self._memory is None and self._file is not None:
            try:
                _insert(self._file, row)
                return
            except sqlite3.OperationalError as error:
                self._fall_back_to_memory(error)
            except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
                raise self._unusable(error) from error
        assert self._memory is not None
        sqlite.insert(self._memory, row)

    def remove(self, query: Query) -> int:
        """Delete the trials that match; returns how many there were. Raises StoreError if the file cannot be written."""
        if self._read_only or self._file is None or self._memory is not None:
            raise StoreError(f"the result store {self.place} cannot be written")
        where, values = query.where()
        try:
            return int(self._file.execute(f"DELETE FROM trials WHERE {where}", values).rowcount)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise self._unusable(error) from error

    def trials(self, query: Query | None = None) -> list[Trial]:
        """The trials that match, oldest first."""
        where, values = (query or Query()).where()
        return self._read(f"SELECT id, record FROM trials WHERE {where} ORDER BY id", values)

    def best(self, problem: Problem, device: DeviceInfo) -> Trial | None:
        """The fastest valid trial of the problem on the device, with any driver, or None: the leader of that problem."""
        return next(iter(self._leaders(Query(problem=problem, device=device), 1)), None)

    def leaders(self, workload: str | None = None, count: int = 1) -> list[Trial]:
        """The ``count`` fastest valid configurations of every problem on every device, fastest first.

        Of each configuration the newest trial counts, and one whose newest trial failed is excluded. They are ordered by ``Trial.rank``:
        times of a final comparison count as they are, all others as 10 % longer, so that a lucky measurement does not beat a winner. Trials
        with cold caches come after all others of their problem and device.
        """
        return self._leaders(Query(workload=workload), count)

    def for_prediction(self, workload: str, count: int = 5) -> list[Trial]:
        """The trials that ``predict`` uses: ``leaders``, the first trial of each problem (its default), and the trials of each problem's
        winner on other problems of the same device.
        """
        return self._leaders(Query(workload=workload), count, _FOR_PREDICTION)

    def close(self) -> None:
        """Close the file or the connection; a second call does nothing."""
        self._resend(last=True)
        for connection in (self._file, self._memory):
            if connection is not None:
                connection.close()

    def __enter__(self) -> ResultStore:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _leaders(self, query: Query, count: int, condition: str = "place <= ?") -> list[Trial]:
        where, values = query.where()
        leaders: list[Trial] = []
        for connection in self._readable():
            there = self._columns(connection)  # a read-only file of an earlier version lacks some
            columns = {name: name if name in there else default for name, default in (("rank", "NULL"), ("cold", "(0 + 0)"))}
            # (0 + 0), because GROUP BY 0 would be the number of a column
            placed = _PLACED.format(where=where, unraced=UNRACED, **columns)
            chosen = f"SELECT id, late, seconds FROM placed WHERE {condition.format(where=where)}"
            ranked = (
                f"WITH placed AS ({placed}) SELECT id, record FROM trials JOIN ({chosen}) AS chosen USING (id) ORDER BY late, seconds, id"
            )
            leaders += self._read(ranked, [*values, count, *(values if "{where}" in condition else ())], (connection,))
        return sorted(leaders, key=lambda trial: (trial.cold, trial.rank))

    def _columns(self, connection: Connection) -> set[str]:
        if isinstance(connection, Server):
            return set(COLUMNS)
        try:
            return sqlite.columns(connection)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise self._unusable(error) from error

    def _open(self, path: Path) -> sqlite3.Connection | None:
        """A writeable connection; if there is none, a read-only one, or None, and later trials are kept in memory."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            return sqlite.create(str(path))
        except (OSError, sqlite3.OperationalError) as error:
            self._fall_back_to_memory(error)
        except (sqlite3.DatabaseError, UnicodeDecodeError, StoreError) as error:
            raise self._unusable(error) from error
        return self._read_file(path)

    def _read_file(self, path: Path) -> sqlite3.Connection | None:
        """A read-only connection; None if there is no readable file."""
        with contextlib.suppress(OSError):
            if not path.is_file():
                return None
        for mode in ("mode=ro", "immutable=1"):  # the second if not even the index of the write-ahead log can be created
            try:
                connection = sqlite3.connect(f"file:{quote(str(path))}?{mode}", uri=True, timeout=BUSY_SECONDS, check_same_thread=False)
                sqlite.check_version(connection)
                if sqlite.version_of(connection) == 0:  # an empty file: the disk was full when it was created
                    connection.close()
                    return sqlite.create(":memory:")
            except sqlite3.OperationalError:
                continue
            except (sqlite3.DatabaseError, UnicodeDecodeError, StoreError) as error:
                raise self._unusable(error) from error
            return connection
        return None

    def _connect(self, url: str) -> Server:
        try:
            return Server(url)
        except (sqlite3.Error, UnicodeDecodeError, StoreError) as error:
            raise self._unusable(error) from error

    def _readable(self) -> list[Connection]:
        """The connections to read from, without a server that does not answer."""
        file = None if isinstance(self._file, Server) and self._memory is not None else self._file
        return [connection for connection in (file, self._memory) if connection is not None]

    def _fall_back_to_memory(self, error: Exception) -> None:
        """Keep later trials in memory, with a warning."""
        self._memory = sqlite.create(":memory:")
        self._last_attempt = time.monotonic()
        if isinstance(self._file, Server):
            advice = "results are kept in memory, and will be sent when it is back"
        else:
            advice = "results are kept until this process ends. Set PORTATILE_DATA_DIR"
        warn(f"the result store {self.place} cannot be written ({error}{self._no_space(error)}); {advice}")

    def _resend(self, *, last: bool = False) -> None:
        """Send the trials in memory to a server that answers again; tries at most every ``_RETRY`` seconds.

        ``last``: try now, and warn of the trials that are lost if it fails.
        """
        server, buffered = self._file, self._memory
        if not isinstance(server, Server) or buffered is None or (not last and time.monotonic() < self._last_attempt + _RETRY):
            return
        self._last_attempt = time.monotonic()
        try:
            for row in buffered.execute(f"SELECT {', '.join(COLUMNS)} FROM trials ORDER BY id").fetchall():
                server.insert(row)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            if last:
                count = buffered.execute("SELECT count(*) FROM trials").fetchone()[0]
                warn(f"the result store {self.place} is gone ({error}): {count} results are lost")
            return
        buffered.close()
        self._memory = None

    def _read(self, statement: str, values: Sequence[object], connections: Sequence[Connection] | None = None) -> list[Trial]:
        trials = []
        for connection in self._readable() if connections is None else connections:
            try:
                rows = connection.execute(statement, values).fetchall()
            except (sqlite3.Error, UnicodeDecodeError) as error:  # UnicodeDecodeError: a message about damaged names
                raise self._unusable(error) from error
            trials += [trial for number, raw in rows if (trial := self._trial(number, raw)) is not None]
        return trials

    def _trial(self, number: int, raw: bytes) -> Trial | None:
        """A record as a trial; None if it is damaged and the store is lenient, else raises StoreError."""
        try:
            return decoded(raw)
        except DamagedError as error:
            failure = StoreError(f"the result store {self.place} holds a damaged record: trial {number} ({error}). {REPAIR}")
            if not self._lenient:
                raise failure from error
            if not self._warned:
                warn(f"{failure}. Going on without it")
                self._warned = True
            return None

    def _no_space(self, error: Exception) -> str:
        """A note that the disk is full, which SQLite does not report if it has no space for the index of its log."""
        with contextlib.suppress(OSError):
            if self.path is not None and "full" not in str(error) and shutil.disk_usage(self.path.parent).free < _LEAST_SPACE:
                return ", no space is left on the disk"
        return ""

    def _unusable(self, error: Exception) -> StoreError:
        remedy = "Is the server there? PORTATILE_STORE says where"
        if isinstance(error, StoreError):  # it is intact, but not of this version
            remedy = "Set PORTATILE_STORE to another file or server" + (", or upgrade portatile" if str(error) != sqlite.FOREIGN else "")
        elif self.path is not None:
            remedy = f"{REPAIR}; or move it away, or set PORTATILE_DATA_DIR to another folder"
        return StoreError(f"the result store {self.place} cannot be used: {error}{self._no_space(error)}. {remedy}")


def _insert(connection: Connection, row: tuple[object, ...]) -> None:
    if isinstance(connection, Server):
        connection.insert(row)
    else:
        sqlite.insert(connection, row)
