"""Inputs and expected results of batched GEMM: random stacks, float64 reference, edge-case problems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from portatile.records import Layout, Problem
from portatile.workload import Expected, Inputs, Workload
from portatile.workloads import operands
from portatile.workloads.gemm import reference as single

_SAMPLE = 16  # problems in a sampled reference


def inputs(problem: Problem, shapes: Mapping[str, tuple[int, ...]], rng: np.random.Generator) -> Inputs:
    """Stacks uniform in [-0.5, 0.5), with C NaN if beta is 0; alpha and beta as for one product."""
    alpha, beta = single.factors(rng, problem.dtype)
    memory = {
        name: operands.storage(problem.layout[name], shape, single.element(problem, name).name)
        if name == "c" and beta == 0
        else operands.random(rng, problem.layout[name], shape, single.element(problem, name).name)
        for name, shape in shapes.items()
    }
    return Inputs(memory, {"alpha": alpha, "beta": beta})


def reference(problem: Problem, shapes: Mapping[str, tuple[int, ...]], given: Inputs, sample: np.random.Generator | None) -> Expected:
    """Every C in float64 with the scale of ``gemm``; with ``sample``, some rows and columns of some problems."""
    alpha, beta = single.given_factors(problem, given)
    stored = {name: operands.view(given.operands[name], problem.layout[name], shape) for name, shape in shapes.items()}
    a, b = (single.op(stored[name], str(problem.options[f"trans_{name}"])) for name in "ab")
    c: NDArray[np.generic] = stored["c"]
    result = single.element(problem, "c")
    if sample is None:
        return operands.whole(given.operands["c"], problem.layout["c"], *single.product(alpha, a, b, beta, c, result))
    each, rows, columns = (operands.lines(sample, problem.sizes[s], single.SAMPLE if s in "mn" else _SAMPLE) for s in ("batch", "m", "n"))
    chosen = (each[:, None, None], rows[None, :, None], columns[None, None, :])
    values, scale = single.product(alpha, a[each][:, rows], b[each][:, :, columns], beta, c[chosen], result)
    places = operands.places(problem.layout["c"], *chosen)
    return Expected(values.ravel(), scale.ravel(), places.ravel())


def awkward(workload: Workload, problem: Problem) -> list[Problem]:
    """Problems with gaps between rows and between matrices, offsets, loose alignment, interleaved rows, a shared A or B, and k = 0."""
    problems = []
    for count, sizes, pad, offset, alignment, shared in (
        (1, (1, 1, 1), 0, 0, 128, ""),
        (3, (67, 35, 37), 3, 5, 16, "b"),
        (5, (16, 64, 24), 4, 4, 128, ""),
        (4, (33, 70, 16), 0, 0, 128, "a"),
        (7, (5, 9, 8), 1, 0, 8, ""),
        (2, (33, 18, 0), 2, 3, 128, ""),
    ):
        bare = workload.problem({"batch": count, **dict(zip("mnk", sizes, strict=True))}, problem.dtype, problem.options)
        layout = {}
        for name, (_, rows, columns) in workload.shapes(bare).items():
            step = 0 if name == shared else rows * (columns + pad) + 3 * pad
            layout[name] = Layout((step, columns + pad, 1), offset, alignment)
        if count == 7:  # row r of problem i lies beside row r of problem i + 1
            layout["c"] = replace(layout["c"], strides=(sizes[1] + 1, count * (sizes[1] + 1), 1))
        problems.append(workload.problem(bare.sizes, problem.dtype, problem.options, layout))
    return problems
