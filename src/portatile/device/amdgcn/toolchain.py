"""The newest Clang and libclc of the distribution."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from portatile import settings
from portatile.errors import DeviceNotFoundError

REMEDY = "to compile for AMD's GPUs install Clang and libclc (Debian: apt install clang-19 libclc-19)"
_COMPILERS = (*(f"clang-{version}" for version in range(25, 15, -1)), "clang")
_BITCODE = "amdgcn--amdhsa.bc"
_FOLDERS = ("/usr/lib/clc", "/usr/share/clc", "/usr/local/lib/clc", "/usr/local/share/clc")


@cache
def clang() -> str | None:
    """The compiler's path, None where there is none."""
    return next((path for name in _COMPILERS if (path := shutil.which(name, path=settings.search_path()))), None)


@cache
def library() -> Path | None:
    """OpenCL's built-in functions as LLVM bitcode, None where they are not installed."""
    return next((file for folder in _FOLDERS if (file := Path(folder, _BITCODE)).is_file()), None)


@cache
def version() -> str:
    """``Clang 19.1.7``. Raises DeviceNotFoundError where Clang or libclc is missing."""
    compiler, _ = paths()
    text = subprocess.run([compiler, "--version"], capture_output=True, text=True, timeout=60, check=False).stdout
    number = re.search(r"clang version (\S+)", text)
    return f"Clang {number.group(1) if number else 'of an unknown version'}"


@cache
def architectures() -> frozenset[str]:
    """The processors that Clang knows, such as ``gfx942``."""
    compiler, _ = paths()
    command = [compiler, "-x", "cl", "-target", "amdgcn--amdhsa", "-nogpulib", "-mcpu=help", "-S", "-o", "-", "-"]
    completed = subprocess.run(command, input="", capture_output=True, text=True, timeout=60, check=False)
    return frozenset(re.findall(r"^\s+(gfx\w+)\s*$", completed.stdout + completed.stderr, re.MULTILINE))


def paths() -> tuple[str, Path]:
    """The paths of Clang and libclc; raises DeviceNotFoundError where one is missing."""
    compiler, bitcode = clang(), library()
    if compiler is None or bitcode is None:
        raise DeviceNotFoundError(f"kernels for AMD's GPUs cannot be compiled: {REMEDY}")
    return compiler, bitcode
