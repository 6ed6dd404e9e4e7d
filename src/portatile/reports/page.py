"""The report's HTML page, self-contained: what was tuned, how fast it became, why, and the data behind every chart."""

from __future__ import annotations

import base64
import hashlib
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path

import jinja2
import numpy as np
from markupsafe import Markup

from portatile.figures import quantities, svg
from portatile.figures.svg import Caption
from portatile.records import DeviceInfo
from portatile.reports import charts, formatting, kernels, tables
from portatile.reports.effects import Effect, effects
from portatile.reports.groups import Group, shared, spread, varying
from portatile.store import device_key
from portatile.trials import Trial
from portatile.tuning.final import ranking

_FOLDER = Path(__file__).parent
_ROWS = 10  # of the table of the best configurations
_TEXTS = 5  # configurations whose kernel text is shown
_STRIPS = 6  # parameters whose distribution is shown at once; the others are folded
_TOLD = 0.005  # the least share of the variance that is drawn
_MESSAGES, _LETTERS = 5, 3000
_MEANINGS = {
    "compile": "the compiler refuses it",
    "launch": "it needs more than the device has",
    "wrong": "its result is outside the bound, or it wrote where it must not",
    "timeout": "a phase took longer than the watchdog allows",
    "crash": "its process died",
    "skipped": "not tried",
}


@dataclass(frozen=True)
class ReportFigure:
    """A chart with its visible text and, if it has one, the link to its data."""

    title: str
    text: str
    svg: Markup
    file: str = ""
    link: str = ""


@dataclass(frozen=True)
class DeviceFacts:
    """What is known of one device."""

    anchor: str
    name: str
    caption: str
    facts: tuple[tuple[str, str], ...]


def render(groups: Sequence[Group], known: kernels.Known, nothing: str = "the store is empty.") -> str:
    """The page. ``known`` tells what was tuned, for plans that call other problems; ``nothing`` says why there are no groups."""
    script = _file("page.js")
    devices = {device_key(group.device) + group.device.driver: group.device for group in groups}
    anchors = {key: f"device-{number}" for number, key in enumerate(devices, 1)}
    sections = [
        _section(f"problem-{number}", anchors[device_key(group.device) + group.device.driver], group, known)
        for number, group in enumerate(groups, 1)
    ]
    data = tables.trials_json(groups)
    return _template().render(
        style=Markup(svg.style() + _file("page.css")),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(f"\n{script}".encode()).digest()).decode(),
        version=_version("portatile"),
        python=platform.python_version(),
        numpy=np.__version__,
        made=datetime.now(UTC).strftime("%-d %B %Y, %H:%M UTC"),
        lede=_lede(groups),
        nothing=nothing,
        sections=sections,
        devices=[_facts(anchors[key], device) for key, device in devices.items()],
        measured=any(section["share"] for section in sections),
        summary_link=tables.uri(tables.summary_csv(groups)),
        trials_link=tables.uri(data, "application/json"),
        trials_size=f"{len(data) / 1e6:.1f} MB" if len(data) >= 1e6 else f"{len(data) / 1e3:.0f} kB",
        meanings=_MEANINGS,
        most_messages=_MESSAGES,
        most_letters=_LETTERS,
        duration=quantities.duration,
        spelled=formatting.config,
        digits=quantities.digits,
        moment=formatting.moment,
    )


def _section(anchor: str, device_anchor: str, group: Group, known: kernels.Known) -> dict[str, object]:
    """The template's values for one problem on one device."""
    found, stem = effects(group), _stem(group)
    strips = _strips(anchor, found)
    told: dict[str, object] = {
        "anchor": anchor,
        "device_anchor": device_anchor,
        "group": group,
        "best": group.best,
        "share": "",
        "convergence": _convergence(anchor, stem, group),
        "trials_file": f"{stem}-trials.csv",
        "trials_link": tables.uri(tables.trials_csv(group)),
        "importance": _importance(anchor, stem, found),
        "strips": strips[:_STRIPS],
        "more_strips": strips[_STRIPS:],
        "effects_file": f"{stem}-effects.csv",
        "effects_link": tables.uri(tables.effects_csv(found)),
        "failures": _failures(anchor, stem, group),
    }
    return told | _winner(group) | _table(stem, group) | {"kernels": kernels.render(group, group.ranked[:_TEXTS], known)}


