"""Studies as one HTML page that needs nothing but itself: the question, what is timed, the figures, the table and its data."""

from __future__ import annotations

import base64
import gzip
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup

from portatile import template
from portatile.figures import svg
from portatile.figures.quantities import duration
from portatile.formatting import spelled
from portatile.studies.form import conduct, table
from portatile.studies.form.conduct import StudyOutcome
from portatile.studies.form.study import EXPERIMENTS

_FOLDER = Path(__file__).parent
_SPOKEN = re.compile(r"<(title|desc)\b[^>]*>[^<]*</\1>| (?:tabindex|role|aria-labelledby|aria-describedby)=\"[^\"]*\"")
_LONGEST = 240  # letters of a cell: it may have several lines
_LONG = 4096  # characters of a table that are worth compressing


@dataclass(frozen=True)
class Skipped:
    """A study that did not run, and why."""

    name: str
    question: str
    reason: str


def render(outcomes: Sequence[StudyOutcome], skipped: Sequence[Skipped] = ()) -> str:
    """The page, with a chapter for each outcome."""
    devices = {device.info.id: device.info for outcome in outcomes for device in outcome.request.devices}
    return template.page(__file__, "page.html").render(
        style=Markup(svg.style() + (_FOLDER / "page.css").read_text(encoding="utf-8")),
        title="Studies" if len(outcomes) != 1 else outcomes[0].study.question,
        chapters=[_chapter(outcome, name) for outcome, name in zip(outcomes, _names(outcomes), strict=True)],
        experiments=EXPERIMENTS if outcomes else "",
        skipped=skipped,
        devices=list(devices.values()),
        made=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        machine=f"{platform.system()} {platform.machine()}",
    )


def _names(outcomes: Sequence[StudyOutcome]) -> list[str]:
    """A name for each chapter; of a study that stands there several times the later ones are numbered."""
    names: list[str] = []
    for outcome in outcomes:
        before = sum(other.study.name == outcome.study.name for other in outcomes[: len(names)])
        names.append(outcome.study.name if not before else f"{outcome.study.name}-{before + 1}")
    return names


def _chapter(outcome: StudyOutcome, name: str) -> dict[str, object]:
    study, rows = outcome.study, outcome.rows
    figures = study.figures(rows) if rows else []
    drawn = [(figure.title, figure.text, figure.draw(f"{name}-{place}")) for place, figure in enumerate(figures)]
    problem = outcome.request.problem
    return {
        "name": name,
        "command": outcome.command or f"portatile study {study.name}",
        "typed": outcome.command.removeprefix("portatile study "),  # tells chapters of one study apart
        "answers": ", ".join(study.answers),
        "question": study.question,
        "timed": study.timed,
        "about": "" if problem is None else f"{problem.workload} {spelled(problem.sizes)} {problem.dtype}",
        "figures": drawn,
        "card": _picture(figures[0].draw(f"{name}-card")) if figures else "",
        "table": table.readable(study.columns, study.shown(rows), _LONGEST),
        "notes": study.notes(rows) if rows else [],
        "legend": table.legend(study.columns, study.shown(rows)),
        "ended": "" if outcome.ended == conduct.COMPLETE else outcome.ended,
        "seconds": duration(outcome.seconds),
        **_download(name, table.to_csv(study.row, rows)),
    }


def _picture(drawn: Markup) -> Markup:
    """A chart as a mere picture, which nobody can focus: without what its marks say."""
    return Markup(_SPOKEN.sub("", drawn))


def _download(name: str, text: str) -> dict[str, str]:
    """The table as a link that needs no other file; compressed where it is long, because a page of many studies is sent and kept as one."""
    if len(text) <= _LONG:
        return {"file": f"{name}.csv", "link": f"data:text/csv;charset=utf-8,{quote(text)}"}
    packed = base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()
    return {"file": f"{name}.csv.gz", "link": f"data:application/gzip;base64,{packed}"}
