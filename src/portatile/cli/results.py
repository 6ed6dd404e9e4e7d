"""Show the results of tuning so far. Every trial is stored, failures too."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import click
import msgspec

from portatile import workloads
from portatile.cli import _console, _formatting, _options
from portatile.device import matches
from portatile.errors import PortatileError, UnknownNameError, UsageError
from portatile.formatting import duration, spelled
from portatile.kernel.definition import PREFIX as OWN
from portatile.records import canonical
from portatile.store import Query, ResultStore, device_key
from portatile.trials import Trial
from portatile.workload import Workload
from portatile.workloads import speeds

_COLUMNS = ("problem", "differs from the default", "time", "median within", "speed", "of ceiling", "tried", "checked, error")


@click.command()
@click.argument("named", metavar="[WORKLOAD]", required=False)
@_options.selection()
@click.option("--best", is_flag=True, help="With --json: only the fastest trial of each problem on each device.")
@click.option("--all", "every_text", is_flag=True, help="Show all tuned texts of your own kernels, not only the newest of each.")
@_options.store()
@click.option("--regret", is_flag=True, help="Show how good the selection for untuned shapes is: each tuned shape is held out in turn.")
@click.option("--forget", is_flag=True, help="Remove these trials from the store; takes WORKLOAD, --device or both.")
@_options.document("Print the trials themselves, a JSON list that other stores can import.")
def command(
    named: str | None,
    workload: str | None,
    device: str | None,
    best: bool,
    every_text: bool,
    path: Path | None,
    regret: bool,
    forget: bool,
    as_json: bool,
) -> None:
    """Show the best stored configuration of each problem on each device, or every trial with --json.

    A configuration is shown by the parameters that differ from the default. WORKLOAD is short for --workload WORKLOAD. Of a kernel of
    your own, the results of the newest text are shown, with --all also those of earlier texts.
    """
    if named is not None and workload not in (None, workloads.resolved(named)):
        raise UsageError(f"{named} and --workload {workload} are two workloads; name only one")
    workload = workload if named is None else workloads.resolved(named)
    if path is not None and not path.is_file():
        raise UsageError(f"there is no result store {path}")
    if forget:
        _forget(path, workload, device, best or regret or as_json)
        return
    with ResultStore.reader(path) as store:
        if regret:
            import_module("portatile.cli._shapes").show_regrets(
                store, workload, device, as_json
            )  # imports the tuner, which other options do not need
            return
        trials = store.leaders(workload) if best else store.trials(Query(workload=workload))
        where = store.path
        if not trials:
            _require_known(workload, store)
    chosen = [trial for trial in trials if device is None or matches(trial.device, device)]
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(chosen), indent=1 if chosen else 0))
    elif not chosen:
        subject = "nothing" if workload is None and device is None else "nothing of that workload and device is"
        _console.out.print(f"{subject} in {where}; fill it with: portatile tune gemm -m 1024 -n 1024 -k 1024", markup=False)
    else:
        groups = _groups(chosen)
        _print([(group, 0) for group in groups] if every_text else _newest(groups))


def _forget(path: Path | None, workload: str | None, device: str | None, shown: bool) -> None:
    """Remove the trials of a workload, on a device or both; raises UsageError if neither is named."""
    if shown:
        raise UsageError("--forget removes trials and shows none: leave out --best, --regret and --json")
    if workload is None and device is None:
        raise UsageError("--forget needs WORKLOAD, --device or both; to forget everything, remove the file that `portatile doctor` names")
    with ResultStore(path) if path is not None else ResultStore.default() as store:
        chosen = [trial for trial in store.trials(Query(workload=workload)) if device is None or matches(trial.device, device)]
        if not chosen:
            _require_known(workload, store)
        places = {(trial.problem.key, device_key(trial.device)): trial for trial in chosen}
        removed = sum(store.remove(Query(problem=trial.problem, device=trial.device)) for trial in places.values())
        _console.out.print(f"removed {_console.counted(removed, 'trial')} from {store.path}", markup=False)


def _require_known(workload: str | None, store: ResultStore) -> None:
    """Raise UsageError where ``workload`` is neither the package's nor a kernel of the user's own with results in the store."""
    if workload is not None and workload not in workloads.names():
        tuned = {trial.problem.workload for trial in store.trials()}
        if OWN + workload in tuned:
            raise UsageError(f"{workload} is a kernel of your own: write {OWN}{workload}")
        if workload not in tuned:
            raise UnknownNameError("workload", workload, tuned | set(workloads.names()))


def _groups(trials: list[Trial]) -> list[list[Trial]]:
    """The trials of each problem on each device, in the order of the first."""
    groups: dict[tuple[str, str, str, str], list[Trial]] = {}
    for trial in trials:
        key = (trial.problem.key, trial.device.name, trial.device.platform, trial.device.driver)
        groups.setdefault(key, []).append(trial)
    return list(groups.values())


def _newest(groups: list[list[Trial]]) -> list[tuple[list[Trial], int]]:
    """The groups, with the number of earlier texts of the same problem. Of a user's own kernel only the newest text is kept."""
    texts: dict[tuple[str, ...], list[list[Trial]]] = {}
    for group in groups:
        problem, device = group[0].problem, group[0].device
        if problem.workload.startswith(OWN):
            problem = replace(problem, options={name: value for name, value in problem.options.items() if name != "version"})
        texts.setdefault((problem.key, device.name, device.platform, device.driver), []).append(group)
    return [(max(of_one, key=lambda group: max(trial.time for trial in group)), len(of_one) - 1) for of_one in texts.values()]


