"""The report's HTML page, self-contained: what was tuned, how fast it became, why, and the data behind every chart."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from portatile import template
from portatile.device import names as device_names
from portatile.figures import quantities, scripts, svg
from portatile.provenance import release
from portatile.records import DeviceInfo
from portatile.reports import attention, formatting, kernels, overview, sections, tables
from portatile.reports.attention import Concern
from portatile.reports.groups import Group
from portatile.reports.overview import PlacedGroup
from portatile.reports.sections import ReportFigure
from portatile.store import device_key

_FOLDER = Path(__file__).parent
_MESSAGES, _LETTERS = 5, 3000
_NAMED = 3  # devices that the head of the page names
_PLACES = 3  # problems of each kind of trouble that are named at once
_STATES = {"ok": "fine", "attention": "needs attention", "failed": "nothing valid"}
_MEANINGS = {
    "compile": "the compiler refuses it",
    "launch": "it needs more than the device has",
    "wrong": "its result is outside the bound, or it wrote where it must not",
    "timeout": "a phase took longer than the watchdog allows",
    "crash": "its process died",
    "skipped": "not tried",
}


@dataclass(frozen=True)
class DeviceFacts:
    """The facts that are known of one device."""

    anchor: str
    name: str
    caption: str
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class LiveState:
    """The state of a page that follows a search, the facts at its head, and a version that changes with every trial."""

    state: str
    facts: tuple[tuple[str, str], ...]
    version: str
    ended: bool


def render(groups: Sequence[Group], known: kernels.Known, nothing: str = "the store is empty.", live: LiveState | None = None) -> str:
    """The page. ``known`` tells what was tuned, for plans that call other problems; ``nothing`` says why there are no groups."""
    embedded = [scripts.sorting(), _file("page.js"), *([_file("live.js")] if live is not None else [])]
    return template.page(__file__, "page.html").render(
        style=Markup(svg.style() + _file("page.css")),
        scripts=[Markup(script) for script in embedded],
        script_hashes=[scripts.digest(script) for script in embedded],
        nothing=nothing,
        live=live,
        whole=live is None or len(groups) != 1,  # one search is followed by its own section alone
        **_head(groups, live),
        **_body(groups, known),
        **_downloads(groups),
        **_WORDS,
    )


_WORDS: dict[str, object] = {
    "most_places": _PLACES,
    "states": _STATES,
    "meanings": _MEANINGS,
    "most_messages": _MESSAGES,
    "most_letters": _LETTERS,
    "duration": quantities.duration,
    "spelled": formatting.config,
    "digits": quantities.digits,
    "timestamp": formatting.timestamp,
}
"""The template's words, limits and functions, which are the same for every page."""


