"""Other searches that time on the same device: they disturb measurements, so each search looks for others and warns."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from portatile import settings
from portatile.records import DeviceInfo, digest
from portatile.user_warnings import warn

if sys.platform != "win32":
    import fcntl

OTHER_SEARCHES = "other_searches"
"""Among a trial's conditions: how many other searches timed on the device when it was timed."""


class ConcurrentSearches:
    """Announces to the user's other searches that this one times on a device, and finds them. A context manager.

    Each search keeps a file locked. The system unlocks it when the process ends, however it ends, so that an unlocked file is stale.
    If files cannot be locked, and on Windows, every search assumes that it is alone.
    """

    def __init__(self, info: DeviceInfo) -> None:
        self._info = info
        self._folder = settings.load().data_dir / "timing" / digest(platform.node(), info.physical_id)  # machines may share the data folder
        self._own: tuple[int, Path] | None = None
        self.most = 0
        """The largest number of others seen at once."""

    def __enter__(self) -> ConcurrentSearches:
        if sys.platform != "win32":
            with contextlib.suppress(OSError):
                self._folder.mkdir(parents=True, exist_ok=True)
                descriptor, name = tempfile.mkstemp(dir=self._folder, prefix=f"{os.getpid()}-", suffix=".new")
                self._own = descriptor, Path(name)
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._own = descriptor, Path(name).rename(Path(name).with_suffix(".lock"))  # no other sees it before it is locked
        return self

    def __exit__(self, *exc: object) -> None:
        if self._own is not None:
            descriptor, file = self._own
            self._own = None
            with contextlib.suppress(OSError):
                file.unlink()
            os.close(descriptor)

    def others(self) -> int:
        """The number of other searches that time on the device now; warns of the first."""
        locks = [file for file in self._folder.glob("*.lock") if self._own is not None and file != self._own[1] and _is_locked(file)]
        if locks and not self.most:
            process = locks[0].name.partition("-")[0]
            message = f"another search (process {process}) is timing on {self._info.name} at the same time"
            effect = "times may be too long and the winner may be wrong; tune again when the other has ended, which measures this anew"
            warn(f"{message}: {effect}")
        self.most = max(self.most, len(locks))
        return len(locks)

    def with_other_searches(self, conditions: Mapping[str, float]) -> Mapping[str, float]:
        """The conditions of a trial that was timed just now, with the number of other searches."""
        count = self.others()
        return {**conditions, OTHER_SEARCHES: count} if count else conditions


def searching() -> list[float]:
    """When each of this user's searches on this machine began that time now, as ``time.time``; empty if files cannot be locked."""
    began = []
    for file in (settings.load().data_dir / "timing").glob("*/*.lock"):
        with contextlib.suppress(OSError):  # it has just ended
            when = file.stat().st_mtime
            if _is_locked(file):
                began.append(when)
    return began


def _is_locked(file: Path) -> bool:
    """Whether a living process holds the lock; removes a stale file."""
    if sys.platform == "win32":
        return False
    try:
        descriptor = os.open(file, os.O_RDONLY)
    except OSError:  # its owner has just ended
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: two that look at once do not see each other
        file.unlink(missing_ok=True)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False
