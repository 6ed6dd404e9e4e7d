"""gemm with an epilogue: scales, a bias and an activation, applied by the kernel that computes the sums, and a conversion of the result."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from portatile import dtypes
from portatile.arguments import checks, letters, matrices, outputs, stacks
from portatile.arguments.letters import letter
from portatile.arguments.matrices import Matrix
from portatile.device import Selector
from portatile.device.buffer import Buffer, is_cuda_array
from portatile.errors import ArgumentError
from portatile.runtime.repeated.recorded import Planned, Recorder
from portatile.runtime.request import Request, RoutineCall
from portatile.workloads import precisions
from portatile.workloads.gemm import epilogue
from portatile.workloads.gemm.reals import EIGHT_BITS

_BLOCK = 128  # steps of k that share a factor in block scaling
_TRANSPOSED_AXIS = {"none": "none", "rows": "columns", "columns": "rows"}  # the axis along which a vector of C lies in C^T
_TRANSPOSED_NAME = {"bias": "bias", "scale_a": "scale_b", "scale_b": "scale_a"}  # the vector's name there: C^T = op(B)^T op(A)^T


class Epilogue(NamedTuple):
    """The options of a call other than those of the product: see ``gemm``. ``dtype`` is the name of the result's dtype, or None."""

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
    alpha, vectors = _scales(asked, factors[0])
    if asked.precision == "reproducible" and (len(vectors) > ("bias" in vectors) or activation not in ("none", "relu")):
        raise ArgumentError(
            "precision='reproducible' goes with a bias, with scales that are numbers and with relu; apply others to the product"
        )
    options = (*trans, asked.dtype, activation, tuple(vectors), asked.precision)
    return _RECORDER.call(_plan, (*arrays[:2], *vectors.values(), *arrays[2:]), (alpha, factors[1]), options, out, device)


def _scales(asked: Epilogue, alpha: complex) -> tuple[complex, dict[str, Any]]:
    """alpha times the scalar scales, and the bias and the other scales by name. Raises ArgumentError for what is not an array."""
    vectors: dict[str, Any] = {}
    for name in epilogue.VECTORS:
        vector = getattr(asked, name)
        if vector is None:
            continue
        number = getattr(vector, "shape", ()) == () and not isinstance(vector, (list, tuple, str))
        if not hasattr(vector, "shape") and (name == "bias" or not number):
            least = "an array of a number for each row or column" if name == "bias" else "one number, or an array"
            raise ArgumentError(f"{name} is a {type(vector).__name__}; pass {least}: numpy.asarray({name}, 'float32')")
        if name != "bias" and number:  # one number for all of a or b
            alpha *= checks.factor(vector, name)
        else:
            vectors[name] = vector
    return alpha, vectors


class _Product(NamedTuple):
    """A product and the vectors of its epilogue, by name; each goes ``along`` the rows or columns of C, or is absent ("none").

    With ``blocks`` the vectors are factors of blocks of k.
    """

    a: Matrix
    b: Matrix
    c: Matrix
    vectors: dict[str, Matrix]
    along: dict[str, str]
    blocks: bool

    def row_major(self) -> _Product:
        """The same product with a row-major C: a column-major one is C^T = op(B)^T op(A)^T, where vectors along rows go along columns."""
        if not self.c.transposed:
            return self
        if self.blocks:
            raise ArgumentError("with factors of blocks of k the output must have contiguous rows: pass one, or none")
        along = {name: _TRANSPOSED_AXIS[self.along[_TRANSPOSED_NAME[name]]] for name in epilogue.VECTORS}
        vectors = {_TRANSPOSED_NAME[name]: vector for name, vector in self.vectors.items()}
        return _Product(self.b.flipped(), self.a.flipped(), self.c.flipped(), vectors, along, False)

    def operands(self, alpha: complex, beta: complex) -> tuple[Matrix, ...]:
        """The operands of the workload's kernels, in its order; A takes the place of a missing vector, and is not read there."""
        vectors = (self.vectors.get(name, self.a.read_if(False)) for name in epilogue.VECTORS)
        return (self.a.read_if(alpha != 0), self.b.read_if(alpha != 0), *vectors, self.c.read_if(beta != 0))


