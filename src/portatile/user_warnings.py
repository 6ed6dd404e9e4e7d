"""Warnings that name the line of the user's program that led to them, not one inside the package."""

from __future__ import annotations

import sys
import warnings

_PASSED_OVER = frozenset({"portatile", "contextlib", "functools"})
"""Top-level modules whose frames are not the user's."""


def warn(message: str, category: type[Warning] = RuntimeWarning) -> None:
    """Warn at the nearest frame outside of the package; in one of the package's own threads, at the call of this function."""
    level, frame = 2, sys._getframe(1)
    while frame is not None and _module(frame.f_globals) in _PASSED_OVER:
        level, frame = level + 1, frame.f_back  # type: ignore[assignment]
    inside = frame is None or _module(frame.f_globals) == "threading"
    warnings.warn(message, category, stacklevel=2 if inside else level)


def in_a_line(message: Warning | str, *rest: object, **named: object) -> str:
    """``warnings.formatwarning`` for commands: one line without the source location, which means nothing to users of the command line."""
    return f"portatile: warning: {message}\n"


def _module(names: dict[str, object]) -> str:
    return str(names.get("__name__", "")).partition(".")[0]
