"""The only reader of environment variables and user directories."""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path

import platformdirs

from portatile.errors import UsageError

_FOREIGN = ("pocl", "pyopencl", "pytools")  # their caches are in the same folder as ours
_LEAST_FREE = 32 << 20  # bytes that drivers need on a disk for the kernels of one process
_IN_MEMORY = "/dev/shm"
_ON, _OFF = ("", "1", "on", "yes", "true"), ("0", "off", "no", "false")
_FOLDERS_AND_SIZES = ("CACHE_DIR", "CACHE_MAX_MB", "DATA_DIR", "MEMORY_LIMIT", "PAGE_LOCKED", "STORE")
VARIABLES = tuple(f"PORTATILE_{name}" for name in (*_FOLDERS_AND_SIZES, "CEILINGS", "DEBUG", "DEVICE", "TIME_UNTUNED"))
_SHELTERS = 8  # names that are tried for a shared temporary folder, before one is made for this process only


@dataclass(frozen=True)
class Settings:
    """The settings in environment variables.

    ``PORTATILE_DEVICE`` selects the default device, or ``PYOPENCL_CTX`` if it is not set; ``PORTATILE_CACHE_DIR`` and
    ``PORTATILE_DATA_DIR`` move the binary cache and the result store, ``PORTATILE_CACHE_MAX_MB`` bounds the cache (default 512).
    ``PORTATILE_STORE`` is the result store: another file, or a PostgreSQL server's URL. ``PORTATILE_MEMORY_LIMIT`` bounds the device memory
    of routines on NumPy arrays; see ``memory_limit``. ``PORTATILE_CEILINGS=off``: see ``measures_ceilings``.
    ``PORTATILE_TIME_UNTUNED=off``: see ``times_untuned``. ``PORTATILE_PAGE_LOCKED``: see ``page_locked``.
    """

    device: str | None
    pyopencl_ctx: str | None
    cache_dir: Path
    cache_max_bytes: int
    data_dir: Path
    ocl_icd_vendors: str | None
    debug: bool
    store: Path | str
    """The result store: a file, or a server's URL."""

    @property
    def store_path(self) -> Path | None:
        """The result store's file; None if it is on a server."""
        return self.store if isinstance(self.store, Path) else None


def load() -> Settings:
    """Read the environment; nothing is cached, so that tests and programs may change it.

    Raises UsageError for an invalid value.
    """
    env = os.environ
    megabytes = env.get("PORTATILE_CACHE_MAX_MB") or "512"
    try:
        limit = int(float(megabytes) * 2**20)
    except (ValueError, OverflowError):
        limit = -1
    if limit < 0:
        raise UsageError(f"PORTATILE_CACHE_MAX_MB={megabytes!r} is not a number of megabytes; write for example 512")
    device, pyopencl_ctx = selection()
    folder = data_dir()
    named = env.get("PORTATILE_STORE") or ""
    return Settings(
        device=device,
        pyopencl_ctx=pyopencl_ctx,
        cache_dir=_folder(env.get("PORTATILE_CACHE_DIR")) or platformdirs.user_cache_path("portatile"),
        cache_max_bytes=limit,
        data_dir=folder,
        ocl_icd_vendors=env.get("OCL_ICD_VENDORS") or None,
        debug=debug(),
        store=named if "://" in named else _folder(named) or folder / "results.sqlite",
    )


_raw_environment = getattr(os.environ, "_data", None) if os.name == "posix" else None  # its keys are bytes on POSIX
_data_dirs: dict[tuple[object, ...], Path] = {}


def data_dir() -> Path:
    """The folder of results, rates and studies, as ``load`` finds it, but in a microsecond if the environment is unchanged."""
    raw = _raw_environment or {}
    key = tuple(raw.get(name) for name in (b"PORTATILE_DATA_DIR", b"XDG_DATA_HOME", b"HOME"))
    found = _data_dirs.get(key) if raw else None
    if found is None:
        found = _data_dirs[key] = _folder(os.environ.get("PORTATILE_DATA_DIR")) or platformdirs.user_data_path("portatile")
    return found


