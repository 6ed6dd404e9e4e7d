"""The interface of another library's matrix product, with which ours is compared."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from portatile.device.base import Memory, Queue
from portatile.records import Size3


class VendorBlas(ABC):
    """Another library's matrix product, on a device's own memory and queues."""

    name: str
    version: str

    @abstractmethod
    def gemm(self, queue: Queue, dtype: str, sizes: Size3, operands: Sequence[Memory]) -> None:
        """Queue C = A B of row-major, contiguous matrices; ``sizes`` are m, n and k, ``operands`` A, B and C. Does not wait.

        ``dtype`` is float32, computed without reduced precision, or float64. Raises DeviceError where the library reports a failure.
        """

    def release(self) -> None:
        """Release what the library holds."""
        return
