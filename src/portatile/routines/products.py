"""How matmul and gemm compute on a device: plans of their calls, on matrices and stacks, and the operands that NumPy converts first."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import prod
from typing import Any, cast

import numpy as np

from portatile import dtypes
from portatile.arguments import checks, host_tensors, letters, numpy_rules, outputs, stacks
from portatile.arguments.checks import Precision
from portatile.arguments.letters import letter
from portatile.arguments.matrices import Array
from portatile.arguments.stacks import StackedProduct
from portatile.device import Selector
from portatile.dtypes import name_of, named
from portatile.routines import fused, stacked
from portatile.runtime.host import numpy_converted, numpy_products
from portatile.runtime.host.numpy_products import PLAIN
from portatile.runtime.repeated.recorded import Converted, Planned, Recorder
from portatile.runtime.repeated.replayed import replays_of
from portatile.runtime.request import Request, RoutineCall
from portatile.workloads import precisions


def matmul(a: Array, b: Array, out: Array | None, dtype: Any, precision: Precision | None, device: Selector | None) -> Array:
    """``routines.gemm.matmul`` for calls that neither NumPy nor the replays have computed."""
    if dtype is None and precision is None and device is None and host_tensors.is_host_tensor(a):
        return cast(Array, host_tensors.through(_of_arrays, a, b, out))
    if dtype is None and precision is None:
        return cast(Array, _PRODUCTS.look_up(_plan_product, (a, b), PLAIN, ("N", "N"), out, device))
    options = ("N", "N", None if dtype is None else named(dtype), False, checks.precision(precision))
    return cast(Array, _PRODUCTS.call(_plan_product, (a, b), PLAIN, options, out, device))


def _of_arrays(a: Any, b: Any, out: Any) -> Any:
    """``matmul`` of the arrays over CPU tensors."""
    product = numpy_products.product(a, b, out) if type(a) is type(b) is np.ndarray else None
    if product is None:
        product = numpy_converted.product(a, b, out)
    return matmul(a, b, out, None, None, None) if product is None else product


def factors(alpha: Any, beta: Any) -> tuple[complex, complex]:
    """The factors of ``gemm``; raises ArgumentError for what is not a number."""
    return checks.complex_factor(alpha, "alpha"), checks.complex_factor(beta, "beta")


def gemm(
    arrays: tuple[Any, ...],
    factors: tuple[complex, complex],
    trans: tuple[str, str],
    dtype: Any,
    precision: Precision | None,
    out: Any,
    device: Selector | None,
) -> Any:
    """``routines.gemm.gemm`` without an epilogue, for calls that neither ``numpy_products`` nor the replays have computed."""
    if dtype is None and precision is None and device is None and host_tensors.is_host_tensor(arrays[0]):
        a, b, c = arrays if len(arrays) == 3 else (*arrays, None)
        return host_tensors.through(partial(_scaled_of_arrays, factors, trans), a, b, c, out)
    options = _options(trans, factors, dtype, precision)
    find = _RECORDER.look_up if options is trans else _RECORDER.call
    return find(_plan, arrays, factors, options, out, device)


def _scaled_of_arrays(factors: tuple[complex, complex], trans: tuple[str, str], a: Any, b: Any, c: Any, out: Any) -> Any:
    """``gemm`` of the arrays over CPU tensors."""
    product = numpy_products.scaled(a, b, c, factors, trans, out) if type(a) is type(b) is np.ndarray else None
    return gemm((a, b) if c is None else (a, b, c), factors, trans, None, None, out, None) if product is None else product


def with_epilogue(
    arrays: tuple[Any, ...],
    factors: tuple[complex, complex],
    trans: tuple[str, str],
    asked: tuple[Any, ...],
    out: Any,
    device: Selector | None,
) -> Any:
    """``routines.gemm.gemm`` with an epilogue; ``asked`` holds the bias, scales, activation, dtype and precision."""
    bias, scale_a, scale_b, activation, dtype, precision = asked
    result_type = None if dtype is None else named(dtype)
    epilogue = fused.Epilogue(bias, scale_a, scale_b, activation, result_type, checks.precision(precision))
    return fused.gemm(arrays, factors, trans, epilogue, out, device)


def _options(trans: tuple[str, str], factors: tuple[complex, complex], dtype: Any, precision: Precision | None) -> tuple[Any, ...]:
    """The options of a call of ``gemm``; those after the transpositions are omitted if they have their defaults."""
    complex_factors = type(factors[0]) is complex or type(factors[1]) is complex
    if dtype is None and precision is None and not complex_factors:
        return trans
    return (*trans, None if dtype is None else named(dtype), complex_factors, checks.precision(precision))


def _plan_product(call: RoutineCall) -> Planned | Converted:
    """The plan of ``matmul``: as ``_plan`` for matrices that kernels can read, else converted to such matrices by NumPy's rules."""
    a, b = call.arrays
    converted = numpy_rules.product(a, b, call.out, call.options[2] if len(call.options) > 2 else None)
    return (
        _plan(call) if converted is None else Converted(_plan, call._replace(arrays=converted.arrays, out=converted.out), converted.finish)
    )


