"""Is performance portable? Each device's winner run on every other device, against the time of that device's own winner.

Du et al., figures 11 and 12. A row is one winner on one device: ``loss`` is its time over that of the device's own winner, both measured
in one run, so 1 is no loss. With ``--portable`` the configuration that loses least over all devices is searched for (``portable``), and
runs beside the winners. A winner that the device's space does not hold is tried all the same: ``objection`` says what rule it
violates, ``status`` how it ended; what the device has no instructions for is left out of it, and ``changed`` says so. Winners may also
come from other machines' devices, known from stored results alone. ``scores`` gives Pennycook's measure: the harmonic mean over the
devices of 1 / loss (at most 1), and 0 if a device cannot run it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from portatile import select, workloads
from portatile.device import backends
from portatile.device.base import Device
from portatile.errors import PortatileError, UnknownNameError, UsageError
from portatile.formatting import spelled
from portatile.records import Config, DeviceInfo, Problem, canonical
from portatile.store import ResultStore, known_results
from portatile.studies import portable
from portatile.studies.framework.measured_configs import MeasuredConfigs, Measuring, failure, measured
from portatile.studies.framework.study import Column, Option, Run, Study, StudyRequest, option
from portatile.studies.portability_rows import NOT_REACHED, PortabilityRow, answer, figures, finish, notes
from portatile.trials import Budget
from portatile.tuning.search import tuner
from portatile.workloads.speeds import described

_RACE = 3.0  # seconds in which winners that are nearly equal run in turn


@dataclass(frozen=True)
class PortabilityRequest:
    """Problems, each on every device. With ``budget`` each is tuned on each device first, else the best known configuration is used.

    ``recorded``: devices of other machines, whose best known winners take part. ``portable``: the budget of the search for one
    configuration for all devices.
    """

    problems: tuple[Problem, ...]
    budget: Budget | None = None
    recorded: tuple[DeviceInfo, ...] = ()
    strategy: str = "auto"
    seed: int = 0
    portable: Budget | None = None


@dataclass(frozen=True)
class PortabilityOptions:
    """The options of the study, as a command line gives them."""

    recorded: tuple[str, ...] = option(
        (), Option("A device of another machine, by its stored results, such as 'h200 cuda'; repeat.", names=("--recorded", "--guest"))
    )
    tune: str | None = option(
        None, Option("Tune on each device first: 30s, 200. Default: use the best known configuration.", metavar="BUDGET")
    )
    portable: str | None = option(
        None, Option("Search for the one configuration that loses least over all devices: 60s, 200 (candidates).", metavar="BUDGET")
    )
    strategy: str = option("auto", "Search strategy.")
    seed: int = option(0, Option("Seed of operands and search.", least=0))


@dataclass(frozen=True)
class Winner:
    """The winner of the device ``of`` for a problem, and where it comes from; no configuration, with the reason, where none was found."""

    of: str
    config: Config | None
    found: str


def matrix(devices: Sequence[Device], request: PortabilityRequest, run: Run | None = None) -> list[PortabilityRow]:
    """Every problem's matrix, winner by winner. Ctrl-C ends it with the rows so far."""
    rows: list[PortabilityRow] = []
    try:
        for row in _rows(devices, request, run or Run(tuple(devices), PortabilityOptions())):
            rows.append(row)
    except KeyboardInterrupt:
        pass
    return finish(rows)


def measure(run: Run) -> Iterator[PortabilityRow]:
    """The matrix of one problem. Raises UsageError for too few devices."""
    options: PortabilityOptions = run.options
    assert run.problem is not None
    if len(run.devices) < (1 if options.recorded else 2):
        there = ", ".join(device.info.id for device in run.devices)
        raise UsageError(f"portability needs two devices or more, or one and --recorded; chosen: {there or 'none'}")
    recorded = tuple(device for text in options.recorded for device in recorded_devices(run.problem.workload, text))
    budget = None if options.tune is None else Budget.parse(options.tune)
    portable = None if options.portable is None else Budget.parse(options.portable)
    yield from _rows(run.devices, PortabilityRequest((run.problem,), budget, recorded, options.strategy, options.seed, portable), run)


def _rows(devices: Sequence[Device], request: PortabilityRequest, run: Run) -> Iterator[PortabilityRow]:
    """All winners on one device after another; KeyboardInterrupt comes after the rows that there are."""
    run.expect(len(request.problems) * len(devices) * (len(devices) + len(request.recorded)))
    for problem in request.problems:
        workload, text = workloads.get(problem.workload), described(problem)
        winners = []
        for device in devices:
            run.say(f"{text}: the winner of {device.info.id}")
            winners.append(winner(device.info, problem, request))
        winners += [known(other, problem, recorded_name(other)) for other in request.recorded]
        if request.portable is not None:
            winners.append(for_all(devices, problem, winners, request, run))
        interrupted = False
        for place, device in enumerate(devices):
            result = None
            if not interrupted:
                run.say(f"{text}: all winners on {device.info.id}")
                configs = [workload.lowered(one.config, device.info) for one in winners if one.config is not None]
                result = _on(device, problem, configs, run, parts=len(devices) - place)
                interrupted = result.interrupted
            yield from (_row(problem, one, device, result) for one in winners)
        if interrupted:
            raise KeyboardInterrupt


def winner(device: DeviceInfo, problem: Problem, request: PortabilityRequest) -> Winner:
    """Tune the problem on the device, or use the best known configuration."""
    if request.budget is None:
        return known(device, problem, device.id)
    try:
        with ResultStore.default() as store:
            result = tuner.tune(tuner.TuningRequest(problem, device.id, request.budget, request.strategy, request.seed), store)
        return Winner(device.id, result.best.config, f"tuned: {len(result.trials)} tried in {result.seconds:.0f} s")
    except PortatileError as error:
        return Winner(device.id, None, str(error).splitlines()[0])


