"""Devices at work on the pieces of something shared, all fed by one thread, which waits for none of them.

Threads of their own would hinder each other: one that gives Python's lock up for a call of a driver has mostly taken it again before
another one woke up, so that a device waits for milliseconds until it is given something.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from portatile.runtime.several_devices.device_threads import FAILURES, conclude
from portatile.runtime.several_devices.pieces import Pieces
from portatile.runtime.several_devices.splits import Share
from portatile.thread_turns import give_way


class PieceWorker(Protocol):
    """A device that is given pieces."""

    @property
    def share(self) -> Share:
        """What it has done."""

    @property
    def busy(self) -> bool:
        """Whether pieces are under way."""

    def advance(self, pieces: Pieces) -> bool:
        """Count what has ended and begin what is free, without waiting; whether there was anything.

        Before it raises, nothing is under way any more, and what it did not finish is handed back.
        """


def in_turn(devices: Sequence[PieceWorker], pieces: Pieces) -> None:
    """Have all pieces computed; a device that fails leaves its pieces to the others, and is warned of.

    Raises a mistake that is no device's failure, else what the last one raised where all fail.
    """
    working, errors = list(devices), list[BaseException]()
    while True:
        moved = False
        for one in tuple(working):
            try:
                moved |= one.advance(pieces)
            except FAILURES as error:
                one.share.failure = str(error) or type(error).__name__
                errors.append(error)
                pieces.drop(one.share.device)
                working.remove(one)
                moved = True
        if not moved and not any(one.busy for one in working):
            break
        if not moved:
            give_way()  # to the caller's other threads
    conclude([one.share for one in devices], errors, pieces)
