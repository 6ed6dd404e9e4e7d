"""Heat maps of shares: darker squares for larger shares, with the value inside; and their colours for a terminal."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from markupsafe import Markup

from portatile.figures import svg

_LOW, _HIGH = (247, 251, 255), (8, 69, 148)  # from light to dark in one hue, so that the order is visible in grey, too
_NOTHING = (238, 238, 238)
_CELL, _ROW, _TOP = 76.0, 30.0, 44.0  # least width and height of a square, and the height above the first row

Colour = tuple[int, int, int]


@dataclass(frozen=True)
class Cell:
    """A square: ``share`` from 0 to 1 gives its colour, None for an empty one; ``text`` is its label, ``note`` its tooltip."""

    share: float | None
    text: str
    note: str = ""


@dataclass(frozen=True)
class Heat:
    """A table of ``cells`` row by row; ``down`` and ``across`` name what rows and columns are."""

    title: str
    down: str
    across: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[Cell, ...], ...]
    text: str = ""

    def draw(self, name: str) -> Markup:
        """The table as an ``svg`` element; ``name`` is unique on its page."""
        left = 16 + max(svg.width_of(word) for word in (self.down, *self.rows))
        widest = max(svg.width_of(word) for word in (*self.columns, *(cell.text for line in self.cells for cell in line)))
        step = max(_CELL, 14 + widest)
        parts = [svg.text(left - 8, _TOP - 8, self.down, "end", "note"), svg.text(left, 16, self.across, "start", "note")]
        parts += [svg.text(left + step * (place + 0.5), _TOP - 8, word, "middle", "label") for place, word in enumerate(self.columns)]
        marks = []
        for line, (word, cells) in enumerate(zip(self.rows, self.cells, strict=True)):
            y = _TOP + _ROW * line
            parts.append(svg.text(left - 8, y + 19, word, "end", "label"))
            for place, cell in enumerate(cells):
                label = f"{self.down} {word}, {self.across} {self.columns[place]}: {cell.text}. {cell.note}".strip()
                marks.append(_square(cell, label, left + step * place, y, step))
        size = max(left + step * len(self.columns) + 8, 320.0), _TOP + _ROW * len(self.rows) + 6
        return svg.chart(svg.Caption(name, self.title, self.text), *size, parts, marks)


def colour(share: float | None) -> Colour:
    """The background of a square: between ``_LOW`` and ``_HIGH``, grey where there is no share."""
    if share is None:
        return _NOTHING
    part = min(max(share, 0.0), 1.0)
    red, green, blue = (round(low + (high - low) * part) for low, high in zip(_LOW, _HIGH, strict=True))
    return red, green, blue


def text_colour(share: float | None) -> Colour:
    """A text colour that is legible on that background."""
    return (255, 255, 255) if share is not None and share > 0.55 else (51, 51, 51)


def _square(cell: Cell, label: str, x: float, y: float, step: float) -> str:
    fill, pen = (f"rgb({red},{green},{blue})" for red, green, blue in (colour(cell.share), text_colour(cell.share)))
    box = f'<rect x="{x + 1:.0f}" y="{y + 1:.0f}" width="{step - 2:.0f}" height="{_ROW - 2:.0f}" rx="3" fill="{fill}"/>'
    word = f'<text x="{x + step / 2:.0f}" y="{y + 19:.0f}" text-anchor="middle">{escape(cell.text)}</text>'
    return f'<g class="cell" tabindex="0" role="img" fill="{pen}"><title>{escape(label)}</title>{box}{word}</g>'
