"""Follow running searches on a live page: convergence, the best configuration so far, failures, the device's clock."""

from __future__ import annotations

import os
import webbrowser
from contextlib import suppress
from pathlib import Path

import click

from portatile.cli import _console, _options
from portatile.errors import UsageError
from portatile.reports import live_view, serve, write
from portatile.reports.write import Selection


@click.command()
@_options.selection()
@_options.store()
@click.option("--wait", "seconds", type=_options.Seconds(min=0), help="How long to wait for a search to begin: 5m. Default: no limit.")
@click.option("--port", type=_options.Whole(min=1, max=65535), help="The port; default: a free one.")
@click.option("--open", "show", is_flag=True, help="Show the page in the browser.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Save the last state as a report in this file.")
def command(
    workload: str | None, device: str | None, path: Path | None, seconds: float | None, port: int | None, show: bool, output: Path | None
) -> int:
    """Show running searches, also those of other terminals, until they end.

    The page is on the loopback interface, which no other machine can reach, and its address contains a token that no other user can
    guess. It is redrawn as trials arrive. Ctrl-C ends the watching, not the search.
    """
    with suppress(OSError, AttributeError):  # no such thing on Windows
        os.nice(10)  # a search on the same processor comes first
    selection = Selection(path, workload, device)
    try:
        page = serve.LivePage(live_view.LiveView(selection), port or 0)
    except OSError as error:
        raise UsageError(f"port {port} cannot be used: {error.strerror or error}; leave out --port for a free one") from error
    with page:
        _console.out.print(page.address, markup=False)
        _console.note("Ctrl-C ends the watching, not the search")
        if show:
            webbrowser.open(page.address)
        try:
            began = page.wait(seconds)
        except KeyboardInterrupt:
            return 130
    if not began:
        _console.note("no search began")
        return 1
    if output is not None:
        write.write(write.select(selection), output, write.nothing(workload, device))
        _console.out.print(str(output), markup=False)
    _console.note("the search has ended")
    return 0
