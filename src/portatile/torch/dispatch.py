"""How the functions of ``portatile.torch`` are called: as PyTorch operators where PyTorch records or transforms, else directly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.autograd import forward_ad

from portatile.errors import ArgumentError


class Operator(NamedTuple):
    """The parts of an operator: its computation, the shape of its result, its gradients with their context, and its tangent."""

    compute: Callable[..., Tensor]
    shape: Callable[..., Tensor]
    gradients: Callable[..., tuple[Any, ...]]
    context: Callable[..., None]
    tangent: Callable[..., Any]


_TRANSFORMED: dict[str, type[torch.autograd.Function]] = {}  # the operators as functions for ``torch.func``


def register(name: str, operator: Operator) -> None:
    """Register an operator as ``torch.ops.portatile.NAME``."""
    custom = torch.library.custom_op(f"portatile::{name}", operator.compute, mutates_args=())
    custom.register_fake(operator.shape)
    custom.register_autograd(operator.gradients, setup_context=operator.context)
    _TRANSFORMED[name] = _transforming(custom, operator)


def called(name: str, computed: Callable[..., Tensor], tensors: tuple[Tensor | None, ...], *rest: Any) -> Tensor:
    """Call an operator: directly if PyTorch records nothing, as a function of ``torch.func`` under a transformation or with a tangent."""
    call: Callable[..., Any] = getattr(torch.ops.portatile, name)
    if not torch.compiler.is_compiling():
        if needs_no_operator(*tensors):
            call = computed
        elif _transformed():
            call = _TRANSFORMED[name].apply
    return cast(Tensor, call(*tensors, *rest))


def needs_no_operator(*tensors: Tensor | None) -> bool:
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


def in_one_place(compute: Callable[..., Any], *tensors: Tensor | None) -> Tensor:
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


def _transforming(custom: Any, operator: Operator) -> type[torch.autograd.Function]:
    """The operator as a function for ``torch.func``; ``custom`` computes it."""

    class Transformed(torch.autograd.Function):  # type: ignore[misc]
        generate_vmap_rule = True  # one call for each item of a batch

        @staticmethod
        def forward(*given: Any) -> Any:
            return custom(*[one.detach() if isinstance(one, Tensor) else one for one in given])

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            operator.context(ctx, inputs, output)
            ctx.tensors = tuple(isinstance(one, Tensor) for one in inputs)
            ctx.numbers = tuple(None if isinstance(one, Tensor) else one for one in inputs)
            ctx.save_for_forward(*[one for one in inputs if isinstance(one, Tensor)], output)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return operator.gradients(ctx, *grads)

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            *saved, output = ctx.saved_tensors
            rest = iter(saved)
            given = tuple(next(rest) if is_tensor else number for is_tensor, number in zip(ctx.tensors, ctx.numbers, strict=True))
            return operator.tangent(given, output, tangents)

    return Transformed
