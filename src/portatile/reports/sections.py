"""A problem's section of the report: winner, convergence, parameters, failures, best configurations, kernel text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from portatile.figures import quantities
from portatile.figures.svg import Caption
from portatile.reports import charts, formatting, kernels, tables
from portatile.reports.effects import Effect, effects
from portatile.reports.groups import Group, shared, varying
from portatile.trials import Trial
from portatile.tuning.final import ranking

_ROWS = 10  # rows of the table of the best configurations
_TEXTS = 5  # configurations whose kernel text is shown
_STRIPS = 6  # parameters whose distribution is shown at once; the others are folded
_DRAWN = 0.005  # the least share of the variance that is drawn


@dataclass(frozen=True)
class ReportFigure:
    """A chart with its visible text and, if it has one, the link to its data."""

    title: str
    text: str
    svg: Markup
    file: str = ""
    link: str = ""


def section(anchor: str, device_anchor: str, group: Group, known: kernels.Known) -> dict[str, Any]:
    """The template's values for one problem on one device."""
    measured_effects, stem = effects(group), _stem(group)
    strips = _strips(anchor, measured_effects)
    values: dict[str, Any] = {
        "anchor": anchor,
        "device_anchor": device_anchor,
        "group": group,
        "best": group.best,
        "share": "",
        "short": _short(group),
        "convergence": _convergence(anchor, stem, group),
        "trials_file": f"{stem}-trials.csv",
        "trials_link": tables.uri(tables.trials_csv(group)),
        "importance": _importance(anchor, stem, measured_effects),
        "strips": strips[:_STRIPS],
        "more_strips": strips[_STRIPS:],
        "effects_file": f"{stem}-effects.csv",
        "effects_link": tables.uri(tables.effects_csv(measured_effects)),
        "failures": _failures(anchor, stem, group),
        "failure_kinds": _kinds(group),
    }
    return values | _winner(group) | _table(stem, group) | {"kernels": kernels.render(group, group.ranked[:_TEXTS], known)}


def _winner(group: Group) -> dict[str, object]:
    best = group.best
    if best is None:
        return {}
    speedup, share, default = group.speedup(best), group.share(best), group.default
    return {
        "time": quantities.duration(best.comparable),
        "spread": quantities.percent(best.spread),
        "speed": group.speed(best),
        "rate": group.rate(best),
        "gain": "" if speedup is None else speedup,
        "part": "" if share is None else share[1],
        "convention": _convention(group, best),
        "speedup": "" if speedup is None else quantities.times(speedup),
        "default_time": "" if speedup is None or default is None else quantities.duration(default.comparable),
        "share": "" if share is None else quantities.percent(share[1]),
        "peak": "" if share is None else _peak(*share),
        "bound": "" if share is None else share[0],
        "meter": "" if share is None else charts.meter(share[1]),
        "race": _race(group),
        "conditions": _conditions(best),
        "certificate": group.certificate,
    }


def _convention(group: Group, best: Trial) -> str:
    """The operations or bytes that a speed counts, in words."""
    if group.speed(best).endswith("flop/s"):
        return "of the plain algorithm"
    return "of the least traffic" if group.traffic else "each array read or written once"


def _peak(name: str, share: float) -> str:
    """The name of the ceiling of a share, and a note if the share is above 1."""
    if name == "memory":
        return "memory traffic, cached" if share > 1 else "memory traffic"
    if name == "special":
        return "special functions, some by polynomials" if share > 1 else "special functions"
    return f"{name}, above the measured limit" if share > 1 else name


def _race(group: Group) -> str:
    """The outcome of the final comparison, if there was one."""
    if group.best is None or (standing := group.best.standing) is None or (interval := group.best.interval) is None:
        return ""
    low, high = map(quantities.duration, interval)
    tied = sum(trial.standing is not None and trial.standing.race == standing.race and trial.standing.tied for trial in group.ranked[1:])
    others = f"; {quantities.count(tied, 'other')} as fast within the noise" if tied else ""
    certain = f"{100 * ranking.confidence(len(group.best.samples)):.0f}{quantities.NBSP}%"
    return f"The winner of the final comparison: its median lies between {low} and {high} with {certain}{others}."


