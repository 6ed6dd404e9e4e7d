"""The record of one call of a routine, as it travels from the caller's arrays to the launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from portatile.arguments.matrices import Matrix
from portatile.arguments.outputs import Begin
from portatile.records import Value
from portatile.runtime.engine import Bound

NO_SCALARS: Mapping[str, Any] = {}


class Request(NamedTuple):  # a tuple, because one is made for every call
    """A computation, its operands, and the queue on which the caller's library expects the work.

    ``sizes`` and ``options`` are in the order of the workload called ``workload``, ``operands`` in that of its operands, the output
    last. ``result`` is the caller's array that the output belongs to: its library says which stream the work is queued on.
    ``selector`` names a device, or several, for operands on the host. ``begin`` gives the output the values that it begins with: what is
    refused leaves it as it was. ``bound`` is what runs where that is settled; otherwise it is looked for. The operands in the places
    ``constants`` are the package's own arrays, which nobody writes. ``precision`` is what the caller asked of a product.
    """

    workload: str
    sizes: tuple[int, ...]
    options: tuple[Value, ...]
    operands: tuple[Matrix, ...]
    result: Any
    selector: str | Sequence[str] | None = None
    scalars: Mapping[str, Any] = NO_SCALARS
    begin: Begin | None = None
    bound: Bound | None = None
    constants: tuple[int, ...] = ()
    precision: str = ""
