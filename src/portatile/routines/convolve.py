"""Convolutions along the first axis, and along all three: the separable filters of signal and wave-function grids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from portatile import device as devices
from portatile import workloads
from portatile.arguments import axes, checks, foreign, matrices, outputs
from portatile.arguments.axes import AXES, Boundary, described
from portatile.arguments.matrices import Array
from portatile.device import Selector
from portatile.device.base import Device, Memory
from portatile.device.buffer import Buffer, refuse_masks
from portatile.device.dlpack import packed
from portatile.errors import ArgumentError
from portatile.runtime import memory_limit, separable
from portatile.runtime.engine import engine_of
from portatile.runtime.perform import perform
from portatile.runtime.request import Request
from portatile.runtime.scratch import SHARE, scratch

Bank = Literal["analysis", "synthesis"]


def convolve1d(
    psi: Array, taps: ArrayLike, *, lower: int, boundary: Boundary = "periodic", transposed: bool = False, device: Selector | None = None
) -> Array:
    """The sums over l of ``taps[l - lower] * psi[i + l]`` along the first axis (a correlation, as BigDFT's filters are).

    ``psi`` is float32 or float64 of any number of dimensions, ``taps`` one-dimensional, at most 64 numbers that stand for
    l = lower, lower + 1, ... and are rounded to the type of ``psi``. ``boundary``: ``periodic`` takes i + l modulo the
    length, ``zero`` takes zeros outside; with ``grow`` the result has every element that is not zero, taps - 1 more than
    ``psi``, with ``shrink`` only those whose sums lie inside, taps - 1 fewer. SciPy's ``wrap`` and ``grid-wrap`` mean ``periodic``,
    its ``constant`` and ``grid-constant`` (with cval 0) ``zero``; its reflect, mirror and nearest are not done.

    The result has the axes of ``psi``, but its memory is the transposed one that the kernels write: a view whose first
    axis is contiguous. With ``transposed`` it is that memory as it is, C-contiguous with the filtered axis last. NumPy
    arrays and Buffers may have any number of dimensions, arrays of other libraries two; what is not C-contiguous is copied
    if it is a NumPy array and refused otherwise. Raises ArgumentError for what does not fit.

    Examples:
        >>> import numpy as np, portatile
        >>> portatile.convolve1d(np.array([[1.0], [2.0], [4.0]]), [-1.0, 1.0], lower=0)[:, 0]
        array([ 1.,  2., -3.])
    """
    return cast(Array, _filter(psi, axes.one_filter(taps), lower, boundary, "single", transposed, device))


def filter_bank1d(
    psi: Array,
    filters: ArrayLike,
    *,
    lower: int,
    bank: Bank,
    boundary: Boundary = "periodic",
    transposed: bool = False,
    device: Selector | None = None,
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
    pair = axes.numbers(filters, "filters")
    if pair.ndim != 2 or pair.shape[0] != 2 or pair.dtype.kind not in "fiu":
        raise ArgumentError(f"filters is {described(pair)}; a filter bank has two rows of taps, real numbers")
    return cast(Array, _filter(psi, pair, lower, boundary, bank, transposed, device))


def convolve3d_separable(
    array: Array,
    taps: ArrayLike | Sequence[ArrayLike],
    *,
    lower: int | Sequence[int],
    boundary: Boundary | Sequence[Boundary] = "periodic",
    out: Array | None = None,
    device: str | None = None,
) -> Array:
    """``convolve1d`` along each of three axes in turn: the product of the three filters. C-contiguous, in the order of ``array``.

    Each pass filters the first axis and makes it the last, so that three restore the order; between them nothing leaves
    the device. ``taps``, ``lower`` and ``boundary`` are one for all axes or three, one for each; filters of three need not be equally
    long. NumPy arrays, Buffers and other libraries' CUDA arrays; of the last two the result may go to ``out``, a C-contiguous one,
    ``array`` itself where the shapes agree. Raises ArgumentError for what does not fit.

    Examples:
        >>> import numpy as np, portatile
        >>> portatile.convolve3d_separable(np.ones((4, 3, 2)), [0.5, 0.5], lower=0).shape
        (4, 3, 2)
        >>> portatile.convolve3d_separable(np.ones((4, 3, 2)), ([1.0, -1.0], [1.0], [0.5, 0.5]), lower=0, boundary="grow").shape
        (5, 3, 3)
    """
    return passes3d(array, axes.filters(taps), lower, "single", boundary, device, out)


def passes3d(
    array: Array,
    filters: NDArray[Any] | Sequence[NDArray[Any]],
    lower: int | Sequence[int],
    bank: str,
    boundary: Boundary | Sequence[Boundary],
    device: str | None,
    out: Any = None,
) -> Array:
    """One transposing pass for each of three axes with the rows of its filters, one row or the two of a ``bank``.

    ``filters`` are those of all axes, or three.
    """
    passes = _passes(filters, lower, boundary)
    others = foreign.is_foreign(array)
    given: Any = Buffer.wrap(array) if others else array
    if not isinstance(given, (np.ndarray, Buffer)) or given.ndim != AXES:
        raise ArgumentError(f"a NumPy array, Buffer or CUDA array of {AXES} dimensions is needed, not {described(array)}")
    if out is not None and not (isinstance(given, Buffer) and (isinstance(out, Buffer) or (others and foreign.is_foreign(out)))):
        raise ArgumentError(f"out is {described(out)}; only the result of a Buffer or CUDA array can go to one, another such array")
    if isinstance(given, np.ndarray):
        return cast(Array, _host3d(given, passes, bank, device))
    if not others:
        return cast(Array, _all(given, passes, bank, device, out))
    whole = _volume(given, passes, bank)
    if out is None and whole is None:  # nothing to do, or a mistake
        return cast(Array, foreign.through(lambda there: _all(there, passes, bank, device, None), array))
    made: Any = outputs.new(array, whole[1]) if out is None and whole is not None else out
    with foreign.ordered(array):
        _all(given, passes, bank, device, Buffer.wrap(made))
    return cast(Array, made)


class _Pass(NamedTuple):
    """The filter of an axis, a row or a bank's two, and how it is used; filters that are alike have one ``name``."""

    filters: NDArray[Any]
    lower: Any
    boundary: str
    name: str


def _passes(
    filters: NDArray[Any] | Sequence[NDArray[Any]], lower: int | Sequence[int], boundary: Boundary | Sequence[Boundary]
) -> tuple[_Pass, ...]:
    """What is done along each axis."""
    if isinstance(filters, tuple) and filters[0] is filters[1] is filters[2]:
        filters = filters[0]
    if isinstance(filters, np.ndarray) and isinstance(boundary, str) and isinstance(lower, int):  # most calls
        return (_Pass(filters, lower, axes.kind_of(boundary), "filter"),) * AXES
    banks = (filters,) * AXES if isinstance(filters, np.ndarray) else tuple(filters)
    different: list[NDArray[Any]] = []
    found = []
    for bank, first, kind in zip(banks, axes.for_each(lower, "values of lower"), axes.kinds(boundary), strict=True):
        place = next((at for at, known in enumerate(different) if known is bank or np.array_equal(known, bank)), len(different))
        if place == len(different):
            different.append(bank)
        found.append(_Pass(different[place], first, kind, f"filter{place or ''}"))
    return tuple(found)


def _volume(psi: Any, passes: tuple[_Pass, ...], bank: str) -> tuple[separable.Volume, tuple[int, ...]] | None:
    """The passes over an array that lies packed, and the result's shape; None where no kernel takes them, or nothing is to do."""
    dtype = checks.NAMES.get(psi.dtype)
    if dtype is None or not all(isinstance(one.lower, (int, float, np.number)) and not isinstance(one.lower, bool) for one in passes):
        return None
    return _whole(psi.shape, dtype, bank, tuple([(one.boundary, one.filters.shape[1], one.lower, one.name) for one in passes]))


@lru_cache(maxsize=4096)
def _whole(
    shape: tuple[int, ...], dtype: str, bank: str, given: tuple[tuple[str, int, Any, str], ...]
) -> tuple[separable.Volume, tuple[int, ...]] | None:
    options = workloads.get("convolution").options
    if not all(taps in options["taps"] and lower in options["lower"] for _, taps, lower, _ in given):
        return None
    along = tuple(separable.Along(kind, taps, int(lower), name) for kind, taps, lower, name in given)
    found = separable.Volume(shape, dtype, bank, along)
    made = found.made
    return (found, made) if min(*shape, *made) > 0 else None


def _host3d(psi: NDArray[Any], passes: tuple[_Pass, ...], bank: str, device: str | None) -> Any:
    """The passes over a NumPy array: in the device's own memory where it has some and what lies there fits, else one by one."""
    chosen = devices.get(device)
    whole = None if chosen.info.unified_memory else _volume(psi, passes, bank)
    if whole is not None:
        stages = whole[0].nbytes
        there = (stages[0], *separable.between(whole[0], chosen.info), stages[-1])
        refuse_masks(psi, "psi")
        if not memory_limit.too_large(chosen, there):
            return _all(Buffer.from_numpy(psi, chosen), passes, bank, device, None).numpy()
        if not any(memory_limit.too_large(chosen, pair) for pair in pairwise(stages)):
            return _each_alone(psi, passes, bank, chosen)
    current: Any = psi
    for one in passes:
        current = _filter(current, one.filters, one.lower, one.boundary, bank, True, device)
    return current


def _each_alone(psi: NDArray[Any], passes: tuple[_Pass, ...], bank: str, chosen: Device) -> NDArray[Any]:
    """The passes in the device's memory, where only what one of them reads and writes lies at a time."""
    engine_of(chosen).free_workspaces()
    current = Buffer.from_numpy(psi, chosen)
    for one in passes:
        made = _filter(current, one.filters, one.lower, one.boundary, bank, True, None)
        chosen.default_queue().finish()
        current.release()
        current = made
    return current.numpy()


def _all(psi: Buffer, passes: tuple[_Pass, ...], bank: str, device: str | None, out: Buffer | None) -> Buffer:
    """The passes over a Buffer: as one plan where they can be, else one after another."""
    if (done := _at_once(psi, passes, bank, device, out)) is not None:
        return done
    current: Any = psi
    with engine_of(psi.device).lock:  # the memory between the passes is everybody's
        for axis, one in enumerate(passes):
            into = _Between(axis) if axis < AXES - 1 else out
            current = _filter(current, one.filters, one.lower, one.boundary, bank, True, device, into)
    return cast(Buffer, current)


def _at_once(psi: Buffer, passes: tuple[_Pass, ...], bank: str, device: str | None, out: Buffer | None) -> Buffer | None:
    """All passes as one plan; None where a single pass has to say what is wrong, or where memory is too scarce to keep some."""
    size = psi.dtype.itemsize
    whole = _volume(psi, passes, bank)
    if whole is None or not matrices.is_packed(psi):
        return None
    if device is not None and devices.get(device) is not psi.device:
        return None
    bare, shape = whole
    if out is None:
        result = Buffer.empty(shape, psi.dtype, psi.device)
    else:
        result = out
        _check_out(out, shape, psi)
    if result.offset % size:
        return None
    engine = engine_of(psi.device)
    constants = scratch(psi.device)
    weights: dict[str, Memory] = {}
    for one in passes:
        if one.name not in weights:
            weights[one.name] = constants.constant(np.ascontiguousarray(one.filters, psi.dtype)).memory
    with engine.lock:
        placed = bare._replace(psi=matrices.beginning(psi), out=matrices.beginning(result))
        executable = separable.prepared(engine, placed, psi.device.info.global_memory // SHARE)
        if executable is None:
            return None
        operands = {"psi": psi.memory, **weights, "out": result.memory}
        executable.run(psi.device.default_queue(), operands, {})
    return result


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
    device: Selector | None,
    into: Buffer | _Between | None = None,
) -> Any:
    """The convolution with the rows of ``filters`` along the first axis of ``psi``; ``into`` what it goes to, if not to a new array."""
    boundary = axes.kind_of(boundary)
    description = workloads.get("convolution")
    count = filters.shape[1]
    if count not in description.options["taps"]:
        raise ArgumentError(f"{count} taps; a filter has 1 to {max(map(int, description.options['taps']))}")
    if isinstance(lower, bool) or lower not in description.options["lower"]:
        bounds = sorted(map(int, description.options["lower"]))
        raise ArgumentError(f"lower={lower!r} is no whole number from {bounds[0]} to {bounds[-1]}")
    lines, rest = _lines(psi)
    stored = matrices.matrix(lines, "psi")
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
    operands = (
        stored,
        matrices.matrix(weights, "taps")._replace(alignment=weights.dtype.itemsize),
        matrices.matrix(result, "out").reading(False),
    )
    perform(Request("convolution", (n, stored.columns), (boundary, bank, count, int(lower)), operands, result, device))
    return _shaped(result, rest, length, transposed)


def _result(lines: Any, shape: tuple[int, int], rest: tuple[int, ...], into: Buffer | _Between | None) -> Any:
    """Where the transposed result of ``shape`` goes, as a matrix; raises ArgumentError where ``into`` is not as large or not contiguous."""
    if into is None:
        return outputs.new(lines, shape)
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
