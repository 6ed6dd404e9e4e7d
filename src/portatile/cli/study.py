"""Answer a question about devices by measuring: a study gives a table, figures and the answer in words. `study --list` tells them all."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click

from portatile import device as devices
from portatile import output_files
from portatile.cli import Suggesting, _console, _study_options
from portatile.cli._study_output import OPTIONS, StudyOutput
from portatile.cli._workloads import WorkloadGroup
from portatile.device.base import Device
from portatile.errors import UnknownNameError, UsageError, reason
from portatile.records import Problem
from portatile.studies.framework import conduct, discover, gallery, page
from portatile.studies.framework.conduct import Conditions, Listener
from portatile.studies.framework.study import EXPERIMENTS, Study, StudyRequest
from portatile.trials import Budget

_INTERRUPTED = 130
_ALL = "all"
_ONCE = "each piece of hardware once"
_DEVICE = ["--device", "selectors"]


class Studies(Suggesting):
    """The group of studies, each found by its file."""

    noun = "study"
    plural = "Studies"

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The studies there are, and all of them."""
        return [*discover.studies(), _ALL]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of one study."""
        if cmd_name == _ALL:
            return run_all
        try:
            return _command(discover.get(cmd_name))
        except UnknownNameError:
            return None


@click.group("study", cls=Studies, invoke_without_command=True)
@click.option("--list", "listed", is_flag=True, help="List every study with its experiments, question and usual minutes.")
@click.pass_context
def command(ctx: click.Context, listed: bool) -> None:
    """Answer a question about one or several devices by measuring. Every result is checked.

    \b
    portatile study --list
    portatile study memory --device pocl -o memory.html
    portatile study all --budget 30m -o gallery.html

    If a study is interrupted, it shows the rows so far. The same command continues it; --fresh starts again.
    """
    if listed:
        rows = [(study.name, ", ".join(study.answers), f"{study.minutes:g} min", study.question) for study in discover.studies().values()]
        _console.out.print(_console.table("", ("study", "experiments", "usually", "question"), rows, left=4))
        _console.out.print(f"\n{EXPERIMENTS}", markup=False)
        ctx.exit()
    if ctx.invoked_subcommand is None:
        raise click.UsageError(f"Name a study, or --list them. There are: {', '.join(command.list_commands(ctx))}.", ctx)


@click.command(_ALL)
@click.option("--budget", metavar="BUDGET", help="Time for all studies together: 30m. Default: no limit.")
@click.option(*_DEVICE, multiple=True, help="Device, as `portatile devices` names it; repeat. Default: all of them.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), required=True, help="Write the page here, as .html.")
@click.option("--fresh", is_flag=True, help="Discard the rows of interrupted studies.")
def run_all(budget: str | None, selectors: tuple[str, ...], output: Path, fresh: bool) -> int:
    """Run every study that the devices can answer, the quickest first, and write one page with all of them."""
    if output.suffix != ".html":
        raise UsageError(f"{output}: all studies together are a page; write it as .html")
    StudyOutput((output,))
    seconds = _seconds(budget)
    chosen = _devices(selectors, "all")
    with _terminated_like_interrupted():
        result = gallery.gallery(discover.studies().values(), chosen, Conditions(fresh, seconds), _titled)
    try:
        output_files.write(output, page.render(result.outcomes, result.skipped))
    except OSError as error:
        raise UsageError(f"{output} cannot be written: {reason(error)}; the same command continues from there") from error
    for outcome in result.outcomes:
        outcome.written()
    rows = [(o.study.name, str(len(o.rows)), f"{o.seconds:.0f} s", "" if o.ended == conduct.COMPLETE else o.ended) for o in result.outcomes]
    rows += [(skipped.name, "", "", skipped.reason) for skipped in result.skipped]
    _console.out.print(_console.table("", ("study", "rows", "time", ""), rows, left=1))
    _console.out.print(f"page: {output}", markup=False)
    return _INTERRUPTED if result.interrupted else 0


def _seconds(budget: str | None) -> float | None:
    """The time that a user allows; raises UsageError for a number of trials."""
    seconds = None if budget is None else Budget.parse(budget).seconds
    if budget is not None and seconds is None:
        raise UsageError(f"--budget {budget!r} is not a time; write for example 30m")
    return seconds


def _titled(study: Study) -> Listener:
    _console.err.print(f"{study.name}: {study.question}", markup=False, soft_wrap=True)
    return Listener(say=_say)


def _command(study: Study) -> click.Command:
    """The command of a study; one about a problem has a sub-command for each workload."""
    own = _study_options.parameters(study.options)
    if study.devices != "none":
        which = {"best": "the best one", "all": "all of them", "each": _ONCE, "any": _ONCE}[study.devices]
        text = f"Device, as `portatile devices` names it; repeat. Default: {which}."
        own.append(click.Option(_DEVICE, multiple=True, help=text))
    if not any("--budget" in option.opts for option in own):  # the searches of a few studies have one of their own
        own.append(click.Option(["--budget", "limit"], metavar="BUDGET", help="Time for the study: 30s. Default: no limit."))
    own += [*OPTIONS, click.Option(["--fresh"], is_flag=True, help="Discard the rows of an interrupted run, and start again.")]
    hint = f"`portatile study {study.name} WORKLOAD --help` lists sizes and options.\n\n" if study.problem == "needed" else ""
    about_it = f"Experiments of published papers: {', '.join(study.answers)}; usually {study.minutes:g} min."
    text = f"{study.question}\n\n{hint}{about_it}\n\nTimed: {study.timed}"

    def about(problem: Problem, **values: Any) -> int:
        return _run(study, problem, values)

    def alone(**values: Any) -> int:
        context = click.get_current_context()
        return 0 if context.invoked_subcommand is not None else _run(study, None, values)

    if study.problem == "none":
        return click.Command(study.name, params=own, callback=alone, help=text)
    group = WorkloadGroup(study.name, about, own, text)
    if study.problem == "optional":
        group.params, group.callback, group.invoke_without_command, group.no_args_is_help = [*own], alone, True, False
        group.subcommand_metavar = "[WORKLOAD ...]"
    return group


def _run(study: Study, problem: Problem | None, values: dict[str, Any]) -> int:
    options, seconds = _study_options.chosen(study.options, values), _seconds(values.get("limit"))
    target = StudyOutput(values["outputs"], values["as_json"], values["as_csv"])
    request = StudyRequest(_devices(values.get("selectors", ()), study.devices), options, problem)
    with _terminated_like_interrupted(), _progress(study) as listener:
        outcome = conduct.conduct(study, request, Conditions(values["fresh"], seconds), listener)
    target.give(outcome)
    outcome.written()
    return _INTERRUPTED if outcome.ended == conduct.INTERRUPTED else 0


def _devices(selectors: Sequence[str], usual: str) -> tuple[Device, ...]:
    """The devices that are named, each once; otherwise the study's usual ones, without the simulator."""
    if usual == "none" or (usual == "any" and not selectors and not devices.devices()):
        return ()
    named = [devices.get(selector) for selector in selectors]
    if len(named) > 1 and usual in ("each", "any"):
        named = list(devices.several(selectors))  # says which one is named twice
    if not named and usual == "best":
        named = [devices.get()]
    if not named and usual in ("each", "any"):
        named = list(devices.several(devices.EVERY))
    chosen = named or [device for device in devices.devices() if "oclgrind" not in device.info.platform.lower()]
    return tuple({device.info.id: device for device in chosen}.values())


@contextmanager
def _progress(study: Study) -> Iterator[Listener]:
    """A bar once it is known how many rows will come, and what is going on."""
    opened: list[Any] = []
    steps: list[Callable[[], None]] = []

    def expect(count: int) -> None:
        if not opened:
            opened.append(_console.bar(study.name, count))
            steps.append(opened[0].__enter__())

    try:
        yield Listener(expect, lambda: steps[0]() if steps else None, _say)
    finally:
        for bar in opened:
            bar.__exit__(None, None, None)


def _say(text: str) -> None:
    _console.err.print(text, style="dim", markup=False, soft_wrap=True)


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """Treat SIGTERM and SIGHUP like Ctrl-C inside the block: the study shows and keeps its rows so far."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before: dict[int, Any] = {}
    with suppress(ValueError):  # not in the main thread
        for name in ("SIGTERM", "SIGHUP"):
            if (number := getattr(signal, name, None)) is not None:  # no SIGHUP on Windows
                before[number] = signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
