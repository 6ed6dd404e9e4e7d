"""The limit of device memory for routines on NumPy arrays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from portatile import settings
from portatile.device.base import Device

_SHARE = 0.9  # of a device's memory: the driver needs the rest
_asked: ContextVar[int | None] = ContextVar("memory_limit", default=None)


@contextmanager
def memory_limit(limit: int | str) -> Iterator[None]:
    """A context in which routines on NumPy arrays take at most ``limit`` of a device's memory at once: bytes, or ``"500M"``, ``"1.5G"``.

    Larger problems are cut into slabs whose upload, computation and download overlap; the results are bitwise those of the whole. There are
    two exceptions: where atoms (``coulomb_potential``) or samples (``mri_q``, ``mri_fhd``) alone take more than the limit, partial sums are
    added on the host, and ``wavelets.kinetic`` filters axis by axis. Both change the order of rounding, within the same error bound. The
    limit holds in this thread (or asyncio task) only, and takes precedence over the environment variable PORTATILE_MEMORY_LIMIT and the
    device's memory size. Raises UsageError for an invalid number of bytes; a routine raises DeviceError where not even the thinnest slab
    fits.

    Examples:
        >>> import numpy as np, portatile
        >>> a, b = np.ones((300, 200), np.float32), np.ones((200, 100), np.float32)
        >>> with portatile.memory_limit("300K"):  # the three matrices take 430 KiB
        ...     portatile.matmul(a, b)[0, 0]
        np.float32(200.0)
    """
    token = _asked.set(settings.nbytes(str(limit), f"memory_limit({limit!r})"))
    try:
        yield
    finally:
        _asked.reset(token)


def asked() -> int | None:
    """The limit set by an enclosing ``memory_limit``; None outside of it."""
    return _asked.get()


def limit_of(device: Device) -> int | None:
    """Bytes that a computation on host arrays may take on the device; None for a device that computes in the host's own memory."""
    setting = asked() or settings.memory_limit()
    if setting is not None:
        return setting
    return None if device.info.unified_memory else int(_SHARE * device.info.global_memory)


def too_large(device: Device, nbytes: tuple[int, ...]) -> bool:
    """Whether operands and temporaries of these sizes cannot all lie on the device at once."""
    limit = limit_of(device)
    return max(nbytes, default=0) > device.info.max_allocation or (limit is not None and sum(nbytes) > limit)
