"""The one configuration that loses least over several devices: a search for the greatest harmonic mean of efficiencies.

Pennycook's measure of a configuration is the number of devices over the sum of its losses, so the search looks for the least sum. It
starts with the devices' own winners and climbs from the best to neighbours that are legal everywhere, with random ones between. A group of
candidates runs on one device after another; who cannot win any more, however fast on the devices that are left, goes no further.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from portatile import workloads
from portatile.records import Config, DeviceInfo, Problem, canonical
from portatile.space import ParameterSpace
from portatile.trials import Budget

NAME = "portable"
_GROUP = 8  # candidates that are measured together: a device is opened once for all
_RANDOM = 2  # of them that are drawn at random
_POOL = 64  # legal configurations of a device from which those are drawn

Seconds = Callable[[DeviceInfo, Sequence[Config]], Mapping[str, float]]
"""Measures configurations, as a device runs them, on it: seconds by canonical text, without those that fail."""


@dataclass(frozen=True)
class Portable:
    """The configuration, how many were tried, and Pennycook's measure by the search's own times."""

    config: Config
    tried: int
    score: float


@dataclass(frozen=True)
class Search:
    """What is looked for: a problem's configuration for ``devices``, from ``winners`` on, within ``budget`` (evaluations: candidates)."""

    problem: Problem
    devices: tuple[DeviceInfo, ...]
    winners: tuple[Config, ...]
    budget: Budget
    seed: int = 0


def search(asked: Search, seconds: Seconds, say: Callable[[str], None] = lambda text: None) -> Portable | None:
    """The best found; None where nothing runs on all of the devices."""
    started = time.monotonic()
    workload = workloads.get(asked.problem.workload)
    spaces = [workload.space(asked.problem, info) for info in asked.devices]
    rng = np.random.default_rng(asked.seed)
    best_of: dict[str, float] = {}
    sums: dict[str, float] = {}  # of losses, infinite for what does not run everywhere
    configs: dict[str, Config] = {}
    candidates = _candidates(asked, spaces, rng, sums, configs)
    for group in _groups(candidates, asked.budget.evaluations):
        texts = [canonical(config) for config in group]
        totals = dict.fromkeys(texts, 0.0)
        least = min(sums.values(), default=math.inf)
        for place, info in enumerate(asked.devices):
            left = len(asked.devices) - place - 1  # each of which loses at least nothing: 1
            alive = [text for text in texts if totals[text] + 1 + left < least]
            lowered = {text: canonical(workload.lowered(configs[text], info)) for text in alive}
            found = seconds(info, [workload.lowered(configs[text], info) for text in alive]) if alive else {}
            if found and info.id not in best_of:
                best_of[info.id] = min(found.values())  # of the winners, with whom the search begins
            for text in texts:
                took = found.get(lowered.get(text, ""))
                totals[text] += math.inf if took is None else max(took / best_of[info.id], 1.0)
        sums.update(totals)
        say(f"{NAME}: {len(sums)} tried, {_score(min(sums.values()), len(asked.devices)):.3f} of the devices' best")
        if asked.budget.seconds is not None and time.monotonic() - started > asked.budget.seconds:
            break
    best = min(sums, key=lambda text: sums[text], default=None)
    if best is None or not math.isfinite(sums[best]):
        return None
    return Portable(configs[best], len(sums), _score(sums[best], len(asked.devices)))


def _score(total: float, devices: int) -> float:
    return devices / total if math.isfinite(total) else 0.0


def _groups(candidates: Iterator[Config], most: int | None) -> Iterator[list[Config]]:
    """Candidates in groups, each drawn when the one before was measured; at most so many in all."""
    told = 0
    while group := list(islice(candidates, _GROUP if most is None else min(_GROUP, most - told))):
        told += len(group)
        yield group


def _candidates(
    asked: Search, spaces: Sequence[ParameterSpace], rng: np.random.Generator, sums: Mapping[str, float], configs: dict[str, Config]
) -> Iterator[Config]:
    """New configurations: the winners, then by turns neighbours of the best so far and random ones; ends when there are no more.

    ``configs`` takes what was told, by its text. It is read between groups, when ``sums`` knows what became of it.
    """

    def fresh(options: Sequence[Config]) -> Iterator[Config]:
        for config in options:
            text = canonical(config)
            if text not in configs and _everywhere(asked, spaces, config):
                configs[text] = config
                yield config

    for config in asked.winners:  # wherever they are legal: they set the measure
        if canonical(config) not in configs:
            configs[canonical(config)] = config
            yield config
    while True:
        known = [text for text in sums if math.isfinite(sums[text])]
        centre = configs[min(known, key=lambda text: sums[text])] if known else None
        nearby = [] if centre is None else _neighbours(asked, spaces, centre)
        rng.shuffle(nearby)
        scattered = [config for space in spaces for config in space.scatter(rng, _POOL)]
        rng.shuffle(scattered)
        new = [*islice(fresh(nearby), _GROUP - _RANDOM)]
        new += islice(fresh(scattered), _GROUP - len(new))
        if not new:
            return
        yield from new


def _neighbours(asked: Search, spaces: Sequence[ParameterSpace], config: Config) -> list[Config]:
    """In any device's space that holds it: rules differ, and so do values."""
    return [other for space in spaces if config in space for other in space.neighbours(config)]


def _everywhere(asked: Search, spaces: Sequence[ParameterSpace], config: Config) -> bool:
    """Whether every device's rules allow what it would run of ``config``."""
    workload = workloads.get(asked.problem.workload)
    return all(workload.lowered(config, info) in space for info, space in zip(asked.devices, spaces, strict=True))
