"""Inputs and expected results of GEMM: random operands, the float64 reference, the rounding bound, edge-case problems."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile import dtypes
from portatile.dtypes import Element
from portatile.records import Problem
from portatile.workload import Expected, Inputs, Workload
from portatile.workloads import operands
from portatile.workloads.gemm.passing import operand_shapes

_FACTORS = ((1.0, 0.0), (1.0, 1.0), (-0.75, 0.5), (0.5, -1.25), (1.25, 0.0), (0.0, 0.75))
_WHOLE = ((1, 0), (1, 1), (-3, 2), (2, -5), (5, 0), (0, 3))
_COMPLEX = ((1.0, 0.0), (1.0, 1.0), (-0.75 + 0.5j, 0.5 - 0.25j), (0.5j, -1.25), (1.25 - 1j, 0.0), (0.0, 0.75j))
_OVERFLOWS = 65520.0  # the least number that rounds to infinity in float16
_HIGHER = 1.0001  # makes a bound to first order a strict one
SAMPLE = 64  # rows and columns of a sampled reference


def element(problem: Problem, name: str) -> Element:
    """The element type of A, B or C."""
    types = dtypes.product(problem.dtype)
    return types.result if name == "c" else types.operand


def inputs(problem: Problem, rng: np.random.Generator) -> Inputs:
    """A, B and C uniform in [-0.5, 0.5), or whole numbers of the full range. If beta is 0, C is NaN, because it must not be read.

    alpha and beta are a random pair of those that the BLAS treats specially, and of general ones.

    alpha and beta are one of some pairs of the BLAS's cases.
    """
    alpha, beta = factors(rng, problem.dtype)
    memory = {
        name: operands.storage(problem.layout[name], shape, element(problem, name).name)
        if name == "c" and beta == 0
        else operands.random(rng, problem.layout[name], shape, element(problem, name).name)
        for name, shape in operand_shapes(problem).items()
    }
    return Inputs(memory, {"alpha": alpha, "beta": beta})


def factors(rng: np.random.Generator, dtype: str = "float32") -> tuple[complex, complex]:
    """A random pair of alpha and beta, among them 0 and 1, which the BLAS treats specially."""
    types = dtypes.product(dtype)
    cases = _COMPLEX if types.complex else _WHOLE if types.scalar == "int32" else _FACTORS
    return cases[int(rng.integers(len(cases)))]


def given_factors(problem: Problem, given: Inputs) -> tuple[complex, complex]:
    """alpha and beta as the kernels receive them, rounded to their type."""
    return (
        dtypes.factor(problem.dtype, given.scalars.get("alpha", 1.0)),
        dtypes.factor(problem.dtype, given.scalars.get("beta", 0.0)),
    )


def op(stored: NDArray[Any], how: str) -> NDArray[Any]:
    """The matrix, or each of a stack, as stored (N), transposed (T), conjugate transposed (C) or conjugated (R)."""
    operand = stored.swapaxes(-1, -2) if how in "TC" else stored
    return operand.conj() if how in "CR" and operand.dtype.kind == "c" else operand


def reference(problem: Problem, given: Inputs, sample: np.random.Generator | None) -> Expected:
    """C in float64 with the scale |alpha| |A| |B| + |beta| |C|; with ``sample``, only in some rows and columns."""
    alpha, beta = given_factors(problem, given)
    stored = {n: operands.view(given.operands[n], problem.layout[n], shape) for n, shape in operand_shapes(problem).items()}
    a, b = (op(stored[name], str(problem.options[f"trans_{name}"])) for name in "ab")
    c = stored["c"]
    result = element(problem, "c")
    if sample is None:
        return operands.whole(given.operands["c"], problem.layout["c"], *product(alpha, a, b, beta, c, result))
    rows, columns = (operands.lines(sample, problem.sizes[s], SAMPLE) for s in "mn")
    values, scale = product(alpha, a[rows], b[:, columns], beta, c[np.ix_(rows, columns)], result)
    places = operands.places(problem.layout["c"], rows[:, None], columns[None, :])
    return Expected(values.ravel(), scale.ravel(), places.ravel())


def product(
    alpha: complex, a: NDArray[Any], b: NDArray[Any], beta: complex, c: NDArray[Any], result: Element | None = None
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """(value, scale) of alpha a b + beta c in float64 or complex128, for matrices or stacks; an operand whose factor is 0 is not read.

    Integers are computed modulo 2**32, without rounding. A result in a narrow float type has an absolute rounding error, too, below its
    smallest normal number, so the scale is at least that number.

    Integers are computed modulo 2**32 and do not round. A result of few bits rounds by its unit of what it is, or where that is less than
    its smallest normal number, of that: then the scale is no less.
    """
    if c.dtype.kind == "i":
        return _whole_product(int(alpha.real), a, b, int(beta.real), c)
    kind = np.complex128 if c.dtype.kind == "c" else np.float64
    values: NDArray[Any] = np.zeros(c.shape, kind)
    scale = np.zeros(c.shape)
    if alpha != 0:
        left, right = operands.wide(a), operands.wide(b)
        values += alpha * (left @ right)
        scale += abs(alpha) * (np.abs(left) @ np.abs(right))
    if beta != 0:
        old = operands.wide(c)
        values += beta * old
        scale += abs(beta) * np.abs(old)
    if result is not None and result.stored != result.real:
        scale = np.where(scale > 0, np.maximum(scale, result.normal), 0)
    return values if result is None else held(values, result), scale


def held(values: NDArray[Any], result: Element) -> NDArray[Any]:
    """``values`` with infinities where they exceed what a float16 result can hold."""
    return np.where(np.abs(values) >= _OVERFLOWS, np.copysign(np.inf, values), values) if result.name == "float16" else values


def _whole_product(
    alpha: int, a: NDArray[Any], b: NDArray[Any], beta: int, c: NDArray[Any]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The product of int8 operands with an int32 result, modulo 2**32; see ``product``."""
    exact = np.zeros(c.shape, np.int64)
    if alpha != 0:  # in float64, where NumPy is fast and sums of 2**39 such products are exact
        exact += alpha * (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64)
    if beta != 0:
        exact += beta * c.astype(np.int64)
    return exact.astype(np.uint32).astype(np.int32).astype(np.float64), np.zeros(c.shape)


