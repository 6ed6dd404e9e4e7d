"""The arguments of a launch for an operand: its memory, offset and strides."""

from __future__ import annotations

from collections.abc import Mapping

from portatile.errors import ArgumentError
from portatile.records import SCALARS, Arg, Layout, Problem, Role

_SPARE = 2**16  # places past an operand's end that a work-group may count to, though it reads none of them
_AXES = ("ld", "line")

Shapes = Mapping[str, tuple[int, ...]]


def operand(name: str, layout: Layout, index: str, role: Role) -> tuple[Arg, ...]:
    """A buffer, its offset, and the strides of all axes but the last, in elements: ``_ld`` of the first, ``_line`` of the second.

    ``index`` is OpenCL C's type of the places in it, as ``index_type`` gives it.
    """
    strides = {f"{name}_{axis}": stride for axis, stride in zip(_AXES, layout.strides[:-1], strict=False)}
    return Arg(name, role=role), *literals({f"{name}_offset": layout.offset, **strides}, index)


def literals(values: Mapping[str, int], index: str = "int") -> tuple[Arg, ...]:
    """Integers of one of OpenCL C's types whose values are known when the plan is made, in order."""
    return tuple(Arg(name, "scalar", dtype=SCALARS[index], value=value) for name, value in values.items())


def index_type(problem: Problem, shapes: Shapes, spare: int = _SPARE) -> str:
    """``int`` if it can index every element of operands of these shapes and ``spare`` more, else ``long``."""
    return "int" if max(problem.layout[name].extent(shape) for name, shape in shapes.items()) < 2**31 - spare else "long"


def check_rows(problem: Problem, shapes: Shapes) -> None:
    """Raise ArgumentError for operands whose last axis is not contiguous, or of which an index of 32 bits cannot count a dimension."""
    for name, shape in shapes.items():
        step = problem.layout[name].strides[-1]
        if step != 1 and shape[-1] > 1:
            raise ArgumentError(f"{problem.workload} takes row-major operands, and the elements of a row of {name!r} lie {step} apart")
        if max(shape) >= 2**31 - _SPARE:
            raise ArgumentError(f"{problem.workload}: {name!r} has the shape {shape}; each dimension must be below {2**31 - _SPARE}")
