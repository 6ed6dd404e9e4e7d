"""The commonest PTX instructions as Python expressions over operand bit patterns, as ``instructions.compute`` has them."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence

from support.ptx_machine.values import FUSED, bits_of

_RELATIONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "lo": "<", "ls": "<=", "hi": ">", "hs": ">="}
_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^"}
_PREDICATES = {"and": "({} & {} & 1)", "or": "(({} | {}) & 1)", "xor": "(({} ^ {}) & 1)", "not": "(1 - {})", "mov": "({} & 1)"}
_WIDTHS = (8, 16, 32, 64)


def expression(parts: Sequence[str], given: Sequence[str]) -> str | None:
    """An instruction whose name is ``parts`` joined by dots; None for one that takes more than a line."""
    name, kind = parts[0], parts[-1]
    if name == "setp":
        return _comparison(parts, given)
    if kind == "pred":
        return _PREDICATES[name].format(*given) if name in _PREDICATES else None
    if name == "mov":
        return given[0]
    if name == "selp":
        return f"({given[0]} if {given[2]} else {given[1]})"
    if name == "cvt":
        source, target = parts[-1], parts[-2]
        plain = source[0] in "us" and target[0] in "us" and len(parts) == 3
        return f"({number(given[0], source)} & {ones(bits_of(target))})" if plain else None
    return _integer(parts, given) if kind[0] in "usb" and kind[1:].isdigit() and bits_of(kind) in _WIDTHS else None


def ones(bits: int) -> int:
    """So many bits that are set."""
    return (1 << bits) - 1


def number(value: str, kind: str) -> str:
    """The integer that a register's bits mean."""
    bits = bits_of(kind)
    if kind[0] != "s":
        return f"({value} & {ones(bits)})"
    half = 1 << (bits - 1)
    return f"(({value} & {ones(bits)} ^ {half}) - {half})"


def _integer(parts: Sequence[str], given: Sequence[str]) -> str | None:
    name, kind = parts[0], parts[-1]
    mask = ones(bits_of(kind))
    if name in ("mul", "mad") and "wide" in parts:
        product = f"{number(given[0], kind)} * {number(given[1], kind)}"
        return f"({product}{' + ' + given[2] if name == 'mad' else ''} & {ones(2 * bits_of(kind))})"
    if name in ("mul", "mad") and "lo" in parts:
        return f"({given[0]} * {given[1]}{' + ' + given[2] if name == 'mad' else ''} & {mask})"
    if name in ("mul", "mad") or "sat" in parts or "cc" in parts:
        return None
    if name in _OPERATORS:
        return f"(({given[0]} {_OPERATORS[name]} {given[1]}) & {mask})"
    if name == "not":
        return f"(~{given[0]} & {mask})"
    if name == "neg":
        return f"(-{given[0]} & {mask})"
    if name == "shl" and given[1].isdigit():
        return f"({given[0]} << {given[1]} & {mask})" if int(given[1]) < bits_of(kind) else "0"
    if name == "shr" and given[1].isdigit():
        return f"({number(given[0], kind)} >> {min(int(given[1]), bits_of(kind))} & {mask})"
    if name in ("min", "max"):
        return f"({name}({number(given[0], kind)}, {number(given[1], kind)}) & {mask})"
    return None


def _comparison(parts: Sequence[str], given: Sequence[str]) -> str | None:
    if len(parts) != 3 or parts[2][0] not in "usb" or parts[1] not in _RELATIONS:
        return None
    return f"(1 if {number(given[0], parts[2])} {_RELATIONS[parts[1]]} {number(given[1], parts[2])} else 0)"


def of_numbers(parts: Sequence[str]) -> bool:
    """Whether an instruction is a sum or product to nearest, without saturation and with denormals."""
    name, kind = parts[0], parts[-1]
    if kind not in ("f32", "f64") or any(part not in ("rn", "f32", "f64") for part in parts[1:]):
        return False
    return name in ("add", "sub", "mul") or (name == "fma" and kind in FUSED)


def floating(parts: Sequence[str], numbers: Sequence[str]) -> str:
    """An instruction ``of_numbers``, of numbers and not of their bits."""
    name, kind = parts[0], parts[-1]
    if name == "fma":
        return f"expressions.fused_{kind}({', '.join(numbers)})"
    result = f"{numbers[0]} {_OPERATORS[name]} {numbers[1]}"
    return f"expressions.single({result})" if kind == "f32" else result


_I, _F, _Q, _D = (struct.Struct(f"<{letter}") for letter in "IfQd")
_to_i, _from_i, _to_f, _from_f = _I.pack, _I.unpack, _F.pack, _F.unpack
_to_q, _from_q, _to_d, _from_d = _Q.pack, _Q.unpack, _D.pack, _D.unpack
fused_f32, fused_f64 = FUSED.get("f32"), FUSED.get("f64")


def float_f32(value: int) -> float:
    """``values.to_float`` of float32."""
    return _from_f(_to_i(value & 0xFFFFFFFF))[0]  # type: ignore[no-any-return]


def float_f64(value: int) -> float:
    """``values.to_float`` of float64."""
    return _from_d(_to_q(value & 0xFFFFFFFFFFFFFFFF))[0]  # type: ignore[no-any-return]


def single(value: float) -> float:
    """A number rounded to float32."""
    try:
        return _from_f(_to_f(value))[0]  # type: ignore[no-any-return]
    except OverflowError:
        return ctypes.c_float(value).value


def bits_f32(value: float) -> int:
    """``values.from_float`` of float32."""
    if value != value:
        return 0x7FFFFFFF
    try:
        return _from_i(_to_f(value))[0]  # type: ignore[no-any-return]
    except OverflowError:
        return _from_i(_to_f(ctypes.c_float(value).value))[0]  # type: ignore[no-any-return]


def bits_f64(value: float) -> int:
    """``values.from_float`` of float64."""
    return 0x7FF8000000000000 if value != value else _from_q(_to_d(value))[0]
