"""The part of the dialect that every back end needs: its version, which enters binaries' keys, and the prelude of OpenCL C."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

from portatile.records import digest

_HERE = Path(__file__).parent


def _version() -> str:
    files = sorted(p for p in _HERE.rglob("*") if p.suffix in (".h", ".py"))
    return digest(version("pcpp"), *(p.read_bytes() for p in files))


VERSION = _version()
PRELUDE_OPENCL = (_HERE / "preludes" / "opencl.h").read_text()
