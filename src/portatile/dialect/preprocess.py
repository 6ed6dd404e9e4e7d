"""The C preprocessor, which runs before the translation: it expands macros and keeps every line in its place."""

from __future__ import annotations

import copy
import gc
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from portatile.dialect.lexer import parted
from portatile.dialect.macros import LinearPreprocessor
from portatile.dialect.places import Places
from portatile.errors import CompileError

_PRELUDES = Path(__file__).parent / "preludes"
_SEEDS: Mapping[str, tuple[Path, Mapping[str, str]]] = {
    "cuda": (_PRELUDES / "cuda.h", {}),
    "opencl": (
        _PRELUDES / "opencl.h",
        {
            "__OPENCL_VERSION__": "120",
            "__OPENCL_C_VERSION__": "120",
            "CL_VERSION_1_0": "100",
            "CL_VERSION_1_1": "110",
            "CL_VERSION_1_2": "120",
            "__ENDIAN_LITTLE__": "1",
            "__IMAGE_SUPPORT__": "1",
            **dict.fromkeys(("cl_khr_fp64", "cl_khr_byte_addressable_store"), "1"),
            **{f"cl_khr_{space}_int32_{kind}_atomics": "1" for space in ("global", "local") for kind in ("base", "extended")},
        },
    ),
}
_SPLIT_WORD = re.compile(r"(?<=\w)\\\n(\w+)")
_COMMENT_OR_STRING = re.compile(r"""//(?:\\\n|[^\n])*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL)


def comments_and_strings(text: str) -> Iterator[re.Match[str]]:
    """The parts of ``text`` that are comments or strings."""
    return _COMMENT_OR_STRING.finditer(text)


class _Pass(LinearPreprocessor):
    """pcpp, except that it raises errors, opens no files, and expands macros in ``#pragma unroll``."""

    def __init__(self, places: Places) -> None:
        super().__init__()
        self._places = places

    def on_error(self, file: str, line: int, msg: str) -> None:
        if expression := re.search(r"Could not evaluate .* \(passed to evaluator: '(.*)'\)", msg, re.DOTALL):
            msg = f"#if: {expression[1].strip()!r} is not an expression of integers"
        raise CompileError(f"{self._places.at(line)}: {msg}")

    def on_file_open(self, is_system_include: bool, includepath: str) -> Any:
        raise OSError(includepath)

    def on_include_not_found(self, is_malformed: bool, is_system_include: bool, curdir: str, includepath: str) -> str:
        where = self._places.at(self.lastdirective.lineno)
        raise CompileError(f"{where}: #include {includepath!r}: no such file beside the text or in a folder given with -I")

    def on_directive_unknown(self, directive: Any, toks: Any, ifpassthru: bool, precedingtoks: Any) -> bool | None:
        if directive.value == "line":
            return None
        if directive.value == "error":
            raise CompileError(f"{self._places.at(directive.lineno)}: #error {''.join(t.value for t in toks).strip()}")
        if directive.value == "pragma":
            if any(t.value == "FP_CONTRACT" for t in toks):
                return None
            if not toks or toks[0].value != "unroll":
                return True
            expanded = self.expand_macros([copy.copy(t) for t in toks[1:]])
            for token in toks[1:]:
                token.value = ""
            toks[-1].value += "".join(t.value for t in expanded)
            return None
        return True


def _without_comments(text: str) -> str:
    """``text`` with comments replaced by blanks, and every line in its place."""

    def blank(match: re.Match[str]) -> str:
        comment = match.group()
        if not comment.startswith("/"):
            return comment
        start = text.rfind("\n", 0, match.start()) + 1
        while start > 1 and text[start - 2] == "\\":
            start = text.rfind("\n", 0, start - 1) + 1
        newline = "\\\n" if text[start : match.start()].lstrip().startswith("#") else "\n"  # continue the directive
        return " " + newline * comment.count("\n")

    return _COMMENT_OR_STRING.sub(blank, _SPLIT_WORD.sub(r"\1\\\n", text))


@cache
def _seed(backend: str) -> Mapping[str, Any]:
    """The macros of the back end's header; for OpenCL as on a device of version 1.2 with doubles."""
    reader = _Pass(Places("", ""))
    path, defines = _SEEDS[backend]
    for name, value in defines.items():
        reader.define(f"{name} {value}")
    reader.parse(path.read_text(), path.name)
    while reader.token():
        pass
    for name in ("__PCPP__", "__FILE__"):
        reader.macros.pop(name, None)
    return dict(reader.macros)


def preprocess(text: str, file: str, defines: Mapping[str, str], backend: str = "cuda") -> str:
    """``text`` with macros expanded and without comments, line for line. Raises CompileError with file and line."""
    reader = _Pass(Places(text, file))
    reader.macros.update(_seed(backend))
    reader.macros.pop("__PCPP__", None)
    for name, value in defines.items():
        reader.define(f"{name} {value}")
    reader.parse(_without_comments(text), file)
    parts: list[str] = []
    line, fresh, before = 1, True, None
    with _uncollected():
        while token := reader.token():
            if fresh and token.lineno > line:
                parts.append("\n" * (token.lineno - line))
                line = token.lineno
            fresh = token.value.endswith("\n")
            line += token.value.count("\n")
            if token.value:
                if before is not None and parted(before, token):
                    parts.append(" ")
                parts.append(token.value)
                before = token
    return "".join(parts)


@contextmanager
def _uncollected() -> Iterator[None]:
    """A context manager that disables the garbage collector, which would take a third of the time for tokens that form no cycles."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()
