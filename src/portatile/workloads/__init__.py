"""The workloads: one folder for each tunable computation, found by its name.

The files beside them are shared by several workloads. ``operands`` lays operands out in memory and computes expected values. ``arguments``
lists the arguments of kernels. ``axis`` filters along one axis. ``blocks``, ``structured`` and ``batched`` serve level-3 BLAS.
``precisions`` says which workload computes a product in another precision, and ``speeds`` converts units.
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
    """The workload's own name if ``name`` is one of its aliases, such as ``trsm``; any other name is returned unchanged."""
    if name in names():
        return name
    return next((known for known in names() if name in get(known).aliases), name)


def problem(name: str, dtype: str, values: Mapping[str, Value]) -> Problem:
    """The problem of the workload called ``name``; ``values`` holds its sizes and its options together, by name.

    Raises UnknownNameError for a key that is neither a size nor an option, ArgumentError for an invalid value.
    """
    workload = get(name)
    for key in values:
        if key not in workload.sizes and key not in workload.options:
            raise UnknownNameError(f"size or option of {name}", key, [*workload.sizes, *workload.options])
    sizes = {key: value for key, value in values.items() if key in workload.sizes}
    return workload.problem(sizes, dtype, {key: value for key, value in values.items() if key in workload.options})  # type: ignore[arg-type]
