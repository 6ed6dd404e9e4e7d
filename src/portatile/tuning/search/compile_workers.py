"""The number of workers that compile ahead: as many as the cores and the device's memory allow, if that saves time."""

from __future__ import annotations

from portatile import processes
from portatile.device import backends
from portatile.records import DeviceInfo

_MOST = 14
_CONTEXT = 2 * 2**30  # bytes of a GPU for each of OpenCL's compile workers, whose context takes some hundred megabytes of them
_FEW = 3  # processors from which on compiling ahead pays; with fewer, timing and compiling take turns
_OTHERS = 2  # processes that are busy too: the timing worker and the parent


def spares(jobs: int | None) -> int:
    """Processes to start before the device is known; ``jobs`` is the number that the user asked for."""
    return min(processes.cores() - _OTHERS if jobs is None else jobs, _MOST)


def count(info: DeviceInfo, jobs: int | None, alternates: bool, single: bool) -> int:
    """Compile workers for a device, 0 where the timing worker had better compile itself.

    ``alternates``: compiling and timing take turns; ``single``: all work-groups have one work-item.

    PoCL compiles for one work-group size when it launches, and again for any size when it is asked for a binary. On few cores that
    is slower than a timing worker that asks for no binary, unless all work-groups have one work-item, which PoCL can know ahead.
    """
    if alternates and jobs is None and not single and processes.cores() <= _FEW:
        jobs = 1
    if jobs is None:
        spare = processes.cores() if alternates else processes.cores() - _OTHERS
        if not alternates and not backends()[info.backend].offline:  # each opens a context
            spare = min(spare, info.global_memory // _CONTEXT)
        jobs = min(max(spare, 1), _MOST)
    return 0 if alternates and jobs == 1 else jobs  # one alone does not compile faster than the timing worker itself
