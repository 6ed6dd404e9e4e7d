"""The factors of recorded calls, such as alpha: which factors a repetition may have, and the dtype of its result."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from portatile.arguments.checks import whole
from portatile.runtime.host.host_calls import kinds as kinds_of
from portatile.runtime.request import Request

_LARGEST = float(np.finfo(np.float32).max)
Types = tuple[np.dtype[Any] | None, Callable[[tuple[Any, ...]], bool]]
"""The dtype of a new result (None: that of the first array), and a check of the factors of other calls."""


def types_of(request: Request, factors: tuple[Any, ...]) -> Types:
    """The dtype of the result, and a check that a repetition's factors have the types of these ``factors`` and a magnitude in range."""
    first, last = request.operands[0].array.dtype, request.operands[-1].array.dtype
    kinds = kinds_of(factors)
    fits = _moderate_complex if last.kind == "c" else _whole if last.kind == "i" else _moderate
    return None if first == last else last, lambda given: kinds_of(given) == kinds and fits(given)


def like(factors: tuple[Any, ...]) -> Callable[[tuple[Any, ...]], bool]:
    """A check whether other real factors equal these bit for bit; the check raises ``struct.error`` for complex factors."""
    pack = struct.Struct(f"{len(factors)}d").pack
    bits = pack(*factors)
    return lambda given: pack(*given) == bits


def _moderate(factors: tuple[Any, ...]) -> bool:
    """Whether all factors are within the range of float32, the narrowest type in which a kernel may take them."""
    return all(-_LARGEST < factor < _LARGEST for factor in factors)


def _moderate_complex(factors: tuple[Any, ...]) -> bool:
    return all(-_LARGEST < factor.real < _LARGEST and -_LARGEST < factor.imag < _LARGEST for factor in factors)


def _whole(factors: tuple[Any, ...]) -> bool:
    return all(map(whole, factors))
