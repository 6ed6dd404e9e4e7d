"""What a replay asks of a source tree, whichever modules hold it: names are looked up, records are read from JSON."""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Callable
from typing import Any

import msgspec

from replaying.devices import with_aliases


def first(name: str, *modules: str) -> Any:
    """``name`` from the first of the modules that has it."""
    for module in modules:
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            continue
    raise LookupError(f"this tree has no {name} in {', '.join(modules)}")


def workload(name: str) -> Any:
    """The workload called ``name``."""
    return first("get", "portatile.workloads")(name)


def workload_names() -> list[str]:
    """All workloads."""
    return list(first("names", "portatile.workloads")())


def device_info(facts: dict[str, Any]) -> Any:
    """A DeviceInfo from JSON."""
    kind = first("DeviceInfo", "portatile.records", "portatile.device.info", "portatile.device.base")
    return msgspec.json.decode(json.dumps(with_aliases(facts)), type=kind)


def problem(data: dict[str, Any]) -> Any:
    """A Problem from JSON."""
    return msgspec.json.decode(json.dumps(data), type=first("Problem", "portatile.records"))


def layout(strides: list[int], offset: int, alignment: int) -> Any:
    """A Layout."""
    return first("Layout", "portatile.records")(tuple(strides), offset, alignment)


def plain(record: Any) -> Any:
    """A record as what JSON has."""
    return json.loads(msgspec.json.encode(record))


def adopted(owner: Any, problem: Any, config: dict[str, Any], device: Any) -> dict[str, Any]:
    """A recorded configuration as this tree names it, as its store would: through ``Workload.canonical`` and the space's ``complete``."""
    known = {"problem": problem, "config": config, "device": device, "info": device}
    if canonical := getattr(owner, "canonical", None):
        config = dict(called(canonical, known))
    space = owner.space(problem, device)
    return dict(space.complete(config)) if hasattr(space, "complete") else config


def called(function: Callable[..., Any], known: dict[str, Any]) -> Any:
    """``function`` of what it asks for by name."""
    return function(**{name: known[name] for name in inspect.signature(function).parameters})
