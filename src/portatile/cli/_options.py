"""Options that mean the same in every command."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

from portatile import workloads
from portatile.errors import ArgumentError, UsageError
from portatile.trials import Budget

Option = Callable[[Any], Any]


class OneOf(click.Choice[Any]):
    """One of several words; a wrong one is answered with the nearest."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            close = get_close_matches(str(value), map(str, self.choices), n=1)
            hint = f" Did you mean {str(close[0])!r}?" if close else ""
            raise click.BadParameter(f"{error.message}{hint}", ctx, param) from None


class Whole(click.IntRange):
    """A whole number within bounds, called so in help and messages."""

    name = "integer"


class Real(click.FloatRange):
    """A number within bounds; NaN, which is within any, is refused."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is no number.", param, ctx)
        return number


class Seconds(Real):
    """A time: seconds, or with a unit as budgets have it: ``90s``, ``2m``."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        with suppress(ArgumentError):
            value = Budget.parse(str(value)).seconds or value
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            raise click.BadParameter(f"{error.message.rstrip('.')}; write for example 90s or 5m.", ctx, param) from None


def _only(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> str | None:
    """The one value given; click alone would use the last of several and ignore the others."""
    if len(values) > 1:
        raise click.UsageError(f"{parameter.opts[0]} is given {len(values)} times; name one device", ctx)
    return values[0] if values else None


def device(name: str = "device") -> Option:
    """``--device``, which the command takes as ``name``."""
    return click.option(
        "--device", name, multiple=True, callback=_only, help="Device, as `portatile devices` names it; default: the best one."
    )


def devices(default: str = "the best one") -> Option:
    """``--device``, which may be given several times or be ``all``; the command takes a name, several as a tuple, or None."""
    text = f"Device, as `portatile devices` names it; repeat it, or say all, for several. Default: {default}."
    return click.option("--device", multiple=True, callback=_some, help=text)


def _some(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> str | tuple[str, ...] | None:
    return values if len(values) > 1 else values[0] if values else None


def one_device(selector: str | tuple[str, ...] | None) -> str | None:
    """The one device of ``devices``; raises UsageError for several."""
    if isinstance(selector, tuple):
        raise UsageError(f"--device is given {len(selector)} times; name one device")
    return selector


def seed(of: str) -> Option:
    """``--seed`` for what ``of`` names."""
    return click.option("--seed", type=Whole(min=0), default=0, show_default=True, help=f"Seed of {of}.")


def document(text: str = "Print one JSON document instead of the table.") -> Option:
    """``--json``, which the command takes as ``as_json``."""
    return click.option("--json", "as_json", is_flag=True, help=text)


def store(exists: bool = False) -> Option:
    """``--store``, which the command takes as ``path``."""
    return click.option(
        "--store", "path", type=click.Path(exists=exists, dir_okay=False, path_type=Path), help="A result store other than the user's."
    )


def selection(device: str = "Only devices of this back end or kind, or whose id, name, vendor or platform contains this.") -> Option:
    """``--workload`` and ``--device``, which choose among results."""

    def add(command: Any) -> Any:
        by_device = click.option("--device", multiple=True, callback=_only, help=device)
        return click.option("--workload", help="Only this workload.", callback=_resolved)(by_device(command))

    return add


def _resolved(ctx: click.Context, parameter: click.Parameter, name: str | None) -> str | None:
    return None if name is None else workloads.resolved(name)
