"""Hardware counters of a processor, through Linux's ``perf_event_open``: of every thread of this process, while work runs.

Counters are measured one at a time, each over separate runs: a processor has few counter registers, and multiplexed counts would be
estimates.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from portatile.errors import DeviceError

_CALL = {"x86_64": 298, "aarch64": 241, "ppc64le": 319, "riscv64": 241}  # perf_event_open's system call number
_HARDWARE, _SOFTWARE, _CACHE = 0, 1, 3
_READ_MISSES = 1 << 16  # of a cache: operation read (0), result miss (1)
EVENTS: Mapping[str, tuple[int, int, str]] = {
    "cycles": (_HARDWARE, 0, ""),
    "instructions": (_HARDWARE, 1, ""),
    "cache references": (_HARDWARE, 2, ""),
    "cache misses": (_HARDWARE, 3, ""),
    "branches": (_HARDWARE, 4, ""),
    "branch misses": (_HARDWARE, 5, ""),
    "L1 data read misses": (_CACHE, 0 | _READ_MISSES, ""),
    "last-level read misses": (_CACHE, 2 | _READ_MISSES, ""),
    "data TLB read misses": (_CACHE, 3 | _READ_MISSES, ""),
    "processor time": (_SOFTWARE, 1, "ns"),
    "page faults": (_SOFTWARE, 2, ""),
    "context switches": (_SOFTWARE, 3, ""),
}
_DISABLED, _NO_KERNEL, _NO_HYPERVISOR = 1, 1 << 5, 1 << 6
_ENABLE, _DISABLE = 0x2400, 0x2401
_SECONDS = 0.05  # seconds of runs for each counter
_MOST_RUNS = 1000


@dataclass(frozen=True)
class Count:
    """The value of one counter over one run."""

    name: str
    value: float
    unit: str


def counted(run: Callable[[], object]) -> tuple[list[Count], list[str]]:
    """Counts of one ``run``, which waits for its work, and the reasons why others are missing.

    Raises DeviceError if this system provides no counters.
    """
    number = _CALL.get(platform.machine())
    if platform.system() != "Linux" or number is None:
        raise DeviceError(f"{platform.system()} on {platform.machine()} has no perf_event_open; counters of processors need Linux")
    run()  # so that all threads exist
    start = time.perf_counter()
    run()
    runs = min(max(int(_SECONDS / max(time.perf_counter() - start, 1e-7)), 1), _MOST_RUNS)
    counts: list[Count] = []
    missing: dict[str, list[str]] = {}
    for name, (kind, config, unit) in EVENTS.items():
        try:
            counts.append(Count(name, _counter_value(number, kind, config, run, runs) / runs, unit))
        except OSError as error:
            missing.setdefault(_error_meaning(error), []).append(name)
    reasons = [f"{', '.join(names)}: {why}" for why, names in missing.items()]
    if not counts:
        raise DeviceError("; ".join(reasons))
    return counts, reasons


def _error_meaning(error: OSError) -> str:
    """The meaning of an error of perf_event_open."""
    if error.errno in (errno.EACCES, errno.EPERM):
        level = Path("/proc/sys/kernel/perf_event_paranoid")
        now = f" (now {level.read_text().strip()})" if level.is_file() else ""
        advice = f"the system's administrator sets kernel.perf_event_paranoid to 2 or less{now}, a container lets the call through"
        return f"not allowed; {advice}"
    if error.errno in (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP):
        return "this processor, or this virtual machine, does not count them"
    return os.strerror(error.errno or 0)


def _counter_value(number: int, kind: int, config: int, run: Callable[[], object], runs: int) -> int:
    """A counter over ``runs`` runs, summed over the threads of this process. Raises OSError."""
    opened = []
    try:
        for thread in Path("/proc/self/task").iterdir():
            try:
                opened.append(_open(number, kind, config, int(thread.name)))
            except ProcessLookupError:  # the thread has ended
                continue
        for handle in opened:
            fcntl.ioctl(handle, _ENABLE, 0)
        for _ in range(runs):
            run()
        for handle in opened:
            fcntl.ioctl(handle, _DISABLE, 0)
        return sum(struct.unpack("<Q", os.read(handle, 8))[0] for handle in opened)
    finally:
        for handle in opened:
            os.close(handle)


def _open(number: int, kind: int, config: int, thread: int) -> int:
    """A counter of one thread in user mode, on any processor, initially disabled."""
    flags = _DISABLED | _NO_KERNEL | _NO_HYPERVISOR
    attributes = struct.pack("<IIQQQQQIIQ", kind, 64, config, 0, 0, 0, flags, 0, 0, 0)
    call = ctypes.CDLL(None, use_errno=True).syscall
    handle = int(call(ctypes.c_long(number), attributes, ctypes.c_long(thread), ctypes.c_long(-1), ctypes.c_long(-1), ctypes.c_long(0)))
    if handle < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return handle
