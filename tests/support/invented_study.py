"""A study that measures nothing and breaks off where a test asks it to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from portatile.figures.bars import BarChart
from portatile.studies.framework.study import Column, Option, Run, Study, StudyRequest, option


@dataclass(frozen=True)
class Row:
    device: str
    size: int
    seconds: float | None
    share: float | None = None
    status: str = "ok"


@dataclass(frozen=True)
class Options:
    sizes: tuple[int, ...] = option((1, 2, 3, 4), "Sizes.")
    word: str = option("a", Option("A word.", choices=("a", "b")))


measured: list[int] = []
breaks_at: list[int] = []


def measure(run: Run) -> Iterator[Row]:
    run.expect(len(run.options.sizes))
    for size in run.options.sizes:
        row = Row("x", size, None)
        if run.known(row):
            continue
        if size in breaks_at:
            raise KeyboardInterrupt
        measured.append(size)
        yield replace(row, seconds=size / 10)


def finish(rows: Sequence[Row]) -> list[Row]:
    best = min((row.seconds or 1.0 for row in rows), default=1.0)
    return [replace(row, share=best / (row.seconds or 1.0)) for row in rows]


def figures(rows: Sequence[Row]) -> list[BarChart]:
    values = tuple((row.seconds,) for row in rows)
    return [BarChart("Bars", "said", "time", "s", tuple(str(row.size) for row in rows), ("t",), values)]


STUDY = Study(
    name="invented",
    answers=("D0.0",),
    question="Is <this> a question?",
    minutes=1.0,
    timed="nothing & nobody.",
    row=Row,
    key=("device", "size"),
    columns=(Column("device", "device"), Column("size", "size"), Column("time", "seconds", "s"), Column("", "status")),
    measure=measure,
    figures=figures,
    options=Options,
    finish=finish,
    devices="none",
    sample=lambda devices: StudyRequest((), Options()),
)


def forget() -> None:
    """Begin with nothing measured, and no size at which the study breaks off."""
    measured.clear()
    breaks_at.clear()


def asked(**changes: Any) -> StudyRequest:
    """A request for the study, with changed options."""
    return StudyRequest((), replace(Options(), **changes))