def _folder(named: str | None) -> Path | None:
    """A folder by its name. Expands ``~``, which remains if no shell has read it, as in a service's or a container's environment."""
    if not named:
        return None
    try:
        folder = Path(named).expanduser()
    except RuntimeError:  # there is no such user, or no home directory
        folder = Path(named)
    return folder if folder.is_absolute() else _absolute(folder)


@cache
def _absolute(folder: Path) -> Path:
    """A relative folder made absolute, relative to the working directory at its first use: later changes of directory do not affect it."""
    try:
        return folder.absolute()
    except OSError:  # the working directory was removed
        return folder


def mistakes() -> list[str]:
    """What is wrong with the variables of the environment: values that cannot be read, and names that are nearly those of a variable."""
    found = []
    for read in (load, memory_limit, page_locked, measures_ceilings, times_untuned):
        try:
            read()
        except UsageError as error:
            found.append(str(error))
    for name in sorted(os.environ):
        near = get_close_matches(name, VARIABLES, 1, 0.8)
        if near and name not in VARIABLES:
            found.append(f"{name} is not read by anything; {near[0]} is")
    return found


def debug() -> bool:
    """Whether the command line prints tracebacks of errors."""
    return os.environ.get("PORTATILE_DEBUG", "").lower() not in ("", *_OFF)


def measures_ceilings() -> bool:
    """Whether the ceilings of a device are measured when it is first tuned or studied: unless ``PORTATILE_CEILINGS`` is off.

    Raises UsageError for a value that is neither on nor off.
    """
    return _switched_on("PORTATILE_CEILINGS")


def times_untuned() -> bool:
    """Whether untuned products that are repeated on a GPU are timed in a few configurations: unless ``PORTATILE_TIME_UNTUNED`` is off.

    Raises UsageError for a value that is neither on nor off.
    """
    return _switched_on("PORTATILE_TIME_UNTUNED")


def _switched_on(name: str) -> bool:
    """Whether a switch, which is on where it is not set, is on."""
    value = os.environ.get(name, "")
    if value.lower() not in (*_ON, *_OFF):
        raise UsageError(f"{name}={value!r} is neither on nor off; write off, or unset it")
    return value.lower() not in _OFF


def selection() -> tuple[str | None, str | None]:
    """Only ``device`` and ``pyopencl_ctx``, which every call of a routine needs: in a microsecond, where ``load`` takes 30."""
    raw = _raw_environment
    if raw is not None and b"PORTATILE_DEVICE" not in raw and b"PYOPENCL_CTX" not in raw:  # most programs, ten times faster
        return None, None
    return os.environ.get("PORTATILE_DEVICE") or None, os.environ.get("PYOPENCL_CTX") or None


def memory_limit() -> int | None:
    """Bytes of device memory that a routine may use for NumPy arrays: ``500M``, ``1.5G`` or a number; None if not set.

    Raises UsageError for anything but a positive number of bytes.
    """
    text = os.environ.get("PORTATILE_MEMORY_LIMIT")
    return nbytes(text, f"PORTATILE_MEMORY_LIMIT={text!r}") if text else None


def page_locked() -> int | None:
    """Bytes of host memory that may be page-locked for devices: ``500M``, ``1.5G``, a number, or 0 for none; None if not set.

    Raises UsageError for anything else.
    """
    text = os.environ.get("PORTATILE_PAGE_LOCKED")
    if not text:
        return None
    return 0 if text == "0" else nbytes(text, f"PORTATILE_PAGE_LOCKED={text!r}")


def nbytes(text: str, what: str) -> int:
    """Bytes from ``500M``, ``1.5G`` or a number; raises UsageError, which begins with ``what``, for anything else."""
    factor = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}.get(text[-1:].upper())
    try:
        number = int(float(text if factor is None else text[:-1]) * (factor or 1))
    except (ValueError, OverflowError):
        number = 0
    if number < 1:
        raise UsageError(f"{what} is not a positive number of bytes; write for example 500M or 1.5G")
    return number


def search_path() -> str:
    """The search path of programs, empty if not set: a driver that starts a program searches nowhere else."""
    return os.environ.get("PATH", "")


