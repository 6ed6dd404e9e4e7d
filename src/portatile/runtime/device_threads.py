"""Devices at work on the pieces of something shared, each in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import permutations
from typing import NamedTuple

from portatile.device.base import Device
from portatile.errors import DeviceError, LaunchError, PortatileError
from portatile.runtime.pieces import Pieces
from portatile.runtime.splits import Share
from portatile.user_warnings import warn


class Part(NamedTuple):
    """One device's part of a shared problem: ``run`` takes pieces until there are none, and hands back those that it does not finish."""

    share: Share
    run: Callable[[Pieces], None]


def together(workers: Sequence[Part], pieces: Pieces, copying: Iterable[Device] = ()) -> None:
    """Run all parts to the end, each in a thread; a device that fails leaves its pieces to the others, and is warned of.

    ``copying``: devices between which the parts copy; they reach each other's memory before any part begins. Raises what the last one
    raised where all fail, and a mistake that is no device's failure.
    """
    errors: list[Exception] = []
    for device, other in permutations(dict.fromkeys(copying), 2):
        with suppress(PortatileError):  # it fails: so will its part, or copies go through the host
            device.open_to(other)

    def work(worker: Part) -> None:
        try:
            worker.run(pieces)
        except Exception as error:  # raised below, where no other device makes up for it
            worker.share.failure = str(error)
            errors.append(error)
            pieces.drop(worker.share.device)
            if not isinstance(error, (DeviceError, LaunchError, MemoryError)):  # a programming error, not a failure of a device
                pieces.stop()

    threads = [threading.Thread(target=work, args=(worker,), name=f"portatile-{worker.share.device}") for worker in workers]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException:  # an interrupt: what is under way is finished, so that nobody writes to the caller's arrays afterwards
        pieces.stop()
        for thread in threads:
            with suppress(KeyboardInterrupt):
                thread.join()
        raise
    if pieces.left or pieces.stopped:
        raise errors[-1]
    for worker in workers:
        if worker.share.failure:
            warn(f"{worker.share.device} failed ({worker.share.failure}); the other devices computed its part")
