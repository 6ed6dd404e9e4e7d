"""The configurations that a search tries first: the default, the request's own, warm starts, and what the model ranks first."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from portatile import select, strategies
from portatile.records import Config, canonical
from portatile.space import ParameterSpace
from portatile.tuning.search.cooperation import Participant
from portatile.tuning.search.planner import Planner
from portatile.tuning.search.request import TuningRequest

_DRAWN = 64  # random configurations that the model ranks


class StartedSearch(NamedTuple):
    """A strategy that has started, the configurations that it requests first, and the canonical texts of the warm starts among them."""

    search: strategies.Search
    requested: Sequence[Config]
    warm: frozenset[str]


def start_search(
    strategy: strategies.Strategy,
    request: TuningRequest,
    planner: Planner,
    space: ParameterSpace,
    default: Config,
    cooperation: Participant,
) -> StartedSearch:
    """Start a strategy on a space. In a large space this takes as long as compiling the default does."""
    start, warm = initial(request, planner, space, default, cooperation)
    search = strategy(space, cooperation.rng(request.seed), start)
    if request.suggested:
        search = strategies.with_suggestions(search, [config for config in request.suggested if config in space])
    return StartedSearch(search, next(search, ()), warm)


def initial(
    request: TuningRequest, planner: Planner, space: ParameterSpace, default: Config, cooperation: Participant
) -> tuple[list[Config], frozenset[str]]:
    """The legal configurations to try first, and the canonical texts of the warm starts among them.

    Cooperating searches divide them, but each tries the default and the request's own.
    """
    own = {canonical(config): config for config in (default, *request.start)}
    known = planner.results(request.problem.workload) if request.warm else ()
    choices = select.candidates(planner.workload, request.problem, planner.info, known, request.warm)
    near = {canonical(choice.config): choice.config for choice in choices if choice.config in space}
    chosen = {**own, **cooperation.share(near)}
    if request.model and request.ranked:
        chosen |= cooperation.share(
            cooperation.once("ranked", partial(_ranked, request, planner, space, request.ranked * cooperation.count))
        )
    return [config for config in chosen.values() if config in space], frozenset(near.keys() - own.keys())


def _ranked(request: TuningRequest, planner: Planner, space: ParameterSpace, count: int) -> dict[str, Config]:
    """The ``count`` configurations that the model expects to be the fastest among ``_DRAWN`` random ones."""
    drawn = space.scatter(np.random.default_rng([request.seed, 2]), _DRAWN)
    return {canonical(config): config for config in planner.ranked(drawn)[:count]}
