"""The record of a call on host arrays that several devices share in known parts: repetitions are computed in the same parts."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from portatile.arguments.described import Library
from portatile.device.page_locked import locked
from portatile.runtime.perform import parts_known
from portatile.runtime.repeated.factors import types_of
from portatile.runtime.repeated.steps import Operand, source_of
from portatile.runtime.request import Request, RoutineCall
from portatile.runtime.several_devices import at_once


class RecordedShare:
    """Such a call, with a new result each time. ``key`` identifies its parts, ``sources`` says which array holds each operand."""

    def __init__(
        self,
        library: Library,
        call: RoutineCall,
        result: Any,
        request: Request,
        key: Hashable,
        sources: Sequence[Operand],
        names: tuple[str, ...],
    ) -> None:
        kind, self._fits = types_of(request, call.factors)
        self._make = library.maker(result, kind)
        self._key, self._sources, self._names = key, sources, names
        self._fixed = {name: value for name, value in request.scalars.items() if name not in names}
        self._locked = locked.hold_all([stored.array for stored in request.operands])

    def repeat(self, library: Library, arrays: tuple[Any, ...], factors: tuple[Any, ...], out: Any, places: list[int]) -> Any:
        """The result of a call; None where the devices have to be chosen again."""
        if not self._fits(factors):
            return None
        made, _ = self._make(arrays[0])
        given = [source.array((*arrays, made)) for source in self._sources]
        if locked.hold_all(given) is not self._locked:
            return None
        scalars = {**self._fixed, **dict(zip(self._names, factors, strict=True))}
        return made if at_once.again(self._key, given, scalars) else None

    def disjoint(self, places: Sequence[int]) -> bool:
        """True: the output is a new array."""
        return True


def record_shared(
    library: Library, call: RoutineCall, result: Any, requests: Sequence[Request], names: tuple[str, ...]
) -> RecordedShare | None:
    """The record of a call with these names of scalars; None unless it is a single problem in known parts with a new result."""
    if len(requests) != 1 or call.out is not None or not library.on_host or not result.flags.c_contiguous:
        return None
    (request,) = requests
    key = parts_known(request)
    if key is None or any(request.scalars.get(name) != value for name, value in zip(names, call.factors, strict=True)):
        return None
    arrays = (*call.arrays, result)
    places = [library.place(array) for array in arrays]
    sources = [source_of(stored.array, arrays, places) for stored in request.operands]
    known = [source for source in sources if source is not None]
    return RecordedShare(library, call, result, request, key, known, names) if len(known) == len(sources) else None