def _print(groups: list[tuple[list[Trial], int]]) -> None:
    """A table for each device with a row for each problem; beside its trials stands how many earlier texts are not shown."""
    devices: dict[str, list[tuple[list[Trial], int]]] = {}
    for group, earlier in groups:
        device = group[0].device
        devices.setdefault(f"{device.name} ({device.platform}, driver {device.driver})", []).append((group, earlier))
    for place, (title, of_device) in enumerate(devices.items()):
        _console.out.print(f"{chr(10) * bool(place)}on {title}\n", markup=False)
        brief = Counter(_formatting.brief(group[0].problem) for group, _ in of_device)
        rows = [_row(group, brief[_formatting.brief(group[0].problem)] == 1, earlier) for group, earlier in of_device]
        _console.out.print(_console.table("", _COLUMNS, rows, left=2))


def _row(trials: list[Trial], brief: bool, earlier: int = 0) -> list[str]:
    """A problem, its fastest configuration with time and speed, how many were tried, and what the fastest was checked on.

    ``brief``: only the unusual options are named, which suffices to distinguish the problem from the others. ``earlier``: the number of
    texts not shown.
    """
    newest = {canonical(trial.config): trial for trial in trials if trial.status != "skipped"}  # as the store ranks them
    fastest = min(newest.values() or trials, key=lambda trial: (trial.cold, trial.rank))
    tried = ", ".join(f"{count} {status}" for status, count in Counter(trial.status for trial in (newest.values() or trials)).most_common())
    titled = _formatting.brief if brief else _formatting.titled
    folded = f", and {_console.counted(earlier, 'earlier text')} (--all)" if earlier else ""
    title = f"{titled(fastest.problem)}{' cold' * fastest.cold}{folded}"
    if fastest.status != "ok":
        return [title, "nothing valid", "", "", "", "", tried, ""]
    workload = speeds.known(fastest.problem)
    speed = speeds.speed(fastest, workload)
    share = _formatting.ceiling(fastest, workload)
    return [title, _changes(fastest, workload), duration(fastest.comparable), _interval(fastest), speed, share, tried, _checked(fastest)]


def _changes(trial: Trial, workload: Workload | None) -> str:
    """The parameters that differ from the workload's default; all where there is no default to compare with."""
    if workload is None:
        return spelled(trial.config)
    try:
        default = workload.default(trial.problem, trial.device)
    except (PortatileError, KeyError):  # a problem of another version of the workload
        return spelled(trial.config)
    return spelled({name: value for name, value in trial.config.items() if default.get(name) != value}) or "the default"


def _interval(trial: Trial) -> str:
    """The interval of the median from the final comparison, at the machine's speed during the search; empty without one."""
    return "" if trial.interval is None else "[{}, {}]".format(*map(duration, trial.interval))


def _checked(trial: Trial) -> str:
    """The number of shapes in the certificate and the largest error in units of its bound."""
    if trial.certificate is None or not trial.certificate.checks:
        return ""
    worst = max(check.error for check in trial.certificate.checks)
    return f"{_console.counted(len(trial.certificate.checks), 'shape')}, {worst:.2g}"