def _plan(call: RoutineCall) -> Planned:
    """The request, or two for a product of another precision. Raises ArgumentError for what does not fit."""
    trans_a, trans_b, dtype_asked, activation, names, precision = call.options
    a, b, *rest = call.arrays
    arrays, c = dict(zip(names, rest, strict=False)), rest[len(names)] if len(rest) > len(names) else None
    alpha, beta = call.factors
    found = (_of_stack if stacks.stacked(a) or stacks.stacked(b) else _of_matrices)(call, (a, b, c), (trans_a, trans_b), dtype_asked)
    if not found.products:
        return Planned(found.result, [])
    result, begin, [(stored_a, stored_b, stored_c)] = found
    dtype = dtypes.product_name(dtypes.name_of(stored_a.array.dtype), dtypes.name_of(stored_c.array.dtype))
    checks.check_factors((alpha, beta), "float32")
    product = _with_vectors(stored_a, stored_b, stored_c, arrays, dtypes.product(dtype)).row_major()
    bias = product.vectors.get("bias")
    narrow = "none" if bias is None or bias.array.dtype in ("float32", "float64") else "bias"
    options = (letter(product.a), letter(product.b), *(product.along[name] for name in epilogue.VECTORS), activation, narrow)
    request = Request(
        "gemm_blocks" if product.blocks else "gemm_epilogue",
        (*product.c.shape, product.a.shape[1]),
        (*options, _BLOCK) if product.blocks else options,
        product.operands(alpha, beta),
        result,
        call.device,
        {"alpha": alpha, "beta": beta},
        begin,
    )
    if precisions.computed(precision, request.workload, dtype, product.along).workload != request.workload:
        return Planned(result, _product_first(request._replace(options=options), precision))
    return Planned(result, [request])


def _of_matrices(
    call: RoutineCall, operands: tuple[Any, Any, Any], trans: tuple[str, str], asked: str | None
) -> stacks.StackedProducts[Any]:
    """The product of two matrices, with its result. Raises ArgumentError for what does not fit."""
    a, b, c = operands
    beta = call.factors[1]
    stored_a, stored_b = letters.factors(a, b, *trans)
    kind = _result_type(stored_a.array.dtype, asked, call.out, c if beta != 0 else None)
    shape = stored_a.shape[0], stored_b.shape[1]
    result, stored_c, begin = outputs.receiving(call.out, shape, a, {"a": stored_a, "b": stored_b}, c, beta, kind)
    return stacks.StackedProducts(result, begin, [stacks.StackedProduct(stored_a, stored_b, stored_c)])


def _of_stack(call: RoutineCall, operands: tuple[Any, Any, Any], trans: tuple[str, str], asked: str | None) -> stacks.StackedProducts[Any]:
    """As ``_of_matrices``, of a stack with evenly spaced rows, times one matrix. Raises ArgumentError for other stacks."""
    a, b, c = operands
    beta = call.factors[1]
    kind = _result_type(stacks.stack_of(a, "a").dtype, asked, call.out, c if beta != 0 else None)
    found = stacks.products(stacks.StackedGemm(a, b, c, beta, (trans[0], trans[1]), call.out, dtypes.name_of(kind)))
    merged = [stacks.merged(product) for product in found.products]
    if len(merged) > 1 or any(product.c.number > 1 for product in merged):
        raise ArgumentError(
            "a bias, scales and activations belong to one product: of matrices, or of a stack with evenly spaced rows and one matrix b; "
            "call gemm for each matrix of other stacks"
        )
    return found._replace(products=merged)


def _result_type(operand: np.dtype[Any], asked: str | None, out: Any, c: Any) -> np.dtype[Any]:
    """As ``outputs.result_type``, but float32 for int8. Raises ArgumentError for complex operands and integer results."""
    name = dtypes.name_of(operand)
    if name.startswith("complex"):
        raise ArgumentError(f"a bias, scales and activations are for real matrices, and a is {name}; apply them to the product")
    if name == "int8" and asked is None and out is None:
        asked = "float32"
    kind = outputs.result_type(operand, asked, out, c)
    if kind.kind == "i":
        raise ArgumentError("a bias, scales and activations give floating-point numbers; pass dtype='float32' or another output")
    return kind


