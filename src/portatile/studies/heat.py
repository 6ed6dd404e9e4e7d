"""Heat maps of shares: darker squares for larger shares, with the value inside; as SVG, and as colours for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_LOW, _HIGH = (247, 251, 255), (8, 69, 148)  # one hue: the order is seen without colours too
_NOTHING = (238, 238, 238)
_CELL, _ROW, _LETTER, _TOP = 76, 30, 7.2, 64

Colour = tuple[int, int, int]


@dataclass(frozen=True)
class Cell:
    """A square: ``share`` from 0 to 1 gives its colour, None for an empty one; ``text`` is its label, ``note`` its tooltip."""

    share: float | None
    text: str
    note: str = ""


@dataclass(frozen=True)
class Heat:
    """A table: ``cells`` row by row, with the names of rows and columns, and what ``down`` and ``across`` mean."""

    title: str
    down: str
    across: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[Cell, ...], ...]


def colour(share: float | None) -> Colour:
    """Background of a square."""
    if share is None:
        return _NOTHING
    part = min(max(share, 0.0), 1.0)
    red, green, blue = (round(low + (high - low) * part) for low, high in zip(_LOW, _HIGH, strict=True))
    return red, green, blue


def ink(share: float | None) -> Colour:
    """A text colour that is legible on that background."""
    return (255, 255, 255) if share is not None and share > 0.55 else (51, 51, 51)


def svg(heats: Sequence[Heat]) -> str:
    """A self-contained SVG document, one map below another."""
    parts, top, width = [], 0.0, 320.0
    for heat in heats:
        left = 16 + _LETTER * max(len(name) for name in (heat.down, *heat.rows))
        step = max(_CELL, 12 + _LETTER * max(len(name) for name in (*heat.columns, *(cell.text for line in heat.cells for cell in line))))
        width = max(width, left + step * len(heat.columns) + 16, 16 + 8 * len(heat.title))
        parts.append(f'<text class="title" x="12" y="{top + 22:.0f}">{escape(heat.title)}</text>')
        parts.append(f'<text class="end dim" x="{left - 8:.0f}" y="{top + _TOP - 8:.0f}">{escape(heat.down)}</text>')
        parts.append(f'<text class="dim" x="{left:.0f}" y="{top + 40:.0f}">{escape(heat.across)}</text>')
        for place, name in enumerate(heat.columns):
            parts.append(f'<text class="mid" x="{left + step * (place + 0.5):.0f}" y="{top + _TOP - 8:.0f}">{escape(name)}</text>')
        for line, (name, cells) in enumerate(zip(heat.rows, heat.cells, strict=True)):
            y = top + _TOP + _ROW * line
            parts.append(f'<text class="end" x="{left - 8:.0f}" y="{y + 19:.0f}">{escape(name)}</text>')
            parts += [_square(cell, left + step * place, y, step) for place, cell in enumerate(cells)]
        top += _TOP + _ROW * len(heat.rows) + 20
    style = "text{font:12px sans-serif;fill:#333}.title{font-weight:bold}.end{text-anchor:end}.mid{text-anchor:middle}.dim{fill:#777}"
    size = f'viewBox="0 0 {width:.0f} {top:.0f}" width="{width:.0f}" height="{top:.0f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape("; ".join(heat.title for heat in heats))}">'
    return f'{head}<style>{style}</style><rect width="100%" height="100%" fill="#fff"/>{"".join(parts)}</svg>\n'


def _square(cell: Cell, x: float, y: float, step: float) -> str:
    fill, pen = (f"rgb({red},{green},{blue})" for red, green, blue in (colour(cell.share), ink(cell.share)))
    note = f"<title>{escape(cell.note)}</title>" if cell.note else ""
    box = f'<rect x="{x + 1:.0f}" y="{y + 1:.0f}" width="{step - 2:.0f}" height="{_ROW - 2}" rx="3" fill="{fill}"/>'
    word = f'<text class="mid" x="{x + step / 2:.0f}" y="{y + 19:.0f}" style="fill:{pen}">{escape(cell.text)}</text>'
    return f"<g>{note}{box}{word}</g>"
