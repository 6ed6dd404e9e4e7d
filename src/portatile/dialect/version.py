"""The version of the dialect, which is part of the keys of binaries and results; and the prelude of OpenCL C."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

from portatile.dialect.places import quoted
from portatile.records import digest

_HERE = Path(__file__).parent
_TRIPLE = "|".join(rf"{quotes}(?:\\.|[^\\])*?{quotes}" for quotes in ('"' * 3, "'" * 3))
_STRING = "|".join(rf"{quote}(?:\\.|[^{quote}\\\n])*{quote}" for quote in "\"'")
_IN_PYTHON = re.compile(rf"#[^\n]*|{_TRIPLE}|{_STRING}", re.DOTALL)
_IN_C = re.compile(rf"//[^\n]*|/\*.*?\*/|{_STRING}", re.DOTALL)


def without_comments(text: str, suffix: str) -> str:
    """The text of a ``.py`` or ``.h`` file without comments, docstrings, blank lines and spaces at the ends of lines."""
    bare = "".join(_of_python(text)) if suffix == ".py" else _IN_C.sub(lambda match: " " if match[0][0] == "/" else match[0], text)
    return "\n".join(filter(None, map(str.rstrip, bare.split("\n"))))


def _of_python(text: str) -> Iterator[str]:
    """The parts of a Python text, without comments and statements that consist of a string (docstrings)."""
    at = depth = 0  # depth: of brackets
    for match in _IN_PYTHON.finditer(text):
        code = text[at : match.start()]
        at = match.end()
        depth += sum(map(code.count, "([{")) - sum(map(code.count, ")]}"))
        statement = depth == 0 and not text[text.rfind("\n", 0, match.start()) + 1 : match.start()].strip()
        yield code
        if not statement and match[0][0] != "#":
            yield match[0]
    yield text[at:]


def _version() -> str:
    """A hash of the dialect's code: a change of comments invalidates no binary and no stored result."""
    files = sorted(path for path in _HERE.rglob("*") if path.suffix in (".h", ".py"))
    return digest(version("pcpp"), *(without_comments(path.read_text(encoding="utf-8"), path.suffix) for path in files))


VERSION = _version()
PRELUDE_OPENCL = (_HERE / "preludes" / "opencl.h").read_text()
_USES_MATRIX = re.compile(r"\bMATRIX_(?:LOAD_[AB]|MULTIPLY_ADD_|STORE_[FS]32|PAIR_B?F16|(?:LOW|HIGH)_B?F16)")
_MATRIX = (_HERE / "preludes" / "matrix.h").read_text()
_USES_TENSOR = re.compile(r"\b(?:WGMMA_WAIT|tensor_map\w*)\b")
_TENSOR = (_HERE / "preludes" / "tensor.h").read_text()


def headers(text: str) -> str:
    """The OpenCL C headers that a text uses, by the names in it."""
    return f'#line 1 "portatile/matrix.h"\n{_MATRIX}\n' if _USES_MATRIX.search(text) else ""


def spelt(defines: Iterable[tuple[str, str]]) -> str:
    """Definitions as ``#define`` lines."""
    return "".join(f"#define {name} {value}\n" for name, value in defines)


def is_switch(name: str) -> bool:
    """Whether a definition is meant for the prelude."""
    return name.startswith("PORTATILE_")


def opencl(text: str, file: str, defines: Sequence[tuple[str, str]] = ()) -> str:
    """``text`` as self-contained OpenCL C: after the prelude, the headers that it uses, and its definitions.

    The definitions follow the headers, because a definition of ``x`` or ``w`` would replace parameters of the headers' functions.
    """
    tensor = f'#line 1 "portatile/tensor.h"\n{_TENSOR}\n' if _USES_TENSOR.search(text) else ""
    switches = spelt(pair for pair in defines if is_switch(pair[0]))
    own = spelt(pair for pair in defines if not is_switch(pair[0]))
    return f"{switches}{PRELUDE_OPENCL}\n{tensor}{headers(text)}{own}#line 1 {quoted(file)}\n{text}"
