"""The workers that compile ahead: their number, by the cores and the device's memory, and how they are started."""

from __future__ import annotations

from portatile import processes
from portatile.device import backends
from portatile.records import DeviceInfo
from portatile.tuning.search.worker_forks import WorkerForks
from portatile.tuning.search.worker_process import WorkerProcess

_MOST = 14
_CONTEXT = 2 * 2**30  # bytes of a GPU for each of OpenCL's compile workers, whose context takes some hundred megabytes of them
_FEW = 3  # processors from which on compiling ahead pays; with fewer, timing and compiling take turns
_OTHERS = 2  # processes that are busy too: the timing worker and the parent


def workers_before_device(jobs: int | None) -> int:
    """The number of processes to start before the device is known; ``jobs``: the number that the user asked for."""
    return min(processes.cores() - _OTHERS if jobs is None else jobs, _MOST)


def count(info: DeviceInfo, jobs: int | None, alternates: bool, single: bool) -> int:
    """The number of compile workers for a device; 0 if the timing worker should compile.

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


class StartedAhead:
    """The processes that start before the number of compile workers is known: one that forks workers, or spare workers."""

    def __init__(self, jobs: int | None, forks: WorkerForks | None) -> None:
        self._jobs, self._forks = jobs, forks
        self._spares: list[WorkerProcess] = []

    def begin(self, info: DeviceInfo | None) -> None:
        """Start it; ``info``: the device, where it is known."""
        count = workers_before_device(self._jobs)
        if count > 0 and not (info is not None and self._forks is not None and self._forks.begin(info)):
            self._spares = [WorkerProcess() for _ in range(count)]

    def take(self) -> WorkerProcess:
        """A worker that opens nothing yet."""
        return self._spares.pop() if self._spares else WorkerProcess(forks=self._forks)

    def failed(self, child: WorkerProcess) -> bool:
        """Whether a worker that never started was forked. If so, no more workers are forked: new processes may work."""
        if child.forked and self._forks is not None:
            self._forks.stop()
        return child.forked

    def end(self) -> None:
        """End the spare processes that are not needed."""
        for child in self._spares:
            child.end(grace=0)
        self._spares = []
