"""Calls on the very arrays of before that have become graphs: one look-up by addresses, one check of the arrays, one launch."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from portatile.arguments import described
from portatile.device import Selector
from portatile.runtime.engine import Engine

_MOST = 256  # calls of a routine, as many as a device has graphs


@dataclass(frozen=True, slots=True)
class Replay:
    """A call that ran as a graph, with this very tuple of ``factors`` or others ``like`` them, while ``stream()`` gave ``number``.

    ``check(*arrays)`` tells whether arrays at the same addresses are described as those of the call were. ``again()`` makes the call again;
    it returns False, with nothing done, where it no longer can.
    """

    factors: tuple[Any, ...]
    like: Callable[[tuple[Any, ...]], bool]
    options: object
    device: Selector | None
    check: Callable[..., bool]
    stream: Callable[[], int]
    number: int
    engine: Engine
    again: Callable[[], bool]


class Replays:
    """The calls of one routine that have become graphs: ``known``, by the addresses of their arrays, the output's among them, and factors.

    It is empty where arrays are of a library that has no guards, and then there is no need to ``run``.
    """

    def __init__(self) -> None:
        self.known: dict[tuple[Any, ...], Replay] = {}

    def run(self, arrays: tuple[Any, ...], factors: tuple[Any, ...], options: object, device: Selector | None) -> bool:
        """Whether the call was made; False, with nothing done, for one that has not become a graph."""
        library = described.known.get(type(arrays[0]))
        if library is None or not library.guards:
            return False
        try:
            known = self.known.get((*map(library.locate, arrays), *factors))
            if known is None or options != known.options or device != known.device:
                return False
            if factors is not known.factors and not known.like(factors):
                return False
            if not known.check(*arrays) or known.stream() != known.number:
                return False
        except (AttributeError, RuntimeError, TypeError, struct.error):  # arrays of several kinds, factors that are no real numbers
            return False
        engine = known.engine
        if engine.device.generation != engine.generation:
            return False
        with engine.lock:
            return known.again()

    def keep(self, places: list[int], replay: Replay) -> None:
        """Have ``run`` know the call that was made on arrays at these addresses."""
        if len(self.known) >= _MOST:
            self.known.clear()
        self.known[*places, *replay.factors] = replay

    def clear(self) -> None:
        """Forget all."""
        self.known.clear()
