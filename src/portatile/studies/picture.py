"""The comparison of strategies as one SVG picture: a panel for each recording, a median with its band for each strategy."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from portatile.studies.strategies import Comparison, Curve

# Okabe and Ito's colours, which people with any colour vision tell apart.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
_WIDTH, _PANEL, _LEFT, _TOP, _PLOT = 760, 330, 60, 40, 230
_RIGHT = _WIDTH - 140  # the legend stands to the right of it
_POINTS = 400  # of a line; more are not seen


def svg(comparisons: Sequence[Comparison]) -> str:
    """A self-contained SVG document.

    x is evaluations or simulated seconds, y the share of the optimum that the best configuration so far reaches: the median over
    repetitions as a line, the 10th to 90th percentile as a band.
    """
    height = _PANEL * len(comparisons)
    panels = "".join(_panel(comparison, _PANEL * place) for place, comparison in enumerate(comparisons))
    style = "text{font:12px sans-serif;fill:#333}.title{font-weight:bold}.end{text-anchor:end}.mid{text-anchor:middle}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" role="img">'
    return f'{head}<style>{style}</style><rect width="100%" height="100%" fill="#fff"/>{panels}</svg>\n'


def _panel(comparison: Comparison, top: int) -> str:
    bottom = top + _TOP + _PLOT
    floor = _floor(comparison)
    about = f"{comparison.configurations} configurations, {comparison.failing} failing, {comparison.repeats} repetitions"
    parts = [f'<text class="title" x="{_LEFT}" y="{top + 24}">{escape(comparison.name)}: {about}</text>']
    for step in range(6):
        share = floor + (1 - floor) * step / 5
        y = bottom - _PLOT * step / 5
        parts.append(f'<path d="M{_LEFT} {y:.1f}H{_RIGHT}" stroke="#ddd"/>')
        parts.append(f'<text class="end" x="{_LEFT - 6}" y="{y + 4:.1f}">{share:.0%}</text>')
    for step in range(6):
        x = _LEFT + (_RIGHT - _LEFT) * step / 5
        parts.append(f'<text class="mid" x="{x:.1f}" y="{bottom + 18}">{comparison.budget * step / 5:.3g}</text>')
    axis = {"evaluations": "evaluations", "seconds": "simulated seconds"}[comparison.unit]
    parts.append(f'<text class="mid" x="{(_LEFT + _RIGHT) / 2}" y="{bottom + 36}">{axis}; share of the optimum, median and 10-90 %</text>')
    for place, curve in enumerate(comparison.curves):
        colour = _COLOURS[place % len(_COLOURS)]
        parts.append(_lines(comparison, curve, colour, floor, bottom))
        y = top + _TOP + 12 + 18 * place
        parts.append(f'<path d="M{_RIGHT + 14} {y - 4}h18" stroke="{colour}" stroke-width="3"/>')
        parts.append(f'<text x="{_RIGHT + 38}" y="{y}">{escape(curve.strategy)}</text>')
    return "".join(parts)


def _lines(comparison: Comparison, curve: Curve, colour: str, floor: float, bottom: float) -> str:
    chosen = range(0, len(comparison.places), max(len(comparison.places) // _POINTS, 1))
    xs = [_LEFT + (_RIGHT - _LEFT) * comparison.places[i] / comparison.budget for i in chosen]

    def points(shares: Sequence[float]) -> list[str]:
        return [f"{x:.1f},{bottom - _PLOT * max(shares[i] - floor, 0) / (1 - floor):.1f}" for x, i in zip(xs, chosen, strict=True)]

    band = " ".join([*points(curve.low), *reversed(points(curve.high))])
    line = " ".join(points(curve.middle))
    return (
        f'<polygon points="{band}" fill="{colour}" fill-opacity="0.13"/>'
        f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.8"/>'
    )


def _floor(comparison: Comparison) -> float:
    """The lower end of the share's axis: below the medians after a tenth of the budget, so that the differences at the end show."""
    lowest = min(curve.shares[0] for curve in comparison.curves)
    return min(max(int(lowest * 10) / 10 - 0.1, 0.0), 0.8)
