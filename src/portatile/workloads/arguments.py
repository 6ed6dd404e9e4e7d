"""The arguments of a launch for an operand: its memory, offset and strides."""

from __future__ import annotations

from collections.abc import Mapping

from portatile.errors import ArgumentError
from portatile.records import SCALARS, Arg, Layout, Problem, Role

_SPARE = 2**16  # elements past an operand's end to which a work-group's indices may run without being read
_AXES = ("ld", "line")

Shapes = Mapping[str, tuple[int, ...]]


def operand(name: str, layout: Layout, index: str, role: Role) -> tuple[Arg, ...]:
    """A buffer, its offset, and its strides (in elements) along all axes but the last: ``_ld`` of the first axis, ``_line`` of the second.

    ``index``: the OpenCL C type of indices into it, as ``index_type`` returns it.
    """
    strides = {f"{name}_{axis}": stride for axis, stride in zip(_AXES, layout.strides[:-1], strict=False)}
    return Arg(name, role=role), *literals({f"{name}_offset": layout.offset, **strides}, index)


def literals(values: Mapping[str, int], index: str = "int") -> tuple[Arg, ...]:
    """Integer arguments of the OpenCL C type ``index``, with values that are known when the plan is made, in order."""
    return tuple(Arg(name, "scalar", dtype=SCALARS[index], value=value) for name, value in values.items())


def index_type(problem: Problem, shapes: Shapes, spare: int = _SPARE) -> str:
    """``int`` if it can index every element of the operands and ``spare`` more, else ``long``."""
    return "int" if max(problem.layout[name].extent(shape) for name, shape in shapes.items()) < 2**31 - spare else "long"


def check_rows(problem: Problem, shapes: Shapes) -> None:
    """Raise ArgumentError if an operand's last axis is not contiguous, or if a dimension is too large for a 32-bit index."""
    for name, shape in shapes.items():
        step = problem.layout[name].strides[-1]
        if step != 1 and shape[-1] > 1:
            raise ArgumentError(f"{problem.workload} takes row-major operands, and the elements of a row of {name!r} lie {step} apart")
        if max(shape) >= 2**31 - _SPARE:
            raise ArgumentError(f"{problem.workload}: {name!r} has the shape {shape}; each dimension must be below {2**31 - _SPARE}")
