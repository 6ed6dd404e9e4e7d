"""What one PTX instruction computes: from its name to a function over operand bit patterns."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from support.ptx_machine.values import (
    bits_of,
    divide,
    flush,
    from_float,
    logarithm,
    maximum,
    minimum,
    multiply_add,
    power_of_two,
    root,
    round_exact,
    signed,
    to_float,
    to_integer,
)

Compute = Callable[..., int]
_MODES = ("rn", "rz", "rm", "rp")
_APPROXIMATE: dict[str, Callable[[float], float]] = {
    "rcp": lambda a: divide(1.0, a),
    "sqrt": root,
    "rsqrt": lambda a: divide(1.0, root(a)),
    "sin": lambda a: math.sin(a) if math.isfinite(a) else math.nan,
    "cos": lambda a: math.cos(a) if math.isfinite(a) else math.nan,
    "ex2": power_of_two,
    "lg2": logarithm,
    "tanh": math.tanh,
}
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a < b or a > b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "lo": lambda a, b: a < b,
    "ls": lambda a, b: a <= b,
    "hi": lambda a, b: a > b,
    "hs": lambda a, b: a >= b,
    "num": lambda a, b: a == a and b == b,
    "nan": lambda a, b: a != a or b != b,
}


def compute(parts: list[str]) -> Compute | None:
    """The function of an instruction whose name is ``parts`` joined by dots, or None if it is not known."""
    name, kind = parts[0], parts[-1]
    if name == "cvt":
        return _convert(parts)
    if name in ("dp4a", "dp2a"):
        return _dot_of_bytes(parts)
    if name == "setp":
        return _setp(parts)
    if kind == "pred":
        return {
            "and": lambda a, b: a & b & 1,  # -1 is a predicate that holds, too
            "or": lambda a, b: (a | b) & 1,
            "xor": lambda a, b: (a ^ b) & 1,
            "not": lambda a: 1 - a,
            "mov": lambda a: a & 1,
        }.get(name)
    if name in ("mov", "cvta"):
        return lambda a: a
    if name == "selp":
        return lambda a, b, p: a if p else b
    if kind == "f16x2":
        each = _floating(name, [*parts[:-1], "f16"], "f16")
        return each and (lambda *values: each(*(v >> 16 & 0xFFFF for v in values)) << 16 | each(*(v & 0xFFFF for v in values)))
    if kind in ("f16", "f32", "f64"):
        return _floating(name, parts, kind)
    return _integer(name, parts, kind)


def _floating(name: str, parts: list[str], kind: str) -> Compute | None:
    mode = next((p for p in parts if p in _MODES), "rn")
    ftz = "ftz" in parts
    saturate = "sat" in parts

    def wrap(function: Callable[..., float]) -> Compute:
        def run(*values: int) -> int:
            numbers = [to_float(v, kind) for v in values]
            if ftz:
                numbers = [flush(x, kind) for x in numbers]
            result = function(*numbers)
            if saturate:
                result = 0.0 if result != result else min(max(result, 0.0), 1.0)
            return from_float(flush(result, kind) if ftz else result, kind)

        return run

    def exact(function: Callable[..., Fraction], plain: Callable[..., float]) -> Callable[..., float]:
        def run(*numbers: float) -> float:
            if mode == "rn" or not all(map(math.isfinite, numbers)):
                return plain(*numbers)
            return round_exact(function(*map(Fraction, numbers)), kind, mode)

        return run

    sign = 1 << (bits_of(kind) - 1)
    if name == "neg":
        return lambda a: a ^ sign
    if name == "abs":
        return lambda a: a & ~sign
    if name == "copysign":
        return lambda a, b: (a & sign) | (b & ~sign)
    if name in ("fma", "mad"):
        return wrap(lambda a, b, c: multiply_add(a, b, c, kind, mode))
    if name in _APPROXIMATE:
        return wrap(_APPROXIMATE[name])
    table: dict[str, Callable[..., float]] = {
        "add": exact(lambda a, b: a + b, lambda a, b: a + b),
        "sub": exact(lambda a, b: a - b, lambda a, b: a - b),
        "mul": exact(lambda a, b: a * b, lambda a, b: a * b),
        "div": divide,
        "min": minimum,
        "max": maximum,
    }
    return wrap(table[name]) if name in table else None


def _integer(name: str, parts: list[str], kind: str) -> Compute | None:
    if kind == "aligned":  # wgmma and its kin, which a whole warp group runs
        return None
    for family in (_integer_products, _bit_fields, _shifts, _plain_integers):
        compute = family(name, parts, kind)
        if compute is not None:
            return compute
    return None


def _reader(kind: str) -> Compute:
    """A function that gives the integer that a register's bits mean."""
    bits, mask = bits_of(kind), _ones(bits_of(kind))
    return (lambda value: signed(value, bits)) if kind[0] == "s" else (lambda value: value & mask)