def _with_vectors(a: Matrix, b: Matrix, c: Matrix, arrays: dict[str, Any], types: dtypes.ProductTypes) -> _Product:
    """The product with the vectors in ``arrays``, whose dtype is that of the sums; a bias may have the result's. Raises ArgumentError where
    one does not fit, or overlaps C.
    """
    (m, k), (_, n) = a.shape, b.shape
    blocks = _blocks(arrays, (m, n, k), dtypes.name_of(a.array.dtype))
    alone = {name: vector for name, vector in arrays.items() if name not in blocks}
    steps = k if dtypes.name_of(a.array.dtype) in EIGHT_BITS else 0
    along = dict.fromkeys(epilogue.VECTORS, "none") | {name: _direction(vector, name, (m, n), steps) for name, vector in alone.items()}
    narrow = (types.result.name,) if types.result.itemsize == 2 else ()
    kinds = (epilogue.real(types),)
    vectors = {name: _row_vector(vector, name, kinds + narrow if name == "bias" else kinds) for name, vector in alone.items()} | blocks
    for name, vector in vectors.items():
        outputs.check_apart(c, vector, name)
    return _Product(a, b, c, vectors, along, bool(blocks))


def _product_first(request: Request, precision: str) -> list[Request]:
    """A product of another precision, and a second launch for its epilogue: a product without terms, applied to what C holds then."""
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
    """The factors of blocks of k, if the scales are such; raises ArgumentError for other dtypes, or where they do not fit."""
    m, n, k = sizes
    count = -(-k // _BLOCK)
    shapes = {"scale_a": (m, count), "scale_b": (count, n)}
    have = {name: tuple(vectors[name].shape) for name in shapes if name in vectors}
    if count < 2 or not any(shape == shapes[name] for name, shape in have.items()):
        return {}
    if have != shapes:
        found = " and ".join(f"{name} has shape {have[name]}" if name in have else f"{name} is no array" for name in shapes)
        raise ArgumentError(
            f"scales of blocks of {_BLOCK} of k must both be given, scale_a as {m} x {count} and scale_b as {count} x {n}; {found}"
        )
    if operand not in EIGHT_BITS:
        raise ArgumentError(f"scales of blocks of k are for eight-bit floats, and a is {operand}; scale its rows")
    scales = {name: matrices.matrix(vectors[name], name) for name in shapes}
    for name, scale in scales.items():
        if scale.array.dtype != "float32":
            raise ArgumentError(f"{name} has dtype {scale.array.dtype}; it must be float32, the type of the sums: convert it")
        if scale.transposed:
            raise ArgumentError(f"{name} must have contiguous rows: copy it")
    return scales


def _direction(vector: Any, name: str, shape: tuple[int, int], steps: int) -> str:
    """Whether a vector goes along the rows or the columns of C, by NumPy's rules; raises ArgumentError where it does not fit.

    ``steps``: the size k, if blocks of it may have scales; else 0.
    """
    m, n = shape
    have = tuple(vector.shape)
    fitting = {"bias": {(n,): "columns", (1, n): "columns", (m, 1): "rows"}, "scale_a": {(m,): "rows", (m, 1): "rows"}}
    fitting["scale_b"] = {(n,): "columns", (1, n): "columns"}
    axis = fitting[name].get(have)
    if axis is None:
        shapes = list(fitting[name])
        if steps > _BLOCK and name != "bias":
            count = -(-steps // _BLOCK)
            shapes.append((m, count) if name == "scale_a" else (count, n))
        raise ArgumentError(f"{name} has shape {have}; with a result of {m} x {n} it must have one of {', '.join(map(str, shapes))}")
    return axis


def _row_vector(vector: Any, name: str, kinds: tuple[str, ...]) -> Matrix:
    """A vector as a matrix of one row; raises ArgumentError for dtypes other than ``kinds``, and for gaps between its elements."""
    if not isinstance(vector, (np.ndarray, Buffer)) and not is_cuda_array(vector):
        raise matrices.unknown(vector, name)
    array = vector if isinstance(vector, np.ndarray) else Buffer.wrap(vector)
    if dtypes.name_of(array.dtype) not in kinds:
        known = f"{kinds[0]}, the type of the sums" + "".join(f", or {kind}, that of the result" for kind in kinds[1:])
        raise ArgumentError(f"{name} has dtype {array.dtype}; it must be {known}: convert it")
    step = max((stride for size, stride in zip(array.shape, array.strides, strict=True) if size > 1), default=array.dtype.itemsize)
    if step != array.dtype.itemsize:
        raise ArgumentError(f"{name} has strides {array.strides} bytes; its elements must be contiguous: copy it")
    size = int(np.prod(array.shape))
    if isinstance(array, np.ndarray):
        return matrices.matrix(array.reshape(1, size), name, kinds)
    return matrices.matrix(Buffer(array.memory, (1, size), array.dtype, None, array.offset), name, kinds)


_RECORDER = Recorder(("alpha", "beta"))
