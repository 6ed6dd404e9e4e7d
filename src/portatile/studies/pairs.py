"""How do two parameters shape the performance? The best time for every pair of their values, the others as good as a few tries find them.

Du et al., figure 14, shows SGEMM over TCR x TRR. Every pair starts from the base, the best configuration known for the problem: with
the pair's values in it and as few others changed as its rules ask for. Half of a pair's tries go there and to what differs from
that in one parameter or at random; the other half to the neighbours of the best of them. All tries are measured beside each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np

from portatile import select, workloads
from portatile.device.base import Device
from portatile.errors import ArgumentError, SpaceError, UnknownNameError
from portatile.records import Config, Problem, Value, canonical
from portatile.space import ParameterSpace
from portatile.store import known_results
from portatile.studies.measured_configs import measured
from portatile.studies.portability import describe, failure
from portatile.trials import Trial

_SCATTERED = 64  # legal configurations at random, of which the nearest to the base are tried


@dataclass(frozen=True)
class PairsRow:
    """One pair of values. Seconds, ``gflops`` and ``relative`` (the map's best time over this one, so 1 is the best) are None without a
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

    ``only``: parameters, the two or others, that take no other values than these. ``base``: where every pair starts; None for the best
    configuration known for the problem.
    """

    problem: Problem
    down: str
    across: str
    only: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    tries: int = 8
    base: Config | None = None
    seed: int = 0


Pair = tuple[Value, Value]


def sweep(device: Device, request: PairsRequest, advance: Callable[[], None] = lambda: None) -> list[PairsRow]:
    """Measure every pair that the space holds; ``advance`` is called at most ``pairs() * tries`` times.

    Raises UnknownNameError for a name that is no parameter, ArgumentError for a value it does not take, SpaceError where nothing is legal.
    """
    problem, info = request.problem, device.info
    workload = workloads.get(problem.workload)
    space = workload.space(problem, info)
    base = request.base
    if base is None:
        base = select.choose(workload, problem, info, known_results()(problem.workload)).config
    parts = {pair: _part(space, request, pair, base) for pair in pairs(space, request)}
    rng = np.random.default_rng(request.seed)
    wishes = {pair: list(islice(_first(part, base, rng), max((request.tries + 1) // 2, 1))) for pair, part in parts.items()}
    if not any(wishes.values()):
        raise SpaceError(f"no configuration of {workload.name} in the map is legal on {info.name}: fix fewer parameters")
    done = measured(problem, info.id, [config for configs in wishes.values() for config in configs], advance=advance)
    trials = dict(done.trials)
    found = {pair: [trials[key] for config in configs if (key := canonical(config)) in trials] for pair, configs in wishes.items()}
    again = {pair: list(islice(_second(parts[pair], tried, rng), request.tries // 2)) for pair, tried in found.items()}
    more = [config for configs in again.values() for config in configs]
    if more and not done.interrupted:
        trials = measured(problem, info.id, more, advance=advance).trials
        for pair, configs in again.items():
            found[pair] += [trials[key] for config in configs if (key := canonical(config)) in trials]
    rows = [_row(device, request, pair, bool(wishes[pair]), tried) for pair, tried in found.items()]
    best = min((row.seconds for row in rows if row.seconds), default=None)
    return [_relative(row, best) for row in rows]


def pairs(space: ParameterSpace, request: PairsRequest) -> list[Pair]:
    """The values of ``down`` with those of ``across``."""
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
    """The configurations with a pair's values, every other parameter's values in the order of their distance from the base's."""
    kept = {**request.only, request.down: pair[:1], request.across: pair[1:]}

    def ordered(name: str, values: tuple[Value, ...]) -> Sequence[Value]:
        place = values.index(base[name]) if base.get(name) in values else 0
        return sorted(values, key=lambda value: abs(values.index(value) - place))

    parameters = {name: ordered(name, kept.get(name, values)) for name, values in space.parameters.items()}
    return space.restricted(parameters)


def _first(part: ParameterSpace, base: Config, rng: np.random.Generator) -> Iterator[Config]:
    """The nearest legal configuration, the first parameters counting most; then by turns its neighbours and random ones near the base."""
    nearest = next(iter(part), None)
    if nearest is None:
        return
    neighbours = part.neighbours(nearest)
    rng.shuffle(neighbours)
    scattered = sorted(part.scatter(rng, _SCATTERED), key=lambda config: sum(config[name] != base.get(name) for name in config))
    by_turns = [config for two in zip(neighbours, scattered, strict=False) for config in two]
    rest = neighbours[len(scattered) :] + scattered[len(neighbours) :]
    yield from {canonical(config): config for config in (nearest, *by_turns, *rest)}.values()


def _second(part: ParameterSpace, tried: Sequence[Trial], rng: np.random.Generator) -> Iterator[Config]:
    """What differs from the fastest of those tried in one parameter."""
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
        problem=describe(problem),
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


def _relative(row: PairsRow, best: float | None) -> PairsRow:
    return replace(row, relative=best / row.seconds) if best and row.seconds else row