def bound(problem: Problem, parts: int) -> float:
    """gamma_(k + parts + 3): each of the k products of a sum passes at most k + parts - 1 additions, in any order, one multiplication by
    each factor, and the last addition (Higham, Accuracy and Stability of Numerical Algorithms, section 3.5). The float64 reference's own
    gamma_(k + 3) is added.

    The real and the imaginary part of a complex product are each a difference of two such sums: four more roundings, of moduli that are
    sqrt(2) times those of the parts (lemma 3.5); the factors are complex, too. Operands of 16 and 8 bits have products that are exact in
    float32, and a narrow result is rounded once more. Integers are exact. tfloat32 truncates both factors of a product.
    """
    types, k = dtypes.product(problem.dtype), problem.sizes["k"]
    if types.real == "uint32":  # exact sums, which become floats, are scaled and added to C
        return 0.0 if types.result.real == "uint" else operands.gamma(6, "float32") + types.result.unit * _HIGHER
    more, wider = (7, sqrt(2)) if types.complex else (3, 1.0)
    sums = wider * (operands.gamma(k + parts + more, types.real) + operands.gamma(k + more, "float64"))
    if types.operand.name == "tfloat32":
        sums += 2 * types.operand.unit * (1 + types.operand.unit)
    last = types.result.unit if types.result.stored != types.result.real else 0.0
    return sums + last * (1 + sums)


def awkward(workload: Workload, problem: Problem) -> list[Problem]:
    """Problems of sizes that no tile divides, with single rows, columns and terms or none, padded rows, offsets and loose alignment."""
    cases = (
        ((1, 1, 1), 0, 0, 128),
        ((67, 131, 37), 3, 5, 16),
        ((129, 65, 72), 4, 4, 128),
        ((5, 259, 8), 1, 0, 8),
        ((140, 1, 33), 0, 1, 128),
        ((96, 160, 64), 0, 0, 128),
        ((33, 18, 0), 2, 3, 128),
    )
    problems = []
    for sizes, pad, offset, alignment in cases:
        bare = workload.problem(dict(zip("mnk", sizes, strict=True)), problem.dtype, problem.options)
        layout = {name: operands.padded(shape, pad, offset, alignment) for name, shape in operand_shapes(bare).items()}
        problems.append(workload.problem(bare.sizes, problem.dtype, problem.options, layout))
    return problems
