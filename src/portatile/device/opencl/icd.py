"""The installed OpenCL libraries, and a folder of .icd files that tells the loader about unregistered ones.

The loader inside pyopencl's wheel (ocl-icd) reads ``/etc/OpenCL/vendors`` or, if it is set, the folder that ``OCL_ICD_VENDORS`` names, and
always the folder inside its own package. Containers mount NVIDIA's library without registering it; Intel's wheel registers a path that does
not exist; conda registers under its own prefix.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from portatile import settings
from portatile.device.backend import Finding

_NVIDIA_LIBRARY = "libnvidia-opencl.so.1"
NVIDIA_FOLDERS = ("/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib/wsl/lib")
NVIDIA_NODES = ("/dev/nvidiactl", "/dev/dxg", "/proc/driver/nvidia/version")
_INTEL_LIBRARY = "libintelocl.so"
_INTEL_WHEEL = "intel-opencl-rt"
_LOAD_REMEDY = "install what it lacks (Intel's wheel needs tbb and intel-cmplr-lib-rt), or remove it"


@dataclass(frozen=True)
class RegisteredLibrary:
    """An .icd file and the library that it names."""

    file: Path
    library: str

    @property
    def broken(self) -> bool:
        """Whether the file names a path that does not exist; a bare name is resolved by the dynamic linker."""
        return "/" in self.library and not Path(self.library).exists()


def registered(folder: Path) -> list[RegisteredLibrary]:
    """The .icd files of a folder, by name."""
    libraries = []
    for file in sorted(folder.glob("*.icd")) if folder.is_dir() else []:
        try:
            libraries.append(RegisteredLibrary(file, file.read_text(errors="replace").strip()))
        except OSError:
            libraries.append(RegisteredLibrary(file, str(file)))
    return libraries


@dataclass(frozen=True)
class Installation:
    """A machine's OpenCL installation: the folder of registrations, functions that find libraries, and a check that one can be loaded."""

    vendors: Path = Path("/etc/OpenCL/vendors")
    finders: tuple[Callable[[], list[Path]], ...] = field(default_factory=lambda: (nvidia, _intel, _prefix))
    load_error: Callable[[str], str] = field(default_factory=lambda: load_error)

    def unregistered(self, known: list[RegisteredLibrary]) -> list[Path]:
        """Libraries that are installed in the usual places and that no valid .icd file names."""
        names = {Path(entry.library).name for entry in known if not entry.broken}
        return [library for find in self.finders for library in find() if library.name not in names]

    def describe(self, entry: RegisteredLibrary) -> Finding:
        """Whether the library that a file registers exists and can be loaded."""
        if entry.broken:
            remedy = f"install the library again, or write its path into {entry.file}, or remove the file"
            return Finding("broken", "OpenCL registration", f"{entry.file} names {entry.library}, which does not exist", remedy)
        if reason := self.load_error(entry.library):
            detail = f"{entry.file} names {entry.library}, which cannot be loaded: {reason}"
            return Finding("broken", "OpenCL registration", detail, _LOAD_REMEDY)
        return Finding("ok", "OpenCL registration", f"{entry.file} names {entry.library}")

    def describe_extra(self, library: Path) -> Finding:
        """Whether an unregistered library can be loaded."""
        if reason := self.load_error(str(library)):
            return Finding("broken", "OpenCL library", f"{library} cannot be loaded: {reason}", _LOAD_REMEDY)
        return Finding("ok", "OpenCL library", f"{library} is not registered; it is used nevertheless")


@contextmanager
def vendors(machine: Installation | None = None) -> Iterator[list[Finding]]:
    """A context manager in which the loader sees every installed library; yields the findings about the libraries.

    A user's own ``OCL_ICD_VENDORS`` takes precedence. The loader reads the variable once, at the process's first ``get_platforms()``, so it
    is restored afterwards, and child processes do not inherit it.
    """
    machine = machine or Installation()
    own = settings.load().ocl_icd_vendors
    if own:
        yield [
            Finding("ok", "OpenCL registration", f"OCL_ICD_VENDORS={own} is honoured; nothing is added to it"),
            *_user_setting(Path(own), machine),
        ]
        return
    known = registered(machine.vendors)
    extra = machine.unregistered(known)
    findings = [machine.describe(entry) for entry in known]
    findings += [machine.describe_extra(library) for library in extra]
    if not extra:
        yield findings
        return
    os.environ["OCL_ICD_VENDORS"] = str(_private_folder(known, extra))
    try:
        yield findings
    finally:
        del os.environ["OCL_ICD_VENDORS"]


def _user_setting(folder: Path, machine: Installation) -> list[Finding]:
    if folder.exists():
        return [machine.describe(entry) for entry in registered(folder)]
    remedy = "unset OCL_ICD_VENDORS, or set it to a folder of .icd files or to one OpenCL library"
    return [Finding("broken", "OpenCL registration", f"OCL_ICD_VENDORS={folder} does not exist", remedy)]


def load_error(library: str) -> str:
    """Why the dynamic linker refuses a library, which OpenCL's loader would silently skip."""
    try:
        ctypes.CDLL(library)
    except OSError as error:
        return str(error)
    return ""


def _private_folder(known: list[RegisteredLibrary], extra: list[Path]) -> Path:
    """A folder with the system's registrations and our own. Its name is a hash of its content, so that processes share it."""
    files = {entry.file.name: entry.library for entry in known if not entry.broken}
    files |= {f"portatile-{library.name}.icd": str(library) for library in extra}
    content = repr(sorted(files.items())).encode()
    folder = settings.load().cache_dir / "icd" / hashlib.blake2b(content, digest_size=8).hexdigest()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder, files)
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix="portatile-icd-"))
        _write(folder, files)
    return folder


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, library in files.items():
        if not (folder / name).exists():
            scratch = folder / f".{name}.{os.getpid()}"
            scratch.write_text(library + "\n")
            scratch.replace(folder / name)


def nvidia(folders: Iterable[str] = NVIDIA_FOLDERS, nodes: Iterable[str] = NVIDIA_NODES) -> list[Path]:
    """NVIDIA's library in one of ``folders``, if the machine has NVIDIA's kernel driver, recognised by one of its ``nodes``."""
    if not any(Path(node).exists() for node in nodes):
        return []
    for folder in folders:
        library = Path(folder, _NVIDIA_LIBRARY)
        if library.exists():
            return [library]
    return _from_linker_cache(_NVIDIA_LIBRARY)


def _from_linker_cache(name: str) -> list[Path]:
    for tool in ("/sbin/ldconfig", "/usr/sbin/ldconfig"):
        try:
            text = subprocess.run([tool, "-p"], capture_output=True, text=True, timeout=10, check=False).stdout
        except (OSError, subprocess.TimeoutExpired):
            continue
        paths = re.findall(rf"^\s*{re.escape(name)} .*=> (\S+)$", text, re.MULTILINE)
        return [Path(path) for path in paths[:1] if Path(path).exists()]
    return []


def _intel() -> list[Path]:
    """The library in Intel's wheel, whose own .icd file contains a path of the machine that built it."""
    try:
        files = metadata.distribution(_INTEL_WHEEL).files or []
    except metadata.PackageNotFoundError:
        return []
    paths = (Path(str(file.locate())).resolve() for file in files if file.name == _INTEL_LIBRARY)
    return [path for path in paths if path.exists()][:1]


def _prefix() -> list[Path]:
    """The libraries that packages of this Python environment registered under its prefix."""
    entries = registered(Path(sys.prefix, "etc/OpenCL/vendors"))
    return [Path(entry.library) for entry in entries if "/" in entry.library and not entry.broken]
