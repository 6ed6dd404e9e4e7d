"""Devices at work on the pieces of something shared, each in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from itertools import permutations
from typing import NamedTuple

from portatile.device.base import Device
from portatile.errors import DeviceError, LaunchError, PortatileError
from portatile.runtime.one_device.engine import engine_of
from portatile.runtime.one_device.in_flight import INTERRUPTS
from portatile.runtime.several_devices.pieces import Pieces
from portatile.runtime.several_devices.splits import Share
from portatile.thread_turns import short_turns
from portatile.user_warnings import warn

FAILURES = DeviceError, LaunchError, MemoryError
"""What a device that fails raises; anything else is a mistake in a program."""
_TURN = (
    1e-4  # seconds of Python, so that a device need not wait for another one's: a step of its pipeline takes some tenths of a millisecond
)


class Part(NamedTuple):
    """One device's part of a shared problem: ``run`` takes pieces until there are none, and hands back those that it does not finish."""

    share: Share
    run: Callable[[Pieces], None]


def together(workers: Sequence[Part], pieces: Pieces, copying: Iterable[Device] = ()) -> None:
    """Run all parts to the end, each in a thread; a device that fails leaves its pieces to the others, and is warned of.

    ``copying``: devices between which the parts copy; they reach each other's memory before any part begins. Raises a mistake that is no
    device's failure, else what the last one raised where all fail.
    """
    errors: list[BaseException] = []
    for device, other in permutations(dict.fromkeys(copying), 2):
        if not device.is_open_to(other):
            _open(device, other)

    def work(worker: Part) -> None:
        try:
            worker.run(pieces)
        except BaseException as error:  # raised below, where no other device makes up for it
            worker.share.failure = str(error) or type(error).__name__
            errors.append(error)
            pieces.drop(worker.share.device)
            if not isinstance(error, FAILURES):
                pieces.stop()

    threads = [threading.Thread(target=work, args=(worker,), name=f"portatile-{worker.share.device}") for worker in workers]
    try:
        with short_turns(_TURN):
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    except BaseException:  # an interrupt: what is under way is finished, so that nobody writes to the caller's arrays afterwards
        pieces.stop()
        for thread in threads:
            _ended(thread)
        raise
    conclude([worker.share for worker in workers], errors, pieces)


def conclude(shares: Sequence[Share], errors: Sequence[BaseException], pieces: Pieces) -> None:
    """Raise what kept a piece from being computed, of ``errors`` in the order in which they came; else warn of devices that failed."""
    if pieces.left or pieces.stopped:
        raise next((error for error in errors if not isinstance(error, FAILURES)), errors[-1])
    for share in shares:
        if share.failure:
            warn(f"{share.device} failed ({share.failure}); the other devices computed its part")


def _open(device: Device, other: Device) -> None:
    """Let one device reach the other's memory, while no other thread computes on them."""
    with ExitStack() as stack:
        for engine in sorted((engine_of(device), engine_of(other)), key=lambda engine: engine.device.info.id):  # as other threads take them
            stack.enter_context(engine.lock)
        with suppress(PortatileError):  # it fails: so will its part, or copies go through the host
            device.open_to(other)


def _ended(thread: threading.Thread) -> None:
    """Wait for the end of a thread, if it was started, through further interrupts."""
    for _ in range(INTERRUPTS):
        if not thread.is_alive():
            return
        with suppress(KeyboardInterrupt):
            thread.join()
