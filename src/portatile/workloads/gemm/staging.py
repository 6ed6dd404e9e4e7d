"""The launches before a product that pack, copy or convert A and B, and where the product then reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from portatile.records import Arg, Launch, Layout, Temporary
from portatile.workloads.gemm import copies, packing
from portatile.workloads.gemm.oriented import OrientedProduct
from portatile.workloads.gemm.passing import matrix
from portatile.workloads.gemm.point import OperandPlace


@dataclass(frozen=True)
class Staged:
    """The ``launches``, the ``temporaries`` that they write, and for A and B the kernel's ``arguments`` and their ``places``."""

    launches: tuple[Launch, ...]
    temporaries: tuple[Temporary, ...]
    arguments: tuple[Arg, ...]
    places: Mapping[str, OperandPlace]


def staged(product: OrientedProduct) -> Staged:
    """What brings A and B to where the product's kernel reads them."""
    launches, temporaries = _launches(product)
    places = {name: _place(product, name) for name in "ab"}
    arguments = [arg for name in "ab" for arg in _arguments(product, name, places[name])]
    return Staged(tuple(launches), tuple(temporaries), tuple(arguments), places)


def _launches(product: OrientedProduct) -> tuple[list[Launch], list[Temporary]]:
    """The launches in order: both operands packed together, aligned copies, copies along k, then what remains of each operand."""
    problem, point = product.problem, product.point
    launches: list[Launch] = []
    temporaries: list[Temporary] = []
    together = packing.together(product)
    if together:
        launch, panels = packing.both(product)
        launches.append(launch)
        temporaries += panels
    if pitches := {name: pitch for name in "ab" if (pitch := point.aligned(problem, name))}:
        launch, made = copies.aligned(product, pitches)
        launches.append(launch)
        temporaries += made
    copied = "".join(name for name in "ab" if not point.packs(name) and point.lines(problem, name))
    for names in [copied] if copied and product.batch is None else copied:
        launch, made = copies.contiguous(product, names)
        launches.append(launch)
        temporaries += made
    for name in "ab":
        if point.packs(name):
            alone = None if together or (name == "b" and product.repeats_panels) else packing.one(product, name)
        else:
            alone = None if name in copied or name in pitches else point.staged(problem, name, product.device)
        if alone is not None:
            launches.append(alone[0])
            temporaries.append(alone[1])
    return launches, temporaries


def _place(product: OrientedProduct, name: str) -> OperandPlace:
    """Where the kernel reads A or B: its panels, a copy, or the caller's memory."""
    problem, point = product.problem, product.point
    memory, layout = product.names[name], problem.layout[name]
    if point.packs(name):
        memory, layout = "a_panels" if product.repeats_panels else f"{name}_panels", Layout((0, 1))
    elif pitch := point.lines(problem, name):
        memory, layout = f"{name}_lines", Layout((pitch, 1))
    elif pitch := point.aligned(problem, name):
        memory, layout = f"{name}_aligned", Layout((pitch, 1))
    return OperandPlace(memory, layout, *((0, 0) if product.batch is None else (product.count, product.step(name))))


def _arguments(product: OrientedProduct, name: str, place: OperandPlace) -> tuple[Arg, ...]:
    """The kernel's arguments for A or B: the buffer with offset and row stride, unless the form passes something else, such as an image."""
    passed = product.point.operand(product.problem, name, product.device)
    return matrix(place.buffer, "in" if place.buffer in ("a", "b") else "temporary", place.layout) if passed is None else passed
