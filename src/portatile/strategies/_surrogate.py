"""Gaussian-process regression over points in the unit cube: a few measurements predict every other point.

Zero mean, squared-exponential kernel with a weight per coordinate, independent noise, signal variance profiled out;
C. E. Rasmussen and C. K. I. Williams, "Gaussian Processes for Machine Learning" (2006), equations 2.23-2.26 and 5.8-5.9.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from portatile.strategies._threads import one_thread

Array = NDArray[np.float64]

# The prior: weights (squared inverse lengths) of 1, which is a correlation of exp(-1/2) across a whole coordinate, and noise of a tenth of
# the signal, each known to a factor of e^1.5. A dozen measurements overrule it.
_LOG_WEIGHT, _LOG_NOISE, _SPREAD = 0.0, math.log(1e-2), 1.5
_REACH = 6.0  # the largest distance of the fit from the prior, in logarithms
_JITTER = 1e-8


class Surrogate:
    """A Gaussian process that is refitted from time to time and extended by single observations in between.

    ``condition`` sets the observations and the candidates; ``extend`` adds one observation in O(observations x candidates); ``widen`` adds
    candidates. ``predict`` takes the observed values, so these may be rescaled at any time.
    """

    def __init__(self, dimensions: int) -> None:
        self._centre = np.append(np.full(dimensions, _LOG_WEIGHT), _LOG_NOISE)
        self._theta = self._centre.copy()

    @one_thread()
    def fit(self, points: Array, values: Array, steps: int) -> None:
        """Climb the posterior of the hyper-parameters from where they are: ``steps`` sign-based steps (Rprop)."""
        gaps = (points[:, None, :] - points[None, :, :]) ** 2
        theta, best = self._theta.copy(), self._theta
        step, last = np.full(len(theta), 0.3), np.zeros(len(theta))
        lowest = math.inf
        for _ in range(steps + 1):
            loss, slope = self._loss(theta, gaps, values)
            if loss < lowest:
                lowest, best = loss, theta
            agree = np.sign(slope * last)
            step = np.where(agree > 0, np.minimum(step * 1.3, 1.5), np.where(agree < 0, step / 2, step))
            theta = np.clip(theta - np.sign(slope) * step, self._centre - _REACH, self._centre + _REACH)
            last = slope
        self._theta = best

    @one_thread()
    def condition(self, points: Array, candidates: Array) -> None:
        """Use these observed points, [n, dimensions], and predict for ``candidates``, [m, dimensions]."""
        gram = self._kernel(points, points)
        gram[np.diag_indices(len(points))] += self._noise
        self._inverse = np.linalg.inv(np.linalg.cholesky(gram))
        self._points, self._candidates = points, candidates
        self._cross = self._inverse @ self._kernel(points, candidates)
        self._variance = 1.0 - np.einsum("ij,ij->j", self._cross, self._cross)

    def extend(self, point: Array) -> None:
        """Observe one more point, [dimensions]: one more row of the inverse Cholesky factor."""
        count = len(self._points)
        row = _times(self._correlation(point, self._points), self._inverse.T)
        pivot = math.sqrt(max(1.0 + self._noise - float(row @ row), _JITTER))
        cross = (self._correlation(point, self._candidates) - _times(row, self._cross)) / pivot
        inverse = np.zeros((count + 1, count + 1))
        inverse[:count, :count] = self._inverse
        inverse[count, :count] = -_times(row, self._inverse) / pivot
        inverse[count, count] = 1.0 / pivot
        self._inverse = inverse
        self._points = np.vstack([self._points, point])
        self._cross = np.vstack([self._cross, cross])
        self._variance = self._variance - cross**2

    @one_thread()
    def widen(self, candidates: Array) -> None:
        """Predict for these candidates, too."""
        cross = self._inverse @ self._kernel(self._points, candidates)
        self._candidates = np.vstack([self._candidates, candidates])
        self._cross = np.hstack([self._cross, cross])
        self._variance = np.append(self._variance, 1.0 - np.einsum("ij,ij->j", cross, cross))

    def predict(self, values: Array) -> tuple[Array, Array]:
        """Mean and standard deviation at the candidates, given the values at the observed points in their order."""
        whitened = _times(values, self._inverse.T)
        scale = whitened @ whitened / len(values)
        return _times(whitened, self._cross), np.sqrt(np.maximum(self._variance, _JITTER) * scale)

    def prior_correlation(self, candidate: int) -> Array:
        """The prior correlation of one candidate with every candidate."""
        return self._correlation(self._candidates[candidate], self._candidates)

    def _correlation(self, point: Array, points: Array) -> Array:
        correlation: Array = np.exp(-_times(np.exp(self._theta[:-1]), ((points - point) ** 2).T) / 2)
        return correlation

    @property
    def _noise(self) -> float:
        return math.exp(self._theta[-1]) + _JITTER

    def _kernel(self, a: Array, b: Array) -> Array:
        scale = np.exp(self._theta[:-1] / 2)
        a, b = a * scale, b * scale
        gaps = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1)[None, :] - 2 * a @ b.T
        kernel: Array = np.exp(-np.maximum(gaps, 0.0) / 2)
        return kernel

    def _loss(self, theta: Array, gaps: Array, values: Array) -> tuple[float, Array]:
        """The negative logarithm of the posterior of ``theta``, up to a constant, and its gradient."""
        count = len(values)
        weights, noise = np.exp(theta[:-1]), math.exp(theta[-1])
        kernel = np.exp(-np.einsum("ijk,k->ij", gaps, weights) / 2)
        gram = kernel.copy()
        gram[np.diag_indices(count)] += noise + _JITTER
        factor = np.linalg.cholesky(gram)
        inverse = np.linalg.inv(gram)
        solved = inverse @ values
        scale = max(float(values @ solved) / count, 1e-12)
        pull = (theta - self._centre) / _SPREAD
        loss = count / 2 * math.log(scale) + np.log(np.diag(factor)).sum() + (pull**2).sum() / 2
        sensitivity = inverse - np.outer(solved, solved) / scale
        slope = np.append(-weights / 4 * np.einsum("ij,ijk->k", sensitivity * kernel, gaps), np.trace(sensitivity) * noise / 2)
        return float(loss), slope + pull / _SPREAD


def _times(vector: Array, matrix: Array) -> Array:
    """``vector @ matrix`` on one thread: these products are many and small, so that threads cost more than they save."""
    product: Array = np.einsum("i,ij->j", vector, matrix)
    return product
