"""What a GEMM is given and must return: random operands, float64 reference, rounding bound, awkward problems."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from portatile.records import Problem
from portatile.workload import Expected, Inputs, Workload
from portatile.workloads import operands
from portatile.workloads.gemm.passing import operand_shapes

_FACTORS = ((1.0, 0.0), (1.0, 1.0), (-0.75, 0.5), (0.5, -1.25), (1.25, 0.0), (0.0, 0.75))
SAMPLE = 64  # rows and columns of a sampled reference


def inputs(problem: Problem, rng: np.random.Generator) -> Inputs:
    """A, B and C uniform in [-0.5, 0.5); C is NaN where beta is 0, since it must not be read then.

    alpha and beta are one of some pairs of the BLAS's cases.
    """
    alpha, beta = factors(rng)
    memory = {
        name: operands.storage(problem.layout[name], shape, problem.dtype)
        if name == "c" and beta == 0
        else operands.random(rng, problem.layout[name], shape, problem.dtype)
        for name, shape in operand_shapes(problem).items()
    }
    return Inputs(memory, {"alpha": alpha, "beta": beta})


def factors(rng: np.random.Generator) -> tuple[float, float]:
    """alpha and beta of one of the BLAS's cases."""
    return _FACTORS[int(rng.integers(len(_FACTORS)))]


def reference(problem: Problem, given: Inputs, sample: np.random.Generator | None) -> Expected:
    """C in float64 with scale |alpha| |A| |B| + |beta| |C|; with ``sample``, where some rows meet some columns."""
    kind = np.dtype(problem.dtype).type
    alpha, beta = (float(kind(given.scalars.get(name, default))) for name, default in (("alpha", 1.0), ("beta", 0.0)))
    stored = {n: operands.view(given.operands[n], problem.layout[n], shape) for n, shape in operand_shapes(problem).items()}
    a = stored["a"] if problem.options["trans_a"] == "N" else stored["a"].T
    b = stored["b"] if problem.options["trans_b"] == "N" else stored["b"].T
    c = stored["c"]
    if sample is None:
        return operands.whole(given.operands["c"], problem.layout["c"], *product(alpha, a, b, beta, c))
    rows, columns = (operands.lines(sample, problem.sizes[s], SAMPLE) for s in "mn")
    values, scale = product(alpha, a[rows], b[:, columns], beta, c[np.ix_(rows, columns)])
    places = operands.places(problem.layout["c"], rows[:, None], columns[None, :])
    return Expected(values.ravel(), scale.ravel(), places.ravel())


def product(
    alpha: float, a: NDArray[np.generic], b: NDArray[np.generic], beta: float, c: NDArray[np.generic]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(value, scale) of alpha a b + beta c in float64, for matrices or stacks of them; a factor of 0 reads nothing."""
    values, scale = np.zeros(c.shape), np.zeros(c.shape)
    if alpha != 0:
        left, right = a.astype(np.float64), b.astype(np.float64)
        values += alpha * (left @ right)
        scale += abs(alpha) * (np.abs(left) @ np.abs(right))
    if beta != 0:
        old = c.astype(np.float64)
        values += beta * old
        scale += abs(beta) * np.abs(old)
    return values, scale


def bound(problem: Problem, parts: int) -> float:
    """gamma_(k + parts + 3): a sum of k products in any order with at most k + parts - 1 roundings on the way of each, one for
    each factor and one for the last addition (Higham, Accuracy and Stability of Numerical Algorithms, section 3.5); the
    float64 reference's own gamma_(k + 3) is added.
    """
    k = problem.sizes["k"]
    return operands.gamma(k + parts + 3, problem.dtype) + operands.gamma(k + 3, "float64")


def awkward(workload: Workload, problem: Problem) -> list[Problem]:
    """Sizes that no tile divides, single rows, columns and terms, no terms at all; padded rows, offsets, loose alignment."""
    cases = (
        ((1, 1, 1), 0, 0, 128),
        ((67, 131, 37), 3, 5, 16),
        ((129, 65, 72), 4, 4, 128),
        ((5, 259, 8), 1, 0, 8),
        ((140, 1, 33), 0, 1, 128),
        ((96, 160, 64), 0, 0, 128),
        ((33, 18, 0), 2, 3, 128),
    )
    found = []
    for sizes, pad, offset, alignment in cases:
        bare = workload.problem(dict(zip("mnk", sizes, strict=True)), problem.dtype, problem.options)
        layout = {name: operands.padded(shape, pad, offset, alignment) for name, shape in operand_shapes(bare).items()}
        found.append(workload.problem(bare.sizes, problem.dtype, problem.options, layout))
    return found
