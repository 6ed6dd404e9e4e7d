"""Result files that users name: written atomically, so that a full disk does not destroy the previous content."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to, which replaces ``path`` at the end; after an error ``path`` is unchanged. Raises OSError.

    A pipe or a terminal, and a file in a folder where none can be created, are written directly. A new file gets the permissions that the
    umask allows; an existing one keeps its own.
    """
    target = path.resolve()  # a symbolic link is preserved
    whole = not target.exists() or target.is_file()
    fresh = target.with_name(f".{secrets.token_hex(8)}.new")
    if whole:
        try:
            fresh.touch(exist_ok=False)
        except PermissionError:
            whole = False
    if not whole:
        with path.open("wb") as direct:
            yield direct
        return
    try:
        with fresh.open("wb") as file:
            yield file
        if target.exists():
            fresh.chmod(target.stat().st_mode & 0o7777)
        fresh.replace(target)
    except BaseException:
        with suppress(OSError):
            fresh.unlink()
        raise


def write(path: Path, data: bytes | str) -> None:
    """Write ``data``, text as UTF-8, as ``replacing`` does; raises OSError."""
    with replacing(path) as file:
        file.write(data.encode() if isinstance(data, str) else data)
