"""Search for the fastest configuration of a workload on a device; results are stored and used by later calls."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import msgspec

from portatile import device as devices
from portatile import strategies, workloads
from portatile.cli import _console, _options, _replay, _shapes, _t1, _tune_output
from portatile.cli._tune_progress import TuneProgress
from portatile.cli._workloads import per_workload
from portatile.errors import UsageError
from portatile.formats.t1 import Specification
from portatile.kernel import Kernel
from portatile.measure import first_ceilings
from portatile.records import Config, DeviceInfo, Problem
from portatile.store import ResultStore
from portatile.trials import Budget
from portatile.tuning.search import foreign_starts, many_devices, oclgrind, replay, tuner
from portatile.workload import Workload
from portatile.workloads import speeds


@dataclass(frozen=True)
class _Options:
    """The options of a search, whether a workload or a file is tuned; their help says what each means."""

    device: str | tuple[str, ...] | None
    budget: str
    strategy: str
    seed: int
    fresh: bool
    cold: bool
    no_model: bool
    objective: str
    oclgrind: bool
    as_json: bool

    @property
    def several(self) -> str | tuple[str, ...] | None:
        """The devices, where several are named, or all; None for one."""
        return self.device if isinstance(self.device, tuple) or self.device == devices.EVERY else None

    def measuring(self, request: tuner.TuningRequest) -> tuner.TuningRequest:
        """The request with the options on how it is measured; raises UsageError for ``--cold`` with energy."""
        if self.cold and self.objective == "energy":
            raise UsageError("--cold times single runs, too short to measure power: leave out --cold or --objective energy")
        timing = msgspec.structs.replace(request.timing, cold=self.cold)
        return replace(request, timing=timing, model=not self.no_model, objective=self.objective)


@per_workload("tune")
@_options.devices()
@click.option(
    "--budget", default="60s", show_default=True, help="Time, trials or both: 30s, 5m, 200, 60s,200. Includes the final comparison."
)
@click.option(
    "--strategy",
    default="auto",
    show_default=True,
    help=f"How to search: {', '.join(strategies.names())}.",
    shell_complete=lambda ctx, parameter, begun: [name for name in strategies.names() if name.startswith(begun)],
)
@_options.seed("the operands and of the strategy's choices")
@click.option("--fresh", is_flag=True, help="Also measure configurations whose results are stored.")
@click.option("--replay", "recorded", type=click.Path(path_type=Path), help="Search the trials recorded in this file instead of a device.")
@click.option("--cold", is_flag=True, help="Time every run with cold caches.")
@click.option("--no-model", is_flag=True, help="Also compile and run configurations that the model expects to fail or be slow.")
@click.option("--objective", default="time", show_default=True, help="What to minimise: time, or energy if the device reports its power.")
@click.option("--oclgrind", is_flag=True, help="Check the winner for races between work-items with the simulator Oclgrind.")
@click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Tune on the fleet of this Dask scheduler (tcp://host:8786), or local.",
)
@_options.document()
def command(problem: Problem, recorded: Path | None, scheduler: str | None, **given: Any) -> None:
    """Search for the fastest configuration of a workload.

    `portatile tune WORKLOAD --help` lists its sizes and all options.

    \b
    portatile tune gemm -m 1024 -n 1024 -k 1024
    portatile tune convolution -n 1024 --ndat 4096 --dtype float64 --budget 5m --device all

    Progress goes to standard error; the table or the JSON document goes to standard output. Ctrl-C ends the search and keeps its results.
    --replay without a workload searches the file's only recording. A T1 file (kernel.json) in place of a workload tunes the kernel that
    it describes. Several GPUs are tuned at once, each with the whole budget; CPUs are tuned one after another. With --oclgrind, Oclgrind
    runs the winner on a small problem; if it finds a race or an access outside an array, the winner is stored as wrong, and the next one
    wins.
    """
    options = _Options(**given)
    if options.oclgrind:
        _check_oclgrind(recorded is None and scheduler is None and options.several is None)
    budget = Budget.parse(options.budget)
    if recorded is not None:
        recording = _replay.chosen(recorded, problem, _options.one_device(options.device), options.cold)
        _replayed(replay.ReplayRequest(recording, budget, options.strategy, options.seed), options.as_json)
        return
    request = tuner.TuningRequest(problem, None, budget, options.strategy, options.seed, resume=not options.fresh)
    request = options.measuring(request)
    workload = workloads.get(problem.workload)
    if workload.hint:
        _console.err.print(workload.hint, markup=False, soft_wrap=True)
    if scheduler is not None:
        result = _on_fleet(request, scheduler, options.device)
    elif options.several is not None:
        _tuned_on_several(request, [opened.info for opened in devices.several(options.several)], options.as_json)
        return
    else:
        result = _tuned_here(replace(request, device=_options.one_device(options.device)))
    if options.oclgrind:
        result = _without_races(result, workload)
    _show(result, workload, options.as_json, _tune_output.unguarded(result, workload))


def _tuned_here(request: tuner.TuningRequest) -> tuner.TuningResult:
    """Search on the request's device, with other tuners' configurations for the problem as suggestions."""
    info = devices.get(request.device).info
    with ResultStore.default() as store:  # first, so that a store that cannot be used is reported before anything is measured
        first_ceilings.ensure(info, _console.note)
        request = replace(request, suggested=_foreign_starts(request.problem, info))
        with TuneProgress() as progress:
            return tuner.tune(request, store, progress, info=info)


def _foreign_starts(problem: Problem, info: DeviceInfo) -> tuple[Config, ...]:
    """The configurations that other tuners suggest; prints how many there are."""
    starts = foreign_starts.starts(workloads.get(problem.workload), problem, info)
    if starts:
        _console.note(f"also tried: {_console.counted(len(starts), 'configuration')} suggested by imported results of other tuners")
    return starts


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


def _show(result: tuner.TuningResult, workload: Workload | None, as_json: bool, remarks: Iterable[str]) -> None:
    """Print the table and then the remarks, or the JSON document."""
    if as_json:
        click.echo(_tune_output.document(result, workload))
        return
    _tune_output.show(result, workload)
    for line in remarks:
        _console.out.print(line, markup=False)


def _on_fleet(request: tuner.TuningRequest, scheduler: str, device: str | tuple[str, ...] | None) -> tuner.TuningResult:
    """Search on a fleet, or on this machine's devices as a fleet; devices of one kind share the search."""
    from portatile.fleet import search, serve  # Dask is slow to import, and seldom needed

    with ExitStack() as stack:
        address = scheduler
        if scheduler == serve.LOCAL:
            named = devices.several(devices.EVERY if device is None else device)
            address = stack.enter_context(serve.local([opened.info for opened in named]))
            device = None
        store, progress = stack.enter_context(ResultStore.default()), stack.enter_context(TuneProgress("asking the fleet"))
        return search.tune(replace(request, device=_options.one_device(device)), address, store, progress)


