"""Files that users name for results: written as a whole, so that a full disk does not take what was there before."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to, which becomes ``path`` at the end; after an error ``path`` is as it was. Raises OSError.

    A pipe or a terminal, and a file in a folder that takes no others, are written directly. A new file has the rights that the umask
    allows, another one keeps its own.
    """
    target = path.resolve()  # a link stays a link
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
