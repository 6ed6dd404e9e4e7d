"""Parts of charts in SVG: titles and descriptions, text, values that the keyboard reaches, and self-contained documents."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import Protocol

from markupsafe import Markup

_SIZE = 11.2  # font size of labels, rounded up
_EMS = {0.29: "ijlI", 0.34: " ,.:;/|'", 0.41: "frt()-[]", 0.56: "csz", 0.7: "ABCKRVXYZ", 0.79: "DGHNOQUw", 0.86: "M=+<>×", 0.99: "mW%…@"}
_WIDTHS = {letter: ems for ems, letters in _EMS.items() for letter in letters}  # in em, of a wide sans-serif face
HUES = 9  # colours of series in charts.css
_NARROW = 480.0  # charts below this width keep their size on a wide page
_TITLE = 34.0  # height of the line above each chart of a document
_MARGIN = 16.0
_SMALL = 6.2  # average width of a letter of a note
_LINE = 16.0  # height of a line of a note


class Figure(Protocol):
    """A chart with a title, and a text that says what it shows."""

    @property
    def title(self) -> str:
        """The chart's title."""

    @property
    def text(self) -> str:
        """The chart's message in a sentence: its caption, and the text for screen readers."""

    def draw(self, name: str) -> Markup:
        """The chart as an ``svg`` element; ``name`` is unique on its page."""


@dataclass(frozen=True)
class Caption:
    """The title of a chart and a description for those who do not see it. ``name`` is unique on the page."""

    name: str
    title: str
    text: str


def chart(caption: Caption, width: float, height: float, parts: Sequence[str], marks: Sequence[str]) -> Markup:
    """The whole element. ``marks`` can be focused; ``parts`` are only for the eye."""
    name = escape(caption.name)
    head = f'<title id="{name}-t">{escape(caption.title)}</title><desc id="{name}-d">{escape(caption.text)}</desc>'
    labels = f'role="group" aria-labelledby="{name}-t" aria-describedby="{name}-d"'
    drawn = f'<g aria-hidden="true">{"".join(parts)}</g>{"".join(marks)}'
    narrow = ' data-narrow=""' if width < _NARROW else ""  # a page does not enlarge it
    return Markup(f'<svg class="chart"{narrow} viewBox="0 0 {width:.0f} {height:.0f}" {labels}>{head}{drawn}</svg>')


def text(x: float, y: float, words: str, anchor: str, kind: str) -> str:
    """Words at a place; ``anchor`` is start, middle or end."""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def width_of(words: str) -> float:
    """About the width of a label: no less than in the widest of the faces that systems have."""
    return _SIZE * sum(_WIDTHS.get(letter, 0.64) for letter in words)


def mark(path: str, label: str, kind: str = "") -> str:
    """A shape that stands for a value; ``label`` is its tooltip; ``kind`` is appended to its class and begins with a space."""
    return f'<path class="mark{kind}" tabindex="0" role="img" d="{path}"><title>{escape(label)}</title></path>'


def link(path: str, label: str, target: str, kind: str = "") -> str:
    """A shape that stands for a value and leads to ``target``, a place on its page."""
    shape = f'<path d="{path}"><title>{escape(label)}</title></path>'
    return f'<a class="mark{kind}" tabindex="0" href="{escape(target, quote=True)}">{shape}</a>'


def point(x: float, y: float, label: str) -> str:
    """A round mark."""
    return f'<circle class="mark" tabindex="0" role="img" cx="{x:.1f}" cy="{y:.1f}" r="4"><title>{escape(label)}</title></circle>'


def bar(left: float, right: float, top: float, height: float) -> str:
    """The path of a bar, at least 1.5 wide, so that a bar of length 0 is visible."""
    return f"M{left:.1f} {top:.1f}H{max(right, left + 1.5):.1f}V{top + height:.1f}H{left:.1f}Z"


def hue(place: int) -> str:
    """The class of a series' colour; the colours repeat."""
    return f" hue-{place % HUES}"