def _tuned_on_several(request: tuner.TuningRequest, infos: list[DeviceInfo], as_json: bool) -> None:
    """Search on several devices, and print the table of each, or one JSON list."""
    ResultStore.default().close()  # opened once, so that a store that cannot be used is reported before anything is measured
    for info in infos:
        first_ceilings.ensure(info, _console.note)
    with TuneProgress(several=True) as progress:
        results = many_devices.tune(request, infos, ResultStore.default, progress)
    workload = workloads.get(request.problem.workload)
    if as_json:
        click.echo(f"[{','.join(_tune_output.document(result, workload) for result in results)}]")
        return
    for result in results:
        _show(result, workload, False, (*_tune_output.unguarded(result, workload), ""))


def _replayed(request: replay.ReplayRequest, as_json: bool) -> None:
    """Search recorded trials, and print the table of a live search."""
    with TuneProgress("reading the recording") as progress:
        result = replay.run(request, progress)
    _show(result, speeds.known(result.problem), as_json, ["replayed: the seconds come from the recording"])


def _file_tuned(specification: Specification, **given: Any) -> None:
    """Search for the kernel that a file describes, within the file's own budget where the command line gives none."""
    options = _Options(**given)
    if options.oclgrind:
        _check_oclgrind(options.several is None)
    typed = click.get_current_context().get_parameter_source("budget") is not click.core.ParameterSource.DEFAULT
    budget = specification.budget if specification.budget is not None and not typed else Budget.parse(options.budget)
    kernel = Kernel.from_t1(specification)
    device = _options.one_device(options.device)
    request = options.measuring(kernel.request(budget, device, options.strategy, options.seed, not options.fresh))
    first_ceilings.ensure(devices.get(request.device).info, _console.note)
    with ResultStore.default() as store, TuneProgress() as progress:
        result = kernel.tune_as(request, store, progress)
    if options.oclgrind:
        result = _without_races(result, kernel)
    unverified = "UNVERIFIED: without ReferenceArguments the outputs were compared with nothing"
    checked = result.checked if kernel.verified else unverified
    _show(result, kernel, options.as_json, (*_tune_output.unguarded(result, kernel), checked))


command = _t1.with_files(_replay.without_workload(command, _replayed), _file_tuned, without=("recorded", "scheduler"))
command = _shapes.with_shapes(command)
