"""Convolutions along the first axis, and along all three: the separable filters of signal and wave-function grids."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import pairwise
from math import prod
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from portatile import device as devices
from portatile import workloads
from portatile.arguments import axes, checks, foreign, matrices, outputs
from portatile.arguments.axes import AXES, Boundary, described
from portatile.arguments.host_tensors import taken
from portatile.arguments.matrices import Array
from portatile.device import Selector
from portatile.device.base import Device
from portatile.device.buffer import Buffer, refuse_masks
from portatile.device.copies import address
from portatile.errors import ArgumentError
from portatile.routines.convolve_lines import Between, check_out, filter_lines, spelled
from portatile.runtime import memory_limit, separable
from portatile.runtime.engine import Bound, engine_of
from portatile.runtime.perform import constant
from portatile.runtime.recorded import Call, Planned, Recorder
from portatile.runtime.request import Request
from portatile.runtime.scratch import SHARE

Bank = Literal["analysis", "synthesis"]


@taken
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
    return cast(Array, filter_lines(psi, axes.one_filter(taps), lower, boundary, "single", transposed, device))


@taken
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
    return cast(Array, filter_lines(psi, pair, lower, boundary, bank, transposed, device))


def convolve3d_separable(
    array: Array,
    taps: ArrayLike | Sequence[ArrayLike],
    *,
    lower: int | Sequence[int],
    boundary: Boundary | Sequence[Boundary] = "periodic",
    out: Array | None = None,
    device: Selector | None = None,
) -> Array:
    """``convolve1d`` along each of three axes in turn: the product of the three filters. C-contiguous, in the order of ``array``.

    Each pass filters the first axis and makes it the last, so that three restore the order; between them nothing leaves
    the device. ``taps``, ``lower`` and ``boundary`` are one for all axes or three, one for each; filters of three need not be equally
    long. The result goes to ``out`` if given, which is of the library of ``array`` and C-contiguous unless it is a NumPy array; it may be
    ``array`` itself where the shapes agree. Raises ArgumentError for what does not fit.

    Examples:
        >>> import numpy as np, portatile
        >>> portatile.convolve3d_separable(np.ones((4, 3, 2)), [0.5, 0.5], lower=0).shape
        (4, 3, 2)
        >>> portatile.convolve3d_separable(np.ones((4, 3, 2)), ([1.0, -1.0], [1.0], [0.5, 0.5]), lower=0, boundary="grow").shape
        (5, 3, 3)
    """
    return passes3d(array, axes.filters(taps), lower, "single", boundary, device, out)


@taken
def passes3d(
    array: Array,
    filters: NDArray[Any] | Sequence[NDArray[Any]],
    lower: int | Sequence[int],
    bank: str,
    boundary: Boundary | Sequence[Boundary],
    device: Selector | None,
    out: Any = None,
    between: Between3d | None = None,
) -> Array:
    """One transposing pass for each of three axes with the rows of its filters, one row or the two of a ``bank``.

    ``filters`` are those of all axes, or three. ``between`` keeps what lies between the passes for another NumPy array.
    """
    passes = _passes(filters, lower, boundary)
    if isinstance(array, np.ndarray):
        _check_volume(array, out)
        if out is None:
            return cast(Array, _host3d(array, passes, bank, device, None, between))
        return cast(Array, _into_host(array, passes, bank, device, out, between))
    return cast(Array, _volumes(array, passes, bank, device, out))


def batch3d(
    array: Any,
    filters: NDArray[Any] | Sequence[NDArray[Any]],
    lower: int | Sequence[int],
    bank: str,
    boundary: Boundary | Sequence[Boundary],
    device: str | None,
) -> Any:
    """``passes3d`` of each volume of a batch that lies on a device, as one plan; None where each has to go by itself."""
    return _volumes(array, _passes(filters, lower, boundary), bank, device, None, batch=True)


def _volumes(array: Any, passes: tuple[_Pass, ...], bank: str, device: Selector | None, out: Any, batch: bool = False) -> Any:
    """The passes over an array on a device."""
    one_filter = passes[0] is passes[1] is passes[2]
    options = (bank, batch, *[one.key for one in (passes[:1] if one_filter else passes)])
    return _VOLUMES.call(partial(_plan_volumes, passes, bank, batch), (array,), (), options, out, device)


def _check_volume(array: Any, out: Any) -> None:
    """Raise ArgumentError for what is no array of three dimensions, or has no ``out``."""
    others = foreign.is_foreign(array)
    if not (isinstance(array, (np.ndarray, Buffer)) or others) or len(array.shape) != AXES:
        raise ArgumentError(f"a NumPy array, Buffer or CUDA array of {AXES} dimensions is needed, not {described(array)}")
    if out is None:
        return
    if isinstance(array, np.ndarray) is not isinstance(out, np.ndarray) or not (
        isinstance(out, (np.ndarray, Buffer)) or (others and foreign.is_foreign(out))
    ):
        raise ArgumentError(f"out is {described(out)}; the result of {described(array)} can only go to another such array")


class _Pass(NamedTuple):
    """The filter of an axis, a row or a bank's two, and how it is used; filters that are alike have one ``name``."""

    filters: NDArray[Any]
    lower: Any
    boundary: str
    name: str

    @property
    def key(self) -> tuple[object, ...]:
        """Values by which a call with this pass is found again."""
        return (*spelled(self.filters), self.lower, type(self.lower), self.boundary, self.name)


