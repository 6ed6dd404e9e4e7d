"""Failures that the variant under test did not cause: signals from outside, stopped processes, a suspended clock."""

from __future__ import annotations

import math
import re
import signal
import time
from pathlib import Path

OUTSIDE = "ended_from_outside"
"""A trial's condition: it failed for a reason outside of portatile and its kernel, so the next search tries it again."""

_FOREIGN = ("SIGKILL", "SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT", "SIGXCPU", "SIGPWR")  # signals that no kernel raises in its own process
_SIGNALS = frozenset(int(getattr(signal, name)) for name in _FOREIGN if hasattr(signal, name))
_COMPILER_KILLED = re.compile(r"unable to execute command: (?:Killed|Terminated)")  # Clang's driver, which links the kernels of PoCL
_FLAGS, _EXITING = 6, 0x4  # in Linux's /proc: the field of a process's flags after its name, and the flag of a process that is ending
_LATE = 1.0  # seconds: a process that runs does not wake later than this


def killed(code: int | None, log: str = "") -> bool:
    """Whether a process, or the linker that its driver ran, was ended by a signal from outside, such as an out-of-memory killer's. The
    exit code shows the first, the last lines of ``log`` the second.
    """
    return code is not None and (-code in _SIGNALS or (code != 0 and _COMPILER_KILLED.search(log) is not None))


def stopped(pid: int | None) -> bool:
    """Whether the process is stopped (SIGSTOP, a debugger) and therefore not slow. ``None``: its number is not known yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0] in ("T", "t")
    except (OSError, IndexError):
        return False


def ending(pid: int) -> bool:
    """Whether a child that has not been waited for is ending: its driver may take seconds to free the device's memory."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return int(fields[_FLAGS]) & _EXITING != 0
    except (OSError, IndexError, ValueError):
        return False


class WakingTime:
    """The time in which this process should have run but did not, because it or its machine was stopped."""

    def __init__(self) -> None:
        self._left = time.monotonic(), time.process_time()

    def before(self) -> float:
        """Seconds since ``leave`` in which this process neither ran nor had anything to wait for."""
        now, spent = time.monotonic(), time.process_time()
        lost = (now - self._left[0]) - (spent - self._left[1])
        return lost if lost > _LATE else 0.0

    def leave(self) -> None:
        """Remember when the watch over the workers went on to other work."""
        self._left = time.monotonic(), time.process_time()

    @staticmethod
    def lateness(wake: float) -> float:
        """Seconds by which a wait that was to end at ``wake`` ended later."""
        late = 0.0 if math.isinf(wake) else time.monotonic() - wake
        return late if late > _LATE else 0.0
