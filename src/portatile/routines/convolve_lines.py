"""One pass of a convolution: filters the first axis of an array, which becomes the last axis of the result that kernels write."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from portatile import workloads
from portatile.arguments import checks, matrices, outputs
from portatile.arguments.axes import described
from portatile.device import Selector
from portatile.device.buffer import Buffer
from portatile.device.dlpack import packed
from portatile.device.masked_arrays import refuse_masks
from portatile.errors import ArgumentError
from portatile.runtime.host.numpy_lines import Lines
from portatile.runtime.one_device.scratch import scratch
from portatile.runtime.perform import constant, perform
from portatile.runtime.repeated.recorded import Planned, Recorder
from portatile.runtime.request import Request, RoutineCall


@dataclass(frozen=True)
class IntermediateBlock:
    """The place of a result that only the next pass reads: block ``place`` of the device's scratch memory."""

    place: int


class LineFilter(NamedTuple):
    """A filter of lines: ``taps`` of shape (1, count), or (2, count) for a bank of two; its ``key`` is part of a recorded call's key.

    The taps must not change while it is used.
    """

    taps: NDArray[Any]
    key: tuple[object, ...]

    @classmethod
    def of(cls, taps: NDArray[Any], lower: Any, boundary: str, bank: str) -> LineFilter:
        """From taps, their first index, the boundary, and the bank: ``single``, ``analysis`` or ``synthesis``."""
        return cls(taps, (*spelled(taps), lower, type(lower), boundary, bank))


def filter_lines(
    psi: Any,
    line_filter: LineFilter,
    transposed: bool,
    device: Selector | None,
    into: Buffer | IntermediateBlock | NDArray[Any] | None = None,
) -> Any:
    """The convolution of ``psi`` along its first axis. Raises ArgumentError for what does not fit.

    The result goes to ``into`` if given, else to a new array; with ``transposed`` its filtered axis is the last, as the kernels write it. A
    NumPy ``into`` is C-contiguous, with that axis last.
    """
    lines, rest = _lines(psi)
    filters, options = line_filter
    if into is None or isinstance(into, np.ndarray):
        out = None if into is None else into.reshape(-1, into.shape[-1])
        result = _LINES.call(partial(_plan_lines, filters, rest, None), (lines,), (), options, out, device)
    else:
        planned = _plan_lines(filters, rest, into, RoutineCall((lines,), (), options, None, device))
        perform(planned.requests[0])
        result = planned.result
    return _shaped(result, rest, result.shape[1], transposed)


def _plan_lines(filters: NDArray[Any], rest: tuple[int, ...], into: Buffer | IntermediateBlock | None, call: RoutineCall) -> Planned:
    """The request for the convolution of lines, the columns of a matrix. Raises ArgumentError for what does not fit."""
    (lines,), (lower, _, boundary, bank) = call.arrays, call.options[-4:]
    description = workloads.get("convolution")
    count = filters.shape[1]
    if count not in description.options["taps"]:
        raise ArgumentError(f"{count} taps; a filter has 1 to {max(map(int, description.options['taps']))}")
    if isinstance(lower, bool) or lower not in description.options["lower"]:
        bounds = sorted(map(int, description.options["lower"]))
        raise ArgumentError(f"lower={lower!r} is not an integer from {bounds[0]} to {bounds[-1]}")
    stored = matrices.matrix(lines, "psi")
    if stored.transposed:
        raise ArgumentError("psi is column-major; pass a row-major copy")
    ends = max(count - filters.shape[0], 0)
    n = stored.rows - (ends if boundary == "shrink" else 0)
    if n < 0 or (n == 0 and boundary == "grow"):
        raise ArgumentError(f"psi has {stored.rows} points along its first axis, too few for {count} taps with boundary={boundary!r}")
    length = n + (ends if boundary == "grow" else 0)
    out = call.out  # only given with NumPy arrays
    if out is not None and (out.shape != (stored.columns, length) or out.dtype != stored.array.dtype):
        raise ArgumentError(f"out is {described(out)}; the result is a matrix of {stored.columns} x {length} {stored.array.dtype}")
    result = _result(lines, (stored.columns, length), rest, into) if out is None else out
    weights: Any = np.array(filters, stored.array.dtype, order="C")
    if stored.on_device:
        weights = constant(stored.array.device, weights, result)
    operands = (
        stored,
        matrices.matrix(weights, "taps")._replace(alignment=weights.dtype.itemsize),
        matrices.matrix(result, "out").read_if(False),
    )
    sizes, options = (n, stored.columns), (boundary, bank, count, int(lower))
    return Planned(result, [Request("convolution", sizes, options, operands, result, call.device, constants=(1,))])


