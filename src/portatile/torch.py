"""The routines as PyTorch operators: ``torch.compile`` traces them, autograd differentiates them, ``torch.library.opcheck`` accepts them.

Import this module to register the operators ``gemm``, ``trsm``, ``convolve1d`` and ``convolve3d_separable`` in ``torch.ops.portatile``; the
functions here call them. Tensors are float32 or float64; for products and ``trsm`` they may be complex. CUDA tensors are computed in place,
on PyTorch's current stream; CPU tensors are computed from their own memory, by the device that ``device`` selects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd import forward_ad

from portatile.arguments.axes import Boundary
from portatile.arguments.checks import Precision, SolvePrecision
from portatile.dtypes import RESULTS
from portatile.errors import ArgumentError
from portatile.routines import convolve as _convolve
from portatile.routines import gemm as _gemm
from portatile.routines import triangular as _triangular

_Operand = tuple[Tensor, str]  # an operand op(x) of a product: x, and the letter of op
_ADJOINT = {"periodic": "periodic", "zero": "zero", "grow": "shrink", "shrink": "grow"}  # the adjoint of each boundary


def matmul(a: Tensor, b: Tensor, *, precision: Precision | None = None, device: str | None = None) -> Tensor:
    """``portatile.matmul`` with gradients: the product of ``a`` (m x k) and ``b`` (k x n), of stacks of them, or with vectors.

    Tensors are float32, float64, complex64 or complex128. The products that compute gradients have the same ``precision``.
    Raises ArgumentError for tensors that do not fit together.
    """
    if not a.ndim or not b.ndim:
        raise ArgumentError("matmul takes vectors, matrices and stacks of matrices: use * for scalars")
    product = gemm(a if a.ndim > 1 else a[None], b if b.ndim > 1 else b[:, None], precision=precision, device=device)
    product = product if a.ndim > 1 else product.squeeze(-2)
    return product if b.ndim > 1 else product.squeeze(-1)


def gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    trans_a: str = "N",
    trans_b: str = "N",
    precision: Precision | None = None,
    device: str | None = None,
) -> Tensor:
    """``portatile.gemm`` with gradients of ``a``, ``b`` and ``c``: a new tensor with ``alpha * op(a) @ op(b) + beta * c``.

    Tensors are float32, float64, complex64 or complex128. The products that compute gradients have the same ``precision``.
    Raises ArgumentError for tensors that do not fit together.
    """
    if beta != 0 and c is None:
        raise ArgumentError("beta is not 0 and c is missing; pass c, or beta=0")
    return _called("gemm", _gemm_computed, (a, b, c if beta != 0 else None), alpha, beta, trans_a, trans_b, device, precision)


def trsm(
    a: Tensor,
    b: Tensor,
    *,
    side: str = "L",
    uplo: str = "L",
    trans: str = "N",
    diag: str = "N",
    alpha: float = 1.0,
    precision: SolvePrecision | None = None,
    device: str | None = None,
) -> Tensor:
    """``portatile.trsm`` with gradients of ``a`` (its triangle) and ``b``: a new tensor with the solution.

    Tensors are float32, float64, complex64 or complex128. The products that compute gradients have the same ``precision``.
    Raises ArgumentError for tensors that do not fit together.
    """
    matrix = b if b.ndim != 1 else b[:, None] if side == "L" else b[None]
    solution = _called("trsm", _trsm_computed, (a, matrix), side, uplo, trans, diag, alpha, device, precision)
    return solution if b.ndim != 1 else solution.squeeze(-1 if side == "L" else -2)


def convolve1d(psi: Tensor, taps: Sequence[float], *, lower: int, boundary: Boundary = "periodic", device: str | None = None) -> Tensor:
    """``portatile.convolve1d`` along the first of two dimensions, with the gradient of ``psi``; the ``taps`` are constants.

    Raises ArgumentError for what does not fit.
    """
    return _called("convolve1d", _convolve1d_computed, (psi,), list(map(float, taps)), lower, boundary, device)


def convolve3d_separable(
    psi: Tensor, taps: Sequence[float], *, lower: int, boundary: Boundary = "periodic", device: str | None = None
) -> Tensor:
    """``portatile.convolve3d_separable`` with one filter for all axes and the gradient of ``psi``; the ``taps`` are constants.

    Raises ArgumentError for what does not fit.
    """
    return _called("convolve3d_separable", _convolve3d_computed, (psi,), list(map(float, taps)), lower, boundary, device)


def _called(name: str, computed: Callable[..., Tensor], tensors: tuple[Tensor | None, ...], *rest: Any) -> Tensor:
    """Call an operator: directly if PyTorch records nothing, as a function of ``torch.func`` under a transformation or with a tangent."""
    call: Callable[..., Any] = getattr(torch.ops.portatile, name)
    if not torch.compiler.is_compiling():
        if _eager(*tensors):
            call = computed
        elif _transformed():
            call = _TRANSFORMED[name].apply
    return cast(Tensor, call(*tensors, *rest))


def _eager(*tensors: Tensor | None) -> bool:
    """Whether a call needs no operator: plain tensors without gradients, and no mode or transformation of PyTorch is active.

    The operator would compute the same, after 40 us in PyTorch's dispatcher. False if PyTorch does not have the functions to tell.
    """
    recording = torch.is_grad_enabled()
    for tensor in tensors:
        if tensor is not None and (type(tensor) is not Tensor or tensor.is_meta or (recording and tensor.requires_grad)):
            return False
    try:
        modes = torch._C._len_torch_dispatch_stack() + torch._C._len_torch_function_stack()
        forward = forward_ad._current_level >= 0
        return not (modes or forward or torch.jit.is_tracing()) and torch._C._functorch.peek_interpreter_stack() is None
    except AttributeError:
        return False


def _transformed() -> bool:
    """Whether tensors may have tangents, or a transformation is active that needs more than operators provide."""
    try:
        functorch = torch._C._functorch
        active: Any = functorch.peek_interpreter_stack()
        functionalizes = active is not None and active.key() == functorch.TransformType.Functionalize
        return not functionalizes and (active is not None or forward_ad._current_level >= 0)
    except AttributeError:
        return False


def _computed(compute: Callable[..., Any], *tensors: Tensor | None) -> Tensor:
    """``compute`` on tensors that are either all in CUDA memory or all in host memory; raises ArgumentError for others."""
    if forward_ad._current_level >= 0 and any(
        forward_ad.unpack_dual(tensor).tangent is not None for tensor in tensors if tensor is not None
    ):
        raise ArgumentError("operators do not support tangents: call the functions of portatile.torch")
    detached = [None if tensor is None else tensor.detach() for tensor in tensors]
    there = [tensor for tensor in detached if tensor is not None]
    if not all(tensor.is_cuda for tensor in there) and not all(tensor.device.type == "cpu" for tensor in there):
        places = ", ".join(str(tensor.device) for tensor in there)
        raise ArgumentError(f"the tensors are on {places}; move them to one CUDA device or to the CPU")
    return cast(Tensor, compute(*detached))


def _size(shape: Sequence[Any], trans: str) -> tuple[Any, Any]:
    """Rows and columns of op(x)."""
    rows, columns = shape[-2:]
    return (rows, columns) if trans == "N" else (columns, rows)


def _gemm_computed(
    a: Tensor,
    b: Tensor,
    c: Tensor | None,
    alpha: float,
    beta: float,
    trans_a: str,
    trans_b: str,
    device: str | None,
    precision: str | None = None,
) -> Tensor:
    def compute(a: Any, b: Any, c: Any) -> Any:
        options: dict[str, Any] = {"trans_a": trans_a, "trans_b": trans_b, "precision": precision}
        return _gemm.gemm(a, b, c, alpha=alpha, beta=beta, device=device, **options)

    return _computed(compute, _readable(a), _readable(b), None if c is None else _readable(c))


def _readable(tensor: Tensor) -> Tensor:
    """A matrix whose rows or columns are contiguous, copied if needed; raises ArgumentError for fewer dimensions."""
    if tensor.ndim < 2:
        raise ArgumentError(f"a tensor of shape {tuple(tensor.shape)}; pass a matrix or a stack of them")
    if tensor.layout is not torch.strided:
        raise ArgumentError(f"a tensor of layout {tensor.layout}; pass a dense one, such as tensor.to_dense()")
    rows, columns = tensor.stride()[-2:]
    return tensor if (columns == 1 and rows >= tensor.shape[-1]) or (rows == 1 and columns >= tensor.shape[-2]) else tensor.contiguous()


def _gemm_shape(
    a: Tensor,
    b: Tensor,
    c: Tensor | None,
    alpha: float,
    beta: float,
    trans_a: str,
    trans_b: str,
    device: str | None,
    precision: str | None = None,
) -> Tensor:
    stack = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    (m, k), (inner, n) = _size(a.shape, trans_a), _size(b.shape, trans_b)
    if k != inner:
        raise ArgumentError(f"op(a) is {m} x {k} and op(b) is {inner} x {n}: the inner dimensions differ")
    possible = [getattr(torch, name) for name in RESULTS.get(str(a.dtype).removeprefix("torch."), ())] or [a.dtype]
    return a.new_empty((*stack, m, n), dtype=c.dtype if c is not None and c.dtype in possible else possible[0])


def _gemm_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    a, b, c, *ctx.rest = inputs
    ctx.save_for_backward(a, b)
    ctx.third = None if c is None else c.shape


def _transposed(operand: _Operand, trans: str) -> _Operand:
    """The transpose (T) or conjugate transpose (C) of op(x), as a tensor and the letter of its own op."""
    tensor, own = operand
    if not tensor.is_complex():
        return tensor, "T" if own == "N" else "N"
    if own == "N":
        return tensor, trans
    return (tensor, "N") if own == trans else (tensor.conj(), "N")


def _gemm_gradients(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    a, b = ctx.saved_tensors
    alpha, beta, trans_a, trans_b, device, precision = ctx.rest

    def product(first: _Operand, second: _Operand, trans: str, like: Tensor) -> Tensor:
        """The gradient of ``like`` from that of op(like), which is op(first) @ op(second)."""
        left, right = (first, second) if trans == "N" else (_transposed(second, trans), _transposed(first, trans))
        found = gemm(left[0], right[0], alpha=alpha, trans_a=left[1], trans_b=right[1], precision=precision, device=device)
        return found.sum_to_size(like.shape)

    given = gradient.contiguous(), "N"
    of_a = of_b = of_c = None
    if ctx.needs_input_grad[0]:
        of_a = product(given, _transposed((b, trans_b), "C"), trans_a, a)
    if ctx.needs_input_grad[1]:
        of_b = product(_transposed((a, trans_a), "C"), given, trans_b, b)
    if ctx.third is not None and ctx.needs_input_grad[2]:
        of_c = (beta * gradient).sum_to_size(ctx.third)
    return of_a, of_b, of_c, *(None,) * len(ctx.rest)


def _trsm_computed(
    a: Tensor, b: Tensor, side: str, uplo: str, trans: str, diag: str, alpha: float, device: str | None, precision: str | None = None
) -> Tensor:
    def compute(a: Any, b: Any) -> Any:
        options: dict[str, Any] = {"side": side, "uplo": uplo, "trans": trans, "diag": diag, "precision": precision}
        return _triangular.trsm(a, b, alpha=alpha, device=device, **options)

    return _computed(compute, a, b)


def _trsm_shape(
    a: Tensor, b: Tensor, side: str, uplo: str, trans: str, diag: str, alpha: float, device: str | None, precision: str | None = None
) -> Tensor:
    return b.new_empty((*torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:]))


def _trsm_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    a, _, *ctx.rest = inputs
    ctx.save_for_backward(a, output)


def _trsm_gradients(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    """For x = alpha M^-1 b with M = op(a), side L: y = M^-H g is the gradient of b over alpha, and - y x^H that of M."""
    a, x = ctx.saved_tensors
    side, uplo, trans, diag, alpha, device, precision = ctx.rest
    inverted, letter = _transposed((a, trans), "C")
    y = trsm(inverted, gradient.contiguous(), side=side, uplo=uplo, trans=letter, diag=diag, precision=precision, device=device)
    of_a = None
    if ctx.needs_input_grad[0]:
        first, second = ((y, "N"), _transposed((x, "N"), "C")) if side == "L" else (_transposed((x, "N"), "C"), (y, "N"))
        if trans != "N":
            first, second = _transposed(second, trans), _transposed(first, trans)
        product = gemm(first[0], second[0], alpha=-1.0, trans_a=first[1], trans_b=second[1], precision=precision, device=device)
        away = 1 if diag == "U" else 0
        of_a = product.tril(-away) if uplo == "L" else product.triu(away)
    return of_a, alpha * y, *(None,) * len(ctx.rest)


def _length(length: Any, taps: Sequence[float], boundary: str) -> Any:
    """The length of a filtered axis."""
    return length + {"grow": len(taps) - 1, "shrink": 1 - len(taps)}.get(boundary, 0)


def _convolve1d_computed(psi: Tensor, taps: Sequence[float], lower: int, boundary: str, device: str | None) -> Tensor:
    if psi.ndim != 2:
        raise ArgumentError(f"psi has shape {tuple(psi.shape)}; pass two dimensions, of which the first is filtered")
    way = cast(Boundary, boundary)
    return _computed(lambda psi: _convolve.convolve1d(psi, taps, lower=lower, boundary=way, device=device), psi.contiguous())


def _convolve1d_shape(psi: Tensor, taps: Sequence[float], lower: int, boundary: str, device: str | None) -> Tensor:
    length, lines = psi.shape
    return psi.new_empty((lines, _length(length, taps, boundary))).T


def _convolve3d_computed(psi: Tensor, taps: Sequence[float], lower: int, boundary: str, device: str | None) -> Tensor:
    way = cast(Boundary, boundary)
    return _computed(lambda psi: _convolve.convolve3d_separable(psi, taps, lower=lower, boundary=way, device=device), psi.contiguous())


def _convolve3d_shape(psi: Tensor, taps: Sequence[float], lower: int, boundary: str, device: str | None) -> Tensor:
    return psi.new_empty([_length(length, taps, boundary) for length in psi.shape])


def _filter_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, *ctx.rest = inputs


def _adjoint(filtered: Callable[..., Tensor]) -> Callable[[Any, Tensor], tuple[Any, ...]]:
    """The gradient of a filter: the filter backwards, where what was lost at the boundary comes back as zeros."""

    def gradients(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        taps, lower, boundary, device = ctx.rest
        last = lower + len(taps) - 1
        gradient_of_psi = filtered(gradient, taps[::-1], lower=-last, boundary=cast(Boundary, _ADJOINT[boundary]), device=device)
        return gradient_of_psi, None, None, None, None

    return gradients


def _gemm_batch(info: Any, dims: tuple[Any, ...], a: Tensor, b: Tensor, c: Tensor | None, *rest: Any) -> tuple[Tensor, int]:
    """A batch of calls, along ``dims`` of the tensors that have one, as one call on stacks."""
    rank = max(one.ndim - (dim is not None) for one, dim in zip((a, b), dims, strict=False))

    def first(one: Tensor, dim: int | None) -> Tensor:
        if dim is None:
            return one
        moved = one.movedim(dim, 0).contiguous()
        return moved.reshape(len(moved), *(1,) * (rank + 1 - moved.ndim), *moved.shape[1:])

    third = c if c is None or dims[2] is not None else c.expand(info.batch_size, *c.shape)
    third = None if third is None else first(third, dims[2] or 0)
    return torch.ops.portatile.gemm(first(a, dims[0]), first(b, dims[1]), third, *rest), 0


def _gemm_tangent(given: tuple[Any, ...], output: Tensor, tangents: tuple[Any, ...]) -> Any:
    a, b, _, alpha, beta, trans_a, trans_b, device, precision = given
    of_a, of_b, of_c, *_ = tangents
    pairs = [pair for pair in ((of_a, b), (a, of_b)) if pair[0] is not None and pair[1] is not None]
    letters: dict[str, Any] = {"trans_a": trans_a, "trans_b": trans_b, "device": device, "precision": precision}
    terms = [gemm(first, second, alpha=alpha, **letters) for first, second in pairs]
    if of_c is not None:
        terms.append((beta * of_c).expand(output.shape))
    return sum(terms[1:], terms[0])


def _trsm_tangent(given: tuple[Any, ...], output: Tensor, tangents: tuple[Any, ...]) -> Any:
    """For x = alpha M^-1 b with M = op(a), side L: the tangent is M^-1 (alpha db - dM x)."""
    a, _, side, uplo, trans, diag, alpha, device, precision = given
    of_a, of_b, *_ = tangents
    right = torch.zeros_like(output) if of_b is None else alpha * of_b
    if of_a is not None:
        away = 1 if diag == "U" else 0
        triangle = of_a.tril(-away) if uplo == "L" else of_a.triu(away)
        first, second, letters = (triangle, output, (trans, "N")) if side == "L" else (output, triangle, ("N", trans))
        right = right - gemm(first, second, trans_a=letters[0], trans_b=letters[1], precision=precision, device=device)
    return trsm(a, right, side=side, uplo=uplo, trans=trans, diag=diag, precision=precision, device=device)


def _filtered_tangent(filtered: Callable[..., Tensor]) -> Callable[..., Any]:
    def tangent(given: tuple[Any, ...], output: Tensor, tangents: tuple[Any, ...]) -> Any:
        _, taps, lower, boundary, device = given
        return filtered(tangents[0], taps, lower=lower, boundary=boundary, device=device)

    return tangent


_TRANSFORMED: dict[str, type[torch.autograd.Function]] = {}  # the operators as functions for ``torch.func``


def _transforming(operator: Any, gradients: Any, context: Any, tangent: Any) -> type[torch.autograd.Function]:
    class Transformed(torch.autograd.Function):  # type: ignore[misc]
        generate_vmap_rule = True  # one call for each item of a batch

        @staticmethod
        def forward(*given: Any) -> Any:
            return operator(*[one.detach() if isinstance(one, Tensor) else one for one in given])

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            context(ctx, inputs, output)
            ctx.tensors = tuple(isinstance(one, Tensor) for one in inputs)
            ctx.numbers = tuple(None if isinstance(one, Tensor) else one for one in inputs)
            ctx.save_for_forward(*[one for one in inputs if isinstance(one, Tensor)], output)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return gradients(ctx, *grads)

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            *saved, output = ctx.saved_tensors
            rest = iter(saved)
            given = tuple(next(rest) if is_tensor else number for is_tensor, number in zip(ctx.tensors, ctx.numbers, strict=True))
            return tangent(given, output, tangents)

    return Transformed


def _register(name: str, computed: Any, shape: Any, gradients: Any, context: Any, tangent: Any) -> None:
    operator = torch.library.custom_op(f"portatile::{name}", computed, mutates_args=())
    operator.register_fake(shape)
    operator.register_autograd(gradients, setup_context=context)
    _TRANSFORMED[name] = _transforming(operator, gradients, context, tangent)


_register("gemm", _gemm_computed, _gemm_shape, _gemm_gradients, _gemm_context, _gemm_tangent)
_register("trsm", _trsm_computed, _trsm_shape, _trsm_gradients, _trsm_context, _trsm_tangent)
_register("convolve1d", _convolve1d_computed, _convolve1d_shape, _adjoint(convolve1d), _filter_context, _filtered_tangent(convolve1d))
_3d = convolve3d_separable
_register(_3d.__name__, _convolve3d_computed, _convolve3d_shape, _adjoint(_3d), _filter_context, _filtered_tangent(_3d))
if hasattr(torch.library, "register_vmap"):  # otherwise each call of a batch is made separately
    torch.library.register_vmap("portatile::gemm", _gemm_batch)
