"""Is performance portable? Each device's winner run on every other device, against the time of that device's own winner.

Du et al., figures 11 and 12. A row is one winner on one device: ``loss`` is its time over that of the device's own winner, both measured
in one run, so 1 is no loss. A winner that the device's space does not hold is tried all the same: ``objection`` says what rule it
violates, ``status`` how it ended; what the device has no instructions for is left out of it, and ``changed`` says so. Winners may also
come from other machines' devices, known from stored results alone. ``scores`` gives Pennycook's measure: the harmonic mean over the
devices of 1 / loss (at most 1), and 0 where a device cannot run it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from portatile import select, workloads
from portatile.device import backends
from portatile.device.base import Device
from portatile.errors import PortatileError, UnknownNameError
from portatile.records import Config, DeviceInfo, Problem, canonical, spelled
from portatile.store import ResultStore, known_results
from portatile.studies.measured_configs import MeasuredConfigs, measured
from portatile.trials import Budget, Trial
from portatile.tuning.search import tuner

_RACE = 3.0  # seconds in which winners that are nearly equal run in turn


@dataclass(frozen=True)
class PortabilityRow:
    """The winner of the device ``winner_of`` on ``device``. Seconds, ``gflops``, ``loss`` and ``error`` are None where it did not run.

    ``found``: where the winner comes from; ``config``: what ran, as JSON; ``changed``: the parameters in which that is not the winner.
    """

    workload: str
    problem: str
    dtype: str
    winner_of: str
    found: str
    device: str
    name: str
    platform: str
    seconds: float | None
    gflops: float | None
    loss: float | None
    error: float | None
    objection: str
    changed: str
    status: str
    config: str


@dataclass(frozen=True)
class PortabilityRequest:
    """Problems, each on every device. With ``budget`` each is tuned on each device first, else the best that is known is taken.

    ``recorded``: devices of other machines, whose best known winners take part.
    """

    problems: tuple[Problem, ...]
    budget: Budget | None = None
    recorded: tuple[DeviceInfo, ...] = ()
    strategy: str = "auto"
    seed: int = 0


@dataclass(frozen=True)
class Winner:
    """The configuration of the device ``of`` for a problem, and where it comes from; none where nothing could be found, with the reason."""

    of: str
    config: Config | None
    found: str


def matrix(devices: Sequence[Device], request: PortabilityRequest, say: Callable[[str], None] = lambda text: None) -> list[PortabilityRow]:
    """Every problem's matrix, winner by winner; ``say`` hears what is going on. Ctrl-C ends it with the rows so far."""
    rows: list[PortabilityRow] = []
    for problem in request.problems:
        workload, described = workloads.get(problem.workload), describe(problem)
        winners = []
        for device in devices:
            say(f"{described}: the winner of {device.info.id}")
            winners.append(winner(device.info, problem, request))
        winners += [known(info, problem, recorded_name(info)) for info in request.recorded]
        results: dict[str, MeasuredConfigs] = {}
        for device in devices:
            say(f"{described}: all winners on {device.info.id}")
            configs = [workload.lowered(found.config, device.info) for found in winners if found.config is not None]
            results[device.info.id] = _on(device, problem, configs)
            if results[device.info.id].interrupted:
                break
        rows += [_row(problem, found, device, results.get(device.info.id)) for found in winners for device in devices]
        if any(result.interrupted for result in results.values()):
            break
    return _with_losses(rows)


def winner(device: DeviceInfo, problem: Problem, request: PortabilityRequest) -> Winner:
    """Tune the problem on the device, or take what is known to be best."""
    if request.budget is None:
        return known(device, problem, device.id)
    try:
        with ResultStore.default() as store:
            result = tuner.tune(tuner.TuningRequest(problem, device.id, request.budget, request.strategy, request.seed), store)
        return Winner(device.id, result.best.config, f"tuned: {len(result.trials)} tried in {result.seconds:.0f} s")
    except PortatileError as error:
        return Winner(device.id, None, str(error).splitlines()[0])


def known(device: DeviceInfo, problem: Problem, name: str) -> Winner:
    """What is known to be best for the problem on the device, which need not be here and is called ``name``."""
    try:
        choice = select.choose(workloads.get(problem.workload), problem, device, known_results()(problem.workload))
        return Winner(name, choice.config, choice.explanation)
    except PortatileError as error:
        return Winner(name, None, str(error).splitlines()[0])


