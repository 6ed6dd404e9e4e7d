"""The number of workers that compile ahead: as many as the cores and the device's memory allow, if that saves time."""

from __future__ import annotations

from portatile.device import backends
from portatile.processes import cores
from portatile.records import DeviceInfo

_MOST = 14  # compile workers
_CONTEXT = 2 * 2**30  # bytes of a GPU's memory for each compile worker through OpenCL, whose context takes several hundred megabytes
_FEW = 3  # with so many cores or fewer the timing worker had better compile itself
_OTHERS = 2  # processes that are busy too: the timing worker and the parent


def spares(jobs: int | None) -> int:
    """Compile workers to start before the device is known; ``jobs`` is the number that the user asked for."""
    return min(cores() - _OTHERS if jobs is None else jobs, _MOST)


def count(info: DeviceInfo, jobs: int | None, alternates: bool, single: bool) -> int:
    """Compile workers for a device, 0 where the timing worker had better compile itself.

    ``alternates``: compiling and timing take turns; ``single``: all work-groups have one work-item.

    PoCL compiles for one work-group size when it launches, and again for any size when it is asked for a binary. On few cores that
    is slower than a timing worker that asks for no binary, unless all work-groups have one work-item, which PoCL can know ahead.
    """
    if alternates and jobs is None and not single and cores() <= _FEW:
        jobs = 1
    if jobs is None:
        spare = cores() if alternates else cores() - _OTHERS
        if not alternates and not backends()[info.backend].offline:  # each opens a context
            spare = min(spare, info.global_memory // _CONTEXT)
        jobs = min(max(spare, 1), _MOST)
    return 0 if alternates and jobs == 1 else jobs  # one alone does not compile faster than the timing worker itself
