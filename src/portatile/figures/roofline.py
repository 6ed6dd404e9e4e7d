"""The roofline: speed over operations per byte, below the limits of each device's memory and arithmetic.

Williams, Waterman, Patterson: Roofline: an insightful visual performance model for multicore architectures. CACM 52 (2009) 65.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count

from markupsafe import Markup

from portatile.figures import svg
from portatile.figures.quantities import digits
from portatile.figures.scales import Scale

_WIDTH, _PLOT = 500.0, 270.0  # the width of the picture, and the height of the area between the axes
_LEFT, _RIGHT, _BOTTOM = 50.0, 112.0, 40.0  # margins
_UP = 14.0  # height of the line with the y axis's name
_SLOPE = 24.0  # a slope spans at least this ratio of operations per byte, so that its label fits
_APART = 13.0  # least distance between the labels of two roofs


@dataclass(frozen=True)
class Roof:
    """The limits of a device: ``bandwidth`` in B/s, or None; levels of arithmetic by name, in flop/s."""

    device: str
    bandwidth: float | None
    levels: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class RooflineDot:
    """A dot. ``intensity``: operations of the plain algorithm per byte of least traffic; ``speed`` in flop/s; ``series``: its roof."""

    intensity: float
    speed: float
    label: str
    link: str
    series: int


@dataclass(frozen=True)
class Roofline:
    """Roofs with the kernels below them, both axes logarithmic."""

    title: str
    text: str
    roofs: tuple[Roof, ...]
    kernels: tuple[RooflineDot, ...]

    def draw(self, name: str) -> Markup:
        """The chart as an ``svg`` element; ``name`` is unique on its page."""
        names = [roof.device for roof in self.roofs]
        keys, top = svg.legend(names, 8, 4, _WIDTH - 16, symbols=True) if len(names) > 1 else ([], 4.0)
        top += _UP
        x, y = self._scales(top)
        parts = [*keys, *_axes(x, y, top)]
        heights_used: list[float] = []
        for place, roof in enumerate(self.roofs):
            parts += _roof(roof, place, x, y, heights_used)
        marks = [
            svg.link(
                svg.symbol(kernel.series, x.at(kernel.intensity), y.at(kernel.speed)), kernel.label, kernel.link, svg.hue(kernel.series)
            )
            for kernel in self.kernels
        ]
        return svg.chart(svg.Caption(name, self.title, self.text), _WIDTH, top + _PLOT + _BOTTOM, parts, marks)

    def _scales(self, top: float) -> tuple[Scale, Scale]:
        ridges = [level / roof.bandwidth for roof in self.roofs if roof.bandwidth for _, level in roof.levels]
        low, high = _range([kernel.intensity for kernel in self.kernels] + ridges)
        lowest = min([low / 2.5, *(ridge / _SLOPE for ridge in ridges)])
        x = Scale(lowest, high * 4, _LEFT, _WIDTH - _RIGHT, log=True)
        levels = [level for roof in self.roofs for _, level in roof.levels]
        low, high = _range([kernel.speed for kernel in self.kernels] + levels)
        return x, Scale(min(low / 3, high / _SLOPE), high * 2.2, top + _PLOT, top + 4, log=True)


def _range(values: Iterable[float]) -> tuple[float, float]:
    known = [value for value in values if 0 < value < math.inf] or [1.0]
    return min(known), max(known)


def _roof(roof: Roof, place: int, x: Scale, y: Scale, heights_used: list[float]) -> list[str]:
    """The slope of memory up to the highest level, and each level from the slope on. Labels keep clear of ``heights_used``, which grows."""
    parts = []
    hue = svg.hue(place)
    top = max((level for _, level in roof.levels), default=y.high)
    if roof.bandwidth:
        start = max(x.low, y.low / roof.bandwidth)
        end = min(top / roof.bandwidth, x.high)
        across, up = (x.at(start), x.at(end)), (y.at(roof.bandwidth * start), y.at(roof.bandwidth * end))
        parts.append(f'<path class="line{hue}" d="M{across[0]:.1f} {up[0]:.1f}L{across[1]:.1f} {up[1]:.1f}"/>')
        angle = math.degrees(math.atan2(up[1] - up[0], across[1] - across[0]))
        middle = ((across[0] + across[1]) / 2 - 6 * math.sin(math.radians(-angle)), (up[0] + up[1]) / 2 - 6 * math.cos(math.radians(angle)))
        turn = f'transform="rotate({angle:.1f} {middle[0]:.1f} {middle[1]:.1f})"'
        parts.append(svg.text(*middle, f"memory {_rate(roof.bandwidth, 'B/s')}", "middle", "note").replace("<text ", f"<text {turn} ", 1))
    for number, (name, level) in enumerate(sorted(roof.levels, key=lambda item: -item[1])):
        start = max(x.low, level / roof.bandwidth) if roof.bandwidth else x.low
        dashes = ' stroke-dasharray="5 4"' if number else ""
        parts.append(f'<path class="line{hue}"{dashes} d="M{x.at(start):.1f} {y.at(level):.1f}H{x.end:.1f}"/>')
        heights = (y.at(level) + step for step in count())
        height = next(candidate for candidate in heights if all(abs(candidate - other) >= _APART for other in heights_used))
        heights_used.append(height)
        parts.append(svg.text(x.end + 5, height + 4, f"{name} {_rate(level, '')}", "start", "note"))
    return parts


def _axes(x: Scale, y: Scale, top: float) -> list[str]:
    parts = []
    for value in y.ticks():
        parts.append(f'<path class="grid" d="M{_LEFT:.0f} {y.at(value):.1f}H{_WIDTH - _RIGHT:.0f}"/>')
        parts.append(svg.text(_LEFT - 7, y.at(value) + 4, _rate(value, ""), "end", "tick"))
    bottom = top + _PLOT
    parts.append(f'<path class="axis" d="M{_LEFT:.0f} {bottom:.1f}H{_WIDTH - _RIGHT:.0f}"/>')
    parts += [svg.text(x.at(value), bottom + 15, f"{value:g}", "middle", "tick") for value in x.ticks(6)]
    parts.append(svg.text(_WIDTH - _RIGHT, bottom + 32, "operations for each byte of least traffic", "end", "note"))
    return [*parts, svg.text(8, top - 2, "flop/s", "start", "note")]


def _rate(value: float, unit: str) -> str:
    """A rate with an SI prefix, such as ``4.17 TB/s``."""
    for factor, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")):
        if value >= factor * 0.9995:
            number = digits(value / factor)
            number = number.rstrip("0").rstrip(".") if "." in number and not unit else number
            return f"{number}\u202f{prefix}{unit}"
    return f"{digits(value)}\u202f{unit}"