def _winner(group: Group) -> dict[str, object]:
    best = group.best
    if best is None:
        return {}
    speedup, share, default = group.speedup(best), group.share(best), group.default
    return {
        "time": quantities.duration(best.comparable),
        "spread": quantities.percent(spread(best)),
        "speed": group.speed(best),
        "convention": "of the plain algorithm" if group.speed(best).endswith("flop/s") else "of the least traffic",
        "speedup": "" if speedup is None else quantities.times(speedup),
        "default_time": "" if speedup is None or default is None else quantities.duration(default.comparable),
        "share": "" if share is None else quantities.percent(share[1]),
        "peak": "" if share is None else _peak(*share),
        "meter": "" if share is None else charts.meter(share[1]),
        "race": _race(group),
        "conditions": _conditions(best),
        "certificate": group.certificate,
    }


def _peak(name: str, share: float) -> str:
    """The name of the ceiling of a share, and a note if the share is above 1."""
    if name == "memory":
        return "memory traffic, cached" if share > 1 else "memory traffic"
    if name == "special":
        return "special functions, some by polynomials" if share > 1 else "special functions"
    return f"{name}, more than was measured" if share > 1 else name


def _race(group: Group) -> str:
    """How the winner won, if there was a final comparison."""
    if group.best is None or (standing := group.best.standing) is None or (interval := group.best.interval) is None:
        return ""
    low, high = map(quantities.duration, interval)
    tied = sum(trial.standing is not None and trial.standing.race == standing.race and trial.standing.tied for trial in group.ranked[1:])
    others = f"; {quantities.count(tied, 'other')} as fast within the noise" if tied else ""
    certain = f"{100 * ranking.confidence(len(group.best.samples)):.0f}{quantities.NBSP}%"
    return f"The winner of the final comparison: its median lies between {low} and {high} with {certain}{others}."


def _conditions(trial: Trial) -> str:
    """What the device reported while the winner ran."""
    known = (("clock_mhz", "MHz"), ("memory_clock_mhz", "MHz memory"), ("temperature_c", "°C"), ("power_w", "W"))
    parts = [f"{quantities.digits(trial.conditions[name])}{quantities.NBSP}{unit}" for name, unit in known if name in trial.conditions]
    if trial.energy is not None:
        parts.append(f"{quantities.digits(1e3 * trial.energy)}{quantities.NBSP}mJ a run")
    return f"Measured at {', '.join(parts)}." if parts else ""


def _table(stem: str, group: Group) -> dict[str, object]:
    """The best configurations: figures, and the parameters in which they differ."""
    top = group.ranked[:_ROWS]
    if not top:
        return {}
    names = varying(top)
    rows = []
    for trial in top:
        speedup = group.speedup(trial)
        figures = [quantities.duration(trial.comparable), quantities.percent(spread(trial))]
        figures += [group.speed(trial)] if group.speed(trial) else []
        figures += ["–" if speedup is None else quantities.times(speedup), "–" if trial.error is None else quantities.digits(trial.error)]
        rows.append(figures + [formatting.value(trial.config[name]) if name in trial.config else "–" for name in names])
    link = tables.uri(tables.best_csv(group))
    return {"rows": rows, "names": names, "shared": formatting.config(shared(top)), "best_file": f"{stem}-best.csv", "best_link": link}