def _head(groups: Sequence[Group], live: LiveState | None) -> dict[str, object]:
    """The values for the head and the foot of the page: a summary, versions and the time."""
    return {
        "version": release(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "made": datetime.now(UTC).strftime("%-d %B %Y, %H:%M UTC"),
        "summary": _summary_sentence(groups) if groups or live is None else f"{live.state[0].upper()}{live.state[1:]}.",
        "tiles": overview.tiles(groups),
        "places_of": list(dict.fromkeys(group.device.name for group in groups)),
    }


def _body(groups: Sequence[Group], known: kernels.Known) -> dict[str, object]:
    """The overview, what needs attention, a section for each problem and the facts of each device, with the links between them."""
    devices = {device_key(group.device) + group.device.driver: group.device for group in groups}
    anchors = {key: f"device-{number}" for number, key in enumerate(devices, 1)}
    nicknames = _short_device_names(groups)
    placed = [PlacedGroup(group, f"problem-{number}", nicknames[device_key(group.device)]) for number, group in enumerate(groups, 1)]
    concerns = attention.concerns(placed)
    written = [
        sections.section(place.anchor, anchors[device_key(place.group.device) + place.group.device.driver], place.group, known)
        | _state(place, concerns)
        | {"nickname": place.device}
        for place in placed
    ]
    return {
        "overview": [
            ReportFigure(figure.title, figure.text, figure.draw(f"overview-{number}"))
            for number, figure in enumerate(overview.figures(placed), 1)
        ],
        "concerns": concerns,
        "contents": [
            (name, _with_distinct_names(list(listed)))
            for name, listed in groupby(written, lambda section: section["group"].problem.workload)
        ],
        "sections": written,
        "devices": [_facts(anchors[key], device) for key, device in devices.items()],
        "measured": any(section["share"] for section in written),
    }


def _with_distinct_names(listed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sections for the contents; texts of a user's own kernel that have one name get the beginning of their versions."""
    names = Counter((section["short"], section["nickname"]) for section in listed)
    for section in listed:
        version = str(section["group"].problem.options.get("version", ""))
        if version and names[section["short"], section["nickname"]] > 1:
            section["short"] = f"{section['short']} {formatting.short_hash(version)}"
    return listed


def _downloads(groups: Sequence[Group]) -> dict[str, object]:
    """The data behind the page, as links that hold it."""
    data = tables.trials_json(groups)
    return {
        "summary_link": tables.uri(tables.summary_csv(groups)),
        "trials_link": tables.uri(data, "application/json"),
        "trials_size": f"{len(data) / 1e6:.1f} MB" if len(data) >= 1e6 else f"{len(data) / 1e3:.0f} kB",
    }


def _state(place: PlacedGroup, concerns: Sequence[Concern]) -> dict[str, object]:
    """The state of a problem (fine, needs attention, or no valid trial) with sentences for its section."""
    concerning = [(concern, detail) for concern in concerns for anchor, _, detail in concern.places if anchor == place.anchor]
    sentences = [f"{concern.heading}: {detail}. {concern.advice}" for concern, detail in concerning]
    return {"status": "failed" if place.group.best is None else "attention" if concerning else "ok", "concerns": sentences}


def _short_device_names(groups: Sequence[Group]) -> dict[str, str]:
    """Short names of devices, by key, where there are several: ``H200 CUDA``."""
    infos = {device_key(group.device): group.device for group in groups}
    if len(infos) < 2:
        return dict.fromkeys(infos, "")
    return dict(zip(infos, device_names.short(list(infos.values())), strict=True))


def _facts(anchor: str, device: DeviceInfo) -> DeviceFacts:
    memory = f"{device.global_memory / 2**30:.1f} GiB" if device.global_memory else "not reported"
    rows = {
        "Platform": f"{device.platform} ({device.backend})",
        "Vendor": device.vendor,
        "Kind, architecture": f"{device.kind}, {device.architecture}",
        "Driver": device.driver,
        "Compiler": device.compiler,
        "Compute units": str(device.compute_units),
        "Highest clock": f"{device.clock_mhz} MHz" if device.clock_mhz else "not reported",
        "Memory": memory,
        "Local memory": f"{device.local_memory / 2**10:.0f} KiB",
        "Largest work-group": str(device.max_work_group_size),
        "float64, float16": f"{'yes' if device.fp64 else 'no'}, {'yes' if device.fp16 else 'no'}",
    }
    return DeviceFacts(anchor, device.name, "As its driver described it when it was tuned", tuple(rows.items()))


def _summary_sentence(groups: Sequence[Group]) -> str:
    if not groups:
        return "Nothing has been tuned yet."
    trials, failed = sum(len(group.trials) for group in groups), sum(group.failed for group in groups)
    problems = len({group.problem.key for group in groups})
    devices = {device_key(group.device): group.device for group in groups}
    short = list(dict.fromkeys(device_names.short(list(devices.values()))))
    named = " and ".join(filter(None, (", ".join(short[:-1]), short[-1])))
    where = named if len(short) <= _NAMED else quantities.count(len(devices), "device")
    text = f"{quantities.count(problems, 'problem')} on {where}, {quantities.count(trials, 'trial')}"
    return f"{text}, of which {failed} failed." if failed else f"{text}, none of which failed."


@cache
def _file(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")
