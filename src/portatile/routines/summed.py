"""The sum of filters along each axis of a volume, as the kinetic operator is one: one plan, settled once, in memory that is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from portatile import device as devices
from portatile import workloads
from portatile.device.buffer import Buffer, refuse_masks
from portatile.execute import Executable
from portatile.records import ITEMSIZE, Launch, Layout, Plan, Temporary, Value
from portatile.routines import arrays, axes, limit, pointwise
from portatile.routines.arrays import Array
from portatile.routines.axes import Boundary
from portatile.routines.convolve import convolve1d
from portatile.routines.engine import Engine, engine
from portatile.routines.scratch import SHARE, scratch
from portatile.routines.volume import ELSEWHERE, Along

_NAMES = {np.dtype(name): name for name in ("float32", "float64")}
_IDENTITY = Along("periodic", 1, 0, "one")
TEMPORARIES = ("even", "odd", "moved", "part", "total")


def sum_over_axes(
    psi: Array, filters: Sequence[NDArray[Any]], lower: int, boundary: Boundary | Sequence[Boundary], device: str | None
) -> Array:
    """The sum of ``convolve1d`` along each axis with its one of ``filters``, in the order of ``psi``, a NumPy array or a Buffer.

    A device with memory of its own is given a NumPy array once.
    """
    current: Any = psi
    kinds: Any = axes.kinds(boundary, len(filters))
    arrays.check_dtype(current.dtype, "psi")
    refuse_masks(current, "psi")
    moved = isinstance(psi, np.ndarray) and psi.size > 0 and not devices.get(device).info.unified_memory
    if moved and not limit.too_large(devices.get(device), (current.nbytes,) * 5):
        current = Buffer.from_numpy(np.ascontiguousarray(psi), devices.get(device))
    if isinstance(current, Buffer) and (done := at_once(current, filters, lower, kinds, device)) is not None:
        return cast(Array, done.numpy() if isinstance(psi, np.ndarray) else done)
    total: Any = None
    for axis, (taps, kind) in enumerate(zip(filters, kinds, strict=True)):  # each is the first in turn, and the others follow in order
        part: Any = convolve1d(current, taps, lower=lower, boundary=kind, transposed=True, device=device)
        total = part if total is None else pointwise.add(part, _turned(total, device))
        if axis + 1 < len(filters):
            current = _turned(current, device)
    return cast(Array, total.numpy() if isinstance(psi, np.ndarray) and isinstance(total, Buffer) else total)


def at_once(psi: Buffer, filters: Sequence[NDArray[Any]], lower: int, kinds: Sequence[str], device: str | None) -> Buffer | None:
    """The sum as one plan, for each array of a batch; None where a single pass has to say what is wrong, or memory is too scarce."""
    size, options, name = psi.dtype.itemsize, workloads.get("convolution").options, _NAMES.get(psi.dtype)
    if name is None or psi.size == 0 or not arrays.is_packed(psi):
        return None
    if device is not None and devices.get(device) is not psi.device:
        return None
    if lower not in options["lower"] or any(len(taps) not in options["taps"] for taps in filters):
        return None
    shape = psi.shape[-len(filters) :]
    points = prod(shape)
    kept = size * points
    if kept > psi.device.info.global_memory // SHARE or limit.too_large(psi.device, (psi.nbytes, psi.nbytes, *[kept] * len(TEMPORARIES))):
        return None
    result = Buffer.empty(psi.shape, psi.dtype, psi.device)
    home, queue, constants = engine(psi.device), psi.device.default_queue(), scratch(psi.device)
    rows = {f"filter{axis}": np.ascontiguousarray(taps, psi.dtype) for axis, taps in enumerate(filters)}
    weights = {one: constants.constant(row[None]).memory for one, row in {**rows, "one": np.ones(1, psi.dtype)}.items()}
    along = tuple(Along(kind, row.size, lower, one) for kind, (one, row) in zip(kinds, rows.items(), strict=True))
    operands = {"psi": psi.memory, **weights, "out": result.memory}
    (read, one), (written, other) = arrays.beginning(psi), arrays.beginning(result)
    with home.lock:
        for start in range(0, psi.size, points):
            summed = Summed(shape, name, along, (read + start, one), (written + start, other))
            prepared(home, summed).run(queue, operands, {"scalar": 1.0})
    return result


def _turned(array: Any, device: str | None) -> Any:
    """The array with its first axis as its last one."""
    if isinstance(array, np.ndarray):
        return np.moveaxis(array, 0, -1)
    return convolve1d(array, [1.0], lower=0, transposed=True, device=device)


class Summed(NamedTuple):
    """What is filtered: its shape, the filter of each axis, and where the first element of either Buffer lies in its memory, in elements.

    No filter makes its axis longer or shorter.
    """

    shape: tuple[int, ...]
    dtype: str
    axes: tuple[Along, ...]
    psi: tuple[int, int] = ELSEWHERE
    out: tuple[int, int] = ELSEWHERE

    @property
    def nbytes(self) -> int:
        """Of an array."""
        return ITEMSIZE[self.dtype] * prod(self.shape)


def prepared(home: Engine, summed: Summed) -> Executable:
    """The launches from ``psi``, the filters and ``one``, a filter of a single 1, to ``out``; the scalar ``scalar`` must be 1."""
    return home.assembled(summed, lambda: _plan(home, summed))


def _plan(home: Engine, summed: Summed) -> Plan:
    """Each pass filters the first axis and makes it the last; what the axes before gave, and psi itself, are turned along with it."""
    steps: list[Launch] = []
    places = {"psi": summed.psi, "out": summed.out}
    shape, current = summed.shape, "psi"
    for axis, along in enumerate(summed.axes):
        last = axis == len(summed.axes) - 1
        if axis:
            turned = TEMPORARIES[axis % 2]
            before = (shape[-1], *shape[:-1])
            steps += _filtering(home, summed.dtype, before, _IDENTITY, (current, turned), places)
            steps += _filtering(home, summed.dtype, shape, _IDENTITY, ("total", "moved"), places)
            current = turned
        target = "part" if axis else "out" if last else "total"
        steps += _filtering(home, summed.dtype, shape, along, (current, target), places)
        if axis:
            steps += _adding(home, summed, "out" if last else "total", places)
        shape = (*shape[1:], shape[0])
    used = {arg.name for step in steps for arg in step.args}
    return Plan(tuple(steps), tuple(Temporary(name, summed.nbytes) for name in TEMPORARIES if name in used))


def _filtering(
    home: Engine, dtype: str, shape: tuple[int, ...], along: Along, ends: tuple[str, str], places: Mapping[str, tuple[int, int]]
) -> list[Launch]:
    """A pass over an array of that shape, between the memory of two names."""
    n, rest = shape[0], prod(shape[1:])
    source, target = (places.get(name, ELSEWHERE) for name in ends)
    layout = {"psi": Layout((rest, 1), *source), "out": Layout((n, 1), *target), "filter": Layout((along.taps, 1), 0, ITEMSIZE[dtype])}
    options: dict[str, Value] = {"boundary": along.boundary, "bank": "single", "taps": along.taps, "lower": along.lower}
    problem = workloads.get("convolution").problem({"n": n, "ndat": rest}, dtype, options, layout)
    return home.launches(problem, {"psi": ends[0], "filter": along.filter, "out": ends[1]})


def _adding(home: Engine, summed: Summed, target: str, places: Mapping[str, tuple[int, int]]) -> list[Launch]:
    """What was moved and the newest part, element by element."""
    size = ITEMSIZE[summed.dtype]
    offset, alignment = places.get(target, ELSEWHERE)
    layout = {"x": Layout((1,)), "y": Layout((1,)), "out": Layout((1,), offset, alignment if alignment >= size else size)}
    problem = workloads.get("stream").problem({"n": prod(summed.shape)}, summed.dtype, {"operation": "add"}, layout)
    return home.launches(problem, {"x": "part", "y": "moved", "out": target})
