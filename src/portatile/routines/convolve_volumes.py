"""Three passes over a volume on a device, one for each axis: as one plan where that is possible, else one after another."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from math import prod
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from portatile import device as devices
from portatile import workloads
from portatile.arguments import axes, checks, foreign, matrices, outputs
from portatile.arguments.axes import AXES, Boundary, described
from portatile.device import Selector
from portatile.device.buffer import Buffer
from portatile.errors import ArgumentError
from portatile.routines.convolve_lines import IntermediateBlock, LineFilter, check_out, filter_lines, spelled
from portatile.runtime import separable
from portatile.runtime.one_device.engine import BoundProblem, engine_of
from portatile.runtime.one_device.scratch import SHARE
from portatile.runtime.perform import constant
from portatile.runtime.repeated.recorded import Planned, Recorder
from portatile.runtime.request import Request, RoutineCall


class AxisFilter(NamedTuple):
    """The filter of one axis: one row of taps or a bank's two, its first index and its boundary. Equal filters have the same ``name``."""

    filters: NDArray[Any]
    lower: Any
    boundary: str
    name: str

    @property
    def key(self) -> tuple[object, ...]:
        """Hashable values that identify this filter."""
        return (*spelled(self.filters), self.lower, type(self.lower), self.boundary, self.name)


class SeparableFilter(NamedTuple):
    """A filter for each of three axes; ``bank`` is ``single``, ``analysis`` or ``synthesis`` for all of them.

    Its ``key`` is part of a recorded call's key. The taps must not change while it is used.
    """

    axes: tuple[AxisFilter, ...]
    bank: str
    key: tuple[object, ...]

    @classmethod
    def of(
        cls,
        filters: NDArray[Any] | Sequence[NDArray[Any]],
        lower: int | Sequence[int],
        bank: str,
        boundary: Boundary | Sequence[Boundary],
    ) -> SeparableFilter:
        """From values for all axes, or one for each. Raises ArgumentError for another number of them, or an unknown boundary."""
        if isinstance(filters, tuple) and filters[0] is filters[1] is filters[2]:
            filters = filters[0]
        if isinstance(filters, np.ndarray) and isinstance(boundary, str) and isinstance(lower, int):  # most calls
            single = AxisFilter(filters, lower, axes.kind_of(boundary), "filter")
            return cls((single,) * AXES, bank, (bank, single.key))
        of_axes = (filters,) * AXES if isinstance(filters, np.ndarray) else tuple(filters)
        distinct: list[NDArray[Any]] = []
        axis_filters = []
        for taps, first, kind in zip(of_axes, axes.for_each(lower, "values of lower"), axes.kinds(boundary), strict=True):
            place = next((at for at, earlier in enumerate(distinct) if earlier is taps or np.array_equal(earlier, taps)), len(distinct))
            if place == len(distinct):
                distinct.append(taps)
            axis_filters.append(AxisFilter(distinct[place], first, kind, f"filter{place or ''}"))
        return cls(tuple(axis_filters), bank, (bank, *[axis.key for axis in axis_filters]))

    def along(self, axis: int, array: Any, device: Selector | None, into: Buffer | IntermediateBlock | NDArray[Any] | None = None) -> Any:
        """The pass of ``axis``: filters the first axis of ``array`` and makes it the last. The result goes to ``into`` if given."""
        taps, lower, boundary, _ = self.axes[axis]
        return filter_lines(array, LineFilter.of(taps, lower, boundary, self.bank), True, device, into)

    def volume(self, array: Any) -> separable.Volume | None:
        """The shapes in a packed array, or in each volume of a batch; None for empty arrays, and if there is no kernel."""
        dtype = checks.NAMES.get(array.dtype)
        if dtype is None or not all(_is_number(axis.lower) for axis in self.axes):
            return None
        keys = tuple([(axis.boundary, axis.filters.shape[1], axis.lower, axis.name) for axis in self.axes])
        return _volume(array.shape[-AXES:], dtype, self.bank, keys)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


@lru_cache(maxsize=4096)
def _volume(shape: tuple[int, ...], dtype: str, bank: str, keys: tuple[tuple[str, int, Any, str], ...]) -> separable.Volume | None:
    """``SeparableFilter.volume`` by values; ``keys`` are boundary, number of taps, first index and name of each axis's filter."""
    options = workloads.get("convolution").options
    if not all(taps in options["taps"] and lower in options["lower"] for _, taps, lower, _ in keys):
        return None
    volume = separable.Volume(
        shape, dtype, bank, tuple(separable.AxisPass(kind, taps, int(lower), name) for kind, taps, lower, name in keys)
    )
    return volume if min(*shape, *volume.made) > 0 else None


