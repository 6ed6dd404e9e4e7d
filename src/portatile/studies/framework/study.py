"""The definition of a study: a question, a function that measures row by row, the answer in words, and figures.

A study is a file of ``studies/`` with a ``Study`` called ``STUDY``; nothing else lists it. Its options are the fields of a frozen record,
each made by ``option``; its rows are frozen records too, one observation each. ``measure`` yields rows as they are measured, and skips
those for which ``Run.known`` is true, so that an interrupted study continues.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from portatile.device.base import Device
from portatile.figures.svg import Figure
from portatile.records import Problem, Value

EXPERIMENTS = (
    "Numbers such as D3.2 name experiments in published papers and tutorials, here the second one of D3: "
    "D1 Du et al., D2 Transue et al., D3 Komatsu et al., D4 Videau, D5 Nugteren."
)
"""What ``Study.answers`` are, for the readers of pages and lists."""


LEFT_OUT = "left out"
"""How the status of a row begins that was not measured because it would have taken longer than was left; another run measures it."""


@dataclass(frozen=True)
class Option:
    """The facts of an option that a command line needs beside its type and default. ``least``: of whole numbers.

    ``argument``: it is given by its place, not by its name. ``names``: as it is typed, where that is not the field's name. ``count``: it
    takes so many words at once.
    """

    help: str
    choices: tuple[str, ...] = ()
    least: float | None = None
    argument: bool = False
    names: tuple[str, ...] = ()
    metavar: str | None = None
    count: int = 0


def option(default: Any, text: Option | str) -> Any:
    """A field of a study's options, with its default and its meaning."""
    return field(default=default, metadata={"option": Option(text) if isinstance(text, str) else text})


@dataclass(frozen=True)
class NoOptions:
    """The options of a study that has none."""


@dataclass(frozen=True)
class Column:
    """A column of the table that people read: its heading, the field that it shows, and the unit: ``s``, ``%`` or none."""

    heading: str
    name: str
    unit: str = ""


@dataclass(frozen=True)
class StudyRequest:
    """The input of a study: the devices, the options, and the problem if it is about one."""

    devices: tuple[Device, ...]
    options: Any
    problem: Problem | None = None


@dataclass(frozen=True)
class Run:
    """The argument of ``measure``. ``expect`` takes the number of rows that will come, or of trials, each of which calls ``advance``.

    ``say`` takes what is going on. ``known`` says whether a row, of which only the key needs to be filled in, was measured before.
    ``trials`` is a file for the tuner's trials, which lets a study of configurations go on; None keeps them in memory. The study should
    end at ``until``, of ``time.monotonic``.
    """

    devices: tuple[Device, ...]
    options: Any
    problem: Problem | None = None
    known: Callable[[Any], bool] = lambda row: False
    expect: Callable[[int], None] = lambda count: None
    say: Callable[[str], None] = lambda text: None
    advance: Callable[[], None] = lambda: None
    trials: Path | None = None
    until: float | None = None

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the study should end; None if it has no limit."""
        return None if self.until is None else max(self.until - time.monotonic(), 0.0)

    def share(self, parts: int) -> float | None:
        """Seconds for one of so many parts that are still to come; None if there is no limit."""
        return None if self.until is None else (self.seconds_left or 0.0) / max(parts, 1)

    def fits(self, seconds: float) -> bool:
        """Whether there is time for something that takes so many seconds."""
        return self.until is None or time.monotonic() + seconds <= self.until


Rows = Sequence[Any]


def same(rows: Rows) -> Rows:
    """The rows unchanged: the ``finish`` of a study that needs none."""
    return rows


def no_answer(rows: Rows) -> str:
    """An empty answer: of a study that only has figures."""
    return ""


def nothing(rows: Rows) -> list[str]:
    """No remarks: the notes of a study that has none."""
    return []


@dataclass(frozen=True)
class Study:
    """A question and how it is answered.

    ``answers``: see ``EXPERIMENTS``. ``minutes``: on a usual device with its defaults. ``timed``: what the times contain.
    ``key``: the fields by which a row is known. ``finish`` makes the table of all rows that were measured: relative times, order.
    ``answer`` says in a sentence or two what came of it. ``figures`` draws it, ``shown`` are the rows that people read (files hold all),
    ``notes`` are lines below it. ``devices``: where none is named the best one, all, each piece of hardware once (``any``: if there is
    one), or none at all. ``ceilings``: theirs are measured first where that was not done. ``sample``: what is asked when all studies run,
    None if the devices given cannot answer. ``by_trials``: it goes on by the tuner's trials instead of rows.
    """

    name: str
    answers: tuple[str, ...]
    question: str
    minutes: float
    timed: str
    row: type[Any]
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    measure: Callable[[Run], Iterator[Any]]
    figures: Callable[[Rows], Sequence[Figure]]
    options: type[Any] = NoOptions
    finish: Callable[[Rows], Rows] = same
    answer: Callable[[Rows], str] = no_answer
    shown: Callable[[Rows], Rows] = same
    notes: Callable[[Rows], list[str]] = nothing
    devices: Literal["best", "all", "each", "any", "none"] = "best"
    problem: Literal["none", "optional", "needed"] = "none"
    sample: Callable[[tuple[Device, ...]], StudyRequest | None] | None = None
    by_trials: bool = False
    ceilings: bool = True

    def known_by(self, row: Any) -> tuple[Value | None, ...]:
        """The values that tell a row from others."""
        return tuple(getattr(row, name) for name in self.key)
