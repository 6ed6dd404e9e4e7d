"""Output of commands: results to standard output, progress to standard error, plain where there is no terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from portatile.cli._shown import shown

T = TypeVar("T")
_LINE_SECONDS = 1.0
_NO_EDGE = 10_000


class _Console(Console):
    """A console that removes control characters from strings, so that printed text cannot control the terminal."""

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*(shown(item) if isinstance(item, str) else item for item in objects), **options)


out = _Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else _NO_EDGE)
err = _Console(stderr=True, highlight=False)


@dataclass(frozen=True)
class Listing:
    """A table whose first ``left`` columns are text, the others numbers; a line for each cell where the terminal is too narrow."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        made = Table(title=shown(self.title), title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="dim")
        for place, column in enumerate(self.columns):
            made.add_column(column, justify="left" if place < self.left else "right", no_wrap=True)
        for row in self.rows:
            made.add_row(*(Text(shown(cell)) for cell in row))
        if console.measure(made, options=options.update(max_width=_NO_EDGE)).maximum <= options.max_width:
            yield made
            return
        if self.title:
            yield Text(shown(self.title), "bold")
        wide = max(map(len, self.columns))
        for number, row in enumerate(self.rows):
            if number:
                yield Text("")
            for column, cell in zip(self.columns, row, strict=False):
                if cell:
                    yield Text.assemble((f"{column:{wide}}  ", "dim"), shown(cell))


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
    """A bar of ``total`` steps, off a terminal a line for each that ends a second or more after the line before; gives a function
    that takes one.
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
    """Say what is going on, on a terminal only, in one static line: a spinner would disturb the measurement."""
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
