"""Bars from the left: one for each series in each group, beside one another or stacked, with the figure at its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from portatile.figures import scales, svg
from portatile.figures.quantities import written
from portatile.figures.scales import Scale

# In units of the picture: its width and margins; the height of a bar, of the gap between groups, and of a stacked bar.
_WIDTH, _RIGHT, _BOTTOM = 640.0, 76.0, 40.0
_BAR, _GAP, _STACK = 15.0, 12.0, 20.0
_LONGEST = 48  # letters of a group's name


@dataclass(frozen=True)
class BarChart:
    """A chart of ``values[group][series]``, None if there is no value. Values below 0 go to the left.

    ``text``: the caption. ``quantity`` and ``unit``: of the axis; the units ``s`` and ``%`` are written with each value. ``stacked``: the
    series of a group follow one another in one bar, with their sum at its end; values must not be negative then.
    """

    title: str
    text: str
    quantity: str
    unit: str
    groups: tuple[str, ...]
    series: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]
    stacked: bool = False

    def draw(self, name: str) -> Markup:
        """The chart as an ``svg`` element; ``name`` is unique on its page."""
        left = 14 + max((svg.width_of(_short(group)) for group in self.groups), default=0.0)
        keys, top = svg.legend(self.series, 8, 4, _WIDTH - 16) if len(self.series) > 1 else ([], 4.0)
        x = self._scale(left)
        parts, marks = [*keys], []
        high = self._height()
        bottom = top + len(self.groups) * (high + _GAP)
        for value in x.ticks(6):
            parts.append(f'<path class="grid" d="M{x.at(value):.1f} {top:.1f}V{bottom:.1f}"/>')
            parts.append(svg.text(x.at(value), bottom + 14, written(value, self.unit), "middle", "tick"))
        parts.append(svg.text(_WIDTH - 8, bottom + 32, self._axis(), "end", "note"))
        for line, (group, values) in enumerate(zip(self.groups, self.values, strict=True)):
            y = top + line * (high + _GAP) + _GAP / 2
            parts.append(svg.text(left - 8, y + high / 2 + 4, _short(group), "end", "label"))
            more_parts, more_marks = self._stack(group, values, x, y) if self.stacked else self._beside(group, values, x, y)
            parts += more_parts
            marks += more_marks
        return svg.chart(svg.Caption(name, self.title, self.text), _WIDTH, bottom + _BOTTOM, parts, marks)

    def _axis(self) -> str:
        return self.quantity if self.unit in ("", "s", "%") else f"{self.quantity} ({self.unit})"

    def _height(self) -> float:
        return _STACK if self.stacked else _BAR * max(len(self.series), 1)

    def _scale(self, left: float) -> Scale:
        known = [[value for value in values if value is not None] for values in self.values]
        if self.stacked:
            return scales.from_zero([sum(values) for values in known], left, _WIDTH - _RIGHT)
        flat = [value for values in known for value in values]
        low, high = min([0.0, *flat]), max([0.0, *flat])
        return Scale(low, high if high > low else low + 1.0, left, _WIDTH - _RIGHT)

    def _beside(self, group: str, values: Sequence[float | None], x: Scale, y: float) -> tuple[list[str], list[str]]:
        parts, marks = [], []
        zero = x.at(0.0)
        for place, value in enumerate(values):
            if value is None:
                continue
            top, end = y + place * _BAR, x.at(value)
            label = (
                f"{group}, {self.series[place]}: {written(value, self.unit)}" if len(self.series) > 1 else f"{group}: {self._say(value)}"
            )
            marks.append(svg.mark(svg.bar(min(zero, end), max(zero, end), top + 1, _BAR - 2), label, svg.hue(place)))
            parts.append(svg.text(max(end, zero) + 6, top + 11, written(value, self.unit), "start", "value"))
        return parts, marks

    def _stack(self, group: str, values: Sequence[float | None], x: Scale, y: float) -> tuple[list[str], list[str]]:
        marks, so_far = [], 0.0
        for place, value in enumerate(values):
            if value:
                label = f"{group}, {self.series[place]}: {written(value, self.unit)}"
                left, right = x.at(so_far), x.at(so_far + value)
                marks.append(svg.mark(f"M{left:.2f} {y:.1f}H{right:.2f}V{y + _STACK:.1f}H{left:.2f}Z", label, svg.hue(place)))
                so_far += value
        return [svg.text(x.at(so_far) + 6, y + _STACK / 2 + 4, written(so_far, self.unit), "start", "value")], marks

    def _say(self, value: float) -> str:
        return f"{self.quantity} {written(value, self.unit)}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
