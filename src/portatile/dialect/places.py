"""Maps the lines of a text to files and lines, by its ``#line`` directives."""

from __future__ import annotations

import re
from bisect import bisect_right

_LINE = re.compile(r'^[ \t]*#[ \t]*line[ \t]+(\d+)(?:[ \t]+"((?:\\.|[^"\\\n])*)")?', re.MULTILINE)


def quoted(name: str) -> str:
    """A file's name as a C string literal."""
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


class Places:
    """The file and line of every line of a text, by its ``#line`` directives."""

    def __init__(self, text: str, file: str) -> None:
        self._starts, self._shown = [0], [(file, 0)]
        physical, position = 0, 0
        for match in _LINE.finditer(text):
            physical += text.count("\n", position, match.start())
            position = match.start()
            if match[2] is not None:
                file = re.sub(r"\\(.)", r"\1", match[2])
            self._starts.append(physical + 2)
            self._shown.append((file, int(match[1]) - physical - 2))

    def at(self, line: int) -> str:
        """``file:line`` for a line of the text, counted from 1."""
        file, offset = self._shown[bisect_right(self._starts, line) - 1]
        return f"{file}:{line + offset}"
