"""Write the results of tuning as one HTML page: winners, convergence, parameters, failures, kernel text."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import click

from portatile.cli import _console, _options
from portatile.records import to_json
from portatile.reports import write


@click.command()
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help=f"The file.  [default: {write.DEFAULT_PATH}]")
@_options.selection()
@_options.store()
@click.option("--open", "show", is_flag=True, help="Show the page in the browser.")
@_options.document("Print the summary as a JSON list; writes the page only with -o.")
def command(output: Path | None, workload: str | None, device: str | None, path: Path | None, show: bool, as_json: bool) -> None:
    """Write a report of the results of tuning.

    The page is one file that needs no network. If there is nothing to report, the command says so and exits with 0.
    """
    with _console.err.status("reading the store"):
        groups = write.select(write.Selection(path, workload, device))
    why = write.nothing(workload, device)
    if as_json:
        click.echo(to_json([group.summary() for group in groups]).decode())
    if as_json and output is None and not show:
        return
    page = output or Path(write.DEFAULT_PATH)
    with _console.err.status("writing the page"):
        write.write(groups, page, why)
    if not groups:
        _console.err.print(f"{why} portatile tune gemm -m 1024 -n 1024 -k 1024", markup=False, soft_wrap=True)
    if not as_json:
        _console.out.print(str(page), markup=False)
    if show:
        webbrowser.open(page.resolve().as_uri())
