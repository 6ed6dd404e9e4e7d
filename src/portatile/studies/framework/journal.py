"""The journal of a study: rows are written as they are measured, so that a study that was killed can continue."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from portatile import settings
from portatile.errors import reason
from portatile.provenance import version
from portatile.records import canonical, digest, from_json, to_json
from portatile.store import device_key
from portatile.studies.framework.study import Study, StudyRequest
from portatile.user_warnings import warn

_ENDINGS = (".jsonl", ".sqlite", ".sqlite-wal", ".sqlite-shm")


class Journal:
    """The rows of one study as it was asked, on these devices with these drivers, by this version. A damaged last line is passed over.

    If the folder cannot be written or the disk is full, one warning says so, and the study continues without a journal.
    """

    def __init__(self, study: Study, request: StudyRequest, fresh: bool = False, folder: Path | None = None) -> None:
        """Open the journal, or with ``fresh`` start a new one. ``folder``: its place, by default in the user's data directory."""
        folder = folder or settings.load().data_dir / "studies"
        self._stem = folder / f"{study.name}-{digest(_identity(study, request))[:16]}"
        self._path = self._stem.with_suffix(".jsonl")
        if fresh:
            self.remove()
        self.rows: list[Any] = _read(self._path, study.row)
        self._lost = False
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self._warn(error)

    @property
    def trials(self) -> Path:
        """A file beside it for the tuner's trials."""
        return self._stem.with_suffix(".sqlite")

    @property
    def begun(self) -> bool:
        """Whether there is anything from an earlier run."""
        return bool(self.rows) or self.trials.exists()

    def add(self, row: Any) -> None:
        """Keep a row; it is on disk when this returns, if the disk takes it."""
        self.rows.append(row)
        try:
            with self._path.open("ab") as file:
                file.write(to_json(row) + b"\n")
        except OSError as error:
            self._warn(error)

    def _warn(self, error: OSError) -> None:
        if not self._lost:
            where = f"{self._path.parent} cannot be written ({reason(error)})"
            warn(f"{where}: if it is interrupted, this study begins again; set PORTATILE_DATA_DIR to a folder that can")
        self._lost = True

    def remove(self) -> None:
        """Forget all rows: the study is complete, or begins again."""
        for ending in _ENDINGS:
            with suppress(OSError):  # what cannot be removed could not be written either
                self._stem.with_suffix(ending).unlink(missing_ok=True)
        self.rows = []


def _identity(study: Study, request: StudyRequest) -> str:
    devices = [(device_key(device.info), device.info.driver) for device in request.devices]
    problem = None if request.problem is None else request.problem.key
    return canonical([study.name, version(), {name: str(value) for name, value in asdict(request.options).items()}, problem, devices])


def _read(path: Path, kind: type[Any]) -> list[Any]:
    lines: Sequence[bytes] = path.read_bytes().splitlines() if path.is_file() else ()
    rows = []
    for line in lines:
        try:
            rows.append(from_json(line, kind))
        except msgspec.DecodeError:  # the process was killed while it wrote, or another version wrote it
            continue
    return rows