def _result(lines: Any, shape: tuple[int, int], rest: tuple[int, ...], into: Buffer | IntermediateBlock | None) -> Any:
    """The matrix that receives the transposed result of ``shape``. Raises ArgumentError if ``into`` differs in size or has gaps."""
    if into is None:
        return outputs.new(lines, shape)
    if isinstance(into, IntermediateBlock):
        return Buffer(scratch(lines.device).block(into.place, prod(shape) * lines.dtype.itemsize), shape, lines.dtype)
    check_out(into, (*rest, shape[1]), lines)
    return Buffer(into.memory, shape, into.dtype, None, into.offset)


def check_out(out: Buffer, wanted: tuple[int, ...], psi: Buffer) -> None:
    """Raise ArgumentError if a result of the shape ``wanted`` cannot go to ``out``."""
    checks.check_alive(out, "out")
    contiguous = out.strides == packed(out.shape, out.dtype.itemsize)
    if out.shape != wanted or out.dtype != psi.dtype or out.device is not psi.device or not contiguous:
        raise ArgumentError(f"out is {described(out)}; the result is a C-contiguous Buffer of {wanted} {psi.dtype} on {psi.device.info.id}")


def _lines(psi: Any) -> tuple[Any, tuple[int, ...]]:
    """``psi`` as a row-major matrix, with a column for each line along the first axis, and the shape of its other axes."""
    if not isinstance(psi, (np.ndarray, Buffer)):
        if getattr(psi, "ndim", 0) != 2:
            raise ArgumentError(f"psi is {described(psi)}; pass a NumPy array or Buffer, or a CUDA array of two dimensions")
        return psi, tuple(psi.shape[1:])
    checks.check_dtype(psi.dtype, "psi")
    if psi.ndim == 0:
        raise ArgumentError("psi has no axis to convolve along")
    rest = psi.shape[1:]
    if isinstance(psi, np.ndarray):
        refuse_masks(psi, "psi")
        if psi.ndim == 2 and psi.strides[1] == psi.itemsize and psi.strides[0] >= rest[0] * psi.itemsize and psi.flags.aligned:
            return psi, rest  # padded rows are read in place
        return np.ascontiguousarray(psi).reshape(psi.shape[0], prod(rest)), rest
    if psi.ndim == 2:
        return psi, rest
    if psi.size and psi.strides != packed(psi.shape, psi.dtype.itemsize):
        raise ArgumentError("psi is a Buffer that is not C-contiguous; one of two dimensions may be padded, others may not")
    return Buffer(psi.memory, (psi.shape[0], prod(rest)), psi.dtype, None, psi.offset), rest


def _shaped(result: Any, rest: tuple[int, ...], length: int, transposed: bool) -> Any:
    """The matrix that kernels wrote, with the axes that were asked for."""
    if len(rest) == 1:
        return result if transposed else result.T
    if isinstance(result, np.ndarray):
        shaped = result.reshape(*rest, length)
        return shaped if transposed else np.moveaxis(shaped, -1, 0)
    size = result.dtype.itemsize
    buffer = Buffer(result.memory, (*rest, length), result.dtype, None, result.offset)
    return buffer if transposed else Buffer(result.memory, (length, *rest), result.dtype, (size, *buffer.strides[:-1]), result.offset)


def spelled(filters: NDArray[Any]) -> tuple[object, ...]:
    """The filters as hashable values."""
    return filters.dtype.str, filters.shape, filters.tobytes()


_LINES = Recorder((), host=Lines())