def symbol(place: int, x: float, y: float) -> str:
    """The path of a series' symbol, which distinguishes series without colours, too: square, diamond, triangles, disc."""
    shapes = (
        f"M{x - 3.5:.1f} {y - 3.5:.1f}h7v7h-7Z",
        f"M{x:.1f} {y - 4.8:.1f}l4.8 4.8l-4.8 4.8l-4.8-4.8Z",
        f"M{x:.1f} {y - 4.5:.1f}l4.5 8h-9Z",
        f"M{x:.1f} {y + 4.5:.1f}l4.5-8h-9Z",
        f"M{x - 4:.1f} {y:.1f}a4 4 0 1 0 8 0a4 4 0 1 0-8 0Z",
    )
    return shapes[place % len(shapes)]


def legend(names: Sequence[str], left: float, top: float, width: float, symbols: bool = False) -> tuple[list[str], float]:
    """The legend of series in lines of at most ``width``, and its height."""
    parts, x, y = [], left, top
    for place, name in enumerate(names):
        wide = 34 + width_of(name)
        if x > left and x + wide > left + width:
            x, y = left, y + 18
        shape = symbol(place, x + 5, y + 6) if symbols else bar(x, x + 10, y + 1, 10)
        parts += [f'<path class="key{hue(place)}" d="{shape}"/>', text(x + 15, y + 10, name, "start", "note")]
        x += wide
    return parts, y + 22 - top


def document(figures: Sequence[Figure], note: str = "") -> str:
    """A self-contained SVG document: the charts one below another and a note below all, in print colours."""
    drawn = [figure.draw(f"figure-{place}") for place, figure in enumerate(figures)]
    sizes = [_size(markup) for markup in drawn]
    width = max((wide for wide, _ in sizes), default=320.0)
    width = max(width, *(9 * len(figure.title) for figure in figures)) if figures else width
    parts, top = [], _MARGIN
    for figure, made, (wide, high) in zip(figures, drawn, sizes, strict=True):
        parts.append(f'<text class="heading" x="{_MARGIN:.0f}" y="{top + 16:.0f}">{escape(figure.title)}</text>')
        place = f'x="{_MARGIN:.0f}" y="{top + _TITLE:.0f}" width="{wide:.0f}" height="{high:.0f}"'
        parts.append(str(made).replace("<svg ", f"<svg {place} ", 1))
        words, top = _wrapped_lines(figure.text, width, top + _TITLE + high + 8)
        parts += words
        top += _MARGIN
    words, top = _wrapped_lines(note, width, top)
    parts += words
    size = f'viewBox="0 0 {width + 2 * _MARGIN:.0f} {top:.0f}" width="{width + 2 * _MARGIN:.0f}" height="{top:.0f}"'
    titles = escape("; ".join(figure.title for figure in figures), quote=True)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="group" aria-label="{titles}">'
    return f'{head}<style>{_standalone_style()}</style><rect class="ground" width="100%" height="100%"/>{"".join(parts)}</svg>\n'


def _wrapped_lines(words: str, width: float, top: float) -> tuple[list[str], float]:
    """A text wrapped into lines of a document from ``top`` on, and the height at which it ends."""
    lines = textwrap.wrap(words, int(width / _SMALL))
    places = [top + 4 + _LINE * place for place in range(len(lines))]
    said = [f'<text class="said" x="{_MARGIN:.0f}" y="{y:.0f}">{escape(line)}</text>' for line, y in zip(lines, places, strict=True)]
    return said, top + _LINE * len(lines)


_DOCUMENT = (
    "text{font-family:system-ui,'DejaVu Sans',sans-serif}.ground{fill:%(paper)s}"
    ".heading{font-weight:600;font-size:14px;fill:%(ink)s}.said{font-size:11px;fill:%(quiet)s}\n"
)


@cache
def style() -> str:
    """The style sheet of charts on a page, with the page's colours in light and in dark."""
    return Path(__file__).with_name("charts.css").read_text(encoding="utf-8")


@cache
def _standalone_style() -> str:
    """The style for a self-contained document, with colours written out, because few programs beside browsers know CSS variables."""
    sheet = style()
    colours = dict(re.findall(r"--([\w-]+): ([^;]+);", sheet.partition("@media")[0]))
    rules = "\n".join(line for line in sheet.splitlines() if line.startswith(".chart "))
    filled = re.sub(r"var\(--([\w-]+)\)", lambda match: colours[match[1]], rules)
    return _DOCUMENT % colours + filled


def _size(drawn: str) -> tuple[float, float]:
    match = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', drawn)
    assert match is not None
    return float(match[1]), float(match[2])
