"""Excerpts in compilers' messages: replaces translated source lines by the user's own."""

from __future__ import annotations

import re

_HEAD = re.compile(r"^(?P<file>\S.*)\((?P<line>\d+)\): (?:catastrophic )?(?:error|warning|note|remark)\b")
_BARE = re.compile(r"^(?:fatal )?(?:error|warning|note): (?P<file>\S.*?):(?P<line>\d+):(?P<column>\d+): ")
"""PoCL's messages, which have no excerpt."""
_DIRECTIVE = re.compile(r'^\s*#\s*line\s+(?P<line>\d+)(?:\s+"(?P<file>(?:\\.|[^"\\])*)")?')
_CARET = re.compile(r"^\s*\^\s*$")
_WORD = re.compile(r"\w+|\S")
_WIDEST = 200  # columns of an excerpt


def restored(log: str, text: str, file: str) -> str:
    """A compiler's log in which each excerpt of ``file``, or of headers that its text contains, is replaced by the line that the user
    wrote.

    The caret is moved to the same word. It is omitted if the user's line does not have that word, which then came from a macro. A message
    that has a column and no excerpt gets one.
    """
    lines: list[str] = []
    known, own = _lines(text, file), None
    for line in log.splitlines():
        head = _HEAD.match(line)
        if head is not None:
            own = known.get((head["file"], int(head["line"])))
        elif own is not None and _CARET.match(line) and lines:
            translated = lines.pop()
            lines += _excerpt(own, _place(translated, line.index("^"), own))
            continue
        lines.append(line)
        bare = _BARE.match(line)
        if bare is not None and (text_there := known.get((bare["file"], int(bare["line"])))) is not None:
            lines += _excerpt(text_there, int(bare["column"]) - 1)
    return "\n".join(lines)


def _excerpt(line: str, place: int | None) -> list[str]:
    """A line of the text, cut around the place if it is long, and a line below that points to the place if it is known."""
    first = max((place or 0) - _WIDEST // 2, 0) if len(line) > _WIDEST else 0
    before, behind = "..." if first else "", "..." if len(line.rstrip()) > first + _WIDEST else ""
    excerpt = f"  {before}{line[first : first + _WIDEST].rstrip()}{behind}"
    if place is None:
        return [excerpt]
    gap = "".join("\t" if letter == "\t" else " " for letter in line[first:place])
    return [excerpt, f"  {' ' * len(before)}{gap}^"]


def _lines(text: str, file: str) -> dict[tuple[str, int], str]:
    """Every line of the text by file and number, as its ``#line`` directives count them."""
    lines, number = {}, 1
    for line in text.splitlines():
        directive = _DIRECTIVE.match(line)
        if directive is not None:
            number, file = int(directive["line"]), re.sub(r"\\(.)", r"\1", directive["file"] or "") or file
        else:
            lines[file, number] = line
            number += 1
    return lines


def _place(translated: str, caret: int, own: str) -> int | None:
    """The index in the user's line of the word above the caret; None where that is not certain."""
    word = _WORD.match(translated, caret)
    if word is None:
        return None
    in_translated = [match.start() for match in _WORD.finditer(translated) if match[0] == word[0]]
    in_own = [match.start() for match in _WORD.finditer(own) if match[0] == word[0]]
    if len(in_own) == 1:
        return in_own[0]
    return in_own[in_translated.index(caret)] if len(in_own) == len(in_translated) and caret in in_translated else None
