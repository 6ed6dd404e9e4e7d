"""The C preprocessor, run before the translation: macros are gone afterwards, every line stays where the user wrote it."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pcpp import Preprocessor

from portatile.errors import CompileError
from portatile.records import Backend

_SEEDS: Mapping[Backend, tuple[Path, Mapping[str, str]]] = {
    "cuda": (Path(__file__).with_name("cuda.h"), {}),
    "opencl": (Path(__file__).with_name("opencl.h"), {"__OPENCL_VERSION__": "120", "cl_khr_fp64": "1"}),
}
_COMMENT_OR_STRING = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL)


class _Pass(Preprocessor):  # type: ignore[misc]
    """pcpp with errors raised, includes refused and macros expanded in ``#pragma unroll``."""

    def on_error(self, file: str, line: int, msg: str) -> None:
        raise CompileError(f"{file}:{line}: {msg}")

    def on_include_not_found(self, is_malformed: bool, is_system_include: bool, curdir: str, includepath: str) -> str:
        raise CompileError(f"{self.lastdirective.source}:{self.lastdirective.lineno}: #include {includepath!r} is not supported")

    def on_directive_unknown(self, directive: Any, toks: Any, ifpassthru: bool, precedingtoks: Any) -> bool | None:
        if directive.value == "error":
            raise CompileError(f"{directive.source}:{directive.lineno}: #error {''.join(t.value for t in toks).strip()}")
        if directive.value == "pragma":
            if not toks or toks[0].value != "unroll":
                return True
            expanded = self.expand_macros([copy.copy(t) for t in toks[1:]])
            for token in toks[1:]:
                token.value = ""
            toks[-1].value += "".join(t.value for t in expanded)
            return None
        return True


def _without_comments(text: str) -> str:
    """``text`` with blanks for comments and every line in its place."""

    def blank(match: re.Match[str]) -> str:
        found = match.group()
        if not found.startswith("/"):
            return found
        line_start = text.rfind("\n", 0, match.start()) + 1
        newline = "\\\n" if text[line_start : match.start()].lstrip().startswith("#") else "\n"  # a directive goes on
        return " " + newline * found.count("\n")

    return _COMMENT_OR_STRING.sub(blank, text)


@cache
def _seed(backend: Backend) -> Mapping[str, Any]:
    """The macros of the back end's header; OpenCL's as a device of version 1.2 with doubles sees them."""
    reader = _Pass()
    path, defines = _SEEDS[backend]
    for name, value in defines.items():
        reader.define(f"{name} {value}")
    reader.parse(path.read_text(), path.name)
    while reader.token():
        pass
    for name in ("__PCPP__", "__FILE__"):
        reader.macros.pop(name, None)
    return dict(reader.macros)


def preprocess(text: str, file: str, defines: Mapping[str, str], backend: Backend = "cuda") -> str:
    """``text`` without macros and comments, line for line. Raises CompileError with file and line."""
    reader = _Pass()
    reader.macros.update(_seed(backend))
    reader.macros.pop("__PCPP__", None)
    for name, value in defines.items():
        reader.define(f"{name} {value}")
    reader.parse(_without_comments(text), file)
    parts: list[str] = []
    line, fresh = 1, True
    while token := reader.token():
        if fresh and token.lineno > line:
            parts.append("\n" * (token.lineno - line))
            line = token.lineno
        fresh = token.value.endswith("\n")
        line += token.value.count("\n")
        parts.append(token.value)
    return "".join(parts)