def _passes(
    filters: NDArray[Any] | Sequence[NDArray[Any]], lower: int | Sequence[int], boundary: Boundary | Sequence[Boundary]
) -> tuple[_Pass, ...]:
    """The pass along each axis."""
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
    """The passes over an array that lies packed, or over each of a batch, and what they make of its shape.

    None where no kernel takes them, or nothing is to do.
    """
    dtype = checks.NAMES.get(psi.dtype)
    if dtype is None or not all(isinstance(one.lower, (int, float, np.number)) and not isinstance(one.lower, bool) for one in passes):
        return None
    shape = psi.shape[-AXES:]
    return _whole(shape, dtype, bank, tuple([(one.boundary, one.filters.shape[1], one.lower, one.name) for one in passes]))


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


def _host3d(
    psi: NDArray[Any],
    passes: tuple[_Pass, ...],
    bank: str,
    device: Selector | None,
    out: NDArray[Any] | None = None,
    between: Between3d | None = None,
) -> Any:
    """The passes over a NumPy array: in the device's own memory where it has some and what lies there fits, else one by one.

    Several devices share the lines of each pass. The result may be ``out``, which is C-contiguous and fits, or another array.
    """
    if device is not None and (device == devices.EVERY or not isinstance(device, str)):
        named = devices.several(device)
        if len(named) > 1:
            return _pass_by_pass(psi, passes, bank, device)
        device = named[0].info.id
    chosen = devices.get(device)
    whole = None if chosen.info.unified_memory else _volume(psi, passes, bank)
    if whole is not None:
        stages = whole[0].nbytes
        there = (stages[0], *separable.between(whole[0], chosen.info), stages[-1])
        refuse_masks(psi, "psi")
        if not memory_limit.too_large(chosen, there):
            return _volumes(Buffer.from_numpy(psi, chosen), passes, bank, device, None).numpy()
        if not any(memory_limit.too_large(chosen, pair) for pair in pairwise(stages)):
            return _each_alone(psi, passes, bank, chosen)
    return _pass_by_pass(psi, passes, bank, device, out, between)


def _into_host(
    psi: NDArray[Any],
    passes: tuple[_Pass, ...],
    bank: str,
    device: Selector | None,
    out: NDArray[Any],
    between: Between3d | None = None,
) -> NDArray[Any]:
    """The passes over a NumPy array, with the result in ``out``; raises ArgumentError where that does not fit."""
    checks.writable(out, "out")
    refuse_masks(out, "out")
    volume = _volume(psi, passes, bank)
    if volume is not None and (out.shape != volume[1] or out.dtype != psi.dtype):
        raise ArgumentError(f"out is {described(out)}; the result has shape {volume[1]} and dtype {psi.dtype}")
    same = psi.shape == out.shape and psi.strides == out.strides and address(psi) == address(out)
    if not same and np.may_share_memory(psi, out):
        raise ArgumentError("out overlaps the array without being it; pass the array itself, or an output of its own")
    direct = volume is not None and out.flags.c_contiguous and out.flags.aligned
    found = _host3d(psi, passes, bank, device, out if direct else None, between)
    if found is not out:
        np.copyto(out, found)
    return out


def _pass_by_pass(
    psi: NDArray[Any],
    passes: tuple[_Pass, ...],
    bank: str,
    device: Selector | None,
    out: NDArray[Any] | None = None,
    between: Between3d | None = None,
) -> Any:
    """The passes, each from a NumPy array to the next; the last one to ``out`` if given."""
    made = _volume(psi, passes, bank) if between is not None or out is not None else None
    current: Any = psi
    for axis, one in enumerate(passes):
        into = None
        if made is not None:
            shape = (*current.shape[1:], made[1][axis])
            into = out if axis == AXES - 1 else None if between is None else between.take(axis, shape, psi.dtype)
        current = filter_lines(current, one.filters, one.lower, one.boundary, bank, True, device, into)
    return current if out is None or made is None else out


