"""The cache of binaries: content hash -> bytes on disk; atomic, safe between processes, bounded. Damaged and foreign files are ignored."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from portatile import settings
from portatile.user_warnings import warn

_MAGIC = b"portatile-cache-1\n"
_DIGEST_BYTES = 32
_WRITERS = 8  # processes that may fill one folder at once, unaware of each other's entries until they count again


@dataclass(frozen=True)
class CacheInfo:
    """The entries and bytes of a cache, and its limit."""

    path: Path
    entries: int
    nbytes: int
    limit: int


class Cache:
    """A folder of entries. Several processes may use one folder at once.

    An entry is written to a temporary file and renamed, contains its own checksum, and belongs to the user who reads it; one that does not
    is removed and reported as missing. If the folder cannot be written, nothing is cached: the cache warns once, unless it is ``quiet``,
    and every ``get`` misses.
    """

    def __init__(self, root: Path, limit: int, quiet: bool = False) -> None:
        self.root = root
        self.limit = limit
        self._room = 0.0  # bytes that may be written before the entries are counted again
        self._warned = quiet

    def get(self, key: str) -> bytes | None:
        """The bytes stored under ``key``, a hexadecimal digest, or None."""
        path = self._path(key)
        try:
            raw = _own(path)
        except FileNotFoundError:
            return None
        except OSError:  # an unreadable file counts as missing
            raw = b""
        start = len(_MAGIC) + _DIGEST_BYTES
        if raw[: len(_MAGIC)] != _MAGIC or raw[len(_MAGIC) : start] != _checksum(key, raw[start:]):
            for remove in (path.unlink, path.rmdir):
                with contextlib.suppress(OSError):
                    remove()
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # marks it as used: the least recently used entries are removed first
        return raw[start:]

    def put(self, key: str, data: bytes) -> None:
        """Store ``data`` under ``key``; removes the least recently used entries to stay within the limit."""
        path = self._path(key)
        try:
            replace_file(path, _MAGIC + _checksum(key, data) + data, mode=0o700)
        except OSError as error:
            self._warn(error)
            return
        self._room -= len(data)
        if self._room < 0:
            self._shrink(keep=path)

    def keeps(self) -> bool:
        """Whether the cache can store and return data; leaves no entry behind."""
        key = f"00{os.urandom(15).hex()}"  # unique, because another process may ask at the same time
        self.put(key, b"")
        present = self.get(key) is not None
        with contextlib.suppress(OSError):
            self._path(key).unlink()
        return present

    def info(self) -> CacheInfo:
        """Count the entries."""
        sizes = [size for _, size, _ in self.entries()]
        return CacheInfo(self.root, len(sizes), sum(sizes), self.limit)

    def clear(self) -> int:
        """Remove every entry; returns how many there were."""
        removed = 0
        for _, _, path in self.entries():
            with contextlib.suppress(OSError):
                path.unlink()
                removed += 1
        return removed

    def _path(self, key: str) -> Path:
        return self.root / key[:2] / f"{key[2:]}.bin"

    def entries(self) -> list[tuple[float, int, Path]]:
        """When each entry was last used, its bytes and its file."""
        entries = []
        for path in self.root.glob("??/*.bin"):
            with contextlib.suppress(OSError):
                status = path.lstat()
                entries.append((status.st_mtime, status.st_size, path))
        return entries

    def _shrink(self, keep: Path) -> None:
        entries = self.entries()
        total = sum(size for _, size, _ in entries)
        # otherwise the next entry would find the cache full again
        enough = self.limit if total <= self.limit else self.limit * (1 - 1 / _WRITERS)
        for _, size, path in sorted(entries):
            if total <= enough:
                break
            if path != keep:
                with contextlib.suppress(OSError):
                    path.unlink()
                    total -= size
        self._room = (self.limit - total) / _WRITERS

    def _warn(self, error: OSError) -> None:
        if not self._warned:
            self._warned = True
            message = f"the binary cache {self.root} cannot be written ({error}); kernels are compiled again. Set PORTATILE_CACHE_DIR"
            warn(message)


def default() -> Cache:
    """The cache that the environment names; a private temporary one if that cannot be written."""
    if message := settings.ensure_writable_caches():
        warn(message)
    chosen = settings.load()
    return Cache(chosen.cache_dir / "binaries", chosen.cache_max_bytes)


def _own(path: Path) -> bytes:
    """The content of a regular file that this user owns and no other user may write. Raises OSError for any other file."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # without O_NONBLOCK, opening a pipe would block
    descriptor = os.open(path, flags)
    try:
        status = os.fstat(descriptor)
        foreign = hasattr(os, "getuid") and (status.st_uid != os.getuid() or bool(status.st_mode & 0o022))
        if foreign or not stat.S_ISREG(status.st_mode):
            return b""
        with open(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


def replace_file(path: Path, data: bytes, mode: int = 0o777) -> None:
    """Write a file atomically, so that readers never see a partial file; missing folders are made with ``mode``. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=mode)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


def _checksum(key: str, data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES, key=key.encode()[:64]).digest()
