"""Devices that compute pieces of a shared problem, each in a thread of its own."""

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
"""Exceptions that mean that a device failed; any other one is a mistake in a program."""
_TURN = (
    # seconds for which a thread may hold the GIL, so that no device waits long for another one's thread: a pipeline step takes a few 100 us
    1e-4
)


class Part(NamedTuple):
    """One device's part of a shared problem: ``run`` takes pieces until none are left, and gives back those that it does not finish."""

    share: Share
    run: Callable[[Pieces], None]


def together(workers: Sequence[Part], pieces: Pieces, copying: Iterable[Device] = ()) -> None:
    """Run all parts to the end, each in a thread. The pieces of a device that fails go to the others, with a warning.

    ``copying``: devices between which the parts copy; peer access between them is enabled before any part begins. Raises an exception that
    is no device failure, or the last device's exception where all devices fail.
    """
    errors: list[BaseException] = []
    for device, other in permutations(dict.fromkeys(copying), 2):
        if not device.is_open_to(other):
            _open(device, other)

    def work(worker: Part) -> None:
        try:
            worker.run(pieces)
        except BaseException as error:  # raised below unless other devices compute its pieces
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
    except BaseException:  # an interrupt: wait for pieces in progress, so that nothing writes to the caller's arrays afterwards
        pieces.stop()
        for thread in threads:
            _ended(thread)
        raise
    conclude([worker.share for worker in workers], errors, pieces)


def conclude(shares: Sequence[Share], errors: Sequence[BaseException], pieces: Pieces) -> None:
    """Raise the exception that left pieces uncomputed (``errors`` are in order of occurrence); otherwise warn of devices that failed."""
    if pieces.left or pieces.stopped:
        raise next((error for error in errors if not isinstance(error, FAILURES)), errors[-1])
    for share in shares:
        if share.failure:
            warn(f"{share.device} failed ({share.failure}); the other devices computed its part")


def _open(device: Device, other: Device) -> None:
    """Enable access from one device to the other's memory, while no other thread computes on them."""
    with ExitStack() as stack:
        # in the same order as other threads, to avoid deadlock
        for engine in sorted((engine_of(device), engine_of(other)), key=lambda engine: engine.device.info.id):
            stack.enter_context(engine.lock)
        with suppress(PortatileError):  # if this fails, so will the device's part, or its copies go through the host
            device.open_to(other)


def _ended(thread: threading.Thread) -> None:
    """Wait for a thread to end, if it was started, even through further interrupts."""
    for _ in range(INTERRUPTS):
        if not thread.is_alive():
            return
        with suppress(KeyboardInterrupt):
            thread.join()
