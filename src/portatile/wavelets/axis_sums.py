"""The sum of filters along each axis of a volume, such as the kinetic operator, for NumPy arrays and Buffers."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile import device as devices
from portatile.arguments import checks, matrices, outputs
from portatile.arguments.axes import AXES
from portatile.device.buffer import Buffer
from portatile.device.masked_arrays import refuse_masks
from portatile.errors import ArgumentError
from portatile.routines.convolve import convolve1d
from portatile.runtime.one_device import memory_limit
from portatile.runtime.perform import constant
from portatile.runtime.repeated.recorded import Planned, Recorder
from portatile.runtime.request import Request, RoutineCall
from portatile.wavelets import pointwise


def sum_over_axes(psi: Any, filters: NDArray[Any], lower: int, boundary: tuple[str, ...], device: str | None) -> Any:
    """The sum of ``convolve1d`` along each axis with its row of ``filters``, in the axis order of ``psi``: a NumPy array, or a packed
    Buffer.

    No filter makes its axis longer or shorter.
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
    elif not matrices.is_packed(psi):
        raise ArgumentError("psi is a Buffer that is not C-contiguous; copy it, for example with portatile.Buffer.from_numpy(psi.numpy())")
    return by_one_call(psi, filters, lower, boundary, device)


def by_one_call(psi: Any, filters: NDArray[Any], lower: int, boundary: tuple[str, ...], device: str | None) -> Any:
    """``sum_over_axes`` of a packed array, or of each volume of a batch, by one recorded call; None if a single call cannot compute it.

    That is so for one-dimensional and empty arrays, Buffers with strides, and unknown dtypes.
    """
    options = (filters.tobytes(), filters.shape, lower, boundary)
    return _RECORDER.call(partial(_plan, filters, lower, boundary), (psi,), (), options, None, device)


def _plan(filters: NDArray[Any], lower: int, boundary: tuple[str, ...], call: RoutineCall) -> Planned:
    """A request for each volume; no result for arrays that ``by_one_call`` does not support."""
    (given,) = call.arrays
    axes = len(boundary)
    psi = given if isinstance(given, np.ndarray) else Buffer.wrap(given)
    if axes == 1 or psi.size == 0 or psi.dtype not in checks.NAMES:
        return Planned(None, ())
    result = outputs.new(given, psi.shape)
    out: Any = result
    weights: Any = filters.astype(psi.dtype)
    if isinstance(psi, Buffer):
        if not matrices.is_packed(psi):
            return Planned(None, ())
        out, weights = Buffer.wrap(result), constant(psi.device, weights, result)
    points = (1,) * (AXES - axes) + psi.shape[-axes:]
    options = (*("periodic",) * (AXES - axes), *boundary, axes, filters.shape[1], lower)
    stored = matrices.matrix(weights, "filter")._replace(alignment=psi.dtype.itemsize)
    requests = []
    for volume, target in [(psi, out)] if psi.ndim == axes else [(psi[at], out[at]) for at in range(psi.shape[0])]:
        operands = matrices.matrix(_lines(volume), "psi"), stored, matrices.matrix(_lines(target), "out").read_if(False)
        requests.append(Request("stencil", points, options, operands, result, call.device, constants=(1,)))
    return Planned(result, requests)


def _lines(array: Any) -> Any:
    """A C-contiguous array as a matrix, whose rows are along the last axis."""
    shape = prod(array.shape[:-1]), array.shape[-1]
    return array.reshape(shape) if isinstance(array, np.ndarray) else Buffer(array.memory, shape, array.dtype, None, array.offset)


def _by_passes(psi: NDArray[Any], filters: NDArray[Any], lower: int, boundary: tuple[str, ...], device: str | None) -> Any:
    """Axis by axis, for a volume that is too large for the device: the axes are rotated so that each comes first once."""
    total: Any = None
    for taps, kind in zip(filters, boundary, strict=True):
        part: Any = convolve1d(psi, taps, lower=lower, boundary=kind, transposed=True, device=device)  # type: ignore[arg-type]
        total = part if total is None else pointwise.add(part, np.moveaxis(total, 0, -1))
        psi = np.moveaxis(psi, 0, -1)
    return total


_RECORDER = Recorder(())
