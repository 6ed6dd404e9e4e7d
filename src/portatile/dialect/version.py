"""The part of the dialect that every back end needs: its version, which enters binaries' keys, and the prelude of OpenCL C."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

from portatile.records import digest

_HERE = Path(__file__).parent


def _version() -> str:
    files = sorted(p for p in _HERE.rglob("*") if p.suffix in (".h", ".py"))
    return digest(version("pcpp"), *(p.read_bytes() for p in files))


VERSION = _version()
PRELUDE_OPENCL = (_HERE / "preludes" / "opencl.h").read_text()
_USES_MATRIX = re.compile(r"\bMATRIX_(?:LOAD_[AB]|MULTIPLY_ADD_|STORE_[FS]32|PAIR_B?F16|(?:LOW|HIGH)_B?F16)")
_MATRIX = (_HERE / "preludes" / "matrix.h").read_text()


def with_headers(text: str, file: str) -> str:
    """``text`` behind the headers in OpenCL C that only texts with such names in them pay for; the lines of ``file`` keep their numbers."""
    return f'#line 1 "portatile/matrix.h"\n{_MATRIX}\n#line 1 "{file}"\n{text}' if _USES_MATRIX.search(text) else text
