"""The declarations of the built-in functions that a text uses, for PoCL 3.0, which otherwise parses 18,000 lines of them for each program.

The declarations are Clang's, from the header beside the driver. A text that may refer to functions in other ways than by name gets all of
them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_DRIVER = re.compile(r"\bPoCL 3\.0-rc2\b")
_GUARD = "_OPENCL_H_"
OPTION = f"-D{_GUARD}"
"""The option that keeps the driver from reading its header."""
_WORD = re.compile(r"[A-Za-z_]\w*")
_OTHERWISE = re.compile(r"##|%:|\?\?|^[ \t]*#[ \t]*include", re.MULTILINE)
_CONTINUED = re.compile(r"\\\r?\n")
_COMMENT = re.compile(r"/\*.*?\*/|//(?:\\\n|[^\n])*", re.DOTALL)


@cache
def _folder() -> Path | None:
    """The folder with the headers of the driver's package; None without that package."""
    spec = find_spec("pocl_binary_distribution")
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        folder = Path(place) / ".libs" / "share" / "pocl" / "include"
        if (folder / "opencl-c.h").is_file():
            return folder
    return None


@cache
def _header() -> tuple[tuple[str, str], ...]:
    """The header in pieces, each a directive or a statement, with the function that it declares ("" for others)."""
    folder = _folder()
    assert folder is not None
    lines = [f'#include "{folder / "opencl-c-base.h"}"']
    for name, first in (("opencl-c.h", '#include "opencl-c-base.h"'), ("_clang_opencl.h", "#include <opencl-c.h>")):
        text = (folder / name).read_text()
        lines += text[text.index(first) + len(first) : text.rindex("#endif")].splitlines()
    lines += ["#undef FP_ILOGBNAN", "#undef FP_ILOGB0", "#define FP_ILOGBNAN INT_MIN", "#define FP_ILOGB0 INT_MIN"]
    lines.append("#pragma OPENCL EXTENSION all : disable")
    return tuple((part, _function(part)) for part in _parts(_COMMENT.sub("", "\n".join(lines)).splitlines()))


def _parts(lines: Iterable[str]) -> Iterator[str]:
    """Each directive, and each statement with all of its lines."""
    part = ""
    for line in filter(None, map(str.rstrip, lines)):
        part = f"{part}\n{line}" if part else line
        if line[-1] != "\\" if part[0] == "#" else line[-1] in ";}":
            yield part
            part = ""


def _function(part: str) -> str:
    """The function that a piece of the header declares, if it does nothing else."""
    head, _, rest = part.partition("(")
    if rest[-2:] == ");" and head[:1].isalpha() and ("(" not in rest or (part.count("(") == part.count(")") and "{" not in rest)):
        return head.rsplit(None, 1)[-1]
    return ""


@cache
def _always() -> frozenset[str]:
    """The names of built-in functions to which macros of the header may expand."""
    folder = _folder()
    assert folder is not None
    parts = [part for part, name in _header() if not name] + (folder / "opencl-c-base.h").read_text().splitlines()
    return frozenset(word for part in parts if part.lstrip().startswith("#define") for word in _WORD.findall(part))


def declared(text: str, options: Sequence[str], compiler: str) -> str | None:
    """The declarations for a text that is built with ``OPTION``; None where the driver has to read its header."""
    given = " ".join(options)
    if not _DRIVER.search(compiler) or _folder() is None or _OTHERWISE.search(text) or "-I" in given or "-include" in given:
        return None
    try:
        return _for({*_WORD.findall(_CONTINUED.sub("", text)), *_WORD.findall(given), *_always()})
    except (OSError, ValueError):  # the headers of another version
        return None


def _for(words: Collection[str]) -> str:
    return "".join(f"{part}\n" for part, name in _header() if not name or name in words)
