"""Output of a study's rows besides the terminal's table: a file (.csv, .json, some as a picture in .svg) or standard output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from portatile.cli import _files, _options
from portatile.errors import UsageError, reason
from portatile.studies import tidy_table

OPTIONS = (
    click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the table here: .csv or .json."),
    _options.document("Print the rows as one JSON list."),
    click.option("--csv", "as_csv", is_flag=True, help="Print the rows as comma-separated values."),
)


@dataclass(frozen=True)
class TableOutput:
    """The output that the user asked for. It is checked before anything is measured, so that a wrong file name costs no time."""

    output: Path | None
    as_json: bool
    as_csv: bool
    picture: bool = False

    def __post_init__(self) -> None:
        """Raise UsageError for a file of another kind."""
        kinds = (".csv", ".json", *((".svg",) if self.picture else ()))
        if self.output is not None and self.output.suffix not in kinds:
            raise UsageError(f"{self.output}: write it as {' or '.join(kinds)}")
        if self.output is not None and not self.output.parent.is_dir():
            raise UsageError(f"{self.output}: there is no folder {self.output.parent}")
        if self.output is not None:
            _files.writable(self.output)

    def give(self, kind: type[Any], rows: Sequence[Any], draw: Callable[[], str] | None = None) -> bool:
        """Write the file and print the data that were asked for; returns whether that replaces the terminal's table."""
        if self.output is not None:
            suffix = self.output.suffix
            try:
                text = (
                    draw()
                    if suffix == ".svg" and draw
                    else tidy_table.as_json(rows) + "\n"
                    if suffix == ".json"
                    else tidy_table.to_csv(kind, rows)
                )
                self.output.write_text(text, encoding="utf-8")
            except OSError as error:
                raise UsageError(f"{self.output} cannot be written: {reason(error)}") from error
        if self.as_json:
            click.echo(tidy_table.as_json(rows))
        elif self.as_csv:
            click.echo(tidy_table.to_csv(kind, rows), nl=False)
        return self.as_json or self.as_csv
