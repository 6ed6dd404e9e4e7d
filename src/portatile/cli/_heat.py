"""A heat map in a terminal: larger shares have stronger colours; plain text where there is no terminal."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from portatile.cli import _console
from portatile.cli._shown import shown
from portatile.figures.heat import Heat, colour, text_colour


def show(heat: Heat) -> None:
    """Print the table."""
    _console.out.print(heat.title, style="bold", markup=False)
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 1, 0, 0))
    table.add_column(Text(shown(f"{heat.down} \\ {heat.across}")), no_wrap=True)
    for name in heat.columns:
        table.add_column(Text(shown(name)), justify="right", no_wrap=True)
    for name, cells in zip(heat.rows, heat.cells, strict=True):
        line = [Text(shown(name))]
        for cell in cells:
            paint = "" if cell.share is None else "rgb({},{},{}) on rgb({},{},{})".format(*text_colour(cell.share), *colour(cell.share))
            line.append(Text(f" {cell.text} ", style=paint))
        table.add_row(*line)
    _console.out.print(table)
    if heat.text:
        _console.out.print(heat.text, style="dim", markup=False)
