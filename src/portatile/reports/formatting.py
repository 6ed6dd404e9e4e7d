"""The spelling of names, values and moments for people."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from portatile.figures.quantities import NBSP
from portatile.kernel.definition import PREFIX
from portatile.records import Config, Problem, Value
from portatile.workload import Workload

_HASH = re.compile(r"\b([0-9a-f]{6})[0-9a-f]{10,}\b")


def timestamp(time: str) -> str:
    """``2026-11-22 05:36 UTC`` for a time in ISO 8601, without seconds; any other text as it is."""
    try:
        return f"{datetime.fromisoformat(time).astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    except ValueError:
        return time


def value(parameter: Value) -> str:
    """A parameter's value as the command line takes it: true and false in lower case."""
    return str(parameter).lower() if isinstance(parameter, bool) else str(parameter)


def config(configuration: Config) -> str:
    """``TILE=4 PAD=false``."""
    return " ".join(f"{name}={value(chosen)}" for name, chosen in configuration.items())


def sizes(problem: Problem) -> str:
    """``m 128 · n 128 · k 128``."""
    return " · ".join(f"{name}{NBSP}{size}" for name, size in problem.sizes.items())


def options(problem: Problem, workload: Workload | None) -> str:
    """The options that are not the workload's defaults; all of a workload that is not known, but what is usual of a user's own kernel."""
    defaults = _usual(problem) if workload is None else {name: values[0] for name, values in workload.options.items()}
    shown = {name: short_hash(value(chosen)) for name, chosen in problem.options.items() if defaults.get(name) != chosen}
    return " · ".join(f"{name}{NBSP}{chosen}" for name, chosen in shown.items())


def short_hash(text: str) -> str:
    """A text with its hashes cut to six digits: ``3e01b5…``."""
    return _HASH.sub(r"\1…", text)


def brief_options(problem: Problem, workload: Workload | None) -> str:
    """``options`` for a list: of a user's own kernel neither arrays nor version."""
    return "" if workload is None and problem.workload.startswith(PREFIX) else options(problem, workload)


def _usual(problem: Problem) -> dict[str, Value]:
    """The options of a user's own kernel that need not be shown: that it has a reference, and its arrays where sizes are shown."""
    if not problem.workload.startswith(PREFIX):
        return {}
    arrays = {"arrays": problem.options["arrays"]} if problem.sizes and "arrays" in problem.options else {}
    return {"checked": "reference", **arrays}
