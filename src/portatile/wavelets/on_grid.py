"""Operations on an orbital's values on the grid: one plan from coefficients to result, and little Python for each orbital.

A filter along three axes gives the values. They are multiplied with a field and filtered back, or their squares are added to a sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from portatile import workloads
from portatile.arguments import matrices
from portatile.arguments.axes import AXES
from portatile.arguments.checks import NAMES
from portatile.device.base import Memory
from portatile.device.buffer import Buffer
from portatile.records import ITEMSIZE, Launch, Layout, Plan, Temporary
from portatile.runtime import memory_limit, separable
from portatile.runtime.engine import Engine, engine_of
from portatile.runtime.scratch import SHARE, scratch
from portatile.runtime.separable import ELSEWHERE, Along, Volume


class Filtering(NamedTuple):
    """Taps that begin at ``lower``, and the boundary of each axis."""

    taps: NDArray[Any]
    lower: int
    boundary: tuple[str, ...]

    def along(self, name: str) -> tuple[Along, ...]:
        """Each axis; the taps are the operand called ``name``."""
        return tuple(Along(kind, self.taps.size, self.lower, name) for kind in self.boundary)


class _OnGrid(NamedTuple):
    """``there`` gives the values, ``back`` takes them back, or is empty: then their squares are added. Places of the other operands."""

    there: Volume
    back: tuple[Along, ...]
    other: tuple[int, int]
    out: tuple[int, int]


def times_field(psi: Buffer, field: Buffer, there: Filtering, back: Filtering) -> Buffer | None:
    """``field`` times the values of one orbital, or of each of a batch, filtered back; None where that takes single steps."""
    orbitals = _orbitals(psi, there)
    if orbitals is None or not matrices.is_packed(field) or field.device is not psi.device:
        return None
    result = Buffer.empty(psi.shape, psi.dtype, psi.device)
    engine, queue, along = engine_of(psi.device), psi.device.default_queue(), back.along("back")
    start, alignment = matrices.beginning(result)
    operands = {"psi": psi.memory, "field": field.memory, "out": result.memory, **_weights(psi, {"there": there, "back": back})}
    with engine.lock:
        for at, orbital in enumerate(orbitals):
            out = start + at * prod(orbital.shape), alignment
            key = _OnGrid(orbital, along, matrices.beginning(field), out)
            engine.assembled(key, partial(_times, engine, key)).run(queue, operands, {"scalar": 1.0})
    return result


def squares(psi: Buffer, occupation: Sequence[float], there: Filtering) -> Buffer | None:
    """The sum of the squares of the orbitals' values, each times its ``occupation``; None where that takes single steps."""
    orbitals = _orbitals(psi, there)
    if orbitals is None:
        return None
    engine, queue, weights = engine_of(psi.device), psi.device.default_queue(), _weights(psi, {"there": there})
    before, after = (Buffer.empty(orbitals[0].made, psi.dtype, psi.device) for _ in range(2))
    queue.fill(after.memory, bytes(4))
    with engine.lock:
        for orbital, number in zip(orbitals, occupation, strict=True):
            before, after = after, before
            key = _OnGrid(orbital, (), matrices.beginning(before), matrices.beginning(after))
            operands = {"psi": psi.memory, "before": before.memory, "out": after.memory, **weights}
            engine.assembled(key, partial(_squared, engine, key)).run(queue, operands, {"occupation": number})
    return after


def _orbitals(psi: Buffer, there: Filtering) -> tuple[Volume, ...] | None:
    """One orbital, or those of a batch; None where they do not lie packed, no kernel takes them, or memory is too scarce to keep some."""
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
def _volumes(shape: tuple[int, ...], dtype: str, along: tuple[Along, ...], beginning: tuple[int, int]) -> tuple[tuple[Volume, ...], int]:
    """Each orbital of a batch that begins there in its memory, and the bytes of the largest array between its filters."""
    start, alignment = beginning
    one = shape[-AXES:]
    points = prod(one)
    found = tuple(Volume(one, dtype, "single", along, (start + at * points, alignment)) for at in range(prod(shape) // points))
    return found, max(found[0].nbytes)


def _weights(psi: Buffer, filters: dict[str, Filtering]) -> dict[str, Memory]:
    constants = scratch(psi.device)
    return {name: constants.constant(np.asarray(one.taps, psi.dtype)[None]).memory for name, one in filters.items()}


def _times(engine: Engine, key: _OnGrid) -> Plan:
    """From psi to values, to values times the field, to out."""
    there = separable.plan(engine, key.there, ("psi", "values"))
    shape, dtype = key.there.made, key.there.dtype
    product = _elements(engine, key, "product", {"x": "values", "y": "field", "out": "weighted"})
    back = separable.plan(engine, Volume(shape, dtype, "single", key.back, ELSEWHERE, key.out), ("weighted", "out"))
    grid = key.there.nbytes[-1]
    return Plan((*there.steps, *product, *back.steps), (*_larger(there, back), Temporary("values", grid), Temporary("weighted", grid)))


def _squared(engine: Engine, key: _OnGrid) -> Plan:
    """From psi to values, and to the sum with their squares in it."""
    there = separable.plan(engine, key.there, ("psi", "values"))
    sums = _elements(engine, key, "square", {"x": "values", "y": "before", "out": "out", "scalar": "occupation"})
    return Plan((*there.steps, *sums), (*there.temporaries, Temporary("values", key.there.nbytes[-1])))


def _elements(engine: Engine, key: _OnGrid, operation: str, names: dict[str, str]) -> list[Launch]:
    """The grid's points, one by one."""
    size = ITEMSIZE[key.there.dtype]
    places = {"values": ELSEWHERE, "weighted": ELSEWHERE, "field": key.other, "before": key.other, "out": key.out}
    layout = {name: Layout((1,), places[names[name]][0], max(size, places[names[name]][1])) for name in ("x", "y", "out")}
    points = key.there.nbytes[-1] // size
    problem = workloads.get("stream").problem({"n": points}, key.there.dtype, {"operation": operation}, layout)
    return engine.launches(problem, names)


def _larger(one: Plan, other: Plan) -> tuple[Temporary, ...]:
    """The temporaries of two plans that run one after the other, which have the same names."""
    found: dict[str, Temporary] = {}
    for temporary in (*one.temporaries, *other.temporaries):
        known = found.get(temporary.name)
        found[temporary.name] = temporary if known is None or known.nbytes < temporary.nbytes else known
    return tuple(found.values())
