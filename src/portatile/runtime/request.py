"""The record of one call of a routine: first its arguments, then a computation on its way to the launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from portatile.arguments.matrices import Matrix
from portatile.arguments.outputs import InitialContent
from portatile.device import Selector
from portatile.records import Value
from portatile.runtime.one_device.engine import BoundProblem

NO_SCALARS: Mapping[str, Any] = {}


class RoutineCall(NamedTuple):
    """The arguments of a call: arrays that are read, factors such as alpha, options such as transpositions, the output and the device."""

    arrays: tuple[Any, ...]
    factors: tuple[Any, ...]
    options: tuple[Any, ...]
    out: Any
    device: Selector | None


class Request(NamedTuple):  # a tuple, because one is made for every call
    """A computation, its operands, and the array whose library says on which stream the work is queued.

    - ``workload``: its name. ``sizes``, ``options`` and ``operands`` are in the order in which the workload declares them, the output last.
    - ``result``: the caller's array that the output belongs to. Its library says on which stream the work is queued.
    - ``selector``: the device, or several, for operands on the host.
    - ``scalars``: by name. ``precision``: the one that the caller asked for, empty for none.
    - ``begin``: writes the initial values of the output. It runs after all checks, so that a refused call leaves the output unchanged.
    - ``bound``: the prepared problem, if it is known already; otherwise it is looked up.
    - ``constants``: indices of the operands that are the package's own arrays, which are never written.
    """

    workload: str
    sizes: tuple[int, ...]
    options: tuple[Value, ...]
    operands: tuple[Matrix, ...]
    result: Any
    selector: str | Sequence[str] | None = None
    scalars: Mapping[str, Any] = NO_SCALARS
    begin: InitialContent | None = None
    bound: BoundProblem | None = None
    constants: tuple[int, ...] = ()
    precision: str = ""
