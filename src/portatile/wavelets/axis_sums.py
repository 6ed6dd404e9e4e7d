"""Sums of filters along each axis of a volume, such as the kinetic operator, of NumPy arrays and Buffers."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile import device as devices
from portatile.arguments import checks, matrices, outputs
from portatile.device.buffer import Buffer, refuse_masks
from portatile.errors import ArgumentError
from portatile.routines.convolve import convolve1d
from portatile.runtime import memory_limit
from portatile.runtime.perform import perform
from portatile.runtime.request import Request
from portatile.runtime.scratch import scratch
from portatile.wavelets import pointwise


def sum_over_axes(
    psi: Any, filters: NDArray[Any], lower: int, boundary: tuple[str, ...], device: str | None, out: Buffer | None = None
) -> Any:
    """The sum of ``convolve1d`` along each axis with its row of ``filters``, in the order of ``psi``: a NumPy array, or a packed Buffer.

    No filter makes its axis longer or shorter. The sum of a Buffer goes to ``out`` if given, of psi's shape and dtype.
    """
    checks.check_dtype(psi.dtype, "psi")
    refuse_masks(psi, "psi")
    if psi.size == 0:
        return outputs.new(psi, psi.shape)
    if psi.ndim == 1:
        return convolve1d(psi, filters[0], lower=lower, boundary=boundary[0], device=device)  # type: ignore[arg-type]
    if isinstance(psi, np.ndarray):
        if memory_limit.too_large(devices.get(device), (psi.nbytes, psi.nbytes)):
            return _by_passes(psi, filters, lower, boundary, device)
        psi = np.ascontiguousarray(psi)
        weights: Any = filters.astype(psi.dtype)
        result: Any = np.empty_like(psi)
    else:
        if not matrices.is_packed(psi):
            raise ArgumentError(
                "psi is a Buffer that is not C-contiguous; copy it, for example with portatile.Buffer.from_numpy(psi.numpy())"
            )
        weights = scratch(psi.device).constant(filters.astype(psi.dtype))
        result = Buffer.empty(psi.shape, psi.dtype, psi.device) if out is None else out
    points = (1,) * (3 - psi.ndim) + psi.shape
    kinds = ("periodic",) * (3 - psi.ndim) + boundary
    operands = (
        matrices.matrix(_lines(psi), "psi"),
        matrices.matrix(weights, "filter")._replace(alignment=psi.dtype.itemsize),
        matrices.matrix(_lines(result), "out").reading(False),
    )
    options = (*kinds, psi.ndim, filters.shape[1], lower)
    perform(Request("stencil", points, options, operands, result, device))
    return result


def _lines(array: Any) -> Any:
    """A C-contiguous array as a matrix of its rows."""
    shape = prod(array.shape[:-1]), array.shape[-1]
    return array.reshape(shape) if isinstance(array, np.ndarray) else Buffer(array.memory, shape, array.dtype, None, array.offset)


def _by_passes(psi: NDArray[Any], filters: NDArray[Any], lower: int, boundary: tuple[str, ...], device: str | None) -> Any:
    """Axis by axis, for a volume that is too large for the device: each axis in turn comes first, and the others follow in order."""
    total: Any = None
    for taps, kind in zip(filters, boundary, strict=True):
        part: Any = convolve1d(psi, taps, lower=lower, boundary=kind, transposed=True, device=device)  # type: ignore[arg-type]
        total = part if total is None else pointwise.add(part, np.moveaxis(total, 0, -1))
        psi = np.moveaxis(psi, 0, -1)
    return total
