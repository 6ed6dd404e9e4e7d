"""Inputs and expected results of TRSM: well-conditioned triangles, float64 substitution, and the rounding bound."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile import dtypes
from portatile.records import Problem
from portatile.workload import Expected, Inputs
from portatile.workloads import operands
from portatile.workloads.blocks import is_complex
from portatile.workloads.structured import cut, order, result
from portatile.workloads.triangular.recursion import forward

_ALPHAS = (1.0, 0.7, -1.25)
_COMPLEX = (1.0, 0.7j, -1.25 + 0.5j)
_SAMPLE = 16  # right-hand sides of a sampled reference
_ROWS = 128  # equations that the reference solves between two products of NumPy

Shapes = dict[str, tuple[int, ...]]


def inputs(problem: Problem, shapes: Shapes, rng: np.random.Generator) -> Inputs:
    """A with a diagonal in [1, 2) and elements in (-2/n, 0) off it; B in [0, 1).

    The solution is then positive and of B's magnitude for any order, and the sums that lead to it do not cancel, so that no missing part of
    them can go unnoticed. Everything that must not be read is NaN: the other triangle, and with ``diag="U"`` the diagonal.
    """
    layout, n = problem.layout, order(problem)
    memory = {name: operands.random(rng, layout[name], shapes[name], problem.dtype) for name in ("a", "b")}
    a, b = (operands.view(memory[name], layout[name], shapes[name]) for name in ("a", "b"))
    a = a[:1] if a.ndim > 2 and a.strides[0] == 0 else a  # a stack that shares one triangle
    a -= a.dtype.type(0.5)
    a *= a.dtype.type(2 / max(n, 1))
    a[..., ~np.tri(n, dtype=bool) if problem.options["uplo"] == "L" else np.tri(n, k=-1, dtype=bool)] = np.nan
    lines, on = a.shape[:-1], np.arange(n)
    directions = np.exp(2j * np.pi * rng.random(lines)) if is_complex(problem) else 1.0
    a[..., on, on] = np.nan if problem.options["diag"] == "U" else directions * (1 + rng.random(lines))
    b += b.dtype.type(0.5)
    alphas = _COMPLEX if is_complex(problem) else _ALPHAS
    return Inputs(memory, {"alpha": alphas[int(rng.integers(len(alphas)))]})


def solution(problem: Problem, shapes: Shapes, given: Inputs, sample: np.random.Generator | None) -> Expected:
    """X and the scale of its rounding errors, see ``bound``; with ``sample``, of some right-hand sides."""
    name = result(problem)
    layout = problem.layout[name]
    left = problem.options["side"] == "L"
    a, b = (operands.view(given.operands[name], problem.layout[name], shapes[name]) for name in ("a", "b"))
    chosen = np.arange(b.shape[left]) if sample is None or 0 in b.shape else operands.lines(sample, b.shape[left], _SAMPLE)
    values, scale = solved(problem, a, b[:, chosen] if left else b[chosen], given)
    if sample is None:
        return operands.whole(given.operands[name], layout, values, scale)
    everything = np.arange(values.shape[0 if left else 1])
    rows, columns = (everything, chosen) if left else (chosen, everything)
    places = operands.places(layout, rows[:, None], columns[None, :])
    return Expected(values.ravel(), scale.ravel(), places.ravel())


def solved(problem: Problem, a: NDArray[Any], b: NDArray[Any], given: Inputs) -> tuple[NDArray[Any], NDArray[Any]]:
    """X for the right-hand sides ``b``, and the scale of its rounding errors."""
    alpha = dtypes.factor(problem.dtype, given.scalars.get("alpha", 1.0))
    if alpha == 0:
        return np.zeros(b.shape), np.zeros(b.shape)
    left = problem.options["side"] == "L"
    order = slice(None) if forward(problem) else slice(None, None, -1)
    equations = operands.wide((b if left else b.T)[order])  # one column for each right-hand side
    values, scale = (x[order] for x in _substitute(_lower(problem, a), alpha * equations, problem.options["diag"] == "U"))
    return (values, scale) if left else (values.T, scale.T)


def bound(problem: Problem, method: str, nb: int) -> float:
    """The rounding error as a multiple of the scale M M |X|, with M = K(L)^-1 |L| >= |L^-1| |L| and K(L) the comparison matrix of L.

    Substitution in any order, products included, solves (L + D) X = alpha B with |D| <= gamma_n |L| for order n (Higham,
    Accuracy and Stability of Numerical Algorithms, 2nd ed., theorem 8.5), so |error| <= gamma_n |L^-1| |L| |X| to first
    order. n grows by the roundings of the parts that a product may split its sum into. Inverses of NB x NB blocks, each
    with an error of at most c gamma_NB |Y| |L| |Y| (sections 14.2.1 and 14.2.2, c = 2 for each doubling), add c gamma_NB
    |L| |L^-1| |L| |X| to the residual; refinement makes it no larger. The factor 2 covers higher orders and, for float64,
    the reference's own error. Complex products and quotients have errors of 2 sqrt(2) u at most (section 3.6).

    The theorem requires only that each product of k terms errs by gamma_k |A| |X| at most, element by element. Emulated products err no
    more than native ones, so the bound is the same. Three real products in place of four err by sqrt(10) gamma_(k + 108): see ``gemm3m``.
    Products in tf32 add the truncation of each term: see ``structured.cut``.
    """
    n = order(problem)
    levels = 1 + math.ceil(math.log2(max(n / nb, 1)))
    three = problem.options.get("precision") == "3m"
    total = operands.gamma(n + 4 + (108 if three else 32) * levels, problem.dtype) + cut(problem)
    if method != "substitute":
        total += 2 * (1 + math.log2(nb)) * operands.gamma(min(nb, n) + 32, problem.dtype)
    return 2 * total * ((math.sqrt(10) if three else 2 * math.sqrt(2)) if is_complex(problem) else 1)


def _lower(problem: Problem, a: NDArray[Any]) -> NDArray[Any]:
    """A view of A in which the system is L X = B with L lower triangular."""
    across = (problem.options["side"] == "L") == (problem.options["trans"] in ("N", "R"))
    a = a.conj() if problem.options["trans"] in ("C", "R") else a
    transposed = a if across else a.T
    return transposed if forward(problem) else transposed[::-1, ::-1]


def _substitute(lower: NDArray[Any], right: NDArray[Any], unit: bool) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """X of L X = ``right`` and M M |X|; reads L's lower triangle only, without the diagonal if ``unit``."""
    n, count = right.shape
    x, once, twice = np.zeros((n, count), right.dtype), np.zeros((n, count)), np.zeros((n, count))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for start in range(0, n, _ROWS):
            stop = min(start + _ROWS, n)
            rows = operands.wide(lower[start:stop, :stop])
            rows[:, start:] = np.tril(rows[:, start:], -1)
            size, diagonal = np.abs(rows), np.ones(stop - start) if unit else operands.wide(np.diagonal(lower)[start:stop])
            explained = rows[:, :start] @ x[:start]
            behind = [size[:, :start] @ known[:start] for known in (np.abs(x), once, twice)]
            for i, row in enumerate(range(start, stop)):
                here, line, pivot = slice(start, row), size[i, start : start + i], abs(diagonal[i])
                x[row] = (right[row] - explained[i] - rows[i, start : start + i] @ x[here]) / diagonal[i]
                through_x = behind[0][i] + line @ np.abs(x[here])
                through_once, through_twice = behind[1][i] + line @ once[here], behind[2][i] + line @ twice[here]
                once[row] = (through_x + pivot * np.abs(x[row]) + through_once) / pivot
                twice[row] = (through_once + pivot * once[row] + through_twice) / pivot
    return x, twice
