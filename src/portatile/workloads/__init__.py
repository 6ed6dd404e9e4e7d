"""The workloads: a folder for each tunable computation, found by its name.

They share ``operands`` (in memory and their expected values), ``arguments`` (what kernels are passed), ``axis`` (filters along
one axis), ``blocks``, ``structured`` and ``batched`` (level 3), ``precisions`` (which workload computes a product in another
precision) and ``speeds`` (units).
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache

from portatile.errors import UnknownNameError
from portatile.records import Problem, Value
from portatile.workload import Workload

__all__ = ["get", "names", "problem", "resolved"]


def names() -> tuple[str, ...]:
    """The names of all workloads: the folders beside this file."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg))


@cache
def get(name: str) -> Workload:
    """The workload called ``name``, which may be an alias; raises UnknownNameError, which lists the known names."""
    known = resolved(name)
    if known not in names():
        raise UnknownNameError("workload", name, sorted({*names(), *(alias for one in names() for alias in get(one).aliases)}))
    workload: Workload = importlib.import_module(f"{__name__}.{known}").workload
    return workload


def resolved(name: str) -> str:
    """The workload's own name for one of its aliases, such as ``trsm``; any other name as it is."""
    if name in names():
        return name
    return next((known for known in names() if name in get(known).aliases), name)


def problem(name: str, dtype: str, values: Mapping[str, Value]) -> Problem:
    """The problem of the workload called ``name`` whose sizes and options are ``values`` together, by name.

    Raises UnknownNameError for a name that is neither, ArgumentError for an invalid value.
    """
    workload = get(name)
    for key in values:
        if key not in workload.sizes and key not in workload.options:
            raise UnknownNameError(f"size or option of {name}", key, [*workload.sizes, *workload.options])
    sizes = {key: value for key, value in values.items() if key in workload.sizes}
    return workload.problem(sizes, dtype, {key: value for key, value in values.items() if key in workload.options})  # type: ignore[arg-type]
