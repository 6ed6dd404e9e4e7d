"""What may be tuned: a folder for each computation, found by its name."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from portatile.errors import UnknownNameError
from portatile.workload import Workload

__all__ = ["get", "names"]


def names() -> tuple[str, ...]:
    """The workloads there are: every folder beside this file."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg))


@cache
def get(name: str) -> Workload:
    """The workload called ``name``; raises UnknownNameError with the names there are."""
    if name not in names():
        raise UnknownNameError("workload", name, names())
    workload: Workload = importlib.import_module(f"{__name__}.{name}").workload
    return workload
