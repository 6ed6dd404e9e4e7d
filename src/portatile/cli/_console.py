"""Output of commands: results to standard output, progress to standard error, plain where there is no terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from textwrap import wrap
from typing import Any, TypeVar

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from portatile.cli._shown import shown

T = TypeVar("T")
_LINE_SECONDS = 1.0
_NO_EDGE = 10_000
_GAP = "  "  # between columns
_LEAST_WRAPPED = 28  # columns of a terminal for text that is wrapped


class _Console(Console):
    """A console that removes control characters from strings, so that printed text cannot control the terminal."""

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*(shown(item) if isinstance(item, str) else item for item in objects), **options)


out = _Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else _NO_EDGE)
err = _Console(stderr=True, highlight=False)


@dataclass(frozen=True)
class Listing:
    """A table whose first ``left`` columns are text, the others numbers. Columns without any cell are left out.

    If the terminal is too narrow, the widest text column is wrapped if enough width is left for it; otherwise each cell has its own line.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        filled = [place for place in range(len(self.columns)) if not self.rows or any(row[place] for row in self.rows)]
        heads = [self.columns[place] for place in filled]
        rows = [[shown(row[place]) for place in filled] for row in self.rows]
        texts = sum(place < self.left for place in filled)
        if self.title:
            yield Text(shown(self.title), "bold")
        wide = [max(map(cell_len, column)) for column in zip(heads, *rows, strict=True)]
        excess = sum(wide) + len(_GAP) * (len(wide) - 1) - options.max_width
        widest = max(range(texts), key=wide.__getitem__, default=None)
        if excess <= 0:
            yield from _aligned(heads, rows, wide, texts)
        elif widest is not None and wide[widest] - excess >= max(_LEAST_WRAPPED, cell_len(heads[widest])):
            wide[widest] -= excess
            yield from _aligned(heads, rows, wide, texts)
        else:
            yield from _apart(heads, rows)


def _aligned(heads: Sequence[str], rows: Sequence[Sequence[str]], wide: Sequence[int], texts: int) -> Iterator[Text]:
    """A line for each row, or several where a cell is wider than its column; nothing behind the last cell of a line."""
    for number, row in enumerate([heads, *rows]):
        cells = [wrap(cell, width) or [""] for cell, width in zip(row, wide, strict=True)]
        for line in zip_longest(*cells, fillvalue=""):
            padded = [_pad(cell, width, place < texts) for place, (cell, width) in enumerate(zip(line, wide, strict=True))]
            yield Text(_GAP.join(padded).rstrip(), "" if number else "dim")


def _apart(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[Text]:
    """A line for each cell, behind its column's name, and an empty one between rows."""
    wide = max(map(cell_len, heads))
    for number, row in enumerate(rows):
        if number:
            yield Text("")
        for head, cell in zip(heads, row, strict=True):
            if cell:
                yield Text.assemble((f"{head:{wide}}  ", "dim"), cell)


def _pad(cell: str, width: int, left: bool) -> str:
    blanks = " " * (width - cell_len(cell))
    return cell + blanks if left else blanks + cell


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> Listing:
    """Rows to print, the first ``left`` columns as text, the others as numbers."""
    return Listing(title, columns, tuple(rows), left)


def track(items: Sequence[T], what: str) -> Iterator[T]:
    """``items`` with a bar that counts them; see ``bar``."""
    with bar(what, len(items)) as advance:
        for item in items:
            yield item
            advance()


@contextmanager
def bar(what: str, total: int) -> Iterator[Callable[[], None]]:
    """A progress bar of ``total`` steps, and a function that completes one. Without a terminal, a step that ends at least a second after
    the previous line prints a line.
    """
    if not err.is_terminal:
        yield _Lines(what, total).advance
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True) as shown:
        task = shown.add_task(what, total=total)
        yield lambda: shown.advance(task)


class _Lines:
    """Progress as lines of text, not more than can be read."""

    def __init__(self, what: str, total: int) -> None:
        self._what, self._total, self._done = what, total, 0
        self._started = self._last = time.monotonic()

    def advance(self) -> None:
        """Count one step."""
        self._done += 1
        now = time.monotonic()
        if now - self._last >= max(_LINE_SECONDS, 0.02 * (now - self._started)):
            err.print(f"{now - self._started:6.1f} s  {self._what}: {self._done} of {self._total}", markup=False, soft_wrap=True)
            self._last = now


def say(text: str) -> None:
    """Print the current activity in one static line, on a terminal only: a spinner would disturb the measurement."""
    if err.is_terminal:
        err.print(text, style="dim", markup=False)


def note(text: str) -> None:
    """A line beside the results."""
    err.print(text, style="dim", markup=False, soft_wrap=True)


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """``1 trial``, ``2 trials``."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def nbytes(count: float) -> str:
    """Bytes for people."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError("unreachable")
