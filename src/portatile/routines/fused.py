"""gemm with an epilogue: scales, a bias and an activation in the launch that forms the sums, and the conversion of the result."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from portatile import dtypes
from portatile.arguments import checks, matrices, outputs, stacks
from portatile.arguments.checks import FACTORS
from portatile.arguments.letters import letter, op
from portatile.arguments.matrices import Matrix
from portatile.device import Selector
from portatile.device.buffer import Buffer, is_cuda_array
from portatile.errors import ArgumentError
from portatile.runtime.recorded import Call, Planned, Recorder
from portatile.runtime.request import Request
from portatile.workloads import precisions
from portatile.workloads.gemm import epilogue
from portatile.workloads.gemm.reals import EIGHT_BITS

_BLOCK = 128  # steps of k that may share a factor
_OTHER = {"none": "none", "rows": "columns", "columns": "rows"}


class Epilogue(NamedTuple):
    """The options of a call beside the product: see ``gemm``. ``dtype`` is the name of the result's type, or None; ``precision`` may be
    empty.
    """

    bias: Any
    scale_a: Any
    scale_b: Any
    activation: str | None
    dtype: str | None
    precision: str


def gemm(
    arrays: tuple[Any, ...], factors: tuple[complex, complex], trans: tuple[str, str], asked: Epilogue, out: Any, device: Selector | None
) -> Any:
    """The product of the first two ``arrays`` with its epilogue; a third one is C. Raises ArgumentError for what does not fit."""
    activation = asked.activation or "none"
    if activation not in epilogue.CHOICES["activation"]:
        names = ", ".join(str(name) for name in epilogue.CHOICES["activation"] if name != "none")
        raise ArgumentError(f"activation={activation!r} is not one of {names}")
    alpha, beta = factors
    given: dict[str, Any] = {}
    for name in epilogue.VECTORS:
        vector = getattr(asked, name)
        if vector is None:
            continue
        if name != "bias" and isinstance(vector, (list, tuple, str)):
            raise ArgumentError(f"{name} is a {type(vector).__name__}; pass one number, or an array: numpy.asarray({name}, 'float32')")
        if name != "bias" and getattr(vector, "shape", ()) == ():  # one number for all of a or b
            alpha *= checks.factor(vector, name)
        else:
            given[name] = vector
    if asked.precision == "reproducible" and (len(given) > ("bias" in given) or activation not in ("none", "relu")):
        raise ArgumentError(
            "precision='reproducible' goes with a bias, with scales that are numbers and with relu; apply others to the product"
        )
    options = (*trans, asked.dtype, activation, tuple(given), asked.precision)
    called = (*arrays[:2], *given.values(), *arrays[2:])
    return _RECORDER.call(_plan, called, (alpha, beta), options, out, device)


def _plan(call: Call) -> Planned:
    """The request, or two for a product of another precision. Raises ArgumentError for what does not fit."""
    trans_a, trans_b, wanted, activation, names, precision = call.options
    a, b, *rest = call.arrays
    vectors, c = dict(zip(names, rest, strict=False)), rest[len(names)] if len(rest) > len(names) else None
    alpha, beta = call.factors
    if stacks.stacked(a) or stacks.stacked(b):
        raise ArgumentError("a bias, scales and activations belong to one product; call gemm for each matrix of a stack")
    stored_a = op(matrices.matrix(a, "a", FACTORS), trans_a, "trans_a")
    stored_b = op(matrices.matrix(b, "b", FACTORS), trans_b, "trans_b")
    (m, k), (k_b, n) = stored_a.shape, stored_b.shape
    if k != k_b:
        raise ArgumentError(f"op(a) is {m} x {k} and op(b) is {k_b} x {n}: the inner dimensions differ")
    matrices.alike(stored_a, stored_b)
    operand = dtypes.name_of(stored_a.array.dtype)
    if operand.startswith("complex"):
        raise ArgumentError(f"a bias, scales and activations are for real matrices, and a is {operand}; apply them to the product")
    if operand == "int8" and wanted is None and call.out is None:
        wanted = "float32"
    kind = outputs.result_type(stored_a.array.dtype, wanted, call.out, c if beta != 0 else None)
    if kind.kind == "i":
        raise ArgumentError("a bias, scales and activations give floating-point numbers; pass dtype='float32' or another output")
    dtype = dtypes.product_name(operand, dtypes.name_of(kind))
    types = dtypes.product(dtype)
    checks.check_factors((alpha, beta), "float32")
    result, stored_c, begin = outputs.receiving(call.out, (m, n), a, {"a": stored_a, "b": stored_b}, c, beta, kind)
    blocks = _blocks(vectors, (m, n, k), operand)
    along = {name: _along(vectors[name], name, (m, n)) if name in vectors and name not in blocks else "none" for name in epilogue.VECTORS}
    rows = {name: _row(vector, name, epilogue.real(types)) for name, vector in vectors.items() if name not in blocks} | blocks
    for name, row in rows.items():
        outputs.apart(stored_c, row, name)
    if stored_c.transposed and blocks:
        raise ArgumentError("with factors of blocks of k the output must have contiguous rows: pass one, or none")
    if stored_c.transposed:  # C^T = op(B)^T op(A)^T, and what goes along its rows goes along C's columns
        stored_a, stored_b, stored_c = stored_b.flipped(), stored_a.flipped(), stored_c.flipped()
        swapped = {"bias": "bias", "scale_a": "scale_b", "scale_b": "scale_a"}
        along = {name: _OTHER[along[swapped[name]]] for name in epilogue.VECTORS}
        rows = {swapped[name]: row for name, row in rows.items()}
        m, n = n, m
    absent = stored_a.read_if(False)  # stands where there is no vector: kernels do not take it
    read_a, read_b = (stored.read_if(alpha != 0) for stored in (stored_a, stored_b))
    operands = (read_a, read_b, *(rows.get(name, absent) for name in epilogue.VECTORS), stored_c.read_if(beta != 0))
    letters = (letter(stored_a), letter(stored_b), *(along[name] for name in epilogue.VECTORS), activation)
    workload, options = ("gemm_blocks", (*letters, _BLOCK)) if blocks else ("gemm_epilogue", letters)
    request = Request(workload, (m, n, k), options, operands, result, call.device, {"alpha": alpha, "beta": beta}, begin)
    if precisions.computed(precision, workload, dtype, along).workload != workload:
        return Planned(result, _product_first(request._replace(options=letters), precision))
    return Planned(result, [request])


def _product_first(request: Request, precision: str) -> list[Request]:
    """A product of another precision, and what follows it as a launch of its own: a sum without terms, of what C holds then."""
    a, b, *vectors, c = request.operands
    m, n, _ = request.sizes
    product = request._replace(workload="gemm", options=request.options[:2], operands=(a, b, c), precision=precision)
    absent = a.read_if(False)
    after = request._replace(
        workload="gemm_epilogue",
        sizes=(m, n, 0),
        operands=(absent, absent, *vectors, c.read_if(True)),
        scalars={"alpha": 0.0, "beta": 1.0},
        begin=None,
    )
    return [product, after]


def _blocks(vectors: dict[str, Any], sizes: tuple[int, int, int], operand: str) -> dict[str, Matrix]:
    """The factors of blocks of k, where that is what the scales are; raises ArgumentError for other types, or where they do not fit."""
    m, n, k = sizes
    count = -(-k // _BLOCK)
    shapes = {"scale_a": (m, count), "scale_b": (count, n)}
    have = {name: tuple(vectors[name].shape) for name in shapes if name in vectors}
    if count < 2 or not any(shape == shapes[name] for name, shape in have.items()):
        return {}
    if have != shapes:
        raise ArgumentError(
            f"scales of blocks of {_BLOCK} of k must be both there, scale_a as {m} x {count} and scale_b as {count} x {n}; they are {have}"
        )
    if operand not in EIGHT_BITS:
        raise ArgumentError(f"scales of blocks of k are for floats of eight bits, and a is {operand}; scale its rows")
    scales = {name: matrices.matrix(vectors[name], name) for name in shapes}
    for name, one in scales.items():
        if one.array.dtype != "float32":
            raise ArgumentError(f"{name} has dtype {one.array.dtype}; it must be float32, the type of the sums: convert it")
        if one.transposed:
            raise ArgumentError(f"{name} must have contiguous rows: copy it")
    return scales


def _along(vector: Any, name: str, shape: tuple[int, int]) -> str:
    """Whether a vector goes along the rows or the columns of C, by NumPy's rules; raises ArgumentError where it does not fit."""
    m, n = shape
    have = tuple(vector.shape)
    fitting = {"bias": {(n,): "columns", (1, n): "columns", (m, 1): "rows"}, "scale_a": {(m,): "rows", (m, 1): "rows"}}
    fitting["scale_b"] = {(n,): "columns", (1, n): "columns"}
    axis = fitting[name].get(have)
    if axis is None:
        raise ArgumentError(f"{name} has shape {have}; with a result of {m} x {n} it must have one of {', '.join(map(str, fitting[name]))}")
    return axis


def _row(vector: Any, name: str, kind: str) -> Matrix:
    """A vector as a matrix of one row; raises ArgumentError for another type than ``kind``, or for gaps between its elements."""
    if not isinstance(vector, (np.ndarray, Buffer)) and not is_cuda_array(vector):
        raise matrices.unknown(vector, name)
    array = vector if isinstance(vector, np.ndarray) else Buffer.wrap(vector)
    if array.dtype != kind:
        raise ArgumentError(f"{name} has dtype {array.dtype}; it must be {kind}, the type of the sums: convert it")
    step = max((stride for size, stride in zip(array.shape, array.strides, strict=True) if size > 1), default=array.dtype.itemsize)
    if step != array.dtype.itemsize:
        raise ArgumentError(f"{name} has strides {array.strides} bytes; its elements must lie one after another: copy it")
    size = int(np.prod(array.shape))
    if isinstance(array, np.ndarray):
        return matrices.matrix(array.reshape(1, size), name)
    return matrices.matrix(Buffer(array.memory, (1, size), array.dtype, None, array.offset), name)


_RECORDER = Recorder(("alpha", "beta"))
