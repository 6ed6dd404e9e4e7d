"""Three passes over a volume in a NumPy array: in a device's own memory where it fits, else from host array to host array."""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile import device as devices
from portatile.arguments import checks
from portatile.arguments.axes import AXES, described
from portatile.device import Selector
from portatile.device.base import Device
from portatile.device.buffer import Buffer
from portatile.device.copies import address
from portatile.device.masked_arrays import refuse_masks
from portatile.errors import ArgumentError
from portatile.routines import convolve_volumes
from portatile.routines.convolve_volumes import SeparableFilter, check_volume
from portatile.runtime import separable
from portatile.runtime.one_device import memory_limit
from portatile.runtime.one_device.engine import engine_of


class IntermediateVolumes:
    """Host memory between the passes of a volume, reused for the next volume: touching new pages takes longer than a filter."""

    def __init__(self) -> None:
        self._blocks: dict[int, NDArray[np.uint8]] = {}

    def take(self, axis: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """An array whose content lasts until the next call for this axis."""
        nbytes = prod(shape) * dtype.itemsize
        if axis not in self._blocks or self._blocks[axis].nbytes < nbytes:
            self._blocks[axis] = np.empty(nbytes, np.uint8)
        array: NDArray[Any] = self._blocks[axis][:nbytes].view(dtype).reshape(shape)
        return array


def filter_volume(
    psi: NDArray[Any], separable_filter: SeparableFilter, device: Selector | None, out: Any, between: IntermediateVolumes | None
) -> Any:
    """The passes over a NumPy array; the result is a NumPy array, ``out`` if given. Raises ArgumentError if that does not fit."""
    check_volume(psi, out)
    if out is None:
        return _filtered(psi, separable_filter, device, None, between)
    checks.check_writable(out, "out")
    refuse_masks(out, "out")
    volume = separable_filter.volume(psi)
    if volume is not None and (out.shape != volume.made or out.dtype != psi.dtype):
        raise ArgumentError(f"out is {described(out)}; the result has shape {volume.made} and dtype {psi.dtype}")
    same = psi.shape == out.shape and psi.strides == out.strides and address(psi) == address(out)
    if not same and np.may_share_memory(psi, out):
        raise ArgumentError("out overlaps the array without being it; pass the array itself, or an output of its own")
    direct = volume is not None and out.flags.c_contiguous and out.flags.aligned
    result = _filtered(psi, separable_filter, device, out if direct else None, between)
    if result is not out:
        np.copyto(out, result)
    return out


def _filtered(
    psi: NDArray[Any],
    separable_filter: SeparableFilter,
    device: Selector | None,
    out: NDArray[Any] | None,
    between: IntermediateVolumes | None,
) -> Any:
    """The passes over a NumPy array: in the device's own memory if it has some and the data fits, else one by one.

    Several devices share the lines of each pass. The result is ``out``, which is C-contiguous and fits, or another array.
    """
    if device is not None and (device == devices.EVERY or not isinstance(device, str)):
        selected = devices.several(device)
        if len(selected) > 1:
            return _pass_by_pass(psi, separable_filter, device, None, None)
        device = selected[0].info.id
    chosen = devices.get(device)
    volume = None if chosen.info.unified_memory else separable_filter.volume(psi)
    if volume is not None:
        stages = volume.nbytes
        needed = (stages[0], *separable.between(volume, chosen.info), stages[-1])
        refuse_masks(psi, "psi")
        if not memory_limit.too_large(chosen, needed):
            return convolve_volumes.filter_volume(Buffer.from_numpy(psi, chosen), separable_filter, device, None).numpy()
        if not any(memory_limit.too_large(chosen, pair) for pair in pairwise(stages)):
            return _two_stages_at_a_time(psi, separable_filter, chosen)
    return _pass_by_pass(psi, separable_filter, device, out, between)


def _pass_by_pass(
    psi: NDArray[Any],
    separable_filter: SeparableFilter,
    device: Selector | None,
    out: NDArray[Any] | None,
    between: IntermediateVolumes | None,
) -> Any:
    """The passes, each from a NumPy array to the next; the last one writes to ``out`` if given."""
    volume = separable_filter.volume(psi) if between is not None or out is not None else None
    current: Any = psi
    for axis in range(AXES):
        into = None
        if volume is not None:
            shape = (*current.shape[1:], volume.made[axis])
            into = out if axis == AXES - 1 else None if between is None else between.take(axis, shape, psi.dtype)
        current = separable_filter.along(axis, current, device, into)
    return current if out is None or volume is None else out


def _two_stages_at_a_time(psi: NDArray[Any], separable_filter: SeparableFilter, chosen: Device) -> NDArray[Any]:
    """The passes in the device's memory, which holds only the input and output of one pass at a time."""
    engine_of(chosen).free_workspaces()
    current = Buffer.from_numpy(psi, chosen)
    for axis in range(AXES):
        filtered = separable_filter.along(axis, current, None)
        chosen.default_queue().finish()
        current.release()
        current = filtered
    return current.numpy()