def _convergence(anchor: str, stem: str, group: Group) -> list[ReportFigure]:
    best = min((step.best for step in group.steps), default=0.0)
    if group.best is None:
        return []
    improved = [step for step in group.steps if step.improved]
    link = tables.uri(tables.trials_csv(group))
    made = []
    for seconds, noun in ((False, "trials"), (True, "seconds")):
        last = improved[-1]
        when = f"after {quantities.duration(last.elapsed)} of searching" if seconds else f"at trial {last.number} of {len(group.trials)}"
        text = f"The best time falls from {quantities.duration(improved[0].best)} to {quantities.duration(best)}, reached {when}."
        if len(improved) == 1:
            text = f"The first valid time, {quantities.duration(best)}, stays the best, reached {when}."
        title = f"Best time against {noun}"
        chart = charts.convergence(group, Caption(f"{anchor}-{noun}", title, text), seconds)
        made.append(ReportFigure(title, text, chart, "" if seconds else f"{stem}-trials.csv", "" if seconds else link))
    return made


def _importance(anchor: str, stem: str, found: Sequence[Effect]) -> ReportFigure | None:
    known = [(effect.name, effect.share) for effect in found if effect.share is not None]
    told = [(name, share) for name, share in known if share >= _TOLD]
    if not told:
        return None
    title = "What each parameter explains"
    leading = " and ".join(f"{name} ({quantities.percent(share)})" for name, share in told[:2])
    text = f"Share of the variance of log(time) that a parameter explains by itself: most of all {leading}. Shares overlap."
    if len(told) < len(known):
        text += " The others explain no more than chance would."
    chart = charts.importance(told, Caption(f"{anchor}-importance", title, text))
    return ReportFigure(title, text, chart, f"{stem}-importance.csv", tables.uri(tables.importance_csv(found)))


def _strips(anchor: str, found: Sequence[Effect]) -> list[ReportFigure]:
    x = charts.times_scale(found)
    made = []
    for effect in found:
        best = min(effect.values, key=lambda one: one.median)
        lowest = f"the lowest median, {quantities.duration(best.median)}, is at {formatting.value(best.value)}"
        said = f"Time for each value of {effect.name}; {lowest}."
        caption = Caption(f"{anchor}-p-{_slug(effect.name)}", f"{effect.name}: time for each value", said)
        share = "" if effect.share is None else "explains no more than chance"
        if effect.share is not None and effect.share >= _TOLD:
            share = f"explains {quantities.percent(effect.share)}"
        made.append(ReportFigure(effect.name, share, charts.distribution(effect, x, caption)))
    return made


def _failures(anchor: str, stem: str, group: Group) -> ReportFigure | None:
    if not group.failures:
        return None
    kinds = ", ".join(f"{failure.count} {failure.kind}" for failure in group.failures)
    text = f"{group.failed} of {quantities.count(len(group.trials), 'trial')} failed: {kinds}."
    chart = charts.failures(group, Caption(f"{anchor}-failures", "How the trials ended", text))
    return ReportFigure("How the trials ended", text, chart, f"{stem}-failures.csv", tables.uri(tables.failures_csv(group)))


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


def _lede(groups: Sequence[Group]) -> str:
    if not groups:
        return "Nothing has been tuned yet."
    trials, failed = sum(len(group.trials) for group in groups), sum(group.failed for group in groups)
    devices = len({device_key(group.device) for group in groups})
    problems = len({group.problem.key for group in groups})
    where = f"{groups[0].device.name} ({groups[0].way})" if devices == 1 else quantities.count(devices, "device")
    text = f"{quantities.count(problems, 'problem')} on {where}, {quantities.count(trials, 'trial')}"
    return f"{text}, of which {failed} failed." if failed else f"{text}, none of which failed."


def _stem(group: Group) -> str:
    return _slug("-".join([group.problem.workload, *(f"{name}{size}" for name, size in group.problem.sizes.items()), group.problem.dtype]))


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text)


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "from its source tree"


@cache
def _file(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=jinja2.FileSystemLoader(_FOLDER),
    )
    return environment.get_template("page.html")
