"""The default strategy: a Gaussian process that models the fast half, considers crossovers of the fastest, and stays close to them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from portatile.records import Config
from portatile.space import ParameterSpace
from portatile.strategies import Search
from portatile.strategies._encoding import Code
from portatile.strategies.gaussian import OPENING, POOL, TOP, Array, Explorer
from portatile.strategies.genetic import POPULATION, child

SOFTENING = 0.3  # weight of a difference between slow configurations, relative to one between fast ones
CHILDREN = 16  # crossovers for each fit
STEPS = 2  # parameters in which a near configuration may differ from a fast one


def search(space: ParameterSpace, rng: np.random.Generator, start: Sequence[Config], *, opening: int = OPENING) -> Search:
    """Spread a few configurations over the space, then follow the models; ends when nothing is left."""
    return _Default(space, rng, opening).search(start)


class _Default(Explorer):
    def targets(self, logarithms: Array) -> Array:
        """Compress times slower than the median: their exact values do not help, and would dominate the scale of the fast ones."""
        middle = np.median(logarithms)
        softened: Array = np.where(logarithms > middle, middle + SOFTENING * (logarithms - middle), logarithms)
        return softened

    def candidates(self) -> list[Code]:
        """Also crossovers of the fastest configurations, unless every configuration is a candidate already."""
        anywhere = super().candidates()
        if self.domain.listed is not None and len(self.domain.listed) <= POOL:
            return anywhere
        fastest = sorted(self.known, key=lambda code: self.known[code])[:POPULATION]
        children = [child(fastest, self.domain, self.rng) for _ in range(CHILDREN)]
        return [*anywhere, *(code for code in children if self.domain.legal(code))]

    def near(self) -> NDArray[np.bool_]:
        """The configurations that differ from one of the fastest few in at most two parameters.

        With many evaluations in flight the model would spend most of them far away, where it is least certain; a large space always has
        such places. A slightly better configuration than the best is usually two steps from it.
        """
        fastest = np.array(sorted(self.known, key=lambda code: self.known[code])[:TOP])
        return np.asarray(((self.pool[:, None, :] != fastest).sum(axis=2) <= STEPS).any(axis=1))
