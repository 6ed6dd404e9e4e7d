"""PoCL's own cache, in a folder of ours that is checked before PoCL loads from it: a damaged library there would abort the process.

Used unless the user has chosen a folder (``POCL_CACHE_DIR``). At its end a process lists every file with its size and modification time. A
program with a file that has changed since, or with a new file that is incomplete, is removed, and PoCL compiles it again. So are all
programs with unlisted files if the process that wrote them has crashed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from portatile import settings
from portatile.cache import replace_file
from portatile.device.backend import at_exit

_LIST = "sound.json"
_DIGEST = 64  # characters of the digest that precedes the list
_MOST_BYTES = 96 << 20  # of all programs: PoCL itself removes none, and checking this many bytes takes 0.1 s
_KEEPS = 0.75  # the fraction of that which is kept when programs are removed
_AT_ONCE = 64  # programs that one process removes at most because there are too many
_USERS = "users"  # a file for each process that uses the folder, named by its id
_HEADER = 64  # bytes of a 64-bit ELF file's header

_USED = "last_accessed"  # PoCL's time stamp in a program's folder

_Files = dict[str, tuple[int, int]]
"""The files of a program that PoCL would load, by path below its folder: size in bytes, and modification time in nanoseconds."""


def prepare() -> None:
    """Give PoCL a checked folder below that of the binary cache, for this process and its children. Call this before PoCL is loaded."""
    if sys.platform != "linux" or settings.pocl_cache():
        return
    folder = settings.load().cache_dir / "pocl"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        status = folder.lstat()
        if status.st_uid != os.getuid() or status.st_mode & 0o022 or not os.access(folder, os.W_OK | os.X_OK):
            return  # other users could have put libraries there
        if settings.full(folder):
            return  # PoCL's compiler would abort the process
        remove_damaged(folder, _crashed(folder))
        own_folder = folder / _USERS / str(os.getpid())
        own_folder.touch()
    except OSError:
        return
    settings.choose_pocl_cache(folder)
    at_exit.append(lambda: _list_files(folder, own_folder))


def _list_files(folder: Path, own_folder: Path) -> None:
    """List the files of this process, which ends normally."""
    if own_folder.name == str(os.getpid()):
        with contextlib.suppress(OSError):
            remove_damaged(folder)
            own_folder.unlink()


def _crashed(folder: Path) -> bool:
    """Whether a process that used the folder has crashed, and no process uses it now."""
    users = folder / _USERS
    users.mkdir(exist_ok=True, mode=0o700)
    ended = [path for path in users.iterdir() if not Path("/proc", path.name).exists()]
    for path in ended:
        path.unlink(missing_ok=True)
    return bool(ended) and not any(users.iterdir())


def remove_damaged(folder: Path, crashed: bool = False) -> int:
    """Remove programs with a damaged file, and the oldest ones if all together are too large; returns how many were damaged.

    ``crashed``: a process that crashed may have left files that are not in the list.
    """
    known_list = _listed(folder)
    listed, crashed = known_list or {}, crashed or known_list is None
    sound, used = dict[str, _Files](), dict[str, tuple[float, int]]()
    damaged: list[str] = []
    for program in _programs(folder):
        files, known = _Files(), listed.get(program, {})
        used[program] = _collect(f"{folder}/{program}", "", files), sum(size for size, _ in files.values())
        if files == known or all(
            known.get(name) == state or (name not in known and not crashed and _is_complete(folder / program / name))
            for name, state in files.items()
        ):
            sound[program] = files
        else:
            damaged.append(program)
    for program in (*damaged, *_too_many(used)):
        shutil.rmtree(folder / program, ignore_errors=True)
        sound.pop(program, None)
    if sound != listed:
        with contextlib.suppress(OSError):
            text = msgspec.json.encode(sound)
            replace_file(folder / _LIST, _digest(text) + text, mode=0o700)
    return len(damaged)


def _too_many(used: dict[str, tuple[float, int]]) -> list[str]:
    """The programs to remove so that the others stay within the limit: the longest unused first."""
    total, gone = sum(size for _, size in used.values()), list[str]()
    if total > _MOST_BYTES:
        for program, (_, size) in sorted(used.items(), key=lambda entry: entry[1]):
            if total <= _KEEPS * _MOST_BYTES or len(gone) == _AT_ONCE:
                break
            gone.append(program)
            total -= size
    return gone


def _listed(folder: Path) -> dict[str, _Files] | None:
    """The files that were valid; None if the list itself is damaged."""
    try:
        text = (folder / _LIST).read_bytes()
    except OSError:
        return {}
    try:
        return msgspec.json.decode(text[_DIGEST:], type=dict[str, _Files]) if text[:_DIGEST] == _digest(text[_DIGEST:]) else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest().encode()


def _programs(folder: Path) -> Iterator[str]:
    """PoCL's folders of programs, as paths in its cache: two letters of a hash, and the rest of the hash."""
    for first in os.scandir(folder):
        if len(first.name) == 2 and first.is_dir(follow_symlinks=False):
            yield from (f"{first.name}/{program.name}" for program in os.scandir(first) if program.is_dir(follow_symlinks=False))


def _collect(place: str, below: str, files: _Files) -> float:
    """Collect the files that PoCL would load for a program, bitcode and libraries, in ``files``; returns when it was last used."""
    used = 0.0
    try:
        entries = list(os.scandir(place))
    except FileNotFoundError:  # another process has just removed it
        return used
    for entry in entries:
        if entry.name.endswith((".so", ".bc")):
            status = entry.stat(follow_symlinks=False)
            files[below + entry.name] = status.st_size, status.st_mtime_ns
        elif entry.name == _USED:
            used = entry.stat(follow_symlinks=False).st_mtime
        elif entry.is_dir(follow_symlinks=False):
            _collect(entry.path, f"{below}{entry.name}/", files)
    return used


def _is_complete(path: Path) -> bool:
    """Whether an unlisted file is complete: bitcode has its magic number, an ELF file its whole section header table."""
    try:
        with path.open("rb") as file:
            head, size = file.read(_HEADER), os.fstat(file.fileno()).st_size
    except OSError:
        return False
    if path.suffix == ".bc":
        return head[:4] in (b"BC\xc0\xde", b"\xde\xc0\x17\x0b") and size % 4 == 0
    if head[:4] != b"\x7fELF" or len(head) < _HEADER:
        return False
    table = int.from_bytes(head[40:48], "little")
    return table + int.from_bytes(head[58:60], "little") * int.from_bytes(head[60:62], "little") <= size
