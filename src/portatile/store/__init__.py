"""Trials in, trials out: a SQLite file that several tuners share, or a PostgreSQL server for many machines."""

from portatile.store.known import known_results, leaders_of, shipped
from portatile.store.results import REPAIR, ResultStore
from portatile.store.rows import DamagedError, Query, decoded, device_key, row_of
from portatile.store.sqlite import check_version, create, insert

__all__ = [
    "REPAIR",
    "DamagedError",
    "Query",
    "ResultStore",
    "check_version",
    "create",
    "decoded",
    "device_key",
    "insert",
    "known_results",
    "leaders_of",
    "row_of",
    "shipped",
]
