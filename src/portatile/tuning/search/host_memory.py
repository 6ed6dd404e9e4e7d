"""Whether this machine's memory holds the operands and references of a search."""

from __future__ import annotations

import math
from pathlib import Path

from portatile.errors import ArgumentError
from portatile.records import Problem
from portatile.workload import Workload

_DRAWN = 8  # bytes of a random number before it has its type
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current"))  # of a container


def check(workload: Workload, problem: Problem) -> None:
    """Raise ArgumentError for operands that would not fit: the system kills a process that uses too much, without a message."""
    elements = [math.prod(shape) for shape in workload.shapes(problem).values()]
    needed = 2 * sum(elements) * problem.itemsize + _DRAWN * max(elements, default=0)  # where they are made, and where workers find them
    free = available()
    if free is not None and needed > free:
        sizes = " ".join(f"{name}={size}" for name, size in problem.sizes.items())
        raise ArgumentError(
            f"{workload.name} {sizes}: its operands take {needed / 2**30:.1f} GiB of this machine's memory while they are made, "
            f"and {free / 2**30:.1f} GiB are free; choose smaller sizes"
        )


def available() -> int | None:
    """Bytes of memory that are free here; None where the system does not say."""
    limits = []
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        limits += [int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")]
    except (OSError, ValueError):
        pass
    try:
        most, used = (int(path.read_text(encoding="ascii")) for path in _LIMITS)
        limits.append(most - used)
    except (OSError, ValueError):  # no container, or one without a limit: "max"
        pass
    return min(limits, default=None)
