"""The strategies in the interface of a scorer of recorded search spaces: a function ``(problem, rng, budget)`` for each.

``problem.configs`` lists the legal configurations, ``problem.evaluate(config)`` gives seconds per run or infinity, and raises
once ``budget`` new configurations have been asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from portatile import strategies
from portatile.records import Config
from portatile.space import ParameterSpace


class Problem(Protocol):
    """What the scorer shows of a recorded space."""

    configs: Sequence[Config]

    def evaluate(self, config: Mapping[str, Any]) -> float:
        """Seconds per kernel run, or infinity for a failure."""


@dataclass(frozen=True)
class Outcome:
    """One replayed evaluation."""

    config: Config
    median: float


def replay(name: str, problem: Problem, rng: np.random.Generator, budget: int) -> None:
    """Let the strategy called ``name`` spend ``budget`` evaluations, one at a time, without a configuration to start with."""
    space = ParameterSpace.from_configs(problem.configs)
    search = strategies.get(name)(space, rng, ())
    outcomes = strategies.evaluate(search, lambda config: Outcome(config, problem.evaluate(config)))
    for _ in zip(range(budget), outcomes, strict=False):
        pass


def auto(problem: Problem, rng: np.random.Generator, budget: int) -> None:
    """The default of the tuner."""
    replay("auto", problem, rng, budget)


def gaussian(problem: Problem, rng: np.random.Generator, budget: int) -> None:
    """Gaussian process."""
    replay("gaussian", problem, rng, budget)


def genetic(problem: Problem, rng: np.random.Generator, budget: int) -> None:
    """Genetic algorithm."""
    replay("genetic", problem, rng, budget)


def annealing(problem: Problem, rng: np.random.Generator, budget: int) -> None:
    """Simulated annealing."""
    replay("annealing", problem, rng, budget)


def local(problem: Problem, rng: np.random.Generator, budget: int) -> None:
    """Hill climbing with restarts."""
    replay("local", problem, rng, budget)


def random(problem: Problem, rng: np.random.Generator, budget: int) -> None:
    """Uniform, without repetition."""
    replay("random", problem, rng, budget)


def exhaustive(problem: Problem, rng: np.random.Generator, budget: int) -> None:
    """In the order of the space."""
    replay("exhaustive", problem, rng, budget)
