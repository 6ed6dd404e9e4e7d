"""Kernel Tuner's strategies in the interface of a scorer of recorded search spaces, for comparison with portatile's.

Each run has a search space object of its own: Kernel Tuner keeps lists of neighbours in it, and where an earlier run went would
leak into the next. Its random numbers come from Python's and NumPy's global generators, which are seeded from the run's own.
"""

from __future__ import annotations

import contextlib
import importlib
import random
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from kernel_tuner.interface import Options
from kernel_tuner.runners.runner import Runner
from kernel_tuner.searchspace import Searchspace
from kernel_tuner.util import InvalidConfig, RuntimeFailedConfig, StopCriterionReached, TuningBudget


class Problem(Protocol):
    """What the scorer shows of a recorded space."""

    params: Mapping[str, Sequence[Any]]
    configs: Sequence[Mapping[str, Any]]

    def evaluate(self, config: Mapping[str, Any]) -> float:
        """Seconds per kernel run, or infinity for a failure."""

    def index_of(self, config: Mapping[str, Any]) -> int | None:
        """The configuration's place, None if it is not legal."""


class _Recorded(Runner):
    """Answers from the recording."""

    def __init__(self, problem: Problem) -> None:
        super().__init__()
        self.problem = problem
        self.seen: set[tuple[Any, ...]] = set()

    def get_device_info(self) -> Any:
        return None

    def get_environment(self, tuning_options: Any) -> dict[str, Any]:
        return {}

    def run(self, parameter_space: Sequence[Sequence[Any]], tuning_options: Any) -> list[Any]:
        results: list[Any] = []
        for values in parameter_space:
            config = dict(zip(self.problem.params, values, strict=True))
            if tuning_options.budget.is_done():
                results.append(None)
            elif self.problem.index_of(config) is None:
                results.append({**config, "__error__": InvalidConfig()})
            else:
                seconds = self.problem.evaluate(config)
                if tuple(values) not in self.seen:
                    self.seen.add(tuple(values))
                    tuning_options.budget.add_evaluations(1)
                results.append(
                    {**config, "time": 1e3 * seconds} if np.isfinite(seconds) else {**config, "__error__": RuntimeFailedConfig()}
                )
        return results


def replay(module: str, problem: Problem, rng: np.random.Generator, budget: int) -> None:
    """Let a strategy of Kernel Tuner spend ``budget`` evaluations, with its default options."""
    random.seed(int(rng.integers(2**32)))
    np.random.seed(int(rng.integers(2**32)))
    params = {name: list(values) for name, values in problem.params.items()}
    cache = {"tune_params": params, "cache": {str(place): dict(config) for place, config in enumerate(problem.configs)}}
    space = Searchspace(None, None, None, from_cache=cache)
    chosen = Options(
        objective=["time"],
        objective_higher_is_better=[False],
        strategy_options=Options({}),
        tune_params=params,
        budget=TuningBudget(max_fevals=budget),
        verbose=False,
        restrictions=None,
    )
    with contextlib.suppress(StopCriterionReached):
        importlib.import_module(f"kernel_tuner.strategies.{module}").tune(space, _Recorded(problem), chosen)


def adaptive_tabu_greywolf(problem: Problem, rng: np.random.Generator, budget: int) -> None:
    """The strategy that scores best of its own on these spaces."""
    replay("gen_adaptive_tabu_greywolf", problem, rng, budget)


def genetic_algorithm(problem: Problem, rng: np.random.Generator, budget: int) -> None:
    """Its genetic algorithm."""
    replay("genetic_algorithm", problem, rng, budget)


def random_sample(problem: Problem, rng: np.random.Generator, budget: int) -> None:
    """Its random search, which must score 0: a check of this file."""
    replay("random_sample", problem, rng, budget)
