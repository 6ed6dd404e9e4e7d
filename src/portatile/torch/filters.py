"""Convolutions as PyTorch operators: convolve1d and convolve3d_separable with their gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from torch import Tensor

from portatile.arguments.axes import Boundary
from portatile.errors import ArgumentError
from portatile.routines import convolve as _convolve
from portatile.torch.dispatch import Operator, called, in_one_place, register

_ADJOINT = {"periodic": "periodic", "zero": "zero", "grow": "shrink", "shrink": "grow"}  # the adjoint of each boundary


def convolve1d(psi: Tensor, taps: Sequence[float], *, lower: int, boundary: Boundary = "periodic", device: str | None = None) -> Tensor:
    """``portatile.convolve1d`` along the first of two dimensions, with the gradient of ``psi``; the ``taps`` are constants.

    Raises ArgumentError for what does not fit.
    """
    return called("convolve1d", _compute1d, (psi,), list(map(float, taps)), lower, boundary, device)


def convolve3d_separable(
    psi: Tensor, taps: Sequence[float], *, lower: int, boundary: Boundary = "periodic", device: str | None = None
) -> Tensor:
    """``portatile.convolve3d_separable`` with one filter for all axes and the gradient of ``psi``; the ``taps`` are constants.

    Raises ArgumentError for what does not fit.
    """
    return called("convolve3d_separable", _compute3d, (psi,), list(map(float, taps)), lower, boundary, device)


def _length(length: Any, taps: Sequence[float], boundary: str) -> Any:
    """The length of a filtered axis."""
    return length + {"grow": len(taps) - 1, "shrink": 1 - len(taps)}.get(boundary, 0)


def _compute1d(psi: Tensor, taps: Sequence[float], lower: int, boundary: str, device: str | None) -> Tensor:
    if psi.ndim != 2:
        raise ArgumentError(f"psi has shape {tuple(psi.shape)}; pass two dimensions, of which the first is filtered")
    way = cast(Boundary, boundary)
    return in_one_place(lambda psi: _convolve.convolve1d(psi, taps, lower=lower, boundary=way, device=device), psi.contiguous())


def _shape1d(psi: Tensor, taps: Sequence[float], lower: int, boundary: str, device: str | None) -> Tensor:
    length, lines = psi.shape
    return psi.new_empty((lines, _length(length, taps, boundary))).T


def _compute3d(psi: Tensor, taps: Sequence[float], lower: int, boundary: str, device: str | None) -> Tensor:
    way = cast(Boundary, boundary)
    return in_one_place(lambda psi: _convolve.convolve3d_separable(psi, taps, lower=lower, boundary=way, device=device), psi.contiguous())


def _shape3d(psi: Tensor, taps: Sequence[float], lower: int, boundary: str, device: str | None) -> Tensor:
    return psi.new_empty([_length(length, taps, boundary) for length in psi.shape])


def _context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, *ctx.rest = inputs


def _adjoint(filtered: Callable[..., Tensor]) -> Callable[[Any, Tensor], tuple[Any, ...]]:
    """The gradient of a filter: the filter backwards, where what was lost at the boundary comes back as zeros."""

    def gradients(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        taps, lower, boundary, device = ctx.rest
        last = lower + len(taps) - 1
        gradient_of_psi = filtered(gradient, taps[::-1], lower=-last, boundary=cast(Boundary, _ADJOINT[boundary]), device=device)
        return gradient_of_psi, None, None, None, None

    return gradients


def _tangent(filtered: Callable[..., Tensor]) -> Callable[..., Any]:
    def tangent(given: tuple[Any, ...], output: Tensor, tangents: tuple[Any, ...]) -> Any:
        _, taps, lower, boundary, device = given
        return filtered(tangents[0], taps, lower=lower, boundary=boundary, device=device)

    return tangent


def _register(filtered: Callable[..., Tensor], compute: Callable[..., Tensor], shape: Callable[..., Tensor]) -> None:
    register(filtered.__name__, Operator(compute, shape, _adjoint(filtered), _context, _tangent(filtered)))


_register(convolve1d, _compute1d, _shape1d)
_register(convolve3d_separable, _compute3d, _shape3d)
