"""Operands in memory that kernels can use: their own memory if the device reaches it, else a copy on the device."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from portatile.arguments.matrices import Matrix
from portatile.device import staging
from portatile.device.base import Device, Memory, Queue
from portatile.dtypes import strided


class Placed(NamedTuple):
    """A matrix on a device. ``own``: it is the matrix's own memory, not a copy. ``made``: ``release`` gives it back after this call."""

    stored: Matrix
    memory: Memory
    own: bool
    made: bool

    def collect(self, queue: Queue) -> None:
        """Bring an output back to the caller's NumPy array; waits for the queue. Elements between its rows keep their values."""
        if self.own:
            queue.finish()
            return
        stored, span = self.stored, self.stored.span()
        if stored.packed:
            staging.download(queue, span, self.memory)
        else:
            copy = np.empty_like(span)
            staging.download(queue, copy, self.memory)
            shape = (stored.rows, stored.columns) if stored.number == 1 else (stored.number, stored.rows, stored.columns)
            strides = tuple(stride * span.itemsize for stride in stored.layout.strides)
            staging.copied(stored.array, strided(copy, shape, strides))

    def release(self) -> None:
        """Give back what ``place`` made; a Buffer's memory stays its owner's."""
        if self.made:
            self.memory.release()


def place(device: Device, queue: Queue, stored: Matrix) -> Placed:
    """Memory with the matrix that kernels can use; a copy receives the values only if the matrix is ``read``."""
    if stored.on_device:
        return Placed(stored, stored.array.memory, True, False)
    span = stored.span()
    borrowed = device.borrow(span)
    if borrowed is not None:
        return Placed(stored, borrowed, True, False)
    memory = device.share(span)
    if memory is not None:
        return Placed(stored, memory, True, True)
    memory = device.allocate(max(span.nbytes, span.itemsize))
    if stored.read:
        staging.upload(queue, memory, span, blocking=False)
    return Placed(stored, memory, False, True)