class Between3d:
    """Host memory of what lies between the passes of a volume, for one volume after another: new pages take longer than a filter."""

    def __init__(self) -> None:
        self._kept: dict[int, NDArray[np.uint8]] = {}

    def take(self, axis: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """An array whose content lasts until the next one of that axis."""
        nbytes = prod(shape) * dtype.itemsize
        if axis not in self._kept or self._kept[axis].nbytes < nbytes:
            self._kept[axis] = np.empty(nbytes, np.uint8)
        found: NDArray[Any] = self._kept[axis][:nbytes].view(dtype).reshape(shape)
        return found


def _each_alone(psi: NDArray[Any], passes: tuple[_Pass, ...], bank: str, chosen: Device) -> NDArray[Any]:
    """The passes in the device's memory, where only what one of them reads and writes lies at a time."""
    engine_of(chosen).free_workspaces()
    current = Buffer.from_numpy(psi, chosen)
    for one in passes:
        made = filter_lines(current, one.filters, one.lower, one.boundary, bank, True, None)
        chosen.default_queue().finish()
        current.release()
        current = made
    return current.numpy()


def _plan_volumes(passes: tuple[_Pass, ...], bank: str, batch: bool, call: Call) -> Planned:
    """The passes over an array on a device, as one plan where they can be; else they are computed here, or left to do for a batch."""
    (array,), out = call.arrays, call.out
    if not batch:
        _check_volume(array, out)
    others = foreign.is_foreign(array)
    given = Buffer.wrap(array) if others else array
    if out is None or others == foreign.is_foreign(out):
        planned = _at_once(array, given, passes, bank, call)
        if planned is not None or batch:
            return planned or Planned(None, ())
    if not others:
        return Planned(_one_by_one(given, passes, bank, call.device, out), ())
    if out is None:
        return Planned(foreign.through(lambda there: _one_by_one(there, passes, bank, call.device, None), array), ())
    with foreign.ordered(array):
        _one_by_one(given, passes, bank, call.device, Buffer.wrap(out))
    return Planned(out, ())


def _one_by_one(psi: Buffer, passes: tuple[_Pass, ...], bank: str, device: Selector | None, out: Buffer | None) -> Buffer:
    """The passes over a Buffer, one after another."""
    current: Any = psi
    if device is not None and (device == devices.EVERY or not isinstance(device, str)):  # their threads take the lock, and share no scratch
        for axis, one in enumerate(passes):
            current = filter_lines(current, one.filters, one.lower, one.boundary, bank, True, device, out if axis == AXES - 1 else None)
        return cast(Buffer, current)
    with engine_of(psi.device).lock:  # the memory between the passes is everybody's
        for axis, one in enumerate(passes):
            into = Between(axis) if axis < AXES - 1 else out
            current = filter_lines(current, one.filters, one.lower, one.boundary, bank, True, device, into)
    return cast(Buffer, current)


def _at_once(array: Any, psi: Buffer, passes: tuple[_Pass, ...], bank: str, call: Call) -> Planned | None:
    """All passes as one plan, ``psi`` being the Buffer of ``array``; None where a single pass has to say what is wrong, or where memory
    is too scarce to keep what lies between them.
    """
    out, device = call.out, psi.device
    volume = _volume(psi, passes, bank)
    if volume is None or psi.size == 0 or not matrices.is_packed(psi):
        return None
    if call.device is not None and (not isinstance(call.device, str) or devices.get(call.device) is not device):
        return None
    bare, made = volume
    shape = (*psi.shape[:-AXES], *made)
    result = outputs.new(array, shape) if out is None else out
    target = Buffer.wrap(result)
    if out is not None:
        check_out(target, shape, psi)
    if target.offset % psi.dtype.itemsize:
        return None
    source, place = matrices.beginning(psi), matrices.beginning(target)
    volumes = tuple(
        bare._replace(psi=(source[0] + at * prod(bare.shape), source[1]), out=(place[0] + at * prod(made), place[1]))
        for at in range(prod(psi.shape[:-AXES]))
    )
    engine = engine_of(device)
    weights: dict[str, Buffer] = {}
    with engine.lock:
        found = separable.prepared(engine, volumes, device.info.global_memory // SHARE, result)
        if found is None:
            return None
        for one in passes:
            if one.name not in weights:
                weights[one.name] = constant(device, np.array(one.filters, psi.dtype, order="C"), result)
    operands = [matrices.whole(buffer) for buffer in (psi, *weights.values(), target)]
    bound = Bound(engine, found, ("psi", *weights, "out"))
    constants = tuple(range(1, len(weights) + 1))
    return Planned(result, [Request("convolution", (), (), tuple(operands), result, bound=bound, constants=constants)])


_VOLUMES = Recorder(())
