"""Device memory between two canaries, which reveal a kernel that writes before or after its array."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile.device.base import PART_ALIGNMENT, Device, Memory, Queue
from portatile.verify import GUARD_WORD

MARGIN = 256 * PART_ALIGNMENT
"""Bytes of a wide canary: the range in which writes outside of an array are certainly detected."""


class GuardedMemory:
    """``nbytes`` of device memory, ``memory``, with ``margin`` bytes of canary on either side, which ``queue`` writes.

    The canary consists of repetitions of ``word`` and begins at the first byte past the memory's end. ``margin`` must be a multiple of
    ``device.base.PART_ALIGNMENT``.
    """

    def __init__(self, device: Device, queue: Queue, nbytes: int, margin: int = 16 * PART_ALIGNMENT, word: int = GUARD_WORD) -> None:
        self.nbytes, self.margin = nbytes, margin
        self._word = word.to_bytes(4, "little")
        self._whole = device.allocate(-(-nbytes // 4) * 4 + 2 * margin)
        self.restore(queue)
        self.memory: Memory = device.part(self._whole, margin, nbytes)

    def restore(self, queue: Queue) -> None:
        """Queue commands that rewrite the canaries, and the memory's last bytes (up to three) if they are not a whole word."""
        behind = self.margin + self.nbytes // 4 * 4  # fills write whole words
        queue.fill(self._whole, self._word, 0, self.margin)
        queue.fill(self._whole, self._word, behind, self._whole.nbytes - behind)

    def changed(self, queue: Queue, reach: int | None = None) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The bytes of the canaries that changed: distances before the memory's first byte (1 is adjacent), and after its end (0 is
        adjacent). ``reach``: examine only this many bytes on either side, at least 4. Waits for the queue.
        """
        reach, odd = self.margin if reach is None else min(reach, self.margin), self.nbytes % 4
        before, behind = np.empty(reach, np.uint8), np.empty(odd + reach, np.uint8)
        queue.download(before, self._whole, offset=self.margin - reach)
        queue.download(behind, self._whole, offset=self.margin + self.nbytes - odd)
        return reach - self._differing(before, 0), self._differing(behind[odd:], odd)

    def out_of_bounds(self, queue: Queue, name: str, itemsize: int, reach: int | None = None) -> str | None:
        """A message about a kernel's writes outside of the memory called ``name``, in elements of ``itemsize`` bytes; None if there are
        none.

        ``reach``: as for ``changed``.
        """
        before, behind = self.changed(queue, reach)
        complaints = []
        if before.size:
            elements = np.unique((before - 1) // itemsize)
            complaints.append(f"{_counted(elements)} before {name}, as far as {name}[-{int(elements.max()) + 1}]")
        if behind.size:
            elements = np.unique(behind // itemsize)
            last = self.nbytes // itemsize + int(elements.max())
            complaints.append(f"{_counted(elements)} behind {name}, as far as {name}[{last}]")
        return f"wrote {' and '.join(complaints)}, which has {self.nbytes // itemsize}" if complaints else None

    def release(self) -> None:
        """Release the memory."""
        self.memory.release()
        self._whole.release()

    def __enter__(self) -> GuardedMemory:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()

    def _differing(self, raw: NDArray[np.uint8], phase: int) -> NDArray[Any]:
        """The indices of bytes that do not hold the canary, whose first byte is byte number ``phase`` of its word."""
        if phase == 0 and raw.size % 4 == 0 and not np.any(raw.view("<u4") != int.from_bytes(self._word, "little")):
            return np.empty(0, np.intp)  # nearly always, and ten times faster
        word = np.roll(np.frombuffer(self._word, np.uint8), -phase)
        expected = np.tile(word, -(-raw.size // word.size))[: raw.size]  # numpy.resize takes 300 times as long
        return np.flatnonzero(raw != expected)


def _counted(elements: NDArray[Any]) -> str:
    return f"{elements.size} element{'s' if elements.size != 1 else ''}"
