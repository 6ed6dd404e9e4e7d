"""The rows of a store: the columns by which a trial is found, and its record."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from portatile.records import Config, DeviceInfo, Problem, canonical, digest, from_json, to_json
from portatile.trials import Status, Trial

COLUMNS = ("workload", "problem", "device", "driver", "source", "config", "status", "median", "record", "rank", "cold")


class DamagedError(ValueError):
    """A record that does not hold a trial."""


def decoded(raw: bytes) -> Trial:
    """The trial of a record; raises DamagedError for a damaged one."""
    try:
        return from_json(raw, Trial)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:  # ValueError: invalid UTF-8
        raise DamagedError(str(error)) from None


def device_key(device: DeviceInfo) -> str:
    """A key of devices that share results: the hardware and its back end, but not the driver, the machine or the device's number."""
    kind = {"backend": device.backend, "platform": device.platform, "name": device.name, "architecture": device.architecture}
    return digest(canonical(kind | {"vendor": device.vendor, "compute_units": device.compute_units}))


@dataclass(frozen=True)
class Query:
    """A filter of trials; ``None`` matches anything. ``device`` compares as ``device_key`` does, so ``driver`` is a separate field."""

    problem: Problem | None = None
    workload: str | None = None
    device: DeviceInfo | None = None
    driver: str | None = None
    source: str | None = None
    config: Config | None = None
    status: Status | None = None

    def where(self) -> tuple[str, list[str]]:
        """The condition as SQL, and its values."""
        columns = {
            "problem": None if self.problem is None else self.problem.key,
            "workload": self.workload,
            "device": None if self.device is None else device_key(self.device),
            "driver": self.driver,
            "source": self.source,
            "config": None if self.config is None else canonical(self.config),
            "status": self.status,
        }
        conditions = {column: value for column, value in columns.items() if value is not None}
        return " AND ".join(f"{column} = ?" for column in conditions) or "TRUE", list(conditions.values())


def row_of(trial: Trial) -> tuple[object, ...]:
    """A trial's ``COLUMNS``."""
    median = trial.median if trial.status == "ok" and trial.samples else None
    keys = (trial.problem.workload, trial.problem.key, device_key(trial.device), trial.device.driver, trial.source)
    rank = None if median is None or trial.standing is None else trial.rank
    return (*keys, canonical(trial.config), trial.status, median, to_json(trial), rank, int(trial.cold))
