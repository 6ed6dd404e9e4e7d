"""Import another machine's results: a list of trials, T4, or an exported folder."""

from __future__ import annotations

from pathlib import Path

import click

from portatile import device
from portatile.cli import _console, _options
from portatile.formats.other_tuners import ForeignResult
from portatile.shipping import import_results
from portatile.store import ResultStore
from portatile.tuning.search import foreign_starts


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@_options.store()
def command(files: tuple[Path, ...], path: Path | None) -> None:
    """Add the trials of FILES to the result store, each only once.

    A file was written by `results --json`, `tune --json` or `export`. A malformed file is refused as a whole. Results of a device that
    this machine does not have are used for its most similar device, if nothing was tuned there.

    Configurations from files of other tuners (CLBlast's database and its tuners' JSON, caches of Kernel Tuner, T4) are tried early in
    later searches.
    """
    others = {file: theirs for file in files if (theirs := foreign_starts.read(file))}
    for file, theirs in others.items():
        _first_trials(file, theirs)
    files = tuple(file for file in files if file not in others)
    if not files:
        return
    trials = [trial for file in _console.track(files, "reading") for trial in import_results.read(file)]
    with ResultStore(path) if path is not None else ResultStore.default() as store, _console.err.status("filling the store"):
        arrived = import_results.add(store, trials, [opened.info for opened in device.devices()])
    for imported in arrived:
        name = f"{imported.device.name} ({imported.device.backend}, {imported.device.platform})"
        known = f", {imported.known} were there" if imported.known else ""
        use = "as if tuned here" if imported.here else "for near devices only: this machine has none such"
        _console.out.print(
            f"{name}: {_console.counted(imported.added, 'trial')} came in, {imported.valid} of them valid{known}; used {use}", markup=False
        )
    if not arrived:
        _console.out.print("the files hold no trials", markup=False)


def _first_trials(file: Path, known: list[ForeignResult]) -> None:
    """Keep another tuner's configurations, and say for what they can be used."""
    stored = foreign_starts.keep(known)
    for kernel, users, count in foreign_starts.summary(known):
        _console.out.print(f"{file}: {_console.counted(count, 'configuration')} of {kernel}, usable for {users}", markup=False)
    _console.out.print(f"the fastest {stored} are kept; what is legal of them is tried early in later searches", markup=False)