def for_all(devices: Sequence[Device], problem: Problem, winners: Sequence[Winner], request: PortabilityRequest, run: Run) -> Winner:
    """The configuration that loses least over all devices, as far as a search found it."""
    assert request.portable is not None
    opened = {device.info.id: device for device in devices}

    def seconds(info: DeviceInfo, configs: Sequence[Config]) -> Mapping[str, float]:
        done = _on(opened[info.id], problem, configs, replace(run, advance=lambda: None), race=0.0)
        if done.interrupted:
            raise KeyboardInterrupt
        return {text: trial.comparable for text, trial in done.trials.items() if trial.status == "ok"}

    starts = tuple(known_winner.config for known_winner in winners if known_winner.config is not None)
    search = portable.Search(problem, tuple(device.info for device in devices), starts, request.portable, request.seed)
    best = portable.search(search, seconds, run.say)
    if best is None:
        return Winner(portable.NAME, None, "no configuration that was tried runs on all of the devices")
    return Winner(portable.NAME, best.config, f"searched for: {best.tried} tried, {best.score:.3f} by the search's times")


def known(device: DeviceInfo, problem: Problem, name: str) -> Winner:
    """The best known configuration for the problem on a device, which may be another machine's and is called ``name``."""
    try:
        choice = select.choose(workloads.get(problem.workload), problem, device, known_results()(problem.workload))
        return Winner(name, choice.config, choice.explanation)
    except PortatileError as error:
        return Winner(name, None, str(error).splitlines()[0])


def recorded_name(device: DeviceInfo) -> str:
    """The name of another machine's device: ids belong to this machine."""
    return f"{device.backend} {device.name}"


def recorded_devices(workload: str, text: str) -> list[DeviceInfo]:
    """The devices with stored results of a workload whose name, platform or back end contains every word of ``text``.

    Raises UnknownNameError if there is none.
    """
    met = {recorded_name(trial.device): trial.device for trial in known_results()(workload)}

    def called(word: str, device: DeviceInfo) -> bool:
        return device.backend == word if word in backends() else word in f"{device.name} {device.platform}".lower()

    matching = [device for device in met.values() if all(called(word, device) for word in text.lower().split())]
    if not matching:
        raise UnknownNameError(f"device with results of {workload}", text, met)
    return matching


def _on(device: Device, problem: Problem, configs: Sequence[Config], run: Run, race: float = _RACE, parts: int = 1) -> MeasuredConfigs:
    """All configurations on a device, which may take one of ``parts`` of the time that is left."""
    seconds = run.share(parts)
    how = Measuring(race if seconds is None else min(race, seconds / 4), run.trials, seconds, run.advance)
    try:
        return measured(problem, device.info.id, configs, how) if configs else MeasuredConfigs({})
    except PortatileError as error:  # the device cannot be opened: its rows say that nothing ran
        run.say(f"{device.info.id}: {error}")
        return MeasuredConfigs({})


def _row(problem: Problem, origin: Winner, device: Device, result: MeasuredConfigs | None) -> PortabilityRow:
    workload, info = workloads.get(problem.workload), device.info
    blank = PortabilityRow(
        workload=workload.name,
        problem=described(problem),
        dtype=problem.dtype,
        winner_of=origin.of,
        found=origin.found,
        device=info.id,
        name=info.name,
        platform=info.platform,
    )
    if origin.config is None:
        return replace(blank, status=f"no winner: {origin.found}")
    ran = workload.lowered(origin.config, info)
    space = workload.space(problem, info)
    ran, origin_config = space.complete(ran), space.complete(origin.config)
    changed = {name: value for name, value in ran.items() if name in origin_config and value != origin_config[name]}
    objection = space.violated(ran) or ""
    row = replace(blank, objection=objection, changed=spelled(changed), config=canonical(ran))
    trial = result.trials.get(row.config) if result is not None else None
    if trial is None:
        return replace(row, status=NOT_REACHED)
    if trial.status != "ok":
        return replace(row, status=failure(trial))
    flops = workload.flops(problem)
    return replace(row, seconds=trial.comparable, gflops=flops / trial.comparable / 1e9, error=trial.error, status="ok")


def _sample(devices: tuple[Device, ...]) -> StudyRequest | None:
    size = 512 if any(device.info.kind == "gpu" for device in devices) else 128
    problem = workloads.get("gemm").problem({"m": size, "n": size, "k": size})
    return StudyRequest(devices, PortabilityOptions(), problem) if len(devices) > 1 else None


STUDY = Study(
    name="portability",
    answers=("D1.7",),
    question="How much does each device's winner lose on the other devices?",
    minutes=2.0,
    timed="kernels alone, back to back by the device's clock, with copies into images where there are; no transfers, no compilation.",
    row=PortabilityRow,
    key=("problem", "dtype", "winner_of", "device"),
    columns=(
        Column("winner of", "winner_of"),
        Column("on", "device"),
        Column("time", "seconds", "s"),
        Column("Gflop/s", "gflops"),
        Column("loss", "loss"),
        Column("error", "error"),
        Column("", "status"),
    ),
    measure=measure,
    figures=figures,
    answer=answer,
    options=PortabilityOptions,
    finish=finish,
    notes=notes,
    devices="all",
    problem="needed",
    sample=_sample,
    by_trials=True,
)
