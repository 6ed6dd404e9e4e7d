"""How quantities and names are written for people: three digits, SI units, no-break spaces."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from portatile.records import Config, Problem, Value
from portatile.workload import Workload

NBSP = "\u00a0"
_NARROW = "\u202f"
_HASH = re.compile(r"\b([0-9a-f]{6})[0-9a-f]{10,}\b")


def digits(value: float) -> str:
    """Three significant digits, not in exponent notation between a thousandth and a million."""
    if value == 0 or not 1e-3 <= abs(value) < 1e6:
        return f"{value:.3g}"
    if abs(value) < 1:
        return f"{value:#.3g}"
    whole = len(str(int(abs(float(f"{value:.3g}")))))
    return f"{value:.{max(3 - whole, 0)}f}"


def duration(seconds: float) -> str:
    """``16.1 µs``."""
    for limit, scale, unit in ((1e-6, 1e9, "ns"), (1e-3, 1e6, "µs"), (1.0, 1e3, "ms")):
        if seconds < limit:
            return f"{digits(seconds * scale)}{_NARROW}{unit}"
    return f"{digits(seconds)}{_NARROW}s"


def tick(seconds: float) -> str:
    """``duration`` without the zeros that end it."""
    number, _, unit = duration(seconds).partition(_NARROW)
    return f"{number.rstrip('0').rstrip('.') if '.' in number else number}{_NARROW}{unit}"


def moment(time: str) -> str:
    """``2026-11-22 05:36 UTC`` of a time in ISO 8601, of which seconds say nothing to people; another text as it is."""
    try:
        return f"{datetime.fromisoformat(time).astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    except ValueError:
        return time


def percent(share: float) -> str:
    """``24 %``; below ten with one decimal."""
    figure = 100 * share
    return f"{figure:.0f}{_NARROW}%" if figure >= 9.95 or figure == 0 else f"{figure:.1f}{_NARROW}%"


def times(factor: float) -> str:
    """``3.21 ×``."""
    return f"{digits(factor)}{_NARROW}×"


def value(given: Value) -> str:
    """A parameter's value as the command line takes it: true and false in lower case."""
    return str(given).lower() if isinstance(given, bool) else str(given)


def config(given: Config) -> str:
    """``TILE=4 PAD=false``."""
    return " ".join(f"{name}={value(chosen)}" for name, chosen in given.items())


def sizes(problem: Problem) -> str:
    """``m 128 · n 128 · k 128``."""
    return " · ".join(f"{name}{NBSP}{size}" for name, size in problem.sizes.items())


def options(problem: Problem, workload: Workload | None) -> str:
    """The options that are not the workload's defaults; all of a workload that is not known."""
    defaults = {} if workload is None else {name: values[0] for name, values in workload.options.items()}
    shown = {name: _HASH.sub(r"\1…", value(chosen)) for name, chosen in problem.options.items() if defaults.get(name) != chosen}
    return " · ".join(f"{name}{NBSP}{chosen}" for name, chosen in shown.items())


def count(number: int, noun: str) -> str:
    """``1 trial``, ``3 trials``."""
    return f"{number:,}{NBSP}{noun}{'' if number == 1 else 's'}".replace(",", _NARROW)