def _ones(bits: int) -> int:
    return (1 << bits) - 1


def _wrapped(function: Callable[..., int], kind: str) -> Compute:
    """A function of integers on registers, whose result is cut to the register's bits."""
    number, mask = _reader(kind), _ones(bits_of(kind))
    return lambda *values: function(*map(number, values)) & mask


def _integer_products(name: str, parts: list[str], kind: str) -> Compute | None:
    if name not in ("mul", "mad"):
        return None
    number, bits = _reader(kind), bits_of(kind)
    if "wide" in parts:  # a third operand is as wide as the result
        wide = _ones(2 * bits)
        if name == "mul":
            return lambda a, b: (number(a) * number(b)) & wide
        return lambda a, b, c: (number(a) * number(b) + c) & wide
    shift = bits if "hi" in parts else 0
    if name == "mul":
        return _wrapped(lambda a, b: (a * b) >> shift, kind)
    return _wrapped(lambda a, b, c: ((a * b) >> shift) + c, kind)


def _bit_fields(name: str, parts: list[str], kind: str) -> Compute | None:
    number, bits, mask = _reader(kind), bits_of(kind), _ones(bits_of(kind))

    def insert(a: int, b: int, start: int, length: int) -> int:
        field = _ones(length & 255) << (start & 255)
        return ((b & ~field) | ((a << (start & 255)) & field)) & mask

    def extract(a: int, start: int, length: int) -> int:
        field = (number(a) >> start) & _ones(length)
        return (signed(field, length) if kind[0] == "s" and length else field) & mask

    def find(a: int) -> int:
        """The place of the highest bit, or by how much it can be shifted; all ones where there is none."""
        width = (a & mask).bit_length()
        return ((bits - width if "shiftamt" in parts else width - 1) if width else -1) & 0xFFFFFFFF

    def look_up(a: int, b: int, c: int, table: int) -> int:
        return sum((table >> ((a >> i & 1) * 4 + (b >> i & 1) * 2 + (c >> i & 1)) & 1) << i for i in range(32))

    if name == "bfind" and kind[0] != "u":
        return None
    table: dict[str, Compute] = {"bfi": insert, "bfe": extract, "bfind": find, "lop3": look_up}
    return table.get(name)


def _shifts(name: str, parts: list[str], kind: str) -> Compute | None:
    number, bits, mask = _reader(kind), bits_of(kind), _ones(bits_of(kind))
    left, clamp = "l" in parts, "clamp" in parts

    def funnel(low: int, high: int, by: int) -> int:
        by = min(by, 32) if clamp else by & 31
        both = (high & mask) << 32 | (low & mask)  # immediate operands may be negative
        return (both << by >> 32 if left else both >> by) & mask

    table: dict[str, Compute] = {
        "shl": lambda a, n: (a << n) & mask if n < bits else 0,
        "shr": lambda a, n: (number(a) >> min(n, bits)) & mask,
        "shf": funnel,
    }
    return table.get(name)


def _plain_integers(name: str, parts: list[str], kind: str) -> Compute | None:
    bits, mask = bits_of(kind), _ones(bits_of(kind))
    table: dict[str, Callable[..., int]] = {
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "div": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if b else -1,
        "rem": lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1) if b else a,
        "min": min,
        "max": max,
        "abs": abs,
        "neg": lambda a: -a,
        "not": lambda a: ~a,
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
        "popc": lambda a: (a & mask).bit_count(),
        "clz": lambda a: bits - (a & mask).bit_length(),
        "brev": lambda a: int(f"{a & mask:0{bits}b}"[::-1], 2),
        "prmt": _permute,
        "mul24": lambda a, b: _low24(a, kind) * _low24(b, kind),
        "mad24": lambda a, b, c: _low24(a, kind) * _low24(b, kind) + c,
        "sad": lambda a, b, c: c + abs(a - b),
    }
    return _wrapped(table[name], kind) if name in table else None


