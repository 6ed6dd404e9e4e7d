"""The charts as SVG: named and described for screen readers, with values that the keyboard reaches.

Colours come from the page's style sheet. What carries a value and can be focused has the class ``mark`` and a title.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from markupsafe import Markup

from portatile.figures import quantities, scales, svg
from portatile.figures.scales import Scale
from portatile.figures.svg import Caption
from portatile.reports import formatting
from portatile.reports.effects import Effect, ValueEffect
from portatile.reports.groups import ConvergenceStep, Group

_WIDTH, _HEIGHT = 440.0, 250.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 62.0, 14.0, 34.0, 40.0
_ROW = 19.0  # height of a line of a chart of lines
_STRIP_WIDTH = 300.0
_MANY = 600  # points beyond which only a few have a title of their own


def convergence(group: Group, caption: Caption, seconds: bool = False) -> Markup:
    """The best time so far (a line) and every trial (a point) over the trial's number or the seconds of searching."""
    steps = group.steps
    across = [step.elapsed if seconds else float(step.number) for step in steps]
    x = Scale(0.0, max(across) or 1.0, _LEFT, _WIDTH - _RIGHT)
    y = scales.ratio([step.trial.comparable for step in steps], _HEIGHT - _BOTTOM, _TOP + 8)
    points = [(step, x.at(place)) for step, place in zip(steps, across, strict=True)]
    parts = [_times_axis(y), _numbers_axis(x, "seconds of searching" if seconds else "trial")]
    default = math.inf if group.default is None else group.default.comparable
    level = y.at(default) if math.isfinite(default) else None
    if level is not None:
        parts.append(f'<path class="level" d="M{_LEFT:.0f} {level:.1f}H{_WIDTH - _RIGHT:.0f}"/>')
    valid = [(step, place) for step, place in points if step.trial.status == "ok" and math.isfinite(step.trial.comparable)]
    parts.append(_points([(place, y.at(step.trial.comparable), _say(group, step)) for step, place in valid if not step.improved]))
    failed = [(step, place) for step, place in points if step.trial.status != "ok"]
    parts += [_cross(place, _TOP, f"trial {step.number}: failed ({step.trial.status})") for step, place in failed]
    parts.append(_best_line([(place, y.at(step.best)) for step, place in points if math.isfinite(step.best)]))
    if level is not None:
        parts.append(svg.text(_WIDTH - _RIGHT, level - 4, "default", "end", "note"))
    marks = [svg.point(place, y.at(step.trial.comparable), _say(group, step)) for step, place in valid if step.improved]
    legend = [("mark", "new best"), ("dot", "other trials")] + ([("cross", "failed")] if failed else [])
    return svg.chart(caption, _WIDTH, _HEIGHT, [_legend(legend), *parts], marks)


def importance(shares: Sequence[tuple[str, float]], caption: Caption) -> Markup:
    """A bar for each parameter: the share of the variance of log(time) that it explains alone."""
    left = _room([name for name, _ in shares])
    x = scales.from_zero([share for _, share in shares], left, _WIDTH - 48)
    parts, marks = [], []
    for line, (name, share) in enumerate(shares):
        top = 4 + line * _ROW
        parts.append(svg.text(left - 8, top + 13, name, "end", "label"))
        label = f"{name} explains {quantities.percent(share)}"
        marks.append(svg.mark(f"M{left:.1f} {top + 2:.1f}H{max(x.at(share), left + 1.5):.1f}V{top + 15:.1f}H{left:.1f}Z", label))
        parts.append(svg.text(max(x.at(share), left) + 6, top + 13, quantities.percent(share), "start", "value"))
    return svg.chart(caption, _WIDTH, 8 + len(shares) * _ROW, parts, marks)


def times_scale(effects: Sequence[Effect]) -> Scale:
    """The common scale of the charts of several parameters, so that they can be compared."""
    left = _room([formatting.value(shown.value) for effect in effects for shown in effect.values])
    return scales.ratio([time for effect in effects for shown in effect.values for time in shown.times], left, _STRIP_WIDTH - 14)


def distribution(effect: Effect, x: Scale, caption: Caption) -> Markup:
    """The times for each value of one parameter: points, the interquartile range as a bar, the median as a line."""
    left = x.start
    bottom = 6 + len(effect.values) * _ROW
    parts, marks = [], []
    for value in x.ticks(4):
        parts.append(f'<path class="grid" d="M{x.at(value):.1f} 4V{bottom:.1f}"/>')
        parts.append(svg.text(x.at(value), bottom + 14, quantities.tick(value), "middle", "tick"))
    for line, value_effect in enumerate(effect.values):
        middle = 6 + (line + 0.5) * _ROW
        parts.append(svg.text(left - 8, middle + 4, _short(formatting.value(value_effect.value)), "end", "label"))
        low, high, centre = x.at(value_effect.quantile(0.25)), x.at(value_effect.quantile(0.75)), x.at(value_effect.median)
        parts.append(f'<rect class="half" x="{low:.1f}" y="{middle - 6:.1f}" width="{max(high - low, 1):.1f}" height="12" rx="2"/>')
        dots = "".join(f"M{x.at(time):.1f} {middle + _jitter(place):.1f}h0" for place, time in enumerate(value_effect.times))
        parts.append(f'<path class="dots" d="{dots}"/>')
        marks.append(svg.mark(f"M{centre - 1.5:.1f} {middle - 8:.1f}h3v16h-3Z", f"{effect.name} = {_tell(value_effect)}"))
    return svg.chart(caption, _STRIP_WIDTH, bottom + 22, parts, marks)


