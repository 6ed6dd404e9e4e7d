"""Replaces device ids by short names, and u by µ, in everything that a page shows of a study."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from portatile.device import names
from portatile.records import DeviceInfo


def labels(infos: Sequence[DeviceInfo]) -> dict[str, str]:
    """The short name of each device by its id."""
    return dict(zip((info.id for info in infos), names.short(infos), strict=True))


def naming(infos: Sequence[DeviceInfo]) -> Callable[[Any], Any]:
    """A function that replaces ids and drivers' long names in texts, tuples of texts, and records such as figures.

    Times in microseconds are written as in figures: a terminal may lack the letter, a page does not.
    """
    known = labels(infos)
    short = {**known, **{info.name: names.hardware(info) for info in infos}}
    short |= {f"{info.name} ({info.id})": known[info.id] for info in infos}
    pattern = re.compile(
        rf"(?<=\d )us\b|(?<![\w:])(?:{'|'.join(map(re.escape, sorted(short, key=len, reverse=True))) or '(?!)'})(?!\w|:\w|=)"
    )

    def named(shown: Any) -> Any:
        if isinstance(shown, str):
            return pattern.sub(lambda match: short.get(match[0], "µs"), shown)
        if isinstance(shown, tuple | list):
            return type(shown)(named(part) for part in shown)
        if is_dataclass(shown) and not isinstance(shown, type):
            return replace(shown, **{field.name: named(getattr(shown, field.name)) for field in fields(shown)})
        return shown

    return named
