"""Line charts: several series, with linear or logarithmic axes, and a band around a curve where one is known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from portatile.figures import scales, svg
from portatile.figures.quantities import written
from portatile.figures.scales import Scale

_WIDTH, _PLOT = 640.0, 270.0  # the width of the picture, and the height of the area between the axes
_LEFT, _RIGHT, _BOTTOM = 74.0, 18.0, 44.0  # margins
_UP = 18.0  # height of the line with the y axis's name
_MANY = 24  # points of a series beyond which its symbols would touch: it has none


@dataclass(frozen=True)
class ChartAxis:
    """A quantity: its name, its unit (``s`` and ``%`` are written as such), and whether its scale is logarithmic.

    ``zero``: a linear scale begins at 0 rather than near the least value.
    """

    name: str
    unit: str = ""
    log: bool = False
    zero: bool = True


@dataclass(frozen=True)
class Series:
    """A curve through ``points`` (x, y), with a ``band`` of (x, low, high) around it. Values that an axis cannot show are left out."""

    name: str
    points: tuple[tuple[float, float], ...]
    band: tuple[tuple[float, float, float], ...] = ()


@dataclass(frozen=True)
class LineChart:
    """Curves over ``x``. ``ticks``: the values of x that are labelled; round values where there are none."""

    title: str
    text: str
    x: ChartAxis
    y: ChartAxis
    series: tuple[Series, ...]
    ticks: tuple[float, ...] = ()

    def draw(self, name: str) -> Markup:
        """The chart as an ``svg`` element; ``name`` is unique on its page."""
        shown = [(series, _visible(series.points, self.x, self.y)) for series in self.series]
        symbols = any(len(points) <= _MANY for _, points in shown)
        keys, top = svg.legend([series.name for series in self.series], _LEFT, 4, _WIDTH - _LEFT - _RIGHT, symbols)
        top += _UP
        bands = [value for series in self.series for _, low, high in series.band for value in (low, high)]
        xs = [x for _, points in shown for x, _ in points]
        ys = [y for _, points in shown for _, y in points] + [value for value in bands if value > 0 or not self.y.log]
        across = _scale(self.x, xs, _LEFT, _WIDTH - _RIGHT, air=False)
        up = _scale(self.y, ys, top + _PLOT, top + 6)
        parts = [*keys, *self._axes(across, up, top)]
        marks: list[str] = []
        for place, (series, points) in enumerate(shown):
            parts += _curve(place, series, points, across, up)
            if len(points) <= _MANY:
                marks += [svg.mark(svg.symbol(place, across.at(x), up.at(y)), self._say(series, x, y), svg.hue(place)) for x, y in points]
        return svg.chart(svg.Caption(name, self.title, self.text), _WIDTH, top + _PLOT + _BOTTOM, parts, marks)

    def _axes(self, across: Scale, up: Scale, top: float) -> list[str]:
        bottom = top + _PLOT
        parts = []
        for value in up.ticks():
            parts.append(f'<path class="grid" d="M{_LEFT:.0f} {up.at(value):.1f}H{_WIDTH - _RIGHT:.0f}"/>')
            parts.append(svg.text(_LEFT - 7, up.at(value) + 4, written(value, self.y.unit), "end", "tick"))
        parts.append(f'<path class="axis" d="M{_LEFT:.0f} {bottom:.1f}H{_WIDTH - _RIGHT:.0f}"/>')
        last = -math.inf
        for value in self.ticks or across.ticks(8):
            place, words = across.at(value), written(value, self.x.unit)
            wide = svg.width_of(words)
            if place - wide / 2 > last:  # names do not run into one another
                parts.append(svg.text(place, bottom + 15, words, "middle", "tick"))
                last = place + wide / 2
        parts.append(svg.text(_WIDTH - _RIGHT, bottom + 34, _spelled(self.x), "end", "note"))
        return [*parts, svg.text(8, top - 4, _spelled(self.y), "start", "note")]

    def _say(self, series: Series, x: float, y: float) -> str:
        return f"{series.name}: {self.y.name} {written(y, self.y.unit)} at {self.x.name} {written(x, self.x.unit)}"


def _visible(points: Sequence[tuple[float, float]], x: ChartAxis, y: ChartAxis) -> list[tuple[float, float]]:
    """The points that the axes can show: finite, and positive where the scale is logarithmic."""

    def fits(value: float, axis: ChartAxis) -> bool:
        return math.isfinite(value) and (value > 0 or not axis.log)

    return [(a, b) for a, b in points if fits(a, x) and fits(b, y)]


def _scale(axis: ChartAxis, values: Sequence[float], start: float, end: float, air: bool = True) -> Scale:
    if not values:
        return Scale(1.0, 10.0, start, end, axis.log)
    low, high = min(values), max(values)
    if axis.log:
        margin = (high / low) ** 0.04 if high > low else 2.0
        return Scale(low / margin, high * margin, start, end, log=True)
    if axis.zero and low >= 0:
        return scales.from_zero([high * 1.04 if air else high], start, end)
    margin = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
    return Scale(low - margin, high + margin, start, end)


def _curve(place: int, series: Series, points: Sequence[tuple[float, float]], across: Scale, up: Scale) -> list[str]:
    parts = []
    band = [(x, max(low, up.low), high) for x, low, high in series.band]
    if band:
        there = [f"{across.at(x):.1f} {up.at(high):.1f}" for x, _, high in band]
        back = [f"{across.at(x):.1f} {up.at(low):.1f}" for x, low, _ in reversed(band)]
        parts.append(f'<path class="band{svg.hue(place)}" d="M{"L".join([*there, *back])}Z"/>')
    if len(points) > 1:
        path = "L".join(f"{across.at(x):.1f} {up.at(y):.1f}" for x, y in points)
        parts.append(f'<path class="line{svg.hue(place)}" d="M{path}"/>')
    return parts


def _spelled(axis: ChartAxis) -> str:
    unit = "" if axis.unit in ("", "s", "%") else f" ({axis.unit})"
    return f"{axis.name}{unit}{', logarithmic' if axis.log else ''}"
