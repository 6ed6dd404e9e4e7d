"""The one configuration that loses least over several devices: a search for the greatest harmonic mean of efficiencies.

Pennycook's measure of a configuration is the number of devices over the sum of its losses, so the search looks for the least sum. It
starts with the devices' own winners and climbs from the best to neighbours that are legal everywhere, with random ones between. A group
of candidates runs on one device after another; a candidate that can no longer win on the remaining devices is dropped. Losses are
relative to the fastest time seen on the device, so that a poorly tuned winner does not distort them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from portatile import workloads
from portatile.records import Config, DeviceInfo, Problem, canonical
from portatile.space import ParameterSpace
from portatile.trials import Budget

NAME = "portable"
_GROUP = 8  # candidates that are measured together: a device is opened once for all
_RANDOM = 2  # candidates of a group that are drawn at random
_CHUNKS, _CHUNK = 16, 4  # draws, and configurations per draw, before the search gives up finding new ones

Seconds = Callable[[DeviceInfo, Sequence[Config]], Mapping[str, float]]
"""Measures configurations, as a device runs them, on it: seconds by canonical text, without those that fail."""


@dataclass(frozen=True)
class Portable:
    """The configuration, how many were tried, and Pennycook's measure by the search's own times, over the fastest it saw on each device."""

    config: Config
    tried: int
    score: float


@dataclass(frozen=True)
class Search:
    """The input of a search: a problem, ``devices``, the ``winners`` from which it starts, and a ``budget`` (evaluations: candidates)."""

    problem: Problem
    devices: tuple[DeviceInfo, ...]
    winners: tuple[Config, ...]
    budget: Budget
    seed: int = 0


def search(request: Search, seconds: Seconds, say: Callable[[str], None] = lambda text: None) -> Portable | None:
    """The best found; None if nothing runs on all of the devices."""
    started = time.monotonic()
    workload = workloads.get(request.problem.workload)
    spaces = [workload.space(request.problem, info) for info in request.devices]
    rng = np.random.default_rng(request.seed)
    best_of = [math.inf] * len(request.devices)  # seconds of the fastest of all that was measured on each device
    took: dict[str, list[float]] = {}  # seconds on each device, of configurations that ran on all
    sums: dict[str, float] = {}  # sums of losses; infinite for dropped configurations
    configs: dict[str, Config] = {}
    candidates = _candidates(request, spaces, rng, sums, configs)
    for group in _groups(candidates, request.budget.evaluations):
        times: dict[str, list[float]] = {canonical(config): [] for config in group}
        least = min(sums.values(), default=math.inf)
        for place, info in enumerate(request.devices):
            left = len(request.devices) - place  # each remaining device adds a loss of at least 1
            alive = [text for text, known in times.items() if len(known) == place and _losses(known, best_of) + left < least]
            lowered = {text: workload.lowered(configs[text], info) for text in alive}
            measured = seconds(info, list(lowered.values())) if alive else {}
            best_of[place] = min([best_of[place], *measured.values()])
            for text in alive:
                if (one := measured.get(canonical(lowered[text]))) is not None:
                    times[text].append(one)
        took.update({text: known for text, known in times.items() if len(known) == len(request.devices)})
        sums.update(dict.fromkeys(times, math.inf))
        sums.update({text: _losses(known, best_of) for text, known in took.items()})
        say(f"{NAME}: {len(sums)} tried, {_score(min(sums.values()), len(request.devices)):.3f} of the fastest seen on each device")
        if request.budget.seconds is not None and time.monotonic() - started > request.budget.seconds:
            break
    best = min(sums, key=lambda text: sums[text], default=None)
    if best is None or not math.isfinite(sums[best]):
        return None
    return Portable(configs[best], len(sums), _score(sums[best], len(request.devices)))


def _losses(seconds: Sequence[float], best: Sequence[float]) -> float:
    """The sum of the losses on the first devices, those that ``seconds`` are of."""
    return sum(measured / least for measured, least in zip(seconds, best, strict=False))


def _score(total: float, devices: int) -> float:
    return devices / total if math.isfinite(total) else 0.0


def _groups(candidates: Iterator[Config], most: int | None) -> Iterator[list[Config]]:
    """Candidates in groups, each drawn when the one before was measured; at most so many in all."""
    progress = 0
    while group := list(islice(candidates, _GROUP if most is None else min(_GROUP, most - progress))):
        progress += len(group)
        yield group


def _candidates(
    request: Search, spaces: Sequence[ParameterSpace], rng: np.random.Generator, sums: Mapping[str, float], configs: dict[str, Config]
) -> Iterator[Config]:
    """New configurations: the winners, then by turns neighbours of the best so far and random ones; ends when there are no more.

    ``configs`` takes what was told, by its text. It is read between groups, when ``sums`` knows what became of it.
    """

    def fresh(options: Iterable[Config]) -> Iterator[Config]:
        for config in options:
            text = canonical(config)
            if text not in configs and _everywhere(request, spaces, config):
                configs[text] = config
                yield config

    for config in request.winners:  # wherever they are legal: they set the measure
        if canonical(config) not in configs:
            configs[canonical(config)] = config
            yield config
    while True:
        known = [text for text in sums if math.isfinite(sums[text])]
        centre = configs[min(known, key=lambda text: sums[text])] if known else None
        nearby = [] if centre is None else _neighbours(spaces, centre)
        rng.shuffle(nearby)
        new = [*islice(fresh(nearby), _GROUP - _RANDOM)]
        new += islice(fresh(_scattered(spaces, rng)), _GROUP - len(new))
        if not new:
            return
        yield from new


def _scattered(spaces: Sequence[ParameterSpace], rng: np.random.Generator) -> Iterator[Config]:
    """Configurations at random, of the devices' spaces by turns; ends after some, most of which may be known."""
    for place in range(_CHUNKS):
        yield from spaces[place % len(spaces)].scatter(rng, _CHUNK)


def _neighbours(spaces: Sequence[ParameterSpace], config: Config) -> list[Config]:
    """The neighbours in any device's space that holds the configuration: rules differ, and so do values."""
    return [other for space in spaces if config in space for other in space.neighbours(config)]


def _everywhere(request: Search, spaces: Sequence[ParameterSpace], config: Config) -> bool:
    """Whether every device's rules allow what it would run of ``config``."""
    workload = workloads.get(request.problem.workload)
    return all(workload.lowered(config, info) in space for info, space in zip(request.devices, spaces, strict=True))
