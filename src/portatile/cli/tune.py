"""Search for the fastest configuration of a workload on a device; results are stored and used by later calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType

import click

from portatile import device as devices
from portatile import strategies, workloads
from portatile.cli import _console, _formatting, _options, _replay, _shapes, _t1, _tune_output
from portatile.cli._workloads import per_workload
from portatile.errors import UsageError
from portatile.formats.t1 import Specification
from portatile.formatting import duration, percent
from portatile.kernel import PREFIX, Kernel
from portatile.measure import first_ceilings
from portatile.records import Config, DeviceInfo, Problem, to_json
from portatile.store import ResultStore
from portatile.trials import Budget, Trial
from portatile.tuning.search import many_devices, oclgrind, replay, tuner
from portatile.tuning.search.progress_line import ProgressLine
from portatile.tuning.search.status_line import PREPARING, StatusLine
from portatile.workload import Workload
from portatile.workloads import speeds

_PLAIN_SECONDS = 10.0  # between lines of progress where there is no terminal


@per_workload("tune")
@_options.devices()
@click.option(
    "--budget", default="60s", show_default=True, help="Time or trials: 30s, 5m, 200, or both: 60s,200; the final comparison included."
)
@click.option(
    "--strategy",
    default="auto",
    show_default=True,
    help=f"How to search: {', '.join(strategies.names())}.",
    shell_complete=lambda ctx, parameter, begun: [name for name in strategies.names() if name.startswith(begun)],
)
@_options.seed("the operands and of the strategy's choices")
@click.option("--fresh", is_flag=True, help="Measure again what the store already knows.")
@click.option("--replay", "recorded", type=click.Path(path_type=Path), help="Search the trials recorded in this file; needs no device.")
@click.option("--cold", is_flag=True, help="Time every run with operands that no cache holds.")
@click.option("--no-model", is_flag=True, help="Compile and run also what the model expects to fail or be slow.")
@click.option(
    "--objective", default="time", show_default=True, help="What to minimise: time, or energy where the device reports its power."
)
@click.option("--oclgrind", is_flag=True, help="Look for races between work-items in the winner, with Oclgrind's simulator.")
@click.option("--scheduler", metavar="ADDRESS", help="Tune on the fleet of this Dask scheduler (tcp://host:8786), or local.")
@_options.document()
def command(
    problem: Problem,
    device: str | tuple[str, ...] | None,
    budget: str,
    strategy: str,
    seed: int,
    fresh: bool,
    recorded: Path | None,
    as_json: bool,
    cold: bool,
    no_model: bool,
    objective: str,
    oclgrind: bool,
    scheduler: str | None,
) -> None:
    """Search for the fastest configuration of a workload.

    `portatile tune WORKLOAD --help` lists its sizes and all options.

    \b
    portatile tune gemm -m 1024 -n 1024 -k 1024
    portatile tune convolution -n 1024 --ndat 4096 --dtype float64 --budget 5m --device all

    Progress goes to standard error; the table or the JSON document goes to standard output. Ctrl-C ends the search as the budget
    would. --replay without a workload searches the file's only recording. A T1 file (kernel.json) in place of a workload tunes your
    own kernel that it describes. Several devices are tuned at once, each with the whole budget; processors wait for each other.
    With --oclgrind a winner in which Oclgrind finds a race or an access outside of an array, on a small problem, is stored as wrong, and
    the next one wins.
    """
    if oclgrind:
        _check_oclgrind(recorded is None and scheduler is None and _is_one(device))
    if recorded is not None:
        recording = _replay.chosen(recorded, problem, _options.one_device(device), cold)
        _replayed(replay.ReplayRequest(recording, Budget.parse(budget), strategy, seed), as_json)
        return
    request = tuner.TuningRequest(problem, None, Budget.parse(budget), strategy, seed, resume=not fresh)
    request = _tune_output.measured(request, cold, no_model, objective)
    if hint := workloads.get(problem.workload).hint:
        _console.err.print(hint, markup=False, soft_wrap=True)
    if scheduler is not None:
        _show(_on_fleet(request, scheduler, device), as_json)
        return
    if isinstance(device, tuple) or device == devices.EVERY:
        _tuned_on_several(request, [opened.info for opened in devices.several(device)], as_json)
        return
    result = _tuned_here(replace(request, device=device))
    _show(_without_races(result, workloads.get(problem.workload)) if oclgrind else result, as_json)


def _tuned_here(request: tuner.TuningRequest) -> tuner.TuningResult:
    """Search on the request's device, beginning with what other tuners found for the problem."""
    info = devices.get(request.device).info
    with ResultStore.default() as store:  # first, so that a store that cannot be used is reported before anything is measured
        first_ceilings.ensure(info, _console.note)
        request = replace(request, suggested=_tune_output.others(request.problem, info))
        with _Watch() as watch:
            return tuner.tune(request, store, watch, info=info)