def recorded_name(info: DeviceInfo) -> str:
    """What a device is called that is not here: ids are those of this machine."""
    return f"{info.backend} {info.name}"


def recorded_devices(workload: str, text: str) -> list[DeviceInfo]:
    """The devices with known results of a workload whose name or platform holds every word of ``text``; a back end's name means that one.

    Raises UnknownNameError where there is none.
    """
    met = {recorded_name(trial.device): trial.device for trial in known_results()(workload)}

    def called(word: str, device: DeviceInfo) -> bool:
        return device.backend == word if word in backends() else word in f"{device.name} {device.platform}".lower()

    found = [device for device in met.values() if all(called(word, device) for word in text.lower().split())]
    if not found:
        raise UnknownNameError(f"device with results of {workload}", text, met)
    return found


def scores(rows: Sequence[PortabilityRow]) -> dict[tuple[str, str, str], float]:
    """Pennycook's measure by problem, element type and device that the winner belongs to."""
    found: dict[tuple[str, str, str], float] = {}
    groups: dict[tuple[str, str, str], list[PortabilityRow]] = {}
    for row in rows:
        groups.setdefault((row.problem, row.dtype, row.winner_of), []).append(row)
    for key, group in groups.items():
        losses = [row.loss for row in group]
        found[key] = 0.0 if None in losses else len(losses) / sum(max(loss, 1.0) for loss in losses if loss is not None)
    return found


def describe(problem: Problem) -> str:
    """Sizes, and the options that are not the workload's defaults."""
    usual = {name: values[0] for name, values in workloads.get(problem.workload).options.items()}
    chosen = {name: value for name, value in problem.options.items() if value != usual[name]}
    return spelled({**problem.sizes, **chosen})


def _on(device: Device, problem: Problem, configs: Sequence[Config]) -> MeasuredConfigs:
    try:
        return measured(problem, device.info.id, configs, _RACE) if configs else MeasuredConfigs({})
    except PortatileError:  # the device cannot be opened: its rows say that nothing ran
        return MeasuredConfigs({})


def _row(problem: Problem, found: Winner, device: Device, result: MeasuredConfigs | None) -> PortabilityRow:
    workload, info = workloads.get(problem.workload), device.info
    blank = PortabilityRow(
        workload=workload.name,
        problem=describe(problem),
        dtype=problem.dtype,
        winner_of=found.of,
        found=found.found,
        device=info.id,
        name=info.name,
        platform=info.platform,
        seconds=None,
        gflops=None,
        loss=None,
        error=None,
        objection="",
        changed="",
        status="",
        config="",
    )
    if found.config is None:
        return replace(blank, status=f"no winner: {found.found}")
    ran = workload.lowered(found.config, info)
    space = workload.space(problem, info)
    ran, given = space.complete(ran), space.complete(found.config)
    changed = {name: value for name, value in ran.items() if name in given and value != given[name]}
    objection = space.violated(ran) or ""
    row = replace(blank, objection=objection, changed=spelled(changed), config=canonical(ran))
    trial = result.trials.get(row.config) if result is not None else None
    if trial is None:
        return replace(row, status="not reached")
    if trial.status != "ok":
        return replace(row, status=failure(trial))
    flops = workload.flops(problem)
    return replace(row, seconds=trial.comparable, gflops=flops / trial.comparable / 1e9, error=trial.error, status="ok")


def failure(trial: Trial) -> str:
    """How a trial failed: the kind, the first line of its message, and the first further one that speaks of an error."""
    first, *rest = trial.message.splitlines() or [""]
    reason = next((line.strip() for line in rest if "error" in line.lower()), "")
    return f"{trial.status}: {first[:160]} {reason[:160]}".strip(" :")


def _with_losses(rows: Sequence[PortabilityRow]) -> list[PortabilityRow]:
    own = {(row.problem, row.dtype, row.device): row.seconds for row in rows if row.winner_of == row.device}
    done = []
    for row in rows:
        best = own.get((row.problem, row.dtype, row.device))
        done.append(replace(row, loss=row.seconds / best) if row.seconds and best else row)
    return done
