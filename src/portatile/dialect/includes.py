"""Inlines the user's headers into the text, which then needs no other file on any back end or machine."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from os.path import normpath
from pathlib import Path
from types import MappingProxyType

from portatile.dialect.places import quoted
from portatile.dialect.preprocess import comments_and_strings, preprocess
from portatile.errors import ArgumentError

_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(include|if|ifdef|ifndef|else|elif|endif)\b((?:\\\n|[^\n])*)", re.MULTILINE)
_ANY = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
_ONCE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once\b", re.MULTILINE)
_NAMED = re.compile(r"""\s*(?:"([^"\n]+)"|<([^>\n]+)>)""")


def gather(text: str, file: str | Path, folders: Sequence[str | Path] = (), defines: Mapping[str, str] = MappingProxyType({})) -> str:
    """``text`` with the content of every header that it includes, between ``#line`` directives that keep the lines of each file.

    Headers are searched for beside the file that includes them, then in ``folders``, then among those that come with pyopencl
    (``pyopencl-complex.h``), which need no path. A header that is not found stays an ``#include``, which is an error only if the
    preprocessor reaches it. The name may be a macro of the text or of ``defines``.

    Examples:
        >>> gather("int i;", "kernel.cl")
        'int i;'
    """
    return "".join(_Inlining(tuple(map(Path, folders)), defines).expand(text, Path(file), (), "")) if "include" in text else text


_LARGEST = 64 << 20  # bytes of a file, at most


def read_text(path: Path) -> str:
    """The text of a file in UTF-8, with or without a byte order mark. Any other encoding, which only comments can have, is read byte by
    byte.

    Raises OSError, and ArgumentError for a file that is not text, or that never ends, like /dev/zero.
    """
    with path.open("rb") as file:
        raw = file.read(_LARGEST + 1).removeprefix(BOM_UTF8)
    if len(raw) > _LARGEST:
        raise ArgumentError(f"{path} has more than {_LARGEST >> 20} MiB, which no text of a kernel has")
    if b"\0" in raw:
        raise ArgumentError(f"{path} is not text")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    return text.replace("\r\n", "\n").replace("\r", "\n")


class _Inlining:
    """The state of one run; ``_guards`` numbers the files that are to be included once."""

    def __init__(self, folders: tuple[Path, ...], defines: Mapping[str, str]) -> None:
        self._folders, self._defines = folders, defines
        self._guards: dict[Path, int] = {}

    def expand(self, text: str, file: Path, outer: tuple[Path, ...], before: str) -> Iterator[str]:
        """The parts of ``text`` with its headers inlined; ``before`` is the text ahead of it, which defines macros."""
        hidden = [match.span() for match in comments_and_strings(text)]
        place, done, span, shifted = 0, "", 0, False
        for match in _DIRECTIVE.finditer(text):
            while span < len(hidden) and hidden[span][1] <= match.start(1):
                span += 1
            if span < len(hidden) and hidden[span][0] <= match.start(1):
                continue  # inside a comment
            expanded, end = "", match.end()
            if match[1] == "include":
                header = self._find(match[2], file, before + done + text[place : match.start()])
                if header is None:
                    continue
                expanded, shifted = "", True
                if header not in (*outer, file):
                    inner = "".join(self._guarded(header, (*outer, file), before + done + text[place : match.start()]))
                    expanded = f"#line 1 {quoted(str(header))}\n{inner}\n"
                following = text.count("\n", 0, end) + 2
            elif match[1] in ("else", "elif", "endif") and shifted:  # if the branch before is not taken, neither are its #line directives
                expanded, following = f"{match.group()}\n", text.count("\n", 0, end) + 2
            else:
                continue
            piece = f"{text[place : match.start()]}{expanded}#line {following} {quoted(str(file))}"
            done += piece
            yield piece
            place = end
        yield text[place:]

    def _guarded(self, header: Path, outer: tuple[Path, ...], before: str) -> Iterator[str]:
        """The text of a header, with ``#pragma once`` replaced by an include guard."""
        text = read_text(header)
        once = _ONCE.search(text) is not None
        if once:
            name = f"portatile_once_{self._guards.setdefault(header.resolve(), len(self._guards))}"
            yield f"#ifndef {name}\n#define {name}\n#line 1 {quoted(str(header))}\n"
            text = _ONCE.sub("", text)  # compilers warn of it inside another file
        yield from self.expand(text, header, outer, before)
        if once:
            yield "\n#endif"

    def _find(self, written: str, file: Path, before: str) -> Path | None:
        """The file of the header that a directive names; None if there is none."""
        match = _NAMED.match(written) or _NAMED.match(self._expanded(written, before, str(file)))
        if match is None:
            return None
        name = match[1] or match[2]
        places = (file.parent, *self._folders, *_pyopencl()) if match[1] else (*self._folders, file.parent, *_pyopencl())
        return next((path for folder in places if (path := Path(normpath(folder / name))).is_file()), None)

    def _expanded(self, written: str, before: str, file: str) -> str:
        """The header name that a macro expands to after ``before``."""
        depth = 0
        for match in _DIRECTIVE.finditer(before):
            depth += {"if": 1, "ifdef": 1, "ifndef": 1, "endif": -1}.get(match[1], 0)
        # the preprocessor reports a missing header later, where the text includes it
        directives = "\n".join(match.group() for match in _ANY.finditer(before) if not re.match(r"[ \t]*#[ \t]*include\b", match.group()))
        probe = f"{directives}\nportatile_header {written}\n" + "#endif\n" * depth
        header = re.search(r"^portatile_header (.*)$", preprocess(probe, file, self._defines, "opencl"), re.MULTILINE)
        return header[1] if header else ""


@cache
def _pyopencl() -> tuple[Path, ...]:
    """The folder of pyopencl's headers, found without importing pyopencl."""
    spec = find_spec("pyopencl")
    return (Path(spec.origin).parent / "cl",) if spec is not None and spec.origin else ()
