"""Calls on the same arrays as before that have become graphs: a look-up by addresses, a check of the arrays, and one launch.

This module imports nothing else of the package at run time: routines look here before they load the code that plans calls.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from portatile.arguments.described import Check, Maker
    from portatile.device import Selector
    from portatile.runtime.one_device.engine import Engine

Locate = Callable[[Any], int]
"""Gives the address of an array of a library."""

_MOST = 256  # calls of a routine that are kept: as many as a device keeps graphs
_RESULTS = 16  # addresses of new results that are kept for one call


@dataclass(frozen=True, slots=True)
class Replay:
    """A call that ran as a graph on the stream ``number``, as ``stream()`` then gave it, with these ``factors`` or bitwise equal ones
    (``like``).

    ``check(arrays)`` tells whether arrays at the same addresses have the same description as the call's. ``again()`` repeats the call; it
    returns False, with nothing done, where that is no longer possible. ``kept`` is an object that has to stay alive.
    """

    factors: tuple[Any, ...]
    like: Callable[[tuple[Any, ...]], bool]
    options: object
    device: Selector | None
    check: Check
    stream: Callable[[], int]
    number: int
    engine: Engine
    again: Callable[[], bool]
    kept: object

    def matches(self, arrays: tuple[Any, ...], factors: tuple[Any, ...], options: object, device: Selector | None) -> bool:
        """Whether a call on arrays at these addresses is this one."""
        engine = self.engine
        return (
            options == self.options
            and device == self.device
            and (factors is self.factors or self.like(factors))
            and self.check(arrays)
            and self.stream() == self.number
            and engine.device.generation == engine.generation
        )


@dataclass(frozen=True, slots=True)
class _CallForNewResult:
    """A call that makes its own output: ``make`` allocates it, and ``again`` holds the replays by the address of the output.

    ``call`` computes the call for any other address. ``replay`` is the first such call.
    """

    replay: Replay
    make: Maker
    call: Callable[..., Any]
    again: dict[int, Callable[[], bool]]

    def is_that_of(self, other: Replay) -> bool:
        """Whether another replay is the same call with a different new result."""
        own = self.replay
        return (
            (own.options, own.device, own.number) == (other.options, other.device, other.number)
            and own.kept is other.kept
            and own.check is other.check
            and own.like(other.factors)
        )


class Replays:
    """The calls of one routine that have become graphs, by the addresses of their arrays and their factors: ``known`` includes the address
    of a given output, ``made`` has calls that allocate a new output.

    While one of the two is empty, the caller need not call ``run`` or ``make``.
    """

    def __init__(self) -> None:
        self.known: dict[tuple[Any, ...], Replay] = {}
        self.made: dict[tuple[Any, ...], _CallForNewResult] = {}
        self._locate: dict[type, Locate] = {}  # by the type of a call's first array

    def run(self, arrays: tuple[Any, ...], factors: tuple[Any, ...], options: object, device: Selector | None) -> bool:
        """Repeat a call with a given output; False, with nothing done, if it is not known as a graph."""
        locate = self._locate.get(type(arrays[0]))
        if locate is None:
            return False
        try:
            known = self.known.get((*map(locate, arrays), *factors))
            if known is None or not known.matches(arrays, factors, options, device):
                return False
        except (AttributeError, RuntimeError, TypeError, struct.error):  # arrays of several libraries, or factors that are not real numbers
            return False
        with known.engine.lock:
            return known.again()

    def make(self, arrays: tuple[Any, ...], factors: tuple[Any, ...], options: object, device: Selector | None) -> Any:
        """Repeat a call with a new output, and return that; None if the call is not known as a graph."""
        locate = self._locate.get(type(arrays[0]))
        if locate is None:
            return None
        try:
            places = list(map(locate, arrays))
            known = self.made.get((*places, *factors))
            if known is None or not known.replay.matches(arrays, factors, options, device):
                return None
        except (AttributeError, RuntimeError, TypeError, struct.error):
            return None
        out, place = made = known.make(arrays[0])
        again = known.again.get(place)
        if again is not None:
            with known.replay.engine.lock:
                if again():
                    return out
        return known.call(arrays, factors, None, places, made)

    def keep(self, kind: type, locate: Locate, places: list[int], replay: Replay) -> None:
        """Have ``run`` find this call by the addresses of its arrays. ``locate`` gives the address of an array of type ``kind``."""
        if len(self.known) >= _MOST:
            self.known.clear()
        self._locate[kind] = locate
        self.known[*places, *replay.factors] = replay

    def keep_made(self, kind: type, locate: Locate, places: list[int], replay: Replay, make: Maker, call: Callable[..., Any]) -> None:
        """Have ``make`` find this call; ``make`` allocated its result, whose address is the last of ``places``."""
        key = *places[:-1], *replay.factors
        known = self.made.get(key)
        if known is None or not known.is_that_of(replay):
            if len(self.made) >= _MOST:
                self.made.clear()
            known = self.made[key] = _CallForNewResult(replay, make, call, {})
        if len(known.again) >= _RESULTS:
            known.again.clear()
        known.again[places[-1]] = replay.again
        self._locate[kind] = locate

    def clear(self) -> None:
        """Forget all calls."""
        self.known.clear()
        self.made.clear()
        self._locate.clear()


@cache
def replays_of(routine: str) -> Replays:
    """The calls of a routine that have become graphs."""
    return Replays()
