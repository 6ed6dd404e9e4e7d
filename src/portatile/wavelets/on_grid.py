"""Operations on orbitals' values on the grid as a single plan from coefficients to result, so that little Python code runs for each
orbital.

A filter along three axes gives the values. They are multiplied by a field and filtered back, or their squares are added to a sum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from math import prod
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from portatile import device as devices
from portatile import workloads
from portatile.arguments import matrices, outputs
from portatile.arguments.axes import AXES
from portatile.arguments.checks import NAMES, check_orbitals
from portatile.device.buffer import Buffer
from portatile.records import ITEMSIZE, Launch, Layout, Plan, Temporary
from portatile.runtime import separable
from portatile.runtime.one_device import memory_limit
from portatile.runtime.one_device.engine import BoundProblem, Engine, engine_of
from portatile.runtime.one_device.scratch import SHARE
from portatile.runtime.perform import assembled, constant
from portatile.runtime.repeated.recorded import Planned, Recorder
from portatile.runtime.request import Request, RoutineCall
from portatile.runtime.separable import ELSEWHERE, AxisPass, Volume

Check = Callable[[Any, Any], None]


@dataclass(frozen=True, eq=False)
class Filtering:
    """A filter, and the boundary of each axis: the taps begin at index ``lower``."""

    taps: NDArray[Any]
    lower: int
    boundary: tuple[str, ...]

    @cached_property
    def key(self) -> tuple[object, ...]:
        """Its values as part of a recorded call's key."""
        return self.taps.tobytes(), self.taps.shape, self.lower, self.boundary

    def along(self, name: str) -> tuple[AxisPass, ...]:
        """The pass of each axis; the taps are the operand called ``name``."""
        return tuple(AxisPass(kind, self.taps.size, self.lower, name) for kind in self.boundary)


class _OnGrid(NamedTuple):
    """The key of a plan. ``there``: the filters that give each orbital's values; ``back``: the filters back to coefficients, empty if
    squares are summed.

    ``other`` and ``out``: where the field and the result begin, as (offset, alignment).
    """

    there: tuple[Volume, ...]
    back: tuple[AxisPass, ...]
    other: tuple[int, int]
    out: tuple[int, int]


def times_field(psi: Any, field: Any, there: Filtering, back: Filtering, check: Check, device: str | None) -> Any:
    """``field`` times the values of one orbital, or of each of a batch, filtered back; None if no single plan can compute it.

    Both are Buffers, or other libraries' arrays, and so is the result. ``check`` raises for Buffers that do not fit. There is also no plan
    if ``device`` is not the one that holds them.
    """
    options = (*there.key, *back.key)
    return _TIMES.call(partial(_plan_times, there, back, check), (psi, field), _ONE, options, None, device)


def squares(psi: Any, occupation: Sequence[float], there: Filtering, device: str | None) -> Any:
    """The sum of the orbitals' values squared, each times its ``occupation``; None if no single plan on ``device`` can compute it."""
    return _SQUARES.call(partial(_plan_squares, there), (psi,), (), (tuple(occupation), *there.key), None, device)


def _plan_times(there: Filtering, back: Filtering, check: Check, call: RoutineCall) -> Planned:
    """The request for orbitals times a field; no result if no single plan can compute it."""
    given, potential = call.arrays
    psi, field = Buffer.wrap(given), Buffer.wrap(potential)
    if _names_other_device(psi, call):
        return Planned(None, ())
    check(psi, field)
    orbitals = _orbitals(psi, there)
    if orbitals is None or not matrices.is_packed(field) or field.device is not psi.device:
        return Planned(None, ())
    result = outputs.new(given, psi.shape)
    out = Buffer.wrap(result)
    engine = engine_of(psi.device)
    key = _OnGrid(orbitals, back.along("back"), matrices.beginning(field), matrices.beginning(out))
    with engine.lock:
        found = assembled(engine, key, partial(_times, engine, key), result, _described("apply_potential", psi))
    operands = {"psi": psi, "there": _weights(psi, there, result), "back": _weights(psi, back, result), "field": field, "out": out}
    scalars = dict(zip(_SCALAR, call.factors, strict=True))
    return Planned(result, [_request(BoundProblem(engine, found, tuple(operands)), operands, result, scalars)])


def _plan_squares(there: Filtering, call: RoutineCall) -> Planned:
    """The request for the sum of the orbitals' squares; no result if no single plan can compute it."""
    (given,), occupation = call.arrays, call.options[0]
    psi = Buffer.wrap(given)
    if _names_other_device(psi, call):
        return Planned(None, ())
    check_orbitals(psi, AXES)
    orbitals = _orbitals(psi, there)
    if orbitals is None:
        return Planned(None, ())
    result = outputs.new(given, orbitals[0].made)
    out = Buffer.wrap(result)
    engine = engine_of(psi.device)
    key = _OnGrid(orbitals, (), ELSEWHERE, matrices.beginning(out))
    with engine.lock:
        found = assembled(engine, key, partial(_squared, engine, key), result, _described("density", psi))
    operands = {"psi": psi, "there": _weights(psi, there, result), "out": out}
    scalars = {f"occupation{at}": number for at, number in enumerate(occupation)}
    return Planned(result, [_request(BoundProblem(engine, found, tuple(operands)), operands, result, scalars)])