def check_volume(array: Any, out: Any) -> None:
    """Raise ArgumentError unless ``array`` has three dimensions and ``out`` is in the same place as ``array``."""
    is_foreign = foreign.is_foreign(array)
    if not (isinstance(array, (np.ndarray, Buffer)) or is_foreign) or len(array.shape) != AXES:
        raise ArgumentError(f"a NumPy array, Buffer or CUDA array of {AXES} dimensions is needed, not {described(array)}")
    if out is None:
        return
    if isinstance(array, np.ndarray) is not isinstance(out, np.ndarray) or not (
        isinstance(out, (np.ndarray, Buffer)) or (is_foreign and foreign.is_foreign(out))
    ):
        raise ArgumentError(f"out is {described(out)}; the result of {described(array)} can only go to another such array")


def filter_volume(array: Any, separable_filter: SeparableFilter, device: Selector | None, out: Any, batch: bool = False) -> Any:
    """The passes over a Buffer or CUDA array; with ``batch`` over each volume, or None where each has to be filtered separately."""
    return _VOLUMES.call(partial(_plan, separable_filter, batch), (array,), (), (batch, separable_filter.key), out, device)


def _plan(separable_filter: SeparableFilter, batch: bool, call: RoutineCall) -> Planned:
    """The passes as one plan where that is possible; otherwise they are computed here, or left to the caller for a batch."""
    (array,), out, device = call.arrays, call.out, call.device
    if not batch:
        check_volume(array, out)
    is_foreign = foreign.is_foreign(array)
    buffer = Buffer.wrap(array) if is_foreign else array
    checks.check_alive(buffer, "psi")
    if out is None or is_foreign == foreign.is_foreign(out):
        planned = _plan_at_once(array, buffer, separable_filter, call)
        if planned is not None or batch:
            return planned or Planned(None, ())
    if not is_foreign:
        return Planned(_one_by_one(buffer, separable_filter, device, out), ())
    if out is None:
        return Planned(foreign.through(lambda copy: _one_by_one(copy, separable_filter, device, None), array), ())
    with foreign.ordered(array):
        _one_by_one(buffer, separable_filter, device, Buffer.wrap(out))
    return Planned(out, ())


def _one_by_one(psi: Buffer, separable_filter: SeparableFilter, device: Selector | None, out: Buffer | None) -> Buffer:
    """The passes over a Buffer, one after another."""
    current: Any = psi
    last = AXES - 1
    # the devices' threads take the lock themselves, and use no scratch memory
    if device is not None and (device == devices.EVERY or not isinstance(device, str)):
        for axis in range(AXES):
            current = separable_filter.along(axis, current, device, out if axis == last else None)
        return cast(Buffer, current)
    with engine_of(psi.device).lock:  # all threads share the scratch memory between the passes
        for axis in range(AXES):
            current = separable_filter.along(axis, current, device, out if axis == last else IntermediateBlock(axis))
    return cast(Buffer, current)


def _plan_at_once(array: Any, psi: Buffer, separable_filter: SeparableFilter, call: RoutineCall) -> Planned | None:
    """All passes as one plan; ``psi`` is the Buffer of ``array``. None where a single pass has to report an error, or there is not enough
    memory for the intermediate arrays.
    """
    out, device = call.out, psi.device
    volume = separable_filter.volume(psi)
    if volume is None or psi.size == 0 or not matrices.is_packed(psi):
        return None
    if call.device is not None and (not isinstance(call.device, str) or devices.get(call.device) is not device):
        return None
    batch = psi.shape[:-AXES]
    shape = (*batch, *volume.made)
    result = outputs.new(array, shape) if out is None else out
    target = Buffer.wrap(result)
    if out is not None:
        check_out(target, shape, psi)
    if target.offset % psi.dtype.itemsize:
        return None
    volumes = _placed(volume, prod(batch), psi, target)
    engine = engine_of(device)
    with engine.lock:
        plan = separable.prepared(engine, volumes, device.info.global_memory // SHARE, result)
        if plan is None:
            return None
        taps = {axis.name: axis.filters for axis in separable_filter.axes}
        weights = {name: constant(device, np.array(rows, psi.dtype, order="C"), result) for name, rows in taps.items()}
    operands = [matrices.whole(buffer) for buffer in (psi, *weights.values(), target)]
    bound = BoundProblem(engine, plan, ("psi", *weights, "out"))
    constants = tuple(range(1, len(weights) + 1))
    return Planned(result, [Request("convolution", (), (), tuple(operands), result, bound=bound, constants=constants)])


def _placed(volume: separable.Volume, count: int, psi: Buffer, target: Buffer) -> tuple[separable.Volume, ...]:
    """``count`` consecutive volumes in ``psi``, whose results are consecutive in ``target``."""
    (first, alignment), (first_out, alignment_out) = matrices.beginning(psi), matrices.beginning(target)
    size, size_out = prod(volume.shape), prod(volume.made)
    return tuple(volume._replace(psi=(first + at * size, alignment), out=(first_out + at * size_out, alignment_out)) for at in range(count))


_VOLUMES = Recorder(())
