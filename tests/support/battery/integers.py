"""Functions of integers of every width, signed and unsigned, scalar and per component."""

from __future__ import annotations

import numpy as np

from support.battery.case import Array, Case, In, Out, integers, table, texts

TEXT = texts("integers.cl")

N = 32

_I, _J = integers(N), integers(N, seed=1)
_V, _W = integers(N, "uint32"), integers(N, "uint32", seed=1)
_L, _M = integers(N, "int64"), integers(N, "int64", seed=1)


def _i32(array: Array) -> Array:
    return np.asarray(array).astype(np.int64).astype(np.int32)


def _high(a: Array, b: Array, bits: int) -> Array:
    return np.array([(int(x) * int(y)) >> bits for x, y in zip(a, b, strict=True)], dtype=a.dtype)


def _rotate(a: Array, n: int) -> Array:
    bits = a.view(np.uint32)
    return ((bits << np.uint32(n)) | (bits >> np.uint32(32 - n))).view(a.dtype)


def _saturated(values: list[int], dtype: str) -> Array:
    info = np.iinfo(dtype)
    return np.array([min(max(value, info.min), info.max) for value in values], dtype)


def _pairs(a: Array, b: Array) -> list[tuple[int, int]]:
    return [(int(x), int(y)) for x, y in zip(a, b, strict=True)]


_C, _D = integers(N, "int8"), integers(N, "int8", seed=1)
_ii, _jj = _I.astype(np.int64), _J.astype(np.int64)