def drivers_folder() -> Path:
    """The folder of findings about drivers: beside the drivers' own caches, so that processes with other caches share them."""
    return platformdirs.user_cache_path("portatile") / "drivers"


def pocl_cache() -> str:
    """The folder of PoCL's own cache that the environment names, empty if it names none."""
    return os.environ.get("POCL_CACHE_DIR", "")


def pocl_keeps_kernels() -> bool:
    """Whether PoCL's own cache keeps what it compiles for later processes, as it does unless the environment says otherwise."""
    return os.environ.get("POCL_KERNEL_CACHE", "1") != "0"


def choose_pocl_cache(folder: Path) -> None:
    """Make PoCL keep what it compiles in a folder, in this process, if it is not loaded yet, and in its children."""
    os.environ["POCL_CACHE_DIR"] = str(folder)


def full(folder: Path) -> bool:
    """Whether the disk of a folder, which need not exist yet, has no space for compiled kernels."""
    for place in (folder, *folder.parents):
        with suppress(OSError):
            return shutil.disk_usage(place).free < _LEAST_FREE
    return False


def ensure_writable_caches() -> str:
    """If the user's cache folder cannot be written, set ``XDG_CACHE_HOME`` to a private temporary one, for children too.

    Without a cache folder PoCL lists no device and pyopencl builds nothing, as for a user without a home directory or with a read-only one.
    On a full disk PoCL's compiler aborts the process. A ``POCL_CACHE_DIR`` that cannot be written is replaced likewise; the returned text
    is a warning about that for the user.
    """
    if sys.platform != "linux":
        return ""
    with suppress(OSError):  # if there is no usable folder at all, the drivers will report it
        if not _usable(os.environ.get("XDG_CACHE_HOME") or "~/.cache", _FOREIGN):
            os.environ["XDG_CACHE_HOME"] = str(_shelter())
        if pocl_cache() and not _usable(pocl_cache()):
            named, sheltered = pocl_cache(), _shelter() / "pocl"
            sheltered.mkdir(exist_ok=True)
            choose_pocl_cache(sheltered)
            return f"POCL_CACHE_DIR={named} cannot be written, or its disk is full: PoCL keeps what it compiles in {sheltered}"
    return ""


def _usable(named: str, inside: Iterable[str] = ()) -> bool:
    """Whether a folder, which is created, and subfolders of it with these names can be written."""
    try:
        folder = Path(named).expanduser()
        folder.mkdir(parents=True, exist_ok=True)
        return not full(folder) and all(
            os.access(place, os.W_OK | os.X_OK) for place in (folder, *(folder / name for name in inside)) if place.exists()
        )
    except (OSError, RuntimeError):  # RuntimeError: the user's home directory is unknown
        return False


def _shelter() -> Path:
    """A temporary folder that no other user may write to, the same for each process of a user.

    It has the first of a few names that no other user has taken; if all are taken, it is removed when this process ends.
    """
    parent = tempfile.gettempdir()
    if full(Path(parent)) and Path(_IN_MEMORY).is_dir() and not full(Path(_IN_MEMORY)):
        parent = _IN_MEMORY
    for number in range(_SHELTERS):
        folder = Path(parent, f"portatile-{os.getuid()}{f'-{number}' if number else ''}")
        with suppress(OSError):
            folder.mkdir(mode=0o700, exist_ok=True)
            status = folder.lstat()
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022:
                return folder
    temporary, owner = tempfile.mkdtemp(prefix="portatile-", dir=parent), os.getpid()
    atexit.register(lambda: shutil.rmtree(temporary, ignore_errors=True) if os.getpid() == owner else None)
    return Path(temporary)


def for_single_items() -> None:
    """Make PoCL include code for work-groups of one work-item in the binaries that it makes in this process, as the first launch would.

    Otherwise it compiles a kernel twice: for any work-group size, for the binary, and again at the first launch. This covers small grids
    without an offset, as in most launches; others are still compiled at the first launch. PoCL reads the setting once per process; other
    drivers ignore it.
    """
    os.environ["POCL_BINARY_SPECIALIZE_WG"] = "1-1-1-goffs0-smallgrid"
