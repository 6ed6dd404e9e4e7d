"""Show the results of tuning so far. Every trial is stored, failures too."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from pathlib import Path

import click
import msgspec

from portatile import workloads
from portatile.cli import _console, _formatting, _options
from portatile.errors import UnknownNameError, UsageError
from portatile.records import canonical, duration, spelled
from portatile.store import Query, ResultStore
from portatile.trials import Trial


@click.command()
@click.argument("named", metavar="[WORKLOAD]", required=False)
@_options.selection()
@click.option("--best", is_flag=True, help="Only the fastest trial of each problem on each device, not all of them; for --json.")
@_options.store()
@click.option("--regret", is_flag=True, help="How good the selection for untuned shapes is: each tuned shape is held out in turn.")
@_options.document("Print the trials themselves, a JSON list that other stores can take in.")
def command(
    named: str | None, workload: str | None, device: str | None, best: bool, path: Path | None, regret: bool, as_json: bool
) -> None:
    """Show what the result store holds: the best of each problem on each device, or every trial with --json.

    WORKLOAD is short for --workload WORKLOAD.
    """
    if named is not None and workload not in (None, named):
        raise UsageError(f"{named} and --workload {workload} are two workloads; name only one")
    workload = named or workload
    if path is not None and not path.is_file():
        raise UsageError(f"there is no result store {path}")
    with ResultStore.reader(path) as store:
        if regret:
            import_module("portatile.cli._shapes").show_regrets(store, workload, device, as_json)  # with the tuner, which others wait for
            return
        trials = store.leaders(workload) if best else store.trials(Query(workload=workload))
        where = store.path
    if workload is not None and not trials and workload not in workloads.names():
        raise UnknownNameError("workload", workload, workloads.names())
    chosen = [trial for trial in trials if device is None or _is_on(trial, device)]
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(chosen), indent=1 if chosen else 0))
    elif not chosen:
        what = "nothing" if workload is None and device is None else "nothing of that workload and device is"
        _console.out.print(f"{what} in {where}; fill it with: portatile tune gemm -m 1024 -n 1024 -k 1024", markup=False)
    else:
        for group in _groups(chosen):
            for line in _lines(group):
                _console.out.print(line, markup=False)


def _is_on(trial: Trial, device: str) -> bool:
    return any(device.lower() in text.lower() for text in (trial.device.id, trial.device.name, trial.device.platform))


def _groups(trials: list[Trial]) -> list[list[Trial]]:
    """The trials of each problem on each device, in the order of the first."""
    groups: dict[tuple[str, str, str, str], list[Trial]] = {}
    for trial in trials:
        key = (trial.problem.key, trial.device.name, trial.device.platform, trial.device.driver)
        groups.setdefault(key, []).append(trial)
    return list(groups.values())


def _lines(trials: list[Trial]) -> list[str]:
    """Problem and device; how fast, and out of how many; with which configuration."""
    newest = {canonical(trial.config): trial for trial in trials if trial.status != "skipped"}  # as the store ranks them
    fastest = min(newest.values() or trials, key=lambda trial: (trial.cold, trial.rank))
    device = fastest.device
    counts = Counter(trial.status for trial in (newest.values() or trials))
    tried = ", ".join(f"{count} {status}" for status, count in counts.most_common())
    lines = [f"{_formatting.titled(fastest.problem)}  on {device.name} ({device.platform}, driver {device.driver})"]
    if fastest.status != "ok":
        return [*lines, f"  nothing valid: {tried}"]
    lines += [
        f"  {duration(fastest.median)}  {_formatting.speed(fastest, _formatting.known(fastest.problem))}  best of {tried}",
        f"  {spelled(fastest.config)}",
    ]
    return [*lines, *_assurance(fastest)]


def _assurance(trial: Trial) -> list[str]:
    """The interval of the final comparison, and the certificate, where there are any."""
    said = []
    if trial.standing is not None:
        low, high = map(duration, trial.standing.interval)
        said.append(f"final comparison: the median lies in [{low}, {high}]")
    if trial.certificate is not None and trial.certificate.checks:
        worst = max(check.error for check in trial.certificate.checks)
        shapes = _console.counted(len(trial.certificate.checks), "shape")
        said.append(f"checked on {shapes}, largest error {worst:.2g} of the bound, {trial.certificate.time}")
    return ["  " + "; ".join(said)] if said else []
