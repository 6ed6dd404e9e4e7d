"""Child processes: the environment that each is started with, and how one ended."""

from __future__ import annotations

import os
import signal
import site
from pathlib import Path


def environment() -> dict[str, str]:
    """The parent's environment, in which a portatile that is not installed is found too."""
    root = str(Path(__file__).parent.parent)
    variables = dict(os.environ)
    if root not in (*site.getsitepackages(), site.getusersitepackages()):
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, (root, variables.get("PYTHONPATH"))))
    return variables


def fate(code: int | None) -> str:
    """The end of a process: ``exit code 1``, ``SIGSEGV``; ``killed`` where it was not waited for."""
    if code is None:
        return "killed"
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
