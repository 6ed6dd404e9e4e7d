"""Studies as one self-contained HTML page: the question, what is timed, the figures, the table and its data."""

from __future__ import annotations

import base64
import gzip
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup

from portatile import template
from portatile.device import names
from portatile.figures import scripts, svg
from portatile.figures.quantities import NBSP, duration
from portatile.formatting import spelled
from portatile.provenance import release
from portatile.records import DeviceInfo
from portatile.studies.framework import conduct, table
from portatile.studies.framework.conduct import StudyOutcome
from portatile.studies.framework.labels import naming
from portatile.studies.framework.study import EXPERIMENTS

_FOLDER = Path(__file__).parent
_SPOKEN = re.compile(r"<(title|desc)\b[^>]*>[^<]*</\1>| (?:tabindex|role|aria-labelledby|aria-describedby)=\"[^\"]*\"")
_LONGEST = 240  # characters of a cell, which may have several lines
_HOW = frozenset({"--device", "--between", "--budget", "--output", "--repeat", "--repeats", "--quick", "--fresh"})
"""Options of how a study is run; all others belong to what it asks."""
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=%|(?:[µmn]?s|[GT]?(?:flop/s|B/s))\b)")
_LONG = 4096  # characters of a table that are worth compressing


@dataclass(frozen=True)
class Skipped:
    """A study that did not run, and why."""

    name: str
    question: str
    reason: str


def render(outcomes: Sequence[StudyOutcome], skipped: Sequence[Skipped] = ()) -> str:
    """The page, with a chapter for each outcome."""
    runs = [tuple(device.info for device in outcome.request.devices) for outcome in outcomes]
    devices = {(info.id, info.name, info.driver): info for infos in runs for info in infos}
    apart = len({info.id for info in devices.values()}) < len(devices)  # chapters come from several machines: each names its own devices
    return template.page(__file__, "page.html").render(
        style=Markup(svg.style() + (_FOLDER / "page.css").read_text(encoding="utf-8")),
        script=Markup(scripts.sorting()),
        script_hash=scripts.digest(scripts.sorting()),
        title="Studies" if len(outcomes) != 1 else outcomes[0].study.question,
        chapters=[_chapter(outcome, name, title, apart) for outcome, (name, title) in zip(outcomes, _names(outcomes), strict=True)],
        experiments=EXPERIMENTS if outcomes else "",
        skipped=skipped,
        devices=_described(list(devices.values())),
        shorts=list(dict.fromkeys(name for infos in runs for name in names.short(infos))),
        whole=_whole,
        made=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        version=release(),
        machine=f"{platform.system()} {platform.machine()}",
    )


def _whole(text: str) -> Markup:
    """A command as markup that is not broken at hyphens."""
    return Markup(" ").join(Markup("<span>{}</span>").format(word) if "-" in word else Markup.escape(word) for word in text.split(" "))


def _described(infos: Sequence[DeviceInfo]) -> list[str]:
    """A line for each device: its short name and id, then what its driver says."""
    return [
        f"{names.short([info])[0]}: {info.name} ({info.platform}, driver {info.driver}, {info.compute_units} compute units; {info.id})"
        for info in infos
    ]


def _names(outcomes: Sequence[StudyOutcome]) -> list[tuple[str, str]]:
    """An anchor and a title for each chapter: the study, what it is about, and the options by which alike ones differ."""
    typed = [outcome.command.removeprefix("portatile study ").split() or [outcome.study.name] for outcome in outcomes]
    titles = [" ".join(_leading(words)) for words in typed]
    named: list[tuple[str, str]] = []
    for outcome, words, title in zip(outcomes, typed, titles, strict=True):
        alike = [_options(other) for other, name in zip(typed, titles, strict=True) if name == title]
        apart = [text for text in _options(words) if any(text not in other for other in alike)] if len(alike) > 1 else []
        anchor = re.sub(r"[^a-z0-9]+", "-", outcome.study.name)
        before = sum(other == anchor or other.startswith(f"{anchor}-") for other, _ in named)
        named.append((f"{anchor}-{before + 1}" if before else anchor, " ".join([title, *apart])))
    return named


def _leading(words: Sequence[str]) -> list[str]:
    """The words before the first option."""
    return list(takewhile(lambda word: not word.startswith("-"), words))


def _options(words: Sequence[str]) -> list[str]:
    """The long options with their values, without those in ``_HOW``."""
    found, place = [], 0
    while place < len(words):
        values = _leading(words[place + 1 :])
        if words[place].startswith("--") and words[place] not in _HOW:
            found.append(" ".join([words[place], *values]))
        place += 1 + len(values) if words[place].startswith("-") else 1
    return found


def _unbroken(text: str) -> str:
    """A text whose lines do not end between a number and its unit."""
    return _BEFORE_UNIT.sub(NBSP, text)


def _chapter(outcome: StudyOutcome, name: str, title: str, apart: bool) -> dict[str, object]:
    study, rows = outcome.study, outcome.rows
    infos = [device.info for device in outcome.request.devices]
    named = naming(infos)
    figures = [named(figure) for figure in study.figures(rows)] if rows else []
    drawn = [(figure.title, figure.text, figure.draw(f"{name}-{place}")) for place, figure in enumerate(figures)]
    problem = outcome.request.problem
    shown = table.readable(study.columns, study.shown(rows), _LONGEST)
    return {
        "name": name,
        "command": outcome.command or f"portatile study {study.name}",
        "title": title,
        "answers": ", ".join(study.answers),
        "question": study.question,
        "answer": _unbroken(named(study.answer(rows))) if rows else "",
        "timed": study.timed,
        "about": "" if problem is None else f"{problem.workload} {spelled(problem.sizes)} {problem.dtype}",
        "devices": [f"{label}: {info.name}" for label, info in zip(names.short(infos), infos, strict=True)] if apart else [],
        "figures": drawn,
        "card": _picture(figures[0].draw(f"{name}-card")) if figures else "",
        "table": named(shown),
        "notes": [_unbroken(named(note)) for note in study.notes(rows)] if rows else [],
        "legend": table.legend(study.columns, study.shown(rows)),
        "ended": "" if outcome.ended == conduct.COMPLETE else outcome.ended,
        "seconds": duration(outcome.seconds),
        **_download(name, table.to_csv(study.row, rows)),
    }


def _picture(drawn: Markup) -> Markup:
    """A chart as a mere picture: without tooltips, labels and focus."""
    return Markup(_SPOKEN.sub("", drawn))


def _download(name: str, text: str) -> dict[str, str]:
    """The table as a data URL, compressed if it is long, so that a page of many studies stays small."""
    if len(text) <= _LONG:
        return {"file": f"{name}.csv", "link": f"data:text/csv;charset=utf-8,{quote(text)}"}
    packed = base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()
    return {"file": f"{name}.csv.gz", "link": f"data:application/gzip;base64,{packed}"}
