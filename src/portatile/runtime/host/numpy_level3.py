"""Level-3 routines on NumPy arrays by NumPy's BLAS where no device is named: small problems at once, others after a race."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from portatile.records import Problem
from portatile.runtime.host import blas_calls, numpy_products
from portatile.runtime.host.blas_calls import UPDATES
from portatile.runtime.host.host_calls import Forms, HostCall

# the plausible limit of our speedup over BLAS on the same processor: BLAS's triangular routines are slower than its products
_FASTEST = 4.0
_LAUNCHES = 2  # launches that these routines take on a device, at least
_COMPLEX = 10  # the same for complex matrices, whose kernels are slower relative to BLAS
_CALL = 1024  # elements that could be processed in the time of one BLAS call, which each matrix of a stack needs
_BESIDE = 16  # multiply-adds that take as long as the additional work per element


class _Work(NamedTuple):
    """The work of a problem: multiply-adds, including those outside the triangle, and elements read and written."""

    multiply_adds: int
    elements: int


def _work(workload: str, arrays: Sequence[Any], options: tuple[Any, ...]) -> _Work:
    a, last = arrays[0], max(arrays, key=lambda array: array.ndim)
    number = prod(last.shape[:-2])
    if workload in UPDATES:
        n, k = a.shape[-2:] if options[1] == "N" else a.shape[:-3:-1]
        work = _Work(n * n * k, n * (n + k))
    else:
        (m, n), order = arrays[1].shape[-2:], a.shape[-1]
        work = _Work(order * m * n, order * order + m * n)
    return work if number == 1 else _Work(number * work.multiply_adds, number * (work.elements + _CALL))


def _work_of(problem: Problem) -> _Work:
    sizes = problem.sizes
    if problem.workload in UPDATES:
        n, k = sizes["n"], sizes["k"]
        return _Work(n * n * k, n * (n + k))
    order, elements = sizes["m" if problem.options["side"] == "L" else "n"], sizes["m"] * sizes["n"]
    return _Work(order * elements, order * order + elements)


class Level3:
    """The level-3 routine of a workload, computed by BLAS: for matrices of one supported dtype, in that dtype's own precision."""

    def __init__(self, workload: str) -> None:
        self._workload = workload

    def on_host(self, call: Any, result: Any, forms: Forms) -> HostCall | None:
        """The call as computed by BLAS; None where BLAS cannot compute it."""
        dtype = call.arrays[0].dtype
        if call.options[-1] or dtype not in numpy_products.DTYPES or not blas_calls.known(self._workload, dtype):
            return None
        for array in (*call.arrays, result):
            if type(array) is not np.ndarray or array.ndim < 2 or array.dtype != dtype or not array.flags.aligned or not array.size:
                return None
        prepare = blas_calls.prepared if result.ndim == 2 else blas_calls.prepared_stack
        compute = prepare(self._workload, call.arrays, call.factors, call.options, result, call.out is None)
        return None if compute is None else HostCall(compute, call, result, forms, _FASTEST)

    def small(self, call: Any) -> bool:
        """Whether a call is so small that a kernel launch would take longer."""
        return _brief(_work(self._workload, call.arrays, call.options), call.arrays[0].dtype)

    def operations(self, call: Any) -> int:
        """The floating-point operations of a call, including those outside the triangle."""
        return 2 * _work(self._workload, call.arrays, call.options).multiply_adds


def brief(problem: Problem) -> bool:
    """Whether NumPy arrays of a problem's size are left to BLAS from the first call on."""
    return _brief(_work_of(problem), np.dtype(problem.dtype))


def multiply_adds(problem: Problem) -> int:
    """The multiply-adds of a problem, including those outside the triangle."""
    return _work_of(problem).multiply_adds


def _brief(work: _Work, dtype: np.dtype[Any]) -> bool:
    launches = _COMPLEX if dtype.kind == "c" else _LAUNCHES
    return numpy_products.at_once(-(-(work.multiply_adds + _BESIDE * work.elements) // launches), dtype)
