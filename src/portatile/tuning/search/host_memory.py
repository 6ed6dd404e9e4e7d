"""Whether this machine's memory holds the operands and references of a search."""

from __future__ import annotations

import math
from pathlib import Path

from portatile.errors import ArgumentError
from portatile.formatting import spelled
from portatile.records import Problem
from portatile.workload import Workload

_DRAWN = 8  # bytes of a random number, a float64, before its conversion to the operand's type
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current"))  # the limit of a container, and its present use


def check(workload: Workload, problem: Problem) -> None:
    """Raise ArgumentError for operands that would not fit: the system kills a process that uses too much, without a message."""
    elements = [math.prod(shape) for shape in workload.shapes(problem).values()]
    # twice: where they are made, and in the memory that workers share
    needed = 2 * sum(elements) * problem.itemsize + _DRAWN * max(elements, default=0)
    free = available()
    if free is not None and needed > free:
        raise ArgumentError(
            f"{workload.name} {spelled(problem.sizes)}: its operands take {needed / 2**30:.1f} GiB of memory while they are made, "
            f"and {free / 2**30:.1f} GiB are free on this machine; choose smaller sizes"
        )


def available() -> int | None:
    """Bytes of memory that are free here; None if the system does not say."""
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