def _conditions(trial: Trial) -> str:
    """The device's sensors while the winner ran."""
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
        differs = names if trial is top[0] else [name for name in names if trial.config.get(name) != top[0].config.get(name)]
        row = {
            "changes": " ".join(f"{name}={formatting.value(trial.config[name]) if name in trial.config else '–'}" for name in differs),
            "time": quantities.duration(trial.comparable),
            "spread": quantities.percent(trial.spread),
            "speed": group.speed(trial),
            "speedup": "–" if speedup is None else quantities.times(speedup),
            "error": "–" if trial.error is None else quantities.digits(trial.error),
        }
        rows.append(row)
    link = tables.uri(tables.best_csv(group))
    return {"rows": rows, "shared": formatting.config(shared(top)), "best_file": f"{stem}-best.csv", "best_link": link}


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


def _importance(anchor: str, stem: str, measured_effects: Sequence[Effect]) -> ReportFigure | None:
    known = [(effect.name, effect.share) for effect in measured_effects if effect.share is not None]
    shown = [(name, share) for name, share in known if share >= _DRAWN]
    if not shown:
        return None
    title = "What each parameter explains"
    leading = " and ".join(f"{name} ({quantities.percent(share)})" for name, share in shown[:2])
    text = f"Share of the variance of log(time) that a parameter explains by itself: most of all {leading}. Shares overlap."
    if len(shown) < len(known):
        text += " The others explain no more than chance."
    chart = charts.importance(shown, Caption(f"{anchor}-importance", title, text))
    return ReportFigure(title, text, chart, f"{stem}-importance.csv", tables.uri(tables.importance_csv(measured_effects)))


def _strips(anchor: str, measured_effects: Sequence[Effect]) -> list[ReportFigure]:
    x = charts.times_scale(measured_effects)
    strips = []
    for effect in measured_effects:
        best = min(effect.values, key=lambda value_effect: value_effect.median)
        lowest = f"the lowest median, {quantities.duration(best.median)}, is at {formatting.value(best.value)}"
        description = f"Time for each value of {effect.name}; {lowest}."
        caption = Caption(f"{anchor}-p-{_slug(effect.name)}", f"{effect.name}: time for each value", description)
        share = "" if effect.share is None else "explains no more than chance"
        if effect.share is not None and effect.share >= _DRAWN:
            share = f"explains {quantities.percent(effect.share)}"
        strips.append(ReportFigure(effect.name, share, charts.distribution(effect, x, caption)))
    return strips


def _failures(anchor: str, stem: str, group: Group) -> ReportFigure | None:
    if not group.failures:
        return None
    text = f"{group.failed} of {quantities.count(len(group.trials), 'trial')} failed: {_kinds(group)}."
    chart = charts.failures(group, Caption(f"{anchor}-failures", "How the trials ended", text))
    return ReportFigure("How the trials ended", text, chart, f"{stem}-failures.csv", tables.uri(tables.failures_csv(group)))


def _kinds(group: Group) -> str:
    return ", ".join(f"{failure.count} {failure.kind}" for failure in group.failures)


def _short(group: Group) -> str:
    """The problem's name for the contents: ``4096³ float32``, where all sizes are the same."""
    sizes = list(group.problem.sizes.values())
    powers = {2: "²", 3: "³"}
    equal = len(set(sizes)) == 1 and len(sizes) in powers
    title = f"{sizes[0]}{powers[len(sizes)]}" if equal else "\u200a×\u200a".join(map(str, sizes))
    return " ".join(part for part in (title, group.problem.dtype, formatting.brief_options(group.problem, group.workload)) if part)


def _stem(group: Group) -> str:
    return _slug("-".join([group.problem.workload, *(f"{name}{size}" for name, size in group.problem.sizes.items()), group.problem.dtype]))


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text)
