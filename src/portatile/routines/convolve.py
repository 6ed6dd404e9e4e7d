"""Convolutions along the first axis, and along all three: the separable filters of signal and wave-function grids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from portatile import device as devices
from portatile import workloads
from portatile.device.buffer import Buffer, refuse_masks
from portatile.device.dlpack import packed
from portatile.errors import ArgumentError
from portatile.routines import arrays, limit, pointwise, runtime, volume
from portatile.routines.arrays import Array
from portatile.routines.engine import engine
from portatile.routines.scratch import SHARE, scratch

Boundary = Literal["periodic", "zero", "grow", "shrink"]
Bank = Literal["analysis", "synthesis"]

_AXES = 3
_NAMES = {np.dtype(name): name for name in ("float32", "float64")}


def convolve1d(
    psi: Array, taps: ArrayLike, *, lower: int, boundary: Boundary = "periodic", transposed: bool = False, device: str | None = None
) -> Array:
    """The sums over l of ``taps[l - lower] * psi[i + l]`` along the first axis (a correlation, as BigDFT's filters are).

    ``psi`` is float32 or float64 of any number of dimensions, ``taps`` one-dimensional, at most 64 numbers that stand for
    l = lower, lower + 1, ... and are rounded to the type of ``psi``. ``boundary``: ``periodic`` takes i + l modulo the
    length, ``zero`` takes zeros outside; with ``grow`` the result has every element that is not zero, taps - 1 more than
    ``psi``, with ``shrink`` only those whose sums lie inside, taps - 1 fewer.

    The result has the axes of ``psi``, but its memory is the transposed one that the kernels write: a view whose first
    axis is contiguous. With ``transposed`` it is that memory as it is, C-contiguous with the filtered axis last. NumPy
    arrays and Buffers may have any number of dimensions, arrays of other libraries two; what is not C-contiguous is copied
    if it is a NumPy array and refused otherwise. Raises ArgumentError for what does not fit.

    Examples:
        >>> import numpy as np, portatile
        >>> portatile.convolve1d(np.array([[1.0], [2.0], [4.0]]), [-1.0, 1.0], lower=0)[:, 0]
        array([ 1.,  2., -3.])
    """
    return cast(Array, _filter(psi, _one_filter(taps), lower, boundary, "single", transposed, device))


def filter_bank1d(
    psi: Array,
    filters: ArrayLike,
    *,
    lower: int,
    bank: Bank,
    boundary: Boundary = "periodic",
    transposed: bool = False,
    device: str | None = None,
) -> Array:
    """Two filters in turn along the first axis: the even outputs 2q of ``filters[0]``, the odd ones of ``filters[1]``.

    Both begin at 2q + ``lower``. ``analysis`` gives the even outputs in the first half of the result and the odd ones in the
    second; ``synthesis`` takes such halves in turn as its input, and its outputs stay in order. ``grow`` and ``shrink``
    change the length by taps - 2. The rest is as for ``convolve1d``.

    Examples:
        >>> import numpy as np, portatile
        >>> haar = np.array([[0.5, 0.5], [0.5, -0.5]])
        >>> portatile.filter_bank1d(np.array([[1.0], [3.0], [4.0], [8.0]]), haar, lower=0, bank="analysis")[:, 0]
        array([ 2.,  6., -1., -2.])
    """
    if bank not in ("analysis", "synthesis"):
        raise ArgumentError(f"bank={bank!r} is not one of analysis, synthesis")
    pair = _numbers(filters, "filters")
    if pair.ndim != 2 or pair.shape[0] != 2 or pair.dtype.kind not in "fiu":
        raise ArgumentError(f"filters is {described(pair)}; a filter bank has two rows of taps, real numbers")
    return cast(Array, _filter(psi, pair, lower, boundary, bank, transposed, device))


def convolve3d_separable(
    array: Array,
    taps: ArrayLike,
    *,
    lower: int,
    boundary: Boundary | Sequence[Boundary] = "periodic",
    out: Buffer | None = None,
    device: str | None = None,
) -> Array:
    """``convolve1d`` along each of three axes in turn: the product of the three filters. C-contiguous, in the order of ``array``.

    Each pass filters the first axis and makes it the last, so that three restore the order; between them nothing leaves
    the device. One ``boundary`` for all axes or one for each. NumPy arrays and Buffers; of a Buffer the result may go to ``out``,
    a C-contiguous one, ``array`` itself where the shapes agree.

    Examples:
        >>> import numpy as np, portatile
        >>> portatile.convolve3d_separable(np.ones((4, 3, 2)), [0.5, 0.5], lower=0).shape
        (4, 3, 2)
    """
    return passes3d(array, _one_filter(taps), lower, "single", boundary, device, out)


def passes3d(
    array: Array,
    filters: NDArray[Any],
    lower: int,
    bank: str,
    boundary: Boundary | Sequence[Boundary],
    device: str | None,
    out: Buffer | None = None,
) -> Array:
    """One transposing pass for each of three axes with the rows of ``filters``, one row or the two of a ``bank``."""
    boundaries = (boundary,) * _AXES if isinstance(boundary, str) or not isinstance(boundary, Sequence) else tuple(boundary)
    if not isinstance(array, (np.ndarray, Buffer)) or array.ndim != _AXES:
        raise ArgumentError(f"a NumPy array or Buffer of {_AXES} dimensions is needed, not {described(array)}")
    if len(boundaries) != _AXES:
        raise ArgumentError(f"{len(boundaries)} boundaries for {_AXES} axes; give one for all or one for each")
    current: Any = array
    moved = isinstance(array, np.ndarray) and array.size > 0 and not devices.get(device).info.unified_memory
    if moved:
        largest = array.nbytes // array.size * prod(n + filters.shape[1] for n in array.shape)
        moved = not limit.too_large(devices.get(device), (largest, largest))
    if moved:
        arrays.check_dtype(current.dtype, "psi")
        refuse_masks(current, "psi")
        current = Buffer.from_numpy(current, devices.get(device))
    if out is not None and not (isinstance(array, Buffer) and isinstance(out, Buffer)):
        raise ArgumentError(f"out is {described(out)}; only the result of a Buffer can go to one, another Buffer")
    if isinstance(current, Buffer) and (done := _at_once(current, filters, lower, bank, boundaries, device, out)) is not None:
        current = done
    elif isinstance(current, Buffer):
        with engine(current.device).lock:  # the memory between the passes is everybody's
            for axis, kind in enumerate(boundaries):
                current = _filter(current, filters, lower, kind, bank, True, device, _Between(axis) if axis < _AXES - 1 else out)
    else:
        for kind in boundaries:
            current = _filter(current, filters, lower, kind, bank, True, device)
    return cast(Array, current.numpy() if moved and isinstance(current, Buffer) else current)


def sum_over_axes(psi: Array, filters: Sequence[NDArray[Any]], lower: int, boundary: Boundary, device: str | None) -> Array:
    """The sum of ``convolve1d`` along each axis with its one of ``filters``, in the order of ``psi``, a NumPy array or a Buffer.

    A device with memory of its own is given a NumPy array once.
    """
    current: Any = psi
    arrays.check_dtype(current.dtype, "psi")
    refuse_masks(current, "psi")
    moved = isinstance(psi, np.ndarray) and psi.size > 0 and not devices.get(device).info.unified_memory
    if moved and not limit.too_large(devices.get(device), (current.nbytes,) * 5):
        current = Buffer.from_numpy(np.ascontiguousarray(psi), devices.get(device))
    total: Any = None
    for axis, taps in enumerate(filters):  # each is the first axis in turn, and the others follow in order
        part: Any = convolve1d(current, taps, lower=lower, boundary=boundary, transposed=True, device=device)
        total = part if total is None else pointwise.add(part, _turned(total, device))
        if axis + 1 < len(filters):
            current = _turned(current, device)
    return cast(Array, total.numpy() if isinstance(psi, np.ndarray) and isinstance(total, Buffer) else total)


def _turned(array: Any, device: str | None) -> Any:
    """The array with its first axis as its last one."""
    if isinstance(array, np.ndarray):
        return np.moveaxis(array, 0, -1)
    return convolve1d(array, [1.0], lower=0, transposed=True, device=device)


def _at_once(
    psi: Buffer, filters: NDArray[Any], lower: int, bank: str, boundaries: tuple[str, ...], device: str | None, out: Buffer | None
) -> Buffer | None:
    """All passes as one plan; None where a single pass has to say what is wrong, or where memory is too scarce to keep some."""
    options = workloads.get("convolution").options
    dtype, size = _NAMES.get(psi.dtype), psi.dtype.itemsize
    sound = dtype is not None and psi.strides == packed(psi.shape, size) and not psi.offset % size
    sound = sound and filters.shape[1] in options["taps"] and not isinstance(lower, bool) and lower in options["lower"]
    if not sound or not set(boundaries) <= set(options["boundary"]) or (device is not None and devices.get(device) is not psi.device):
        return None
    ends = max(filters.shape[1] - filters.shape[0], 0)
    change = {"grow": ends, "shrink": -ends}
    shape = tuple(n + change.get(kind, 0) for n, kind in zip(psi.shape, boundaries, strict=True))
    if min(*shape, *psi.shape) <= 0:
        return None
    if out is None:
        result = Buffer.empty(shape, psi.dtype, psi.device)
    else:
        result = out
        _check_out(out, shape, psi)
    if dtype is None or result.offset % size:
        return None
    passes = volume.Volume(psi.shape, dtype, bank, filters.shape[1], int(lower), boundaries, _place(psi), _place(result))
    home = engine(psi.device)
    weights = scratch(psi.device).constant(np.ascontiguousarray(filters, psi.dtype))
    with home.lock:
        executable = volume.prepared(home, passes, psi.device.info.global_memory // SHARE)
        if executable is None:
            return None
        operands = {"psi": psi.memory, "filter": weights.memory, "out": result.memory}
        executable.run(psi.device.default_queue(), operands, {})
    return result


def _place(array: Buffer) -> tuple[int, int]:
    """Offset, in elements, and alignment of a contiguous array."""
    return array.offset // array.dtype.itemsize, arrays.alignment(array)


@dataclass(frozen=True)
class _Between:
    """A result that only the next pass reads: it goes to the device's scratch at a place."""

    place: int


def _filter(
    psi: Any,
    filters: NDArray[Any],
    lower: int,
    boundary: str,
    bank: str,
    transposed: bool,
    device: str | None,
    into: Buffer | _Between | None = None,
) -> Any:
    """The convolution with the rows of ``filters`` along the first axis of ``psi``; ``into`` what it goes to, if not to a new array."""
    description = workloads.get("convolution")
    if boundary not in description.options["boundary"]:
        raise ArgumentError(f"boundary={boundary!r} is not one of {', '.join(map(str, description.options['boundary']))}")
    count = filters.shape[1]
    if count not in description.options["taps"]:
        raise ArgumentError(f"{count} taps; a filter has 1 to {max(map(int, description.options['taps']))}")
    if isinstance(lower, bool) or lower not in description.options["lower"]:
        bounds = sorted(map(int, description.options["lower"]))
        raise ArgumentError(f"lower={lower!r} is no whole number from {bounds[0]} to {bounds[-1]}")
    lines, rest = _lines(psi)
    stored = arrays.matrix(lines, "psi")
    if stored.transposed:
        raise ArgumentError("psi is column-major; pass a row-major copy")
    ends = max(count - filters.shape[0], 0)
    n = stored.rows - (ends if boundary == "shrink" else 0)
    if n < 0 or (n == 0 and boundary == "grow"):
        raise ArgumentError(f"psi has {stored.rows} points along its first axis, too few for {count} taps with boundary={boundary!r}")
    length = n + (ends if boundary == "grow" else 0)
    result = _result(lines, (stored.columns, length), rest, into)
    weights: Any = np.ascontiguousarray(filters, stored.array.dtype)
    if stored.on_device:
        weights = scratch(stored.array.device).constant(weights)
    matrices = (stored, arrays.matrix(weights, "taps")._replace(alignment=weights.dtype.itemsize), arrays.matrix(result, "out"))
    runtime.run(device, "convolution", (n, stored.columns), (boundary, bank, count, int(lower)), matrices, {}, (True, True, False), result)
    return _shaped(result, rest, length, transposed)


def _result(lines: Any, shape: tuple[int, int], rest: tuple[int, ...], into: Buffer | _Between | None) -> Any:
    """Where the transposed result of ``shape`` goes, as a matrix; raises ArgumentError where ``into`` is not as large or not contiguous."""
    if into is None:
        return arrays.new(lines, shape)
    if isinstance(into, _Between):
        return Buffer(scratch(lines.device).block(into.place, prod(shape) * lines.dtype.itemsize), shape, lines.dtype)
    _check_out(into, (*rest, shape[1]), lines)
    return Buffer(into.memory, shape, into.dtype, None, into.offset)


def _check_out(out: Buffer, wanted: tuple[int, ...], psi: Buffer) -> None:
    """Raise ArgumentError where a result of the shape ``wanted`` cannot go to ``out``."""
    contiguous = out.strides == packed(out.shape, out.dtype.itemsize)
    if out.shape != wanted or out.dtype != psi.dtype or out.device is not psi.device or not contiguous:
        raise ArgumentError(f"out is {described(out)}; the result is a C-contiguous Buffer of {wanted} {psi.dtype} on {psi.device.info.id}")


def _lines(psi: Any) -> tuple[Any, tuple[int, ...]]:
    """``psi`` as a row-major matrix, a column for each line along the first axis, and the shape of its other axes."""
    if not isinstance(psi, (np.ndarray, Buffer)):
        if getattr(psi, "ndim", 0) != 2:
            raise ArgumentError(f"psi is {described(psi)}; pass a NumPy array or Buffer, or a CUDA array of two dimensions")
        return psi, tuple(psi.shape[1:])
    arrays.check_dtype(psi.dtype, "psi")
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
    flat = Buffer(psi.memory, (psi.shape[0], prod(rest)), psi.dtype, None, psi.offset)
    if psi.size and psi.strides != Buffer(psi.memory, psi.shape, psi.dtype, None, psi.offset).strides:
        raise ArgumentError("psi is a Buffer that is not C-contiguous; one of two dimensions may be padded, others may not")
    return flat, rest


def _shaped(result: Any, rest: tuple[int, ...], length: int, transposed: bool) -> Any:
    """The written matrix with the axes that were asked for."""
    if len(rest) == 1:
        return result if transposed else result.T
    if isinstance(result, np.ndarray):
        shaped = result.reshape(*rest, length)
        return shaped if transposed else np.moveaxis(shaped, -1, 0)
    size = result.dtype.itemsize
    whole = Buffer(result.memory, (*rest, length), result.dtype, None, result.offset)
    return whole if transposed else Buffer(result.memory, (length, *rest), result.dtype, (size, *whole.strides[:-1]), result.offset)


def _one_filter(taps: ArrayLike) -> NDArray[Any]:
    """Taps as a filter's one row; raises ArgumentError where they are not a row of real numbers."""
    row = _numbers(taps, "taps")
    if row.ndim != 1 or row.dtype.kind not in "fiu":
        raise ArgumentError(f"taps is {described(row)}; it must be a one-dimensional sequence of real numbers")
    return row[None, :]


def _numbers(given: ArrayLike, name: str) -> NDArray[Any]:
    refuse_masks(given, name)
    try:
        return np.asarray(given)
    except ArgumentError:  # a Buffer, which says what to do
        raise
    except ValueError:
        raise ArgumentError(f"the rows of {name} are not equally long") from None


def described(array: Any) -> str:
    """What an array is, for a message."""
    shape = getattr(array, "shape", None)
    return f"a {type(array).__name__}" + (f" of shape {tuple(shape)} and dtype {array.dtype}" if shape is not None else "")
