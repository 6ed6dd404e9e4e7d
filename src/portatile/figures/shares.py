"""A chart of many results: a dot for each result in a row for its kind, and a tail from its starting value."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from portatile.figures import svg
from portatile.figures.quantities import NARROW, written
from portatile.figures.scales import Scale

_WIDTH, _RIGHT, _BOTTOM = 500.0, 18.0, 38.0  # the width of the picture, and its margins
_DOT, _LANE, _LANES, _AIR = 9.0, 9.0, 12, 9.0  # width of a dot, height of a lane, most lanes in a row, margin of a row
_ROOM = 1.12  # width of names beyond what is estimated: phones write them larger
_MOST = 1.25  # a share beyond this is drawn at the edge


@dataclass(frozen=True)
class Dot:
    """One result: its share, the share at which it ``began`` if known, its label, the address that it links to, and its series."""

    share: float
    began: float | None
    label: str
    link: str
    series: int = 0


@dataclass(frozen=True)
class ShareChart:
    """Rows of dots, with a line at 1. ``rows``: names and dots; ``series``: names of the colours; ``unit``: ``%``, or ``×`` for ratios."""

    title: str
    text: str
    quantity: str
    rows: tuple[tuple[str, tuple[Dot, ...]], ...]
    series: tuple[str, ...]
    unit: str = "%"

    def draw(self, name: str) -> Markup:
        """The chart as an ``svg`` element; ``name`` is unique on its page."""
        left = 14 + _ROOM * max((svg.width_of(row) for row, _ in self.rows), default=0.0)
        keys, top = svg.legend(self.series, 8, 4, _WIDTH - 16, symbols=True) if len(self.series) > 1 else ([], 6.0)
        most = max([1.0, *(dot.share for _, dots in self.rows for dot in dots)])
        x = Scale(0.0, (min(most, _MOST) if self.unit == "%" else most) * 1.02, left, _WIDTH - _RIGHT)
        heights = [_AIR + _LANE * max(_lanes(dots, x), default=0) + _LANE for _, dots in self.rows]
        bottom = top + sum(heights)
        parts, marks = [*keys], []
        for value in sorted({1.0, *x.ticks(6)}):
            kind = "level" if value == 1 else "grid"
            parts.append(f'<path class="{kind}" d="M{x.at(value):.1f} {top:.1f}V{bottom:.1f}"/>')
            words = written(value, "%") if self.unit == "%" else f"{written(value)}{NARROW}{self.unit}"
            parts.append(svg.text(x.at(value), bottom + 14, words, "middle", "tick"))
        parts.append(svg.text(_WIDTH - _RIGHT, bottom + 31, self.quantity, "end", "note"))
        y = top
        for (row, dots), high in zip(self.rows, heights, strict=True):
            parts.append(svg.text(left - 9, y + high / 2 + 4, row, "end", "label"))
            if y > top:
                parts.append(f'<path class="grid" d="M{left:.1f} {y:.1f}H{_WIDTH - _RIGHT:.1f}"/>')
            ordered = sorted(dots, key=lambda dot: dot.share)
            for dot, lane in zip(ordered, _lanes(tuple(ordered), x), strict=True):
                middle, here = y + high - _AIR / 2 - _LANE / 2 - lane * _LANE, x.at(min(dot.share, x.high))
                if dot.began is not None and 0 < dot.began < dot.share * 0.98:
                    parts.append(f'<path class="tail{svg.hue(dot.series)}" d="M{x.at(dot.began):.1f} {middle:.1f}H{here:.1f}"/>')
                marks.append(svg.link(svg.symbol(dot.series, here, middle), dot.label, dot.link, svg.hue(dot.series)))
            y += high
        return svg.chart(svg.Caption(name, self.title, self.text), _WIDTH, bottom + _BOTTOM, parts, marks)


def _lanes(dots: tuple[Dot, ...], x: Scale) -> list[int]:
    """The lane of each dot, in ascending order of shares: the lowest one in which it covers no other dot, below ``_LANES``."""
    ends: list[float] = []
    lanes: list[int] = []
    for dot in sorted(dots, key=lambda dot: dot.share):
        place = x.at(min(dot.share, x.high))
        lane = next((number for number, end in enumerate(ends) if end <= place), len(ends))
        lane = lane if lane < _LANES else lanes[-1] - 1 if lanes[-1] else _LANES - 1
        ends[lane : lane + 1] = [place + _DOT]
        lanes.append(lane)
    return lanes
