"""Devices that compute pieces of a shared problem, all fed by one thread, which blocks on none of them.

One thread per device would be slower: a thread that releases the GIL for a driver call has usually taken it again before another thread
wakes up, so that devices idle for milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from portatile.runtime.several_devices.device_threads import FAILURES, conclude
from portatile.runtime.several_devices.pieces import Pieces
from portatile.runtime.several_devices.splits import Share
from portatile.thread_turns import give_way


class PieceWorker(Protocol):
    """A device that computes pieces."""

    @property
    def share(self) -> Share:
        """What the device has done."""

    @property
    def busy(self) -> bool:
        """Whether pieces are in progress."""

    def advance(self, pieces: Pieces) -> bool:
        """Account for pieces that have ended and start new ones, without blocking; returns whether there was anything to do.

        Before it raises, no piece is in progress any more, and unfinished ones are given back.
        """


def in_turn(devices: Sequence[PieceWorker], pieces: Pieces) -> None:
    """Compute all pieces. The pieces of a device that fails go to the others, with a warning.

    Raises an exception that is no device failure, or the last device's exception where all devices fail.
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
            give_way()  # lets the caller's other threads run
    conclude([one.share for one in devices], errors, pieces)
