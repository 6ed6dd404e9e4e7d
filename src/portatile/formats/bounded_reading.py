"""Reading foreign files within limits of size, time, nesting and numbers. A file that exceeds a limit raises an error that says so."""

from __future__ import annotations

import json
import os
import select
import stat
import time
import zlib
from pathlib import Path
from typing import Any

from portatile.errors import ArgumentError, reason

MOST_BYTES = 512 * 2**20  # of a file after unpacking: recorded spaces have some ten MB
PATIENCE = 30.0  # seconds without a byte from a pipe
_DIGITS = 19  # of an integer: as many as fit the 64 bits that records have for one
_CHUNK = 2**20


def content(path: Path, most: int = MOST_BYTES) -> bytes:
    """The content of a file, unpacked if it is gzipped; raises ArgumentError if it cannot be read or is larger than ``most``.

    A pipe is also read if something is written to it; a device or a folder is refused.
    """
    try:
        data = _read(path, most)
        return _unpacked(data, path, most) if data[:2] == b"\x1f\x8b" else data
    except (OSError, zlib.error) as error:
        raise ArgumentError(f"{path} cannot be read: {reason(error)}") from None


def begins_with(path: Path, magic: bytes) -> bool:
    """Whether ``path`` is a regular file that begins with these bytes."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return False
        with path.open("rb") as file:
            return file.read(len(magic)) == magic
    except (OSError, ValueError):
        return False


def json_document(data: bytes | str) -> Any:
    """The JSON document in ``data``; raises ValueError if it is not JSON, is nested too deeply, or has integers beyond 64 bits."""
    try:
        document = json.loads(data, parse_int=_whole)
        escaped = (b"\\ud" in data or b"\\uD" in data) if isinstance(data, bytes) else ("\\ud" in data or "\\uD" in data)
        if escaped:  # perhaps half of a surrogate pair, which only encoding detects
            json.dumps(document, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeEncodeError:
        raise ValueError("a text in it has half of a surrogate pair") from None
    return document


def regular_file(path: Path) -> Path:
    """``path`` itself; raises ArgumentError if it exists but is not a regular file, such as a pipe that may stay empty."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):  # missing, or a NUL in its name: opening it will raise a better error
        return path
    if not stat.S_ISREG(mode):
        raise ArgumentError(f"{path} is not a regular file")
    return path


def _whole(digits: str) -> int:
    number = int(digits) if len(digits) <= _DIGITS + 1 else 2**64
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"the number {digits[:24]}{'...' if len(digits) > 24 else ''} is too large: whole numbers have up to 63 bits")
    return number


def _read(path: Path, most: int) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        status = os.fstat(descriptor)
        piped = stat.S_ISFIFO(status.st_mode)
        if stat.S_ISDIR(status.st_mode) or not (stat.S_ISREG(status.st_mode) or piped):
            raise ArgumentError(f"{path} is neither a file nor a pipe")
        parts: list[bytes] = []
        size = 0
        while part := _piece(descriptor, path, started=bool(parts)) if piped else os.read(descriptor, _CHUNK):
            parts.append(part)
            size += len(part)
            if size > most:
                raise ArgumentError(f"{path} is larger than {most // 2**20} MiB")
        return b"".join(parts)
    finally:
        os.close(descriptor)


def _piece(descriptor: int, path: Path, started: bool) -> bytes:
    """The next bytes of a pipe; none at its end. A pipe to which nothing has been written yet has not ended."""
    ends = time.monotonic() + PATIENCE
    while time.monotonic() < ends:
        if select.select([descriptor], [], [], max(ends - time.monotonic(), 0))[0]:
            try:
                part = os.read(descriptor, _CHUNK)
            except BlockingIOError:
                continue
            if part or started:
                return part
            time.sleep(0.01)
    raise ArgumentError(f"{path} is a pipe from which nothing came for {PATIENCE:g} s")


def _unpacked(data: bytes, path: Path, most: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while data:
        member = zlib.decompressobj(wbits=31)
        while not member.eof:
            part = member.decompress(data, _CHUNK)
            data = member.unconsumed_tail or member.unused_data
            if not part and not member.eof and not data:
                raise ArgumentError(f"{path} cannot be read: the packed file ends too early")
            parts.append(part)
            size += len(part)
            if size > most:
                raise ArgumentError(f"{path} is larger than {most // 2**20} MiB when it is unpacked")
        data = member.unused_data.lstrip(b"\0")
    return b"".join(parts)
