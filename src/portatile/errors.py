"""The exceptions that portatile raises.

PortatileError
├── UsageError                what the caller can mend; the command line ends with code 2
│   ├── ArgumentError         an array, shape, stride, dtype or scalar that does not fit (also a ValueError)
│   │   └── CastError         an output of a dtype that results are not cast to (also a TypeError)
│   ├── UnknownNameError      no workload, parameter, option or strategy of that name
│   ├── DeviceNotFoundError   no device, no loader, or none that matches; lists what there is
│   ├── SpaceError            an empty or contradictory parameter space
│   ├── NoValidVariantError   a tuning run in which every variant failed; counts the failures by kind
│   └── StoreError            a store that cannot be used: written by a newer version, corrupt
├── CompileError              a kernel that does not build; carries the compiler's log
├── LaunchError               a kernel that builds but cannot be launched
└── DeviceError               the driver reported a failure
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def reason(error: Exception) -> str:
    """The message of an exception, without the errno and file name that an OSError adds."""
    return str(getattr(error, "strerror", None) or error)


class PortatileError(Exception):
    """Base of every exception that portatile raises on purpose."""


class UsageError(PortatileError):
    """The caller asked for something that cannot be done; the message says what to do instead."""


class ArgumentError(UsageError, ValueError):
    """An argument of a computation contradicts the others or is not supported."""


class CastError(ArgumentError, TypeError):
    """An output has a dtype to which NumPy does not cast the result."""


class UnknownNameError(UsageError, LookupError):
    """An unknown name; the message lists the known ones."""

    def __init__(self, kind: str, name: object, known: Iterable[str]) -> None:
        names = sorted(known)
        close = get_close_matches(name, names, n=1) if isinstance(name, str) else []
        hint = f" Did you mean {close[0]!r}?" if close else ""
        super().__init__(f"unknown {kind} {name!r}.{hint} Known: {', '.join(names) or 'none'}")
        self.kind, self.name, self.known = kind, name, tuple(names)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.kind, self.name, self.known)


class DeviceNotFoundError(UsageError, LookupError):
    """No device matches the selection, or there is no device at all."""


class SpaceError(UsageError):
    """A parameter space without a legal configuration, or with a constraint that cannot be evaluated."""


class NoValidVariantError(UsageError):
    """Every variant that was tried failed."""


class StoreError(UsageError):
    """The result store cannot be used."""


class CompileError(PortatileError):
    """Kernel text that does not compile. ``log`` holds the compiler's messages with the user's file and lines."""

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(f"{message}\n{log}".rstrip())
        self.message, self.log = message, log

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.message, self.log)


class LaunchError(PortatileError):
    """A kernel that cannot be launched: work-group too large, too much local memory, wrong arguments."""


class DeviceError(PortatileError):
    """The driver reported a failure that is not the caller's mistake."""
