"""How do two parameters together affect the speed? The best time for every pair of their values; a few tries choose the other parameters.

Du et al., figure 14, shows SGEMM over TCR x TRR. Every pair starts from the base, the best configuration known for the problem: with
the pair's values in it and as few others changed as its rules ask for. Half of a pair's tries go there and to what differs from
that in one parameter or at random; the other half to the neighbours of the best of them. All tries are measured beside each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np

from portatile import select, workloads
from portatile.device.base import Device
from portatile.errors import ArgumentError, SpaceError, UnknownNameError, UsageError
from portatile.figures.heat import Cell, Heat
from portatile.figures.quantities import written
from portatile.figures.svg import Figure
from portatile.formatting import duration, percent, spelled
from portatile.records import Config, DeviceInfo, Problem, Value, canonical, from_json
from portatile.space import ParameterSpace
from portatile.store import known_results
from portatile.studies.framework.measured_configs import Measuring, failure, measured
from portatile.studies.framework.study import Column, Option, Run, Study, StudyRequest, option
from portatile.trials import Trial
from portatile.workloads.speeds import described

_SCATTERED = 64  # legal configurations at random, of which the nearest to the base are tried


@dataclass(frozen=True)
class PairsRow:
    """One pair of values. Seconds, ``gflops`` and ``relative`` (the map's best time over this one; 1 is the best) are None without a
    valid configuration: ``status`` says why. ``tried`` configurations were measured, ``failed`` of them were not valid.
    """

    device: str
    name: str
    workload: str
    problem: str
    dtype: str
    down: str
    across: str
    down_value: Value
    across_value: Value
    seconds: float | None
    gflops: float | None
    relative: float | None
    tried: int
    failed: int
    status: str
    config: str


@dataclass(frozen=True)
class PairsRequest:
    """The map of ``down`` x ``across`` for a problem, with ``tries`` configurations for each pair.

    ``only``: allowed values of parameters. ``base``: the configuration from which every pair starts, by default the best one known for
    the problem.
    """

    problem: Problem
    down: str
    across: str
    only: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    tries: int = 8
    base: Config | None = None
    seed: int = 0


@dataclass(frozen=True)
class MapOptions:
    """The options of the study, as a command line gives them."""

    down: str = option("", Option("The parameter of the rows: TRR, or TRR=1,2,4 for some values.", metavar="NAME[=VALUES]"))
    across: str = option("", Option("The parameter of the columns, in the same way.", metavar="NAME[=VALUES]"))
    fixed: tuple[str, ...] = option(
        (), Option("Values that another parameter may take; repeat.", names=("--fix", "fixed"), metavar="NAME=VALUES")
    )
    tries: int = option(4, Option("Configurations for each pair.", least=1))
    seed: int = option(0, Option("Seed of the choice of configurations.", least=0))


Pair = tuple[Value, Value]


def measure(run: Run) -> Iterator[PairsRow]:
    """The map on each device. Raises UsageError for a parameter that is missing, and what ``sweep`` raises."""
    problem, options = run.problem, run.options
    assert problem is not None
    for device in run.devices:
        request = requested(problem, device.info, options)
        space = workloads.get(problem.workload).space(problem, device.info)
        run.expect((len(pairs(space, request)) * request.tries + 2) * len(run.devices))  # the default is tried in both halves
        yield from _rows(device, request, Measuring(trials=run.trials, advance=run.advance), run)


def requested(problem: Problem, info: DeviceInfo, options: MapOptions) -> PairsRequest:
    """The request that words like ``TRR=1,2,4`` spell. Raises UsageError or ArgumentError for words that name no parameter or value."""
    for name in ("down", "across"):
        if not getattr(options, name):
            raise UsageError(
                f"--{name} is missing: a map needs two parameters; `portatile show {problem.workload} ... --stage parameters` lists them"
            )
    space = workloads.get(problem.workload).space(problem, info)
    names, only = [], {}
    for word in (options.down, options.across, *options.fixed):
        name, values = parameter(space, word)
        names.append(name)
        if values:
            only[name] = values
        elif word in options.fixed:
            raise ArgumentError(f"--fix {word}: write {name}=VALUE, of {', '.join(map(str, space.parameters[name]))}")
    return PairsRequest(problem, names[0], names[1], only, options.tries, seed=options.seed)


def parameter(space: ParameterSpace, word: str) -> tuple[str, tuple[Value, ...]]:
    """A parameter and the values that a word like ``TRR=1,2`` names; none for the name alone.

    Raises UnknownNameError for another name, ArgumentError for another value.
    """
    name, sign, text = word.partition("=")
    if name not in space.parameters:
        raise UnknownNameError("parameter", name, space.parameters)
    spelled = {str(value).lower(): value for value in space.parameters[name]}
    listed = []
    for part in text.split(",") if sign else ():
        if part.strip().lower() not in spelled:
            raise ArgumentError(f"{word}: {part!r} is not one of {', '.join(map(str, space.parameters[name]))}")
        listed.append(spelled[part.strip().lower()])
    return name, tuple(listed)


def configured(problem: Problem, info: DeviceInfo, start: Config, words: Iterable[str]) -> Config:
    """``start`` with what words like ``TRR=2`` say, complete. Raises ArgumentError if that is not legal on the device."""
    space, config = workloads.get(problem.workload).space(problem, info), dict(start)
    for word in words:
        name, values = parameter(space, word)
        if len(values) != 1:
            raise ArgumentError(f"{word}: write {name}=VALUE, of {', '.join(map(str, space.parameters[name]))}")
        config[name] = values[0]
    if (why := space.violated(config)) is not None:
        raise ArgumentError(f"this configuration is not legal on {info.id}: {why}")
    return space.complete(config)


def sweep(device: Device, request: PairsRequest, how: Measuring | None = None) -> list[PairsRow]:
    """Measure every pair that the space holds; Ctrl-C ends it with what there is.

    Raises UnknownNameError for a name that is no parameter, ArgumentError for a value it does not take, SpaceError if nothing is legal.
    """
    rows: list[PairsRow] = []
    try:
        for row in _rows(device, request, how or Measuring(), Run((device,), MapOptions())):
            rows.append(row)
    except KeyboardInterrupt:
        pass
    return finish(rows)


def _rows(device: Device, request: PairsRequest, how: Measuring, run: Run) -> Iterator[PairsRow]:
    """The rows of a map; KeyboardInterrupt comes after those that there are."""
    problem, info = request.problem, device.info
    workload = workloads.get(problem.workload)
    space = workload.space(problem, info)
    base = request.base
    if base is None:
        base = select.choose(workload, problem, info, known_results()(problem.workload)).config
    parts = {pair: _part(space, request, pair, base) for pair in pairs(space, request)}
    rng = np.random.default_rng(request.seed)
    first = {pair: list(islice(_first_half(part, base, rng), max((request.tries + 1) // 2, 1))) for pair, part in parts.items()}
    if not any(first.values()):
        raise SpaceError(f"no configuration of {workload.name} in the map is legal on {info.name}: fix fewer parameters")
    run.say(f"{described(problem)} on {info.id}: {sum(map(len, first.values()))} configurations")
    done = measured(problem, info.id, [config for configs in first.values() for config in configs], _in_time(how, run))
    trials = {
        pair: [done.trials[key] for config in configs if (key := canonical(config)) in done.trials] for pair, configs in first.items()
    }
    interrupted, later = done.interrupted, request.tries // 2 if run.fits(0) else 0
    again = {pair: list(islice(_second_half(parts[pair], tried, rng), later)) for pair, tried in trials.items()}
    more = [config for configs in again.values() for config in configs]
    if more and not interrupted:
        run.say(f"{described(problem)} on {info.id}: {len(more)} neighbours of the best")
        done = measured(problem, info.id, more, _in_time(how, run))
        interrupted = done.interrupted
        for pair, configs in again.items():
            trials[pair] += [done.trials[key] for config in configs if (key := canonical(config)) in done.trials]
    yield from (_row(device, request, pair, bool(first[pair]), tried) for pair, tried in trials.items())
    if interrupted:
        raise KeyboardInterrupt


def _in_time(how: Measuring, run: Run) -> Measuring:
    """``how``, in the seconds that are left now; a moment at least, in which the default is measured."""
    return how if run.seconds_left is None else replace(how, seconds=max(run.seconds_left, 1.0))


def pairs(space: ParameterSpace, request: PairsRequest) -> list[Pair]:
    """The values of ``down`` with those of ``across``.

    Raises ArgumentError or UnknownNameError for values and parameters that the space lacks.
    """
    for name in (request.down, request.across, *request.only):
        if name not in space.parameters:
            raise UnknownNameError("parameter", name, space.parameters)
    if request.down == request.across:
        raise ArgumentError(f"a map needs two parameters, not {request.down} twice")
    for name, values in request.only.items():
        for value in values:
            if not any(value == known and type(value) is type(known) for known in space.parameters[name]):
                raise ArgumentError(f"{name}={value!r} is not one of {space.parameters[name]}")
    down, across = (request.only.get(name, space.parameters[name]) for name in (request.down, request.across))
    return [(one, other) for one in down for other in across]


def _part(space: ParameterSpace, request: PairsRequest, pair: Pair, base: Config) -> ParameterSpace:
    """The configurations with a pair's values, with every other parameter's values ordered by their distance from the base's."""
    only = {**request.only, request.down: pair[:1], request.across: pair[1:]}

    def ordered(name: str, values: tuple[Value, ...]) -> Sequence[Value]:
        place = values.index(base[name]) if base.get(name) in values else 0
        return sorted(values, key=lambda value: abs(values.index(value) - place))

    parameters = {name: ordered(name, only.get(name, values)) for name, values in space.parameters.items()}
    return space.restricted(parameters)


def _first_half(part: ParameterSpace, base: Config, rng: np.random.Generator) -> Iterator[Config]:
    """The nearest legal configuration (the first parameters count most); then alternately its neighbours and random ones near the base."""
    nearest = next(iter(part), None)
    if nearest is None:
        return
    yield nearest
    neighbours = part.neighbours(nearest)
    rng.shuffle(neighbours)
    yield from neighbours[:1]
    scattered = sorted(part.scatter(rng, _SCATTERED), key=lambda config: sum(config[name] != base.get(name) for name in config))
    by_turns = [config for two in zip(scattered, neighbours[1:], strict=False) for config in two]
    rest = neighbours[1 + len(scattered) :] + scattered[max(len(neighbours) - 1, 0) :]
    known = {canonical(nearest), *map(canonical, neighbours[:1])}
    yield from {key: config for config in (*by_turns, *rest) if (key := canonical(config)) not in known}.values()


def _second_half(part: ParameterSpace, tried: Sequence[Trial], rng: np.random.Generator) -> Iterator[Config]:
    """The configurations that differ from the fastest so far in one parameter."""
    best = min((trial for trial in tried if trial.status == "ok"), key=lambda trial: trial.median, default=None)
    if best is None:
        return
    neighbours = part.neighbours(best.config)
    rng.shuffle(neighbours)
    known = {canonical(trial.config) for trial in tried}
    yield from (config for config in neighbours if canonical(config) not in known)


def _row(device: Device, request: PairsRequest, pair: Pair, legal: bool, tried: Sequence[Trial]) -> PairsRow:
    problem = request.problem
    best = min((trial for trial in tried if trial.status == "ok"), key=lambda trial: trial.median, default=None)
    status = "ok"
    if best is None:
        status = failure(tried[0]) if tried else "not reached" if legal else "no legal configuration"
    flops = workloads.get(problem.workload).flops(problem)
    return PairsRow(
        device=device.info.id,
        name=device.info.name,
        workload=problem.workload,
        problem=described(problem),
        dtype=problem.dtype,
        down=request.down,
        across=request.across,
        down_value=pair[0],
        across_value=pair[1],
        seconds=None if best is None else best.median,
        gflops=None if best is None else flops / best.median / 1e9,
        relative=None,
        tried=len(tried),
        failed=sum(trial.status != "ok" for trial in tried),
        status=status,
        config="" if best is None else canonical(best.config),
    )


def finish(rows: Sequence[PairsRow]) -> list[PairsRow]:
    """Each pair's share of the best of its device."""
    best: dict[str, float] = {}
    for row in rows:
        if row.seconds:
            best[row.device] = min(row.seconds, best.get(row.device, row.seconds))
    return [replace(row, relative=best[row.device] / row.seconds) if row.seconds else row for row in rows]


def table(rows: Sequence[PairsRow]) -> Heat:
    """The map of one device, without lines and columns that have no legal configuration."""
    by_pair: Mapping[tuple[Value, Value], PairsRow] = {(row.down_value, row.across_value): row for row in rows}
    tried = [row for row in rows if row.tried] or list(rows)
    downs, acrosses = (
        [value for value in dict.fromkeys(getattr(row, name) for row in rows) if any(getattr(row, name) == value for row in tried)]
        for name in ("down_value", "across_value")
    )
    cells = tuple(tuple(_cell(by_pair[down, across]) for across in acrosses) for down in downs)
    title = f"{rows[0].workload} {rows[0].problem} {rows[0].dtype} on {rows[0].name}"
    unit = "Gflop/s" if any(row.gflops for row in rows) else "time"
    caption = f"{unit} of the best configuration tried for each pair of {rows[0].down} and {rows[0].across}; the darker the faster."
    return Heat(title, rows[0].down, rows[0].across, tuple(map(str, downs)), tuple(map(str, acrosses)), cells, caption)


def _cell(row: PairsRow) -> Cell:
    if row.seconds is None:
        return Cell(None, "-" if not row.tried else row.status.partition(":")[0], row.status)
    text = written(row.gflops) if row.gflops else duration(row.seconds)
    return Cell(row.relative, text, f"{percent(row.relative)} of the best; {row.config}")


def figures(rows: Sequence[PairsRow]) -> list[Figure]:
    """A map for each device."""
    groups: dict[str, list[PairsRow]] = {}
    for row in rows:
        groups.setdefault(row.device, []).append(row)
    return [table(group) for group in groups.values()]


def notes(rows: Sequence[PairsRow]) -> list[str]:
    """The best of each device, and how many pairs are missing."""
    lines = []
    for device in dict.fromkeys(row.device for row in rows):
        of_device = [row for row in rows if row.device == device]
        missing = sum(row.seconds is None for row in of_device)
        tail = f"; {missing} of {len(of_device)} pairs without a valid configuration" if missing else ""
        best = max((row for row in of_device if row.relative is not None), key=lambda row: row.relative or 0.0, default=None)
        if best is None:
            lines.append(f"{device} ({of_device[0].name}): no configuration of the map is valid: {of_device[0].status}")
            continue
        most = max(row.tried for row in of_device)
        lines.append(
            f"{device} ({best.name}): {'one configuration' if most == 1 else f'at most {most} configurations'} for each pair{tail}"
        )
        lines.append(
            f"best: {best.down}={best.down_value} {best.across}={best.across_value}: {spelled(from_json(best.config, dict[str, Value]))}"
        )
    return lines


def answer(rows: Sequence[PairsRow]) -> str:
    """The best pair of each device, and how much slower the worst is."""
    parts = []
    for device in dict.fromkeys(row.device for row in rows):
        there = [row for row in rows if row.device == device and row.relative]
        if there:
            best, worst = (choose(there, key=lambda row: row.relative or 0.0) for choose in (max, min))
            speed = f", {written(best.gflops)} Gflop/s" if best.gflops else ""
            pair = f"{best.down}={best.down_value} {best.across}={best.across_value}"
            parts.append(f"{pair} is best on {device}{speed}; the worst pair reaches {percent(worst.relative)} of it")
    return ". ".join(parts)


def _sample(devices: tuple[Device, ...]) -> StudyRequest:
    size = 1024 if devices[0].info.kind == "gpu" else 128
    problem = workloads.get("matmul").problem({"m": size, "n": size, "k": size})
    return StudyRequest(devices[:1], MapOptions("ALGORITHM", "BLOCK", tries=2), problem)


STUDY = Study(
    name="map",
    answers=("D1.8", "D1.9"),
    question="How do two parameters together affect the speed?",
    minutes=3.0,
    timed="kernels alone, back to back by the device's clock, with copies into images where there are; no transfers, no compilation.",
    row=PairsRow,
    key=("device", "down_value", "across_value"),
    columns=(
        Column("device", "device"),
        Column("down", "down_value"),
        Column("across", "across_value"),
        Column("time", "seconds", "s"),
        Column("Gflop/s", "gflops"),
        Column("of the best", "relative", "%"),
        Column("tried", "tried"),
        Column("", "status"),
    ),
    measure=measure,
    figures=figures,
    answer=answer,
    options=MapOptions,
    finish=finish,
    notes=notes,
    problem="needed",
    sample=_sample,
    by_trials=True,
)
