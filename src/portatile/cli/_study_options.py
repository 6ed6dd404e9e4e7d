"""A study's options as the command line's: each field of its options record is an option of that type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import click

from portatile.cli import _options
from portatile.errors import UsageError
from portatile.studies.framework.study import Option

_PREFIX = "study_"


def parameters(kind: type[Any]) -> list[click.Parameter]:
    """The fields of ``kind`` as command-line options, in their order; other fields are left out."""
    hints = get_type_hints(kind)
    options: list[click.Parameter] = []
    for field in fields(kind):
        option = field.metadata.get("option")
        if isinstance(option, Option):
            options.append(_parameter(field.name, hints[field.name], field.default, option))
    return options


def chosen(kind: type[Any], given: dict[str, Any]) -> Any:
    """The options record from ``given``, which loses these entries. Raises UsageError for a malformed list."""
    hints = get_type_hints(kind)
    values = {name.removeprefix(_PREFIX): given.pop(name) for name in list(given) if name.startswith(_PREFIX)}
    return kind(**{name: _value(name, hints[name], value) for name, value in values.items()})


def numbers(text: str, name: str) -> tuple[int, ...]:
    """Numbers separated by commas, each whole and at least 1."""
    try:
        values = tuple(int(part) for part in text.split(","))
    except ValueError:
        values = ()
    if not values or min(values) < 1:
        raise UsageError(f"{name} {text!r} is not a list of sizes; write for example 128,256")
    return values


def _value(name: str, kind: Any, value: Any) -> Any:
    if kind == tuple[int, ...]:
        return numbers(value, f"--{name.replace('_', '-')}") if value else ()
    if kind in (tuple[str, ...], tuple[Path, ...]):
        return value or ()
    return "" if kind is str and value is None else value


def _parameter(name: str, kind: Any, default: Any, option: Option) -> click.Parameter:
    inner = f"{_PREFIX}{name}"
    if option.argument:
        return click.Argument([inner], nargs=-1, metavar=f"{name.upper()}...", type=click.Path(path_type=Path, exists=True))
    flags = [flag for flag in option.names if flag.startswith("-")] or [f"--{name.replace('_', '-')}"]
    common: Mapping[str, Any] = {"help": option.help, "metavar": option.metavar}
    if kind is bool:
        return click.Option([*flags, inner], is_flag=True, help=option.help)
    if option.count:
        return click.Option([*flags, inner], nargs=option.count, **common)
    if kind == tuple[str, ...]:
        return click.Option([*flags, inner], multiple=True, default=list(default), **common)
    if kind == tuple[Path, ...]:
        return click.Option([*flags, inner], multiple=True, type=click.Path(path_type=Path, exists=True), **common)
    if kind == tuple[int, ...]:
        return click.Option([*flags, inner], default=",".join(map(str, default)), show_default=bool(default), **common)
    typed: Any = str
    if option.choices:
        typed = click.Choice(option.choices)
    elif kind in (int, int | None):
        typed = click.IntRange(min=None if option.least is None else int(option.least))
    elif kind in (float, float | None):
        typed = _options.Real(min=option.least)
    elif kind in (Path, Path | None):
        typed = click.Path(path_type=Path, exists=True)
    shown = None if default == "" else default
    return click.Option([*flags, inner], default=shown, type=typed, show_default=shown is not None, **common)