def _names_other_device(psi: Buffer, call: RoutineCall) -> bool:
    """Whether a call names another device than that of its orbitals."""
    return call.device is not None and devices.get(cast(str, call.device)) is not psi.device


def _described(what: str, psi: Buffer) -> str:
    """A call, for a message."""
    return f"{what} of orbitals of shape {psi.shape}"


def _request(bound: BoundProblem, operands: Mapping[str, Buffer], result: Any, scalars: Mapping[str, float]) -> Request:
    """A request on contiguous Buffers; its filters are constants."""
    constants = tuple(at for at, name in enumerate(operands) if name in ("there", "back"))
    stored = tuple(map(matrices.whole, operands.values()))
    return Request("convolution", (), (), stored, result, scalars=scalars, bound=bound, constants=constants)


def _orbitals(psi: Buffer, there: Filtering) -> tuple[Volume, ...] | None:
    """The volumes of one orbital or of a batch; None if they are not packed, no kernel supports them, or memory is too scarce."""
    options, name = workloads.get("convolution").options, NAMES.get(psi.dtype)
    if name is None or psi.size == 0 or not matrices.is_packed(psi):
        return None
    if there.taps.size not in options["taps"] or there.lower not in options["lower"]:
        return None
    orbitals, largest = _volumes(psi.shape, name, there.along("there"), matrices.beginning(psi))
    if largest > psi.device.info.global_memory // SHARE or memory_limit.too_large(psi.device, (psi.nbytes, psi.nbytes, *[largest] * 5)):
        return None
    return orbitals


@lru_cache(maxsize=1024)
def _volumes(shape: tuple[int, ...], dtype: str, along: tuple[AxisPass, ...], beginning: tuple[int, int]) -> tuple[tuple[Volume, ...], int]:
    """A volume for each orbital of a batch that begins at ``beginning``, and the bytes of the largest array between its filters."""
    start, alignment = beginning
    one = shape[-AXES:]
    points = prod(one)
    found = tuple(Volume(one, dtype, "single", along, (start + at * points, alignment)) for at in range(prod(shape) // points))
    return found, max(found[0].nbytes)


def _weights(psi: Buffer, one: Filtering, result: Any) -> Buffer:
    return constant(psi.device, np.asarray(one.taps, psi.dtype)[None], result)


def _times(engine: Engine, key: _OnGrid) -> Plan:
    """For each orbital: psi to values, values times the field, and these filtered back into its part of out."""
    plans = []
    for at, orbital in enumerate(key.there):
        there = separable.plan(engine, orbital, ("psi", "values"))
        out = key.out[0] + at * prod(orbital.shape), key.out[1]
        product = _elements(engine, orbital, "product", {"x": "values", "y": "field", "out": "weighted"}, {"field": key.other})
        volume = Volume(orbital.made, orbital.dtype, "single", key.back, ELSEWHERE, out)
        back = separable.plan(engine, volume, ("weighted", "out"))
        grid = orbital.nbytes[-1]
        temporaries = *there.temporaries, *back.temporaries, Temporary("values", grid), Temporary("weighted", grid)
        plans.append(Plan((*there.steps, *product, *back.steps), temporaries))
    return _joined(plans)


def _squared(engine: Engine, key: _OnGrid) -> Plan:
    """For each orbital: psi to values, and their squares added to a sum. Sums alternate between ``sum`` and ``out``; the last is in
    ``out``.
    """
    plans = []
    for at, orbital in enumerate(key.there):
        after, before = ("out", "sum") if (len(key.there) - at) % 2 else ("sum", "out")
        there = separable.plan(engine, orbital, ("psi", "values"))
        places = {"out": key.out}
        if at:
            names = {"x": "values", "y": before, "out": after, "scalar": f"occupation{at}"}
            sums = _elements(engine, orbital, "square", names, places)
        else:  # the first orbital: there is no sum yet
            squared = {"x": "values", "y": "values", "out": before, "scalar": "occupation0"}  # "product" ignores the scalar
            sums = _elements(engine, orbital, "product", squared, places)
            sums += _elements(engine, orbital, "mul", {"x": before, "y": before, "out": after, "scalar": "occupation0"}, places)
        grid = orbital.nbytes[-1]
        plans.append(Plan((*there.steps, *sums), (*there.temporaries, Temporary("values", grid), Temporary("sum", grid))))
    return _joined(plans)


def _elements(
    engine: Engine, orbital: Volume, operation: str, names: dict[str, str], places: Mapping[str, tuple[int, int]]
) -> list[Launch]:
    """Launches of an elementwise operation on the grid's points; ``places``: where operands other than temporaries begin."""
    size = ITEMSIZE[orbital.dtype]
    where = {name: places.get(names[name], ELSEWHERE) for name in ("x", "y", "out")}
    layout = {name: Layout((1,), offset, max(size, alignment)) for name, (offset, alignment) in where.items()}
    points = orbital.nbytes[-1] // size
    problem = workloads.get("stream").problem({"n": points}, orbital.dtype, {"operation": operation}, layout)
    return engine.launches(problem, names)


def _joined(plans: Sequence[Plan]) -> Plan:
    """One plan with the steps of all, in order; they share temporaries."""
    return Plan(tuple(step for one in plans for step in one.steps), separable.together(*plans))


_SCALAR, _ONE = ("scalar",), (1.0,)
_TIMES, _SQUARES = Recorder(_SCALAR), Recorder(())