def _dot_of_bytes(parts: list[str]) -> Compute:
    """Four products of bytes and a sum; of ``dp2a`` two, of 16-bit numbers with the lower or the higher two bytes."""
    *_, a_kind, b_kind = parts
    count, width, first = (4, 8, 0) if parts[0] == "dp4a" else (2, 16, 2 * ("hi" in parts))

    def part(value: int, bits: int, place: int, kind: str) -> int:
        found = value >> (bits * place) & ((1 << bits) - 1)
        return signed(found, bits) if kind == "s32" else found

    return lambda a, b, c: (c + sum(part(a, width, i, a_kind) * part(b, 8, first + i, b_kind) for i in range(count))) & 0xFFFFFFFF


def _low24(value: int, kind: str) -> int:
    return signed(value, 24) if kind[0] == "s" else value & 0xFFFFFF


def _permute(a: int, b: int, selector: int) -> int:
    data = (a & 0xFFFFFFFF) | (b & 0xFFFFFFFF) << 32
    result = 0
    for i in range(4):
        nibble = selector >> (4 * i) & 15
        byte = data >> (8 * (nibble & 7)) & 255
        result |= (255 if byte >> 7 else 0 if nibble & 8 else byte) << (8 * i) if nibble & 8 else byte << (8 * i)
    return result


def _setp(parts: list[str]) -> Compute:
    relation, kind = parts[1], parts[-1]
    unordered = len(relation) == 3 and relation.endswith("u")
    test = _COMPARE[relation[:2] if unordered else relation]
    combine = next((p for p in parts[2:-1] if p in ("and", "or", "xor")), None)

    def number(value: int) -> float:
        if kind[0] == "f":
            return flush(to_float(value, kind), kind) if "ftz" in parts else to_float(value, kind)
        return signed(value, bits_of(kind)) if kind[0] == "s" else value & ((1 << bits_of(kind)) - 1)

    def run(a: int, b: int, p: int = 0) -> int:
        x, y = number(a), number(b)
        result = int(test(x, y) or (unordered and (x != x or y != y)))
        return {None: result, "and": result & p, "or": result | p, "xor": result ^ p}[combine]

    return run


def _convert_pair(target: str, source: str) -> Compute:
    """Two numbers rounded to nearest even, the first one to the upper half of a register."""

    def half(value: int) -> int:
        if target == "f16x2":
            return from_float(to_float(value, source), "f16")
        if value & 0x7FFFFFFF > 0x7F800000:
            return 0x7FFF
        return ((value & 0xFFFFFFFF) + 0x7FFF + (value >> 16 & 1)) >> 16 & 0xFFFF

    return lambda high, low: half(high) << 16 | half(low)


def _convert(parts: list[str]) -> Compute:
    target, source = parts[-2:]
    if target.endswith("x2"):
        return _convert_pair(target, source)
    mode = next((p for p in parts if p in (*_MODES, "rni", "rzi", "rmi", "rpi")), "")
    saturate = "sat" in parts
    if source[0] != "f":
        bits = bits_of(source)

        def number(value: int) -> int:
            return signed(value, bits) if source[0] == "s" else value & ((1 << bits) - 1)

        if target[0] == "f":
            return lambda a: from_float(round_exact(Fraction(number(a)), target, mode or "rn"), target)
        return lambda a: _bounded(number(a), target) if saturate else number(a) & ((1 << bits_of(target)) - 1)
    if target[0] != "f":

        def integer(a: int) -> int:
            value = to_integer(to_float(a, source), mode)
            if value is None:
                x = to_float(a, source)
                value = 0 if x != x else (1 << 70 if x > 0 else -(1 << 70))
            return _bounded(value, target)

        return integer

    def convert(a: int) -> int:
        x = to_float(a, source)
        if "ftz" in parts:
            x = flush(x, source)
        if mode.endswith("i") and math.isfinite(x):
            whole = to_integer(x, mode)
            assert whole is not None
            x = math.copysign(float(whole), x)
        if saturate:
            x = 0.0 if x != x else min(max(x, 0.0), 1.0)
        if mode in _MODES and math.isfinite(x) and x != 0:
            x = round_exact(Fraction(x), target, mode)
        return from_float(x, target)

    return convert


def _bounded(value: int, kind: str) -> int:
    bits = bits_of(kind)
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)
    return min(max(value, low), high) & ((1 << bits) - 1)
