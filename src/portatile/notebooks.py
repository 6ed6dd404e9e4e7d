"""Output in notebooks: tables as HTML, and progress text that is rewritten in place."""

from __future__ import annotations

import csv
import io
import sys
import time
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

_PERIOD = 0.25  # seconds between two texts, which browsers can follow


def facts(pairs: Iterable[tuple[str, object]]) -> str:
    """Names and values as a table of two columns; rows without a value are omitted."""
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>" for name, value in pairs if value not in ("", None))
    return f"<table>{rows}</table>"


def table(head: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> str:
    """Rows as a table, with the lines of ``caption`` above."""
    above = "".join(f"<div>{escape(line)}</div>" for line in caption.splitlines())
    first = "".join(f"<th>{escape(name)}</th>" for name in head)
    rest = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<div>{above}<table><thead><tr>{first}</tr></thead><tbody>{rest}</tbody></table></div>"


def comma_separated(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows as comma-separated values, with the names in the first line."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return text.getvalue()


def inside() -> bool:
    """Whether this process is a notebook's kernel; looks only at modules that are already imported."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and getattr(shell, "kernel", None) is not None


class NotebookProgress:
    """Shows its arguments in a notebook's output, each text replacing the previous one, a few times a second."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._next = 0.0

    def __call__(self, shown: object) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _PERIOD
        content = {"text/plain": str(shown), "text/html": f"<pre>{escape(str(shown))}</pre>"}
        if self._handle is None:
            self._handle = sys.modules["IPython"].display.display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)
