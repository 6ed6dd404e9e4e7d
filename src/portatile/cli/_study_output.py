"""Destinations of a study's rows: the terminal, standard output as data, and files: .csv, .json, .svg, .png or .html."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from portatile import output_files
from portatile.cli import _console, _files, _heat
from portatile.device import names
from portatile.errors import UsageError, reason
from portatile.figures import png, svg
from portatile.figures.heat import Heat
from portatile.studies.framework import conduct, page, table
from portatile.studies.framework.conduct import StudyOutcome
from portatile.studies.framework.labels import naming

KINDS = (".csv", ".json", ".svg", ".png", ".html")
OPTIONS: list[click.Parameter] = [
    click.Option(
        ["-o", "--output", "outputs"],
        multiple=True,
        type=click.Path(dir_okay=False, path_type=Path),
        help="Write it here: the table as .csv or .json, the figures as .svg or .png, both as .html; repeat for several.",
    ),
    click.Option(["--json", "as_json"], is_flag=True, help="Print the rows as one JSON list."),
    click.Option(["--csv", "as_csv"], is_flag=True, help="Print the rows as comma-separated values."),
]


@dataclass(frozen=True)
class StudyOutput:
    """The destinations that the user asked for. Made before anything is measured, so that a wrong file name costs no time."""

    outputs: tuple[Path, ...]
    as_json: bool = False
    as_csv: bool = False

    def __post_init__(self) -> None:
        """Raise UsageError for a file of another kind, or one that cannot be written."""
        for output in self.outputs:
            if output.suffix not in KINDS:
                raise UsageError(f"{output}: write it as {', '.join(KINDS[:-1])} or {KINDS[-1]}")
            if not output.parent.is_dir():
                raise UsageError(f"{output}: there is no folder {output.parent}")
            if output.suffix == ".png":
                png.renderer()
            _files.writable(output)

    def give(self, outcome: StudyOutcome) -> None:
        """Write the files, and print the table or data; then raise UsageError if a file was not written."""
        study, rows = outcome.study, outcome.rows
        failure: UsageError | None = None
        for output in self.outputs if rows else ():
            try:
                self._write(output, outcome)
            except OSError as error:
                failure = UsageError(f"{output} cannot be written: {reason(error)}")
            except UsageError as error:
                failure = error
        if self.as_json:
            click.echo(table.as_json(rows))
        elif self.as_csv:
            click.echo(table.to_csv(study.row, rows), nl=False)
        else:
            _show(outcome)
        if failure is not None:
            raise failure

    def _write(self, path: Path, outcome: StudyOutcome) -> None:
        study, rows = outcome.study, outcome.rows
        if path.suffix == ".csv":
            output_files.write(path, table.to_csv(study.row, rows))
        elif path.suffix == ".json":
            output_files.write(path, table.as_json(rows) + "\n")
        elif path.suffix == ".html":
            output_files.write(path, page.render([outcome]))
        else:
            figures = study.figures(rows)
            if not figures:
                raise UsageError(f"{path} was not written: no row of the study can be drawn; see its table")
            infos = [device.info for device in outcome.request.devices]
            named = naming(infos)
            where = "; ".join(f"{label}: {info.name}, driver {info.driver}" for label, info in zip(names.short(infos), infos, strict=True))
            said = (f"{named(answer)}." if (answer := study.answer(rows)) else "", where and f"{where}.", f"Timed: {study.timed}")
            drawn = svg.document(named(list(figures)), " ".join(filter(None, said)))
            if path.suffix == ".png":
                png.write(drawn, path)
            else:
                output_files.write(path, drawn)


def _show(outcome: StudyOutcome) -> None:
    """Print the table, or the maps of a study that draws maps; then the remarks, and what was timed."""
    study, rows = outcome.study, outcome.rows
    if not rows:
        return
    maps = [figure for figure in study.figures(rows) if isinstance(figure, Heat)]
    for heat in maps:
        _heat.show(heat)
    if not maps:
        shown = table.readable(study.columns, study.shown(rows))
        problem = outcome.request.problem
        title = study.question if problem is None else f"{study.question} {problem.workload} {problem.dtype}"
        _console.out.print(_console.table(title, shown.headings, shown.cells, left=shown.left))
    _console.out.print()
    if said := study.answer(rows):
        _console.out.print(f"{said}.\n", markup=False)
    for note in study.notes(rows):
        _console.out.print(note, markup=False)
    if not maps and (legend := table.legend(study.columns, study.shown(rows))):
        _console.out.print(legend, markup=False)
    _console.out.print(f"Timed: {study.timed}", markup=False)
    if outcome.ended != conduct.COMPLETE:
        how_to_continue = "the same command goes on from here, with --fresh it starts again"
        _console.out.print(f"{outcome.ended}: {_console.counted(len(rows), 'row')}; {how_to_continue}", markup=False)
