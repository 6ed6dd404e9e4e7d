"""Output files of a command, checked before the work instead of after it."""

from __future__ import annotations

from pathlib import Path

from portatile.errors import UsageError


def writable(path: Path) -> Path:
    """Return ``path`` if a file can be written there, without leaving one; raises UsageError if not."""
    there = path.exists()
    if there and not path.is_file() and not path.is_dir():
        return path  # a pipe or a terminal: opening it may wait for a reader
    try:
        with path.open("ab"):
            pass
        if not there:
            path.unlink()
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}; name another file") from error
    return path