def _is_one(device: str | tuple[str, ...] | None) -> bool:
    """Whether one device was named, or none."""
    return not isinstance(device, tuple) and device != devices.EVERY


def _check_oclgrind(possible: bool) -> None:
    """Raise UsageError where --oclgrind does not go with other options, or Oclgrind is not installed."""
    if not possible:
        raise UsageError("--oclgrind looks at the winner on one device, here: leave out --replay, --scheduler and further devices")
    oclgrind.check_installed()


def _without_races(result: oclgrind.Result, workload: Workload) -> oclgrind.Result:
    """The result without configurations in which Oclgrind finds something."""
    _console.say("running the winner on Oclgrind's simulator")
    with ResultStore.default() as store:
        return oclgrind.settle(result, workload, store, _console.note)


def _show(result: tuner.TuningResult, as_json: bool) -> None:
    """The table, or the JSON document."""
    workload = workloads.get(result.problem.workload)
    if as_json:
        click.echo(document(result, workload))
    else:
        _print(result, workload)
        for line in _tune_output.unguarded(result, workload):
            _console.out.print(line, markup=False)


def _on_fleet(request: tuner.TuningRequest, scheduler: str, device: str | tuple[str, ...] | None) -> tuner.TuningResult:
    """Search on a fleet, or on this machine's devices as one: those that are alike share the search."""
    from portatile.fleet import search, serve  # Dask is slow to import, and seldom needed

    with ExitStack() as stack:
        address = scheduler
        if scheduler == serve.LOCAL:
            named = devices.several(devices.EVERY if device is None else device)
            address = stack.enter_context(serve.local([opened.info for opened in named]))
            device = None
        store, watch = stack.enter_context(ResultStore.default()), stack.enter_context(_Watch("asking the fleet"))
        return search.tune(replace(request, device=_options.one_device(device)), address, store, watch)


def _tuned_on_several(request: tuner.TuningRequest, infos: Sequence[DeviceInfo], as_json: bool) -> None:
    """Search on several devices, and print the table of each, or one JSON list."""
    ResultStore.default().close()  # opened once, so that a store that cannot be used is reported before anything is measured
    for info in infos:
        first_ceilings.ensure(info, _console.note)
    with _Watch(several=True) as watch:
        results = many_devices.tune(request, infos, ResultStore.default, watch)
    workload = workloads.get(request.problem.workload)
    if as_json:
        click.echo(f"[{','.join(document(result, workload) for result in results)}]")
        return
    for result in results:
        _print(result, workload)
        for line in (*_tune_output.unguarded(result, workload), ""):
            _console.out.print(line, markup=False)


def _replayed(request: replay.ReplayRequest, as_json: bool) -> None:
    """Search recorded trials, and print the table of a live search."""
    with _Watch("reading the recording") as watch:
        result = replay.run(request, watch)
    workload = speeds.known(result.problem)
    if as_json:
        click.echo(document(result, workload))
    else:
        _print(result, workload)
        _console.out.print("replayed: the seconds come from the recording", markup=False)


