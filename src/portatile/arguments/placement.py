"""Operands in memory that kernels can use: in place if the device can access them, else as a copy on the device."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from portatile.arguments.matrices import Matrix
from portatile.device import staging
from portatile.device.base import Device, Memory, Queue
from portatile.dtypes import strided


class Placed(NamedTuple):
    """A matrix on a device. ``own``: the memory is the matrix's own, not a copy. ``made``: it was allocated for this call."""

    stored: Matrix
    memory: Memory
    own: bool
    made: bool

    def collect(self, queue: Queue) -> None:
        """Copy an output back to the caller's NumPy array; waits for the queue. Bytes between its rows are preserved."""
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
        """Release what ``place`` allocated; a Buffer's memory stays with its owner."""
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
