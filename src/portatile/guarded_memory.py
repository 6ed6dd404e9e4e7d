"""Device memory between two canaries, which tell of a kernel that writes before or behind its array."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile.device.base import PART_ALIGNMENT, Device, Memory, Queue
from portatile.verify import GUARD_WORD

_WORD = GUARD_WORD.to_bytes(4, "little")
_WITNESS = np.frombuffer(_WORD, np.uint8)


class GuardedMemory:
    """``nbytes`` of device memory, ``memory``, with ``margin`` bytes of canary on either side, which ``queue`` writes.

    The canary behind begins at the first byte past the memory. ``margin`` must be a multiple of ``device.base.PART_ALIGNMENT``.
    """

    def __init__(self, device: Device, queue: Queue, nbytes: int, margin: int = 16 * PART_ALIGNMENT) -> None:
        self.nbytes, self.margin = nbytes, margin
        self._behind = -(-nbytes // 4) * 4  # fills are of whole words
        self._whole = device.allocate(self._behind + 2 * margin)
        queue.fill(self._whole, _WORD, 0, self._whole.nbytes)
        self.memory: Memory = device.part(self._whole, margin, nbytes)

    def changed(self, queue: Queue) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Which bytes of the canaries changed: before the memory, counted backwards from its first (1 is next to it), and behind it,
        counted from its end (0 is next to it). Waits for the queue.
        """
        before = np.empty(self.margin, np.uint8)
        behind = np.empty(self._whole.nbytes - self.margin - self.nbytes // 4 * 4, np.uint8)
        queue.download(before, self._whole)
        queue.download(behind, self._whole, offset=self.margin + self.nbytes // 4 * 4)
        behind = behind[self.nbytes % 4 :]
        return self.margin - _differing(before, 0), _differing(behind, self.nbytes % 4)

    def complaint(self, queue: Queue, name: str, itemsize: int) -> str | None:
        """What a kernel wrote outside of the memory called ``name``, in elements of ``itemsize`` bytes; None where it wrote nothing."""
        before, behind = self.changed(queue)
        told = []
        if before.size:
            elements = np.unique((before - 1) // itemsize)
            told.append(f"{_counted(elements)} before {name}, as far as {name}[-{int(elements.max()) + 1}]")
        if behind.size:
            elements = np.unique(behind // itemsize)
            last = self.nbytes // itemsize + int(elements.max())
            told.append(f"{_counted(elements)} behind {name}, as far as {name}[{last}]")
        return f"wrote {' and '.join(told)}, which has {self.nbytes // itemsize}" if told else None

    def release(self) -> None:
        """Give the memory back."""
        self.memory.release()
        self._whole.release()

    def __enter__(self) -> GuardedMemory:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()


def _differing(raw: NDArray[np.uint8], phase: int) -> NDArray[Any]:
    """Places that do not hold the canary, whose first byte is its word's byte number ``phase``."""
    expected = np.resize(np.roll(_WITNESS, -phase), raw.size)
    return np.flatnonzero(raw != expected)


def _counted(elements: NDArray[Any]) -> str:
    return f"{elements.size} element{'s' if elements.size != 1 else ''}"
