"""The global size and the work-group size of a kernel's launch."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Any

import numpy as np

from portatile.errors import ArgumentError, LaunchError
from portatile.kernel.expression import Expression, Given
from portatile.kernel.text import KernelText
from portatile.records import Size3, Value
from portatile.space.constraint import Predicate


@dataclass(frozen=True)
class Geometry:
    """``whole``: the work-items that the problem needs; ``group``: the work-group size, None if the text requires one."""

    whole: Expression
    group: Expression | None

    @classmethod
    def of(cls, global_size: Given, local_size: Given | None, text: KernelText) -> Geometry:
        """Parse both sizes; raises ArgumentError if neither ``local_size`` nor the text gives the work-group size."""
        if local_size is None and not text.requires_group:
            raise ArgumentError(f"local_size is missing: give it, or write reqd_work_group_size into {text.entry}")
        group = None if local_size is None else Expression.of(local_size, "local_size")
        return cls(Expression.of(global_size, "global_size"), group)

    @property
    def reads(self) -> tuple[str, ...]:
        """The names that the sizes depend on."""
        return (*self.whole.reads, *(() if self.group is None else self.group.reads))

    @property
    def identity(self) -> tuple[str, ...]:
        """The part of a digest that covers the sizes."""
        return self.whole.identity, "" if self.group is None else self.group.identity

    @property
    def constraints(self) -> tuple[Predicate, ...]:
        """The constraints on parameters that follow from the device's limits on the work-group."""
        return () if self.group is None else (_WithinLimits(self.group),)

    def check(self, known: Collection[str]) -> None:
        """Raise UnknownNameError for an undefined name."""
        self.whole.check(known, "global_size")
        if self.group is not None:
            self.group.check(known, "local_size")

    def sizes(self, values: Mapping[str, Value], required: Size3 | None) -> tuple[Size3, Size3]:
        """Global size, in whole work-groups, and local size.

        Raises ArgumentError if ``local_size`` contradicts the text, LaunchError for sizes that are not positive.
        """
        group = required if self.group is None else _size(self.group, values, "local_size")
        if group is None:
            raise ArgumentError("local_size is missing: in this configuration the text has no reqd_work_group_size")
        if required is not None and group != required:
            raise ArgumentError(f"local_size is {group}, but the text says reqd_work_group_size{required}; leave local_size out")
        whole = _size(self.whole, values, "global_size")
        x, y, z = (-(-items // group[axis]) * group[axis] for axis, items in enumerate(whole))
        return (x, y, z), group


class _WithinLimits:
    """The constraint that the device supports the work-group. Its signature names what the expression reads, and the device's limits."""

    def __init__(self, group: Expression) -> None:
        self.group = group
        self.__name__ = "work_group_fits_the_device"
        self.words = f"a work-group of local_size={group.text} within the device's limits"
        limits = ("max_work_group_size", "max_work_item_x", "max_work_item_y", "max_work_item_z")
        names = dict.fromkeys((*group.reads, *limits))
        self.__signature__ = Signature([Parameter(name, Parameter.KEYWORD_ONLY) for name in names])

    def __call__(self, **values: Value) -> bool:
        try:
            size = _size(self.group, values, "local_size")
        except LaunchError:
            return False
        most = (values[f"max_work_item_{axis}"] for axis in "xyz")
        return math.prod(size) <= int(values["max_work_group_size"]) and all(n <= int(m) for n, m in zip(size, most, strict=True))


def _size(expression: Expression, values: Mapping[str, Value], what: str) -> Size3:
    """Up to three numbers, rounded up; missing ones are 1."""
    size: Any = expression(values)
    parts = tuple(size) if isinstance(size, tuple | list | np.ndarray) else (size,)
    if not 1 <= len(parts) <= 3 or not all(isinstance(part, int | float | np.number) for part in parts):
        raise ArgumentError(f"{what}={expression.text} gives {size!r}; it must be one to three numbers")
    if not all(0 < part < math.inf for part in parts):
        raise LaunchError(f"{what}={expression.text} gives {size!r}; sizes must be positive")
    x, y, z = (*(math.ceil(part) for part in parts), 1, 1)[:3]
    return x, y, z
