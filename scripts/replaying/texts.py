"""Kernel text without what a compiler does not see: comments, blank lines, line numbers; and after the preprocessor."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from replaying import trees

Text = dict[str, Any]
"""``text``, ``defines``, ``options`` of a source; the code alone."""

_COMMENT_OR_STRING = re.compile(r"""//(?:\\\n|[^\n])*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL)
_LINE = re.compile(r"^[ \t]*#[ \t]*line[ \t].*$", re.MULTILINE)
_END = re.compile(r"([;{}])")
_BLANK = re.compile(r"[ \t]+")


def code(text: str) -> str:
    """``text`` without comments, ``#line`` directives, blank lines and the number of spaces."""

    bare = _LINE.sub("", _COMMENT_OR_STRING.sub(lambda match: " " if match[0].startswith("/") else match[0], text))
    lines = (_BLANK.sub(" ", line).strip() for line in bare.splitlines())
    return "\n".join(line for line in lines if line)


def statements(text: str) -> str:
    """Code with a line for each statement and directive, however it was broken into lines."""
    lines: list[str] = [""]
    for line in code(text).splitlines():
        if line.startswith("#"):
            lines += [line, ""]
        else:
            lines[-1] += f" {line}"
    broken = (line if line.startswith("#") else _END.sub(r"\1\n", line) for line in lines)
    return "\n".join(line.strip() for text in broken for line in text.splitlines() if line.strip())


def of_source(source: Any) -> Text:
    """What a compiler is given of a Source."""
    return {"text": code(source.text), "defines": sorted(map(list, source.defines)), "options": list(source.options)}


def digest(text: object) -> str:
    """A short content hash."""
    return hashlib.blake2b(repr(text).encode(), digest_size=10).hexdigest()


def preprocessed(text: Text, backend: str) -> str:
    """The code without macros, by this tree's preprocessor; with its options, which the compiler is given too."""
    names = ("portatile.dialect.preprocess", "portatile.dialect.passes.preprocess", "portatile.dialect.preprocessor", "portatile.dialect")
    run = trees.first("preprocess", *names)
    try:
        lines = statements(run(text["text"], "kernel.cl", dict(text["defines"]), backend))
    except Exception as error:  # a text that cannot be preprocessed is compared as it is
        lines = f"{type(error).__name__}: {error}\n{text['text']}\n{text['defines']}"
    return "\n".join([*(f"option {option}" for option in text["options"]), lines])