def _file_tuned(
    specification: Specification,
    device: str | tuple[str, ...] | None,
    budget: str,
    strategy: str,
    seed: int,
    fresh: bool,
    cold: bool,
    no_model: bool,
    objective: str,
    oclgrind: bool,
    as_json: bool,
) -> None:
    """Search for the kernel that a file describes, within the file's own budget where the command line gives none."""
    if oclgrind:
        _check_oclgrind(_is_one(device))
    given = click.get_current_context().get_parameter_source("budget") is not click.core.ParameterSource.DEFAULT
    limit = specification.budget if specification.budget is not None and not given else Budget.parse(budget)
    kernel = Kernel.from_t1(specification)
    request = kernel.request(limit, _options.one_device(device), strategy, seed, not fresh)
    request = _tune_output.measured(request, cold, no_model, objective)
    first_ceilings.ensure(devices.get(request.device).info, _console.note)
    with ResultStore.default() as store, _Watch() as watch:
        result = kernel.tune_as(request, store, watch)
    if oclgrind:
        result = _without_races(result, kernel)
    if as_json:
        click.echo(document(result, kernel))
        return
    _print(result, kernel)
    for line in _tune_output.unguarded(result, kernel):
        _console.out.print(line, markup=False)
    unverified = "UNVERIFIED: without ReferenceArguments the outputs were compared with nothing"
    _console.out.print(result.checked if kernel.verified else unverified, markup=False)


command = _t1.with_files(_replay.without_workload(command, _replayed), _file_tuned, without=("recorded", "scheduler"))
command = _shapes.with_shapes(command)


def document(result: tuner.TuningResult, workload: Workload | None) -> str:
    """The result as one JSON document: the content of the table, and every trial. `portatile cache warm` reads it."""
    flops = None if workload is None else workload.flops(result.problem)
    record = {
        "problem": result.problem,
        "config": result.best.config,
        "device": result.device,
        "seconds_per_run": result.best.comparable,
        "gflops": _gflops(result.best, flops),
        "default": {"config": result.default.config, "seconds_per_run": _finite(result.default), "gflops": _gflops(result.default, flops)},
        "speedup": result.default.comparable / result.best.comparable if result.default.status == "ok" else None,
        **_tune_output.ceiling_document(result, workload),
        "stopped": result.stopped,
        "seconds": result.seconds,
        "failures": result.failures,
        "saved": result.saved,
        **_tune_output.warm_document(result),
        "found_at": result.found_at,
        "found_by": result.found_by,
        "certificate": result.best.certificate,
        "finalists": _tune_output.document(result),
        "not_raced": result.unraced or None,
        "other_searches": result.others,
        "trials": [asdict(trial) | {"problem": None, "device": None} for trial in result.trials],
    }
    return to_json(record).decode()


class _Watch:
    """Shows progress: a live line on a terminal, elsewhere a line from time to time. A context manager."""

    def __init__(self, preparing: str = PREPARING, several: bool = False) -> None:
        """``several``: of several devices, each named in its lines."""
        self._preparing = preparing
        self._live = ProgressLine(preparing, several, _console.err) if _console.err.is_terminal else None
        self._status = StatusLine(several) if self._live is None else self._live.status
        self._printed: dict[str, tuner.Progress] = {}

    def __enter__(self) -> _Watch:
        if self._live is None:
            _console.err.print(self._preparing)
        else:
            self._live.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._live is not None:
            self._live.__exit__(kind, error, trace)
        for name, last in self._status.last.items():
            if last is not self._printed.get(name):
                self._print(last)

    def __call__(self, progress: tuner.Progress) -> None:
        """Show the progress of the search."""
        if self._live is not None:
            self._live(progress)
            return
        self._status.last[progress.device.id] = progress
        printed = self._printed.get(progress.device.id)
        if printed is None or progress.best is not printed.best or progress.seconds - printed.seconds >= _PLAIN_SECONDS:
            self._print(progress)

    def _print(self, progress: tuner.Progress) -> None:
        _console.err.print(f"{progress.seconds:6.1f} s  {self._status.sentence(progress)}", markup=False, soft_wrap=True)
        self._printed[progress.device.id] = progress


