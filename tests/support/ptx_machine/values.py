"""Numbers as registers hold them: bit patterns as Python integers, rounded arithmetic in between."""

from __future__ import annotations

import ctypes
import ctypes.util
import math
import struct
from collections.abc import Callable
from fractions import Fraction

WIDTH = {"8": 8, "16": 16, "32": 32, "64": 64}


def bits_of(kind: str) -> int:
    """The width of a PTX type such as ``u32`` or ``f16x2``."""
    width, _, count = kind[1:].partition("x")
    return int(width) * int(count or 1)


def signed(value: int, bits: int) -> int:
    """Two's complement."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


_BITS = {"f64": struct.Struct("<Q"), "f32": struct.Struct("<I"), "f16": struct.Struct("<H")}
_FLOATS = {"f64": struct.Struct("<d"), "f32": struct.Struct("<f"), "f16": struct.Struct("<e")}
_MASKS = {"f64": (1 << 64) - 1, "f32": (1 << 32) - 1, "f16": (1 << 16) - 1}


def to_float(value: int, kind: str) -> float:
    """The number whose bit pattern is ``value``."""
    return _FLOATS[kind].unpack(_BITS[kind].pack(value & _MASKS[kind]))[0]  # type: ignore[no-any-return]


def from_float(value: float, kind: str) -> int:
    """The bit pattern of ``value``, rounded to nearest even."""
    if value != value:
        return {"f16": 0x7FFF, "f32": 0x7FFFFFFF, "f64": 0x7FF8000000000000}[kind]
    if kind == "f32":
        value = ctypes.c_float(value).value
    try:
        return _BITS[kind].unpack(_FLOATS[kind].pack(value))[0]  # type: ignore[no-any-return]
    except OverflowError:  # of 16 bits
        return 0x7C00 if value > 0 else 0xFC00


def flush(value: float, kind: str) -> float:
    """Denormals to zero, as ``.ftz`` has it."""
    return math.copysign(0.0, value) if kind == "f32" and 0 < abs(value) < 2.0**-126 else value


_PRECISION = {"f16": (11, -14, 15), "f32": (24, -126, 127), "f64": (53, -1022, 1023)}


def round_exact(value: Fraction, kind: str, mode: str) -> float:
    """An exact number rounded to ``kind`` by ``rn``, ``rz``, ``rm`` or ``rp``."""
    if value == 0:
        return 0.0
    sign = -1.0 if value < 0 else 1.0
    precision, lowest, highest = _PRECISION[kind]
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    if abs(value) < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** (max(exponent, lowest) - precision + 1)
    scaled = value / unit
    if mode == "rn":
        whole = round(scaled)
    elif mode == "rz":
        whole = math.trunc(scaled)
    else:
        whole = math.floor(scaled) if mode == "rm" else math.ceil(scaled)
    result = whole * unit
    if abs(result) >= Fraction(2) ** (highest + 1):
        toward_zero = mode == "rz" or (mode == "rm" and value > 0) or (mode == "rp" and value < 0)
        limit = (2 - Fraction(2) ** (1 - precision)) * Fraction(2) ** highest
        return math.copysign(float(limit) if toward_zero else math.inf, sign)
    return math.copysign(float(result), sign)


def _fused() -> dict[str, Callable[[float, float, float], float]]:
    """The C library's fused multiply-adds, many times as fast as fractions, where there is one."""
    try:
        library = ctypes.PyDLL(ctypes.util.find_library("m"))  # which calls without releasing the interpreter's lock
        found = {"f64": library.fma, "f32": library.fmaf}
    except (AttributeError, OSError):
        return {}
    for kind, number in (("f64", ctypes.c_double), ("f32", ctypes.c_float)):
        found[kind].argtypes, found[kind].restype = (number,) * 3, number
    return found


FUSED = _fused()


def multiply_add(a: float, b: float, c: float, kind: str, mode: str) -> float:
    """``a * b + c`` rounded once."""
    if mode == "rn" and kind in FUSED:
        return FUSED[kind](a, b, c)
    return exact_multiply_add(a, b, c, kind, mode)


def exact_multiply_add(a: float, b: float, c: float, kind: str, mode: str) -> float:
    """As ``multiply_add``, by fractions."""
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c
    return round_exact(exact, kind, mode)


def divide(a: float, b: float) -> float:
    """``a / b`` with the infinities and NaNs of IEEE 754."""
    if b == 0:
        return math.nan if a == 0 or a != a else math.copysign(math.inf, math.copysign(1, a) * math.copysign(1, b))
    return a / b


def root(a: float) -> float:
    """The square root; NaN of a negative number."""
    return math.sqrt(a) if a >= 0 else (a if a == 0 else math.nan)


def power_of_two(a: float) -> float:
    """2 to the ``a``."""
    if a != a:
        return a
    return math.inf if a > 1100 else 0.0 if a < -1100 else 2.0**a


def logarithm(a: float) -> float:
    """The logarithm to base 2."""
    if a == 0:
        return -math.inf
    return math.nan if a < 0 or a != a else math.inf if a == math.inf else math.log2(a)


def minimum(a: float, b: float) -> float:
    """The smaller; a NaN loses."""
    if a != a:
        return b
    return a if b != b or a < b or (a == b and math.copysign(1, a) < 0) else b


def maximum(a: float, b: float) -> float:
    """The greater; a NaN loses."""
    return -minimum(-a, -b)


def to_integer(value: float, mode: str) -> int | None:
    """A whole number by ``rni``, ``rzi``, ``rmi``, ``rpi``; None for what is none."""
    if not math.isfinite(value):
        return None
    return {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}[mode](value)