_INTEGER_SIGNED = [
    ("as_int(abs(a))", _i32(np.abs(_ii))),
    ("as_int(abs_diff(a, b))", _i32(np.abs(_ii - _jj))),
    ("add_sat(a, b)", np.clip(_ii + _jj, -(2**31), 2**31 - 1)),
    ("sub_sat(a, b)", np.clip(_ii - _jj, -(2**31), 2**31 - 1)),
    ("hadd(a, b)", (_ii + _jj) >> 1),
    ("rhadd(a, b)", (_ii + _jj + 1) >> 1),
    ("mul_hi(a, b)", _high(_I, _J, 32)),
    ("mad_hi(a, b, 7)", _i32(_high(_I, _J, 32).astype(np.int64) + 7)),
    ("min(a, b)", np.minimum(_I, _J)),
    ("max(a, b)", np.maximum(_I, _J)),
    ("clamp(a, -1000, 1000)", np.clip(_I, -1000, 1000)),
    ("clz(a)", [32 - int(x).bit_length() for x in _I.view(np.uint32)]),
    ("popcount(a)", [int(x).bit_count() for x in _I.view(np.uint32)]),
    ("rotate(a, 5)", _rotate(_I, 5)),
    ("rotate(a, 32 + 3)", _rotate(_I, 3)),
    ("mul24(a >> 8, b >> 8)", _i32((_ii >> 8) * (_jj >> 8))),
    ("mad24(a >> 20, b >> 20, 5)", (_ii >> 20) * (_jj >> 20) + 5),
    ("mad_sat(a, b, 3)", np.clip(_ii * _jj + 3, -(2**31), 2**31 - 1)),
    ("upsample((short)a, (ushort)b)", _i32((_I.astype(np.int16).astype(np.int64) << 16) | (_jj & 0xFFFF))),
    ("a / 7 + a % 7", np.fix(_ii / 7).astype(np.int64) + np.fmod(_ii, 7)),
    ("select(a, b, a & 1)", np.where(_I & 1, _J, _I)),
    ("bitselect(a, b, 0xff00)", (_I & ~0xFF00) | (_J & 0xFF00)),
    ("any(a)", _I < 0),
    ("all(a & b)", (_I & _J) < 0),
]
_INTEGER_UNSIGNED = [
    ("add_sat(a, b)", np.minimum(_V.astype(np.uint64) + _W, 2**32 - 1)),
    ("sub_sat(a, b)", np.where(_V > _W, _V - _W, 0)),
    ("hadd(a, b)", (_V.astype(np.uint64) + _W) >> 1),
    ("mul_hi(a, b)", (_V.astype(np.uint64) * _W) >> 32),
    ("abs_diff(a, b)", np.where(_V > _W, _V - _W, _W - _V)),
    ("clz(a)", [32 - int(x).bit_length() for x in _V]),
    ("mad_sat(a >> 16, b >> 16, 9u)", (_V >> 16).astype(np.uint64) * (_W >> 16) + 9),
    ("rotate(a, 31u)", _rotate(_V, 31)),
    ("a >> 3 | b << 29", (_V >> 3) | (_W << 29)),
    ("upsample((ushort)a, (ushort)b)", (_V << 16) | (_W & 0xFFFF)),
    ("min(a, 12345u)", np.minimum(_V, 12345)),
    ("mul24(a >> 8, b >> 8)", (_V >> 8) * (_W >> 8)),
]
_LONG = [
    ("mul_hi(a, b)", _high(_L, _M, 64)),
    ("add_sat(a, b)", _saturated([x + y for x, y in _pairs(_L, _M)], "int64")),
    ("sub_sat(a, b)", _saturated([x - y for x, y in _pairs(_L, _M)], "int64")),
    ("mad_sat(a, b, a)", _saturated([x * y + x for x, y in _pairs(_L, _M)], "int64")),
    ("mad_sat(a >> 40, b >> 40, b)", _saturated([(x >> 40) * (y >> 40) + y for x, y in _pairs(_L, _M)], "int64")),
    ("clz(a)", [64 - (int(x) & (2**64 - 1)).bit_length() for x in _L]),
    ("popcount(a)", [(int(x) & (2**64 - 1)).bit_count() for x in _L]),
    ("as_long(rotate(as_ulong(a), 9ul))", (_L << 9) | ((_L >> 55) & 511)),
    ("upsample((int)a, (uint)b)", (_L << 32) | (_M & 0xFFFFFFFF)),
    ("hadd(a, b)", np.array([(x + y) >> 1 for x, y in _pairs(_L, _M)])),
    ("as_long(abs(a))", np.abs(_L)),
    ("clamp(a, -5l, 5l)", np.clip(_L, -5, 5)),
]
_CHAR = [
    ("add_sat(a, b)", np.clip(_C.astype(int) + _D, -128, 127)),
    ("as_char(abs(a))", np.abs(_C.astype(int)).astype(np.uint8).view(np.int8)),
    ("hadd(a, b)", (_C.astype(int) + _D) >> 1),
    ("mul_hi(a, b)", (_C.astype(int) * _D) >> 8),
    ("clz(a)", [8 - int(x).bit_length() for x in _C.view(np.uint8)]),
    ("popcount(a)", [int(x).bit_count() for x in _C.view(np.uint8)]),
    (
        "as_char(rotate(as_uchar(a), (uchar)3))",
        ((_C.view(np.uint8).astype(int) << 3 | _C.view(np.uint8) >> 5) & 255).astype(np.uint8).view(np.int8),
    ),
    ("min(a, b)", np.minimum(_C, _D)),
    ("clamp(a, (char)-9, (char)9)", np.clip(_C, -9, 9)),
    ("mad_sat(a, b, a)", np.clip(_C.astype(int) * _D + _C, -128, 127)),
]

CASES: list[Case] = [
    table("integer_int", _INTEGER_SIGNED, [_I, _J], kind="int"),
    table("integer_uint", _INTEGER_UNSIGNED, [_V, _W], kind="uint"),
    table("integer_long", _LONG, [_L, _M], kind="long"),
    table("integer_char", _CHAR, [_C, _D], kind="char"),
    Case(
        "integer_vectors",
        TEXT["integer_vectors"],
        (
            In(np.resize(_I, 4 * N)),
            In(np.resize(_J, 4 * N)),
            Out(
                np.resize(
                    _i32(
                        np.minimum(_ii, _jj)
                        + np.maximum(_ii, 5)
                        + np.abs(_ii - _jj)
                        + _high(_I, _J, 32)
                        + [32 - int(x).bit_length() for x in _I.view(np.uint32)]
                        + _rotate(_I, 3)
                        + (_ii >> 12) * (_jj >> 12)
                        + np.clip(_ii, -7, 7)
                        + [int(x).bit_count() for x in _J.view(np.uint32)]
                    ),
                    4 * N,
                )
            ),
        ),
    ),
]