def _print(result: tuner.TuningResult, workload: Workload | None) -> None:
    problem, print_ = result.problem, _printer()
    print_(_formatting.brief(problem) if problem.workload.startswith(PREFIX) else _formatting.titled(problem))
    print_(f"on {result.device.name} ({', '.join(filter(None, (result.device.platform, result.device.id)))})\n")
    both = [("winner", result.best), ("default", result.default)]
    summary = [
        [name, *_figures(trial, workload, result.default), _formatting.ceiling(trial, workload)]
        for name, trial in both
        if trial.status != "skipped"
    ]
    _console.out.print(_console.table("", ("", "time", "spread", "speed", "speed-up", "of ceiling"), summary))
    if beyond := _formatting.beyond_ceiling(result.best, workload):
        print_(beyond)
    print_("")
    valid = _tune_output.ordered(result)[:5]
    names = varying(valid)
    rows = [[*_figures(trial, workload, result.default), _spell(trial.config, names)] for trial in valid]
    print_("best five" if len(valid) == 5 else f"best {len(valid)}")
    for place, (took, _, speed, faster, changes) in enumerate(rows, 1):
        known = f"  {_tune_output.interval(valid[place - 1], result.finalists[0]):>24}" if result.finalists else ""
        lucky = valid[place - 1].comparable < result.best.comparable  # a time that no final comparison confirmed
        print_(f"  {place}  {'not compared' if lucky else speed or took:>16}{known}  {faster:>7}  {changes}")
    for line in _tune_output.lines(result):
        print_(f"  {line}")
    shared = {name: value for name, value in result.best.config.items() if name not in names}
    if shared:
        print_(f"  all: {_spell(shared, tuple(shared))}")
    failed = ", ".join(f"{count} {kind}" for kind, count in sorted(result.failures.items())) or "none"
    why = {"budget": "the budget is spent", "exhausted": "nothing is left to try", "interrupted": "interrupted"}[result.stopped]
    print_(f"\n{_console.counted(len(result.trials), 'configuration')} in {result.seconds:.1f} s, failed: {failed}; {why}")
    for line in _tune_output.warm_lines(result):
        print_(line)
    for line in result.failure_lines:
        print_(line)


def varying(trials: list[Trial]) -> tuple[str, ...]:
    """The parameters in which the configurations differ; of a single one, all."""
    if not trials:
        return ()
    names = tuple(trials[0].config)
    if len(trials) == 1:
        return names
    return tuple(name for name in names if len({repr(trial.config.get(name)) for trial in trials}) > 1)


def _printer() -> Callable[[str], None]:
    return lambda text: _console.out.print(text, markup=False)


def _figures(trial: Trial, workload: Workload | None, default: Trial) -> list[str]:
    if trial.status != "ok":
        return [f"failed: {trial.status}", "", "", ""]
    ordered = sorted(trial.samples)
    quarter = len(ordered) // 4
    spread = (ordered[-1 - quarter] - ordered[quarter]) / 2 / trial.median
    faster = f"{default.comparable / trial.comparable:.2f} x" if default.status == "ok" else ""
    return [duration(trial.comparable), percent(spread, 1), speeds.speed(trial, workload), faster]


def _gflops(trial: Trial, flops: float | None) -> float | None:
    return flops / trial.comparable / 1e9 if trial.status == "ok" and flops is not None else None


def _finite(trial: Trial) -> float | None:
    return trial.comparable if trial.status == "ok" else None


def _spell(config: Config, names: tuple[str, ...]) -> str:
    return " ".join(f"{name}={config[name]}" for name in names if name in config)