def failures(group: Group, caption: Caption) -> Markup:
    """A bar for each status of trials."""
    rows = [("ok", len(group.trials) - group.failed), *((failure.kind, failure.count) for failure in group.failures)]
    left = _room([name for name, _ in rows])
    x = scales.from_zero([float(number) for _, number in rows], left, _WIDTH - 48)
    parts, marks = [], []
    for line, (name, number) in enumerate(rows):
        top = 4 + line * _ROW
        parts.append(svg.text(left - 8, top + 13, name, "end", "label"))
        end = max(x.at(number), left + 1.5)
        label = f"{name}: {quantities.count(number, 'trial')}, {quantities.percent(number / len(group.trials))}"
        marks.append(svg.mark(f"M{left:.1f} {top + 2:.1f}H{end:.1f}V{top + 15:.1f}H{left:.1f}Z", label, "" if name == "ok" else " bad"))
        parts.append(svg.text(end + 6, top + 13, str(number), "start", "value"))
    return svg.chart(caption, _WIDTH, 8 + len(rows) * _ROW, parts, marks)


def meter(share: float) -> Markup:
    """A small bar beside a number, as an illustration of it; 1 fills it."""
    width = 100 * min(max(share, 0.0), 1.0)
    bar = f'<rect class="track" width="100" height="4"/><rect class="fill" width="{width:.1f}" height="4"/>'
    return Markup(f'<svg class="meter" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true" focusable="false">{bar}</svg>')


def _cross(x: float, y: float, label: str) -> str:
    return f'<path class="cross" d="M{x - 3:.1f} {y - 3:.1f}l6 6m0-6l-6 6"><title>{escape(label)}</title></path>'


def _points(points: Sequence[tuple[float, float, str]]) -> str:
    """Points with tooltips; very many are drawn as one path."""
    if len(points) > _MANY:
        return f'<path class="dots" d="{"".join(f"M{x:.1f} {y:.1f}h0" for x, y, _ in points)}"/>'
    circles = (f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="2.5"><title>{escape(label)}</title></circle>' for x, y, label in points)
    return "".join(circles)


def _best_line(points: Sequence[tuple[float, float]]) -> str:
    if not points:
        return ""
    (x, y), *rest = points
    path, level = [f"M{x:.1f} {y:.1f}"], y
    for x, y in rest:
        if y != level:
            path.append(f"H{x:.1f}V{y:.1f}")
            level = y
    return f'<path class="best" d="{"".join(path)}H{points[-1][0]:.1f}"/>'


def _legend(entries: Sequence[tuple[str, str]]) -> str:
    parts, x = [], _LEFT + 4
    for kind, text in entries:
        if kind == "cross":
            parts.append(f'<path class="cross" d="M{x - 3:.1f} 7l6 6m0-6l-6 6"/>')
        else:
            parts.append(f'<circle class="{"dot" if kind == "dot" else "key"}" cx="{x:.1f}" cy="10" r="{2.5 if kind == "dot" else 4}"/>')
        parts.append(svg.text(x + 9, 14, text, "start", "note"))
        x += 38 + svg.width_of(text)
    return "".join(parts)


def _times_axis(y: Scale) -> str:
    parts = []
    for value in y.ticks():
        place = y.at(value)
        parts.append(f'<path class="grid" d="M{_LEFT:.0f} {place:.1f}H{_WIDTH - _RIGHT:.0f}"/>')
        parts.append(svg.text(_LEFT - 7, place + 4, quantities.tick(value), "end", "tick"))
    return "".join(parts)


def _numbers_axis(x: Scale, name: str) -> str:
    bottom = _HEIGHT - _BOTTOM + 6
    parts = [f'<path class="axis" d="M{_LEFT:.0f} {bottom:.0f}H{_WIDTH - _RIGHT:.0f}"/>']
    parts += [svg.text(x.at(value), bottom + 14, f"{value:g}", "middle", "tick") for value in x.ticks(5)]
    return "".join([*parts, svg.text(_WIDTH - _RIGHT, _HEIGHT - 3, name, "end", "note")])


def _say(group: Group, step: ConvergenceStep) -> str:
    speed = group.speed(step.trial)
    reached = f"trial {step.number}, after {quantities.duration(step.elapsed)}: {quantities.duration(step.trial.comparable)}"
    return f"{reached}, {speed}" if speed else reached


def _tell(effect: ValueEffect) -> str:
    quartiles = f"{quantities.duration(effect.quantile(0.25))} to {quantities.duration(effect.quantile(0.75))}"
    middle = f"median {quantities.duration(effect.median)}, half of them {quartiles}"
    failed = f", {effect.failed} failed" if effect.failed else ""
    return f"{formatting.value(effect.value)}: {middle}; {quantities.count(len(effect.times), 'configuration')}{failed}"


def _room(labels: Sequence[str]) -> float:
    """Left margin for labels."""
    return 14 + max((svg.width_of(_short(label)) for label in labels), default=0.0)


def _short(text: str) -> str:
    return text if len(text) <= 16 else f"{text[:15]}…"


def _jitter(place: int) -> float:
    """A small vertical offset, the same at every run, so that equal times do not hide each other."""
    return 8 * ((place * 0.618034) % 1) - 4