def _plan(call: RoutineCall) -> Planned:
    """The plan of ``gemm``: one request for each launch. Raises ArgumentError for operands that do not fit together."""
    a, b, c = call.arrays if len(call.arrays) == 3 else (*call.arrays, None)
    trans_a, trans_b, *rest = call.options
    dtype, precision = (rest[0], rest[2]) if rest else (None, "")
    if not stacks.stacked(a) and not stacks.stacked(b):
        products = _one_product(call, dtype)
    elif precision and _computed_one_by_one(stacks.stack_of(a, "a"), stacks.stack_of(b, "b"), precision):
        names = ("a", "b", "c")[: len(call.arrays)]
        return stacked.each(_plan_one, call, stacked.checked(call, names, partial(_shape, trans=(trans_a, trans_b))))
    else:
        products = stacks.products(stacks.StackedGemm(a, b, c, call.factors[1], (trans_a, trans_b), call.out, dtype))
    requests = [
        _request(call, product, products.result, None if at else products.begin, precision) for at, product in enumerate(products.products)
    ]
    return Planned(products.result, requests)


def _one_product(call: RoutineCall, dtype: str | None) -> stacks.StackedProducts[Any]:
    """The product of two matrices, with its result. Raises ArgumentError for operands that do not fit together."""
    a, b, c = call.arrays if len(call.arrays) == 3 else (*call.arrays, None)
    beta = call.factors[1]
    stored_a, stored_b = letters.factors(a, b, *call.options[:2])
    kind = outputs.result_type(stored_a.array.dtype, dtype, call.out, c if beta != 0 else None)
    shape = stored_a.shape[0], stored_b.shape[1]
    result, stored_c, begin = outputs.receiving(call.out, shape, a, {"a": stored_a, "b": stored_b}, c, beta, kind)
    return stacks.StackedProducts(result, begin, [StackedProduct(stored_a, stored_b, stored_c)])


def _request(call: RoutineCall, product: StackedProduct, result: Any, begin: outputs.InitialContent | None, precision: str) -> Request:
    """The request for one launch: one product, or an evenly spaced batch. Raises ArgumentError for factors that do not suit the dtype."""
    alpha, beta = call.factors
    dtype = dtypes.product_name(name_of(product.a.array.dtype), name_of(product.c.array.dtype))
    checks.check_factors(call.factors, dtypes.product(dtype).scalar)
    stored_a, stored_b, stored_c = stacks.merged(product.row_major())
    batch, workload = ((stored_c.number,), "gemm_batched") if stored_c.number > 1 else ((), "gemm")
    k = stored_a.rows if stored_a.transposed else stored_a.columns
    return Request(
        workload,
        (*batch, stored_c.rows, stored_c.columns, k),
        (letter(stored_a), letter(stored_b)),
        (stored_a.read_if(alpha != 0), stored_b.read_if(alpha != 0), stored_c.read_if(beta != 0)),
        result,
        call.device,
        {"alpha": alpha, "beta": beta},
        begin,
        precision=precision,
    )


def _plan_one(call: RoutineCall, result: Any) -> Planned:
    """The plan for one matrix of a stack, whose product goes to ``result``."""
    return _plan(call._replace(out=result))


def _shape(operands: Mapping[str, Any], trans: tuple[str, str]) -> tuple[int, int]:
    """The shape (m, n) of each product of the stacks ``a`` and ``b`` in ``operands``."""
    return operands["a"].shape[-2 if trans[0] == "N" else -1], operands["b"].shape[-1 if trans[1] == "N" else -2]


def _computed_one_by_one(a: Any, b: Any, precision: str) -> bool:
    """Whether products of two stacks are computed one by one in this precision, each by its own request."""
    return precisions.one_by_one(precision, name_of(a.dtype), prod(a.shape[-2:]) * max(b.shape[-2:]))


_RECORDER = Recorder(("alpha", "beta"), product=True, replays=replays_of("gemm"))
# matmul has its own recorder, because it accepts other arrays than gemm
_PRODUCTS = Recorder(("alpha", "beta"), product=True, replays=replays_of("matmul"))
