"""Where commands write: results to standard output, progress to standard error, plain where there is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

T = TypeVar("T")
_PIPE_WIDTH = 200  # a file has no edge at which to wrap

out = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else _PIPE_WIDTH)
err = Console(stderr=True, highlight=False)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> Table:
    """A table whose first ``left`` columns are text and the others figures."""
    made = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="dim")
    for place, column in enumerate(columns):
        made.add_column(column, justify="left" if place < left else "right", no_wrap=True)
    for row in rows:
        made.add_row(*row)
    return made


def track(items: Sequence[T], what: str) -> Iterator[T]:
    """``items`` with a bar that counts them; on a terminal only."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err, disable=not err.is_terminal, transient=True) as bar:
        yield from bar.track(items, description=what)


@contextmanager
def bar(what: str, total: int) -> Iterator[Callable[[], None]]:
    """A bar of ``total`` steps, on a terminal only; gives a function that takes one."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err, disable=not err.is_terminal, transient=True) as shown:
        task = shown.add_task(what, total=total)
        yield lambda: shown.advance(task)


def say(text: str) -> None:
    """What is going on, on a terminal only: one line that stands still, for what a turning spinner would disturb."""
    if err.is_terminal:
        err.print(text, style="dim", markup=False)


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


def rate(value: float, unit: str) -> str:
    """A rate for people: tenths, and three digits where those would say nothing."""
    return f"{value:.1f} {unit}" if value >= 10 else f"{value:.3g} {unit}"


def seconds(value: float) -> str:
    """A duration for people, with three digits."""
    for limit, scale, unit in ((1e-3, 1e6, "us"), (1.0, 1e3, "ms")):
        if value < limit:
            return f"{value * scale:.3g} {unit}"
    return f"{value:.3g} s"
