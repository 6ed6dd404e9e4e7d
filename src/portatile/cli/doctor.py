"""Show what works, what is broken and how to fix it, and run one kernel on every device."""

from __future__ import annotations

import click
from rich.markup import escape

from portatile import doctor, repair, settings
from portatile.cli import _console, _options
from portatile.doctor import Examination
from portatile.errors import UsageError
from portatile.formatting import duration
from portatile.records import to_json

_MARKS = {"ok": "[green]ok[/]    ", "absent": "[dim]absent[/]", "broken": "[red]broken[/]"}


@click.command()
@_options.document("Print the report as JSON.")
@click.option(
    "--seconds", default=doctor.TEST_SECONDS, show_default=True, type=_options.Seconds(min=1), help="How long each test may take."
)
@click.option("--repair", "mend", is_flag=True, help="Only copy all readable trials of a damaged result store to a new one.")
def command(as_json: bool, seconds: float, mend: bool) -> int:
    """Show what works, what is broken and how to fix it.

    Every device runs one kernel in a child process, so that a driver that crashes or hangs is reported too. The exit code is 1 if
    something is broken; missing optional parts do not count. With --repair, a damaged result store is renamed, and a new one gets every
    readable trial.
    """
    if mend:
        return _repair(as_json)
    with _console.err.status("running one kernel on every device"):
        examination = doctor.examine(seconds)
    if as_json:
        click.echo(
            to_json(
                {"ok": examination.healthy, "findings": examination.findings, "devices": examination.devices, "tests": examination.tests}
            )
        )
    else:
        _print(examination)
    return 0 if examination.healthy else 1


def _print(examination: Examination) -> None:
    for finding in examination.findings:
        _console.out.print(f"{_MARKS[finding.level]}  {escape(finding.subject)}: {escape(finding.detail)}")
        if finding.level != "ok" and finding.remedy:
            _console.out.print(f"        -> {escape(finding.remedy)}")
    for info in examination.devices:
        test = examination.tests[info.id]
        if test.message:
            _console.out.print(f"{_MARKS['broken']}  {info.id} ({escape(info.name)}): {escape(test.message)}")
        else:
            spent = ", ".join(f"{phase} {duration(value)}" for phase, value in test.seconds.items())
            _console.out.print(f"{_MARKS['ok']}  {info.id} ({escape(info.name)}): one kernel compiled, ran and was right ({spent})")
    _console.out.print("nothing is broken" if examination.healthy else "something is broken: see above")


def _repair(as_json: bool) -> int:
    path = settings.load().store_path
    if path is None:
        raise UsageError("the result store is on a server, which repairs itself: --repair is for files")
    done = repair.repair(path)
    if as_json:
        click.echo(to_json({"store": str(path), "repaired": done and {"kept": done.kept, "lost": done.lost, "aside": str(done.aside)}}))
    elif done is None:
        click.echo(f"{path}: nothing is damaged")
    else:
        lost = "how many are lost cannot be told" if done.lost is None else f"lost {done.lost}"
        click.echo(f"{path}: kept {done.kept} trials, {lost}; the damaged file is now {done.aside}")
    return 0
