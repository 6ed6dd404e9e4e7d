"""Arithmetic functions: math, integer, common, geometric and relational, scalar and per component.

The kernels evaluate a table of expressions over one or two inputs; row ``j`` of the output belongs to expression ``j``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import special

from battery.case import Array, Case, In, Out, floats, integers, texts

TEXT = texts("math.cl")

N = 32


def table(
    name: str, rows: Sequence[tuple[str, Array]], inputs: Sequence[Array], tolerance: float = 0.0, kind: str = "float", floor: float = 0.0
) -> Case:
    """A kernel of expressions over ``a`` and ``b``, each with what it must give for every element."""
    names = {"float32": "float", "float64": "double", "int32": "int", "uint32": "uint", "int64": "long", "uint64": "ulong", "int8": "char"}
    names |= {"uint8": "uchar", "int16": "short", "uint16": "ushort"}
    types = {v: k for k, v in names.items()}
    pointers = [f"__global const {names[str(array.dtype)]} *{p}_" for p, array in zip("abc", inputs, strict=False)]
    reads = [f"{names[str(array.dtype)]} {p} = {p}_[i];" for p, array in zip("abc", inputs, strict=False)]
    lines = [f"  o[{j * N} + i] = {expression};" for j, (expression, _) in enumerate(rows)]
    text = f"__kernel void k({', '.join(pointers)}, __global {kind} *o)\n{{\n  int i = get_global_id(0);\n  {' '.join(reads)}\n"
    expected = np.stack([np.broadcast_to(values, N) for _, values in rows]).astype(types[kind]).reshape(-1)
    return Case(name, text + "\n".join(lines) + "\n}\n", (*map(In, inputs), Out(expected, tolerance=tolerance, floor=floor)))


def _wide(array: Array) -> Array:
    return array.astype(np.float64)


_U = floats(N, -0.95, 0.95)
_P = floats(N, 0.05, 9.0)
_S = floats(N, -6.0, 6.0, seed=3)
_T = floats(N, 0.3, 4.0, seed=4)
u, p, s, t = map(_wide, (_U, _P, _S, _T))
_I, _J = integers(N), integers(N, seed=1)
_V, _W = integers(N, "uint32"), integers(N, "uint32", seed=1)
_L, _M = integers(N, "int64"), integers(N, "int64", seed=1)
_F4 = floats(4 * N)
_G4 = floats(4 * N, seed=1)
_SPECIAL = np.resize(
    np.array([0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3e38, 0.5, -0.5, 1, -1, 2.5, 3.5], np.float32), N
)
v = _wide(_SPECIAL)


def _i32(array: Array) -> Array:
    return np.asarray(array).astype(np.int64).astype(np.int32)


def _trig(suffix: str) -> list[tuple[str, Array]]:
    return [
        (f"{f}(a{suffix})", g(s))
        for f, g in (("sin", np.sin), ("cos", np.cos), ("atan", np.arctan), ("sinh", np.sinh), ("tanh", np.tanh), ("asinh", np.arcsinh))
    ]


def _unit(dtype: str) -> list[tuple[str, Array]]:
    return [
        ("asin(a)", np.arcsin(u)),
        ("acos(a)", np.arccos(u)),
        ("atanh(a)", np.arctanh(u)),
        ("erf(a)", special.erf(u)),
        ("erfc(a)", special.erfc(u)),
        ("asinpi(a)", np.arcsin(u) / np.pi),
        ("acospi(a)", np.arccos(u) / np.pi),
        ("atanpi(a)", np.arctan(u) / np.pi),
        ("sinpi(a)", np.sin(np.pi * u)),
        ("cospi(a)", np.cos(np.pi * u)),
        ("expm1(a)", np.expm1(u)),
        ("log1p(a)", np.log1p(u)),
    ]


def _positive() -> list[tuple[str, Array]]:
    return [
        ("sqrt(a)", np.sqrt(p)),
        ("rsqrt(a)", 1 / np.sqrt(p)),
        ("cbrt(a)", np.cbrt(p)),
        ("exp(a)", np.exp(p)),
        ("exp2(a)", np.exp2(p)),
        ("exp10(a)", 10**p),
        ("tgamma(a)", special.gamma(p)),
        ("acosh(1 + a)", np.arccosh(1 + p)),
        ("pow(a, b)", p**t),
        ("powr(a, b)", p**t),
        ("hypot(a, b)", np.hypot(p, t)),
        ("atan2(a, b)", np.arctan2(p, t)),
        ("atan2pi(a, b)", np.arctan2(p, t) / np.pi),
        ("rootn(a, 3)", np.cbrt(p)),
        ("pown(a, 5)", p**5),
        ("pown(a, -2)", p**-2.0),
        ("ldexp(a, 3)", p * 8),
        ("fmod(a, b)", np.fmod(p, t)),
        ("a / b", p / t),
        ("mad(a, b, 1.0f)", p * t + 1),
        ("fma(a, b, a)", p * t + p),
        ("cosh(b)", np.cosh(t)),
        ("tan(b * 0.3f)", np.tan(t * np.float32(0.3))),
    ]


def _rounding() -> list[tuple[str, Array]]:
    with np.errstate(invalid="ignore"):
        return [
            ("floor(a)", np.floor(v)),
            ("ceil(a)", np.ceil(v)),
            ("trunc(a)", np.trunc(v)),
            ("rint(a)", np.rint(v)),
            ("round(a)", np.copysign(np.floor(np.abs(v) + 0.5), v)),
            ("fabs(a)", np.abs(v)),
            ("copysign(2.0f, a)", np.copysign(2, np.nan_to_num(v, nan=1.0))),
            ("fmax(a, 0.25f)", np.fmax(v, 0.25)),
            ("fmin(a, 0.25f)", np.fmin(v, 0.25)),
            ("fdim(a, 1.0f)", np.where(np.isnan(v), v, np.where(v > 1, v - 1, 0))),
            ("sign(a)", np.where(np.isnan(v), 0, np.sign(v))),
        ]


def _relations() -> list[tuple[str, Array]]:
    finite = np.isfinite(_SPECIAL)
    return [
        ("isnan(a)", np.isnan(v)),
        ("isinf(a)", np.isinf(v)),
        ("isfinite(a)", finite),
        ("isnormal(a)", finite & (np.abs(_SPECIAL) >= np.float32(2**-126))),
        ("signbit(a) != 0 && !isnan(a)", np.signbit(v) & ~np.isnan(v)),
        ("isequal(a, 1.5f)", v == 1.5),
        ("isnotequal(a, 1.5f)", v != 1.5),
        ("isgreater(a, 0.5f)", v > 0.5),
        ("isgreaterequal(a, 0.5f)", v >= 0.5),
        ("isless(a, 0.5f)", v < 0.5),
        ("islessequal(a, 0.5f)", v <= 0.5),
        ("islessgreater(a, 0.5f)", (v < 0.5) | (v > 0.5)),
        ("isordered(a, 0.5f)", ~np.isnan(v)),
        ("isunordered(a, 0.5f)", np.isnan(v)),
    ]


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
_COMMON = [
    ("clamp(a, -1.0f, 1.0f)", np.clip(s, -1, 1)),
    ("max(a, b)", np.maximum(s, t)),
    ("min(a, 2.0f)", np.minimum(s, 2)),
    ("degrees(a)", np.degrees(s)),
    ("radians(a)", np.radians(s)),
    ("mix(a, b, 0.25f)", s + (t - s) * 0.25),
    ("step(1.0f, a)", s >= 1),
    ("smoothstep(-2.0f, 3.0f, a)", (lambda r: r * r * (3 - 2 * r))(np.clip((s + 2) / 5, 0, 1))),
    ("sign(a)", np.sign(s)),
]


def _four(array: Array) -> Array:
    return _wide(array).reshape(N, 4)


_a4, _b4 = _four(_F4), _four(_G4)
_n4 = np.linalg.norm(_a4, axis=1)

CASES: list[Case] = [
    table("math_trigonometric", _trig(""), [_S], 2e-6, floor=1e-6),
    table("math_unit_interval", _unit("float"), [_U], 4e-6, floor=1e-6),
    table("math_positive", _positive(), [_P, _T], 8e-6, floor=1e-6),
    table("math_rounding", _rounding(), [_SPECIAL]),
    table("math_relations", _relations(), [_SPECIAL], kind="int"),
    table(
        "math_double",
        [
            (e.replace("1.0f", "1.0").replace("0.3f", "0.3"), r)
            for e, r in (
                *_positive()[:-1],
                ("lgamma(a)", special.gammaln(p)),
                ("log(a)", np.log(p)),
                ("log2(a)", np.log2(p)),
                ("log10(a)", np.log10(p)),
            )
        ],
        [p, t],
        1e-13,
        "double",
        floor=1e-13,
    ),
    table(
        "math_logarithms",
        [
            ("log(a)", np.log(p)),
            ("log2(a)", np.log2(p)),
            ("log10(a)", np.log10(p)),
            ("logb(a)", np.floor(np.log2(p))),
            ("ilogb(a)", np.floor(np.log2(p))),
            ("lgamma(a)", special.gammaln(p)),
            ("remainder(a, b)", p - t * np.rint(p / t)),
            ("nextafter(a, b) == a", np.zeros(N)),
            ("maxmag(a, -b)", np.where(p > t, p, -t)),
            ("minmag(a, -b)", np.where(p < t, p, -t)),
        ],
        [_P, _T],
        4e-6,
        floor=2e-6,
    ),
    table(
        "math_native",
        [
            ("native_sin(a)", np.sin(s)),
            ("native_cos(a)", np.cos(s)),
            ("native_exp(a)", np.exp(s)),
            ("native_exp2(a)", np.exp2(s)),
            ("native_log(b)", np.log(t)),
            ("native_log2(b)", np.log2(t)),
            ("native_sqrt(b)", np.sqrt(t)),
            ("native_rsqrt(b)", 1 / np.sqrt(t)),
            ("native_recip(b)", 1 / t),
            ("native_divide(a, b)", s / t),
            ("native_powr(b, 1.5f)", t**1.5),
            ("half_exp(a)", np.exp(s)),
            ("half_sqrt(b)", np.sqrt(t)),
            ("half_sin(a)", np.sin(s)),
            ("half_divide(a, b)", s / t),
            ("half_recip(b)", 1 / t),
            ("native_tan(a * 0.1f)", np.tan(s * 0.1)),
            ("native_exp10(b)", 10**t),
        ],
        [_S, _T],
        2e-3,
        floor=2e-5,
    ),
    table("integer_int", _INTEGER_SIGNED, [_I, _J], kind="int"),
    table("integer_uint", _INTEGER_UNSIGNED, [_V, _W], kind="uint"),
    table("integer_long", _LONG, [_L, _M], kind="long"),
    table("integer_char", _CHAR, [_C, _D], kind="char"),
    table("common_functions", _COMMON, [_S, _T], 2e-6, floor=1e-6),
    Case(
        "math_vectors",
        TEXT["math_vectors"],
        (
            In(_F4),
            In(_G4),
            Out(
                (_a4 * _b4 + np.sin(_a4) + np.maximum(_a4, 0.5) + (np.abs(_b4) + 1) ** 2 + 2 * _a4 + _b4 + _a4 * [1, 2, 4, 8] + 2 * _a4)
                .astype(np.float32)
                .reshape(-1),
                tolerance=4e-6,
                floor=1e-5,
            ),
        ),
    ),
    Case(
        "common_vectors",
        TEXT["common_vectors"],
        (
            In(_F4),
            In(_G4),
            Out(
                (
                    np.clip(_a4, -1, 1)
                    + (_a4 + _b4) / 2
                    + (_a4 >= 0)
                    + (lambda r: r * r * (3 - 2 * r))(np.clip((_b4 + 1) / 2, 0, 1))
                    + np.sign(_b4)
                    + np.minimum(_a4, _b4)
                    + np.clip(_b4, -1, 2)
                )
                .astype(np.float32)
                .reshape(-1),
                tolerance=4e-6,
                floor=1e-5,
            ),
        ),
    ),
    Case(
        "geometric",
        TEXT["geometric"],
        (
            In(_F4),
            In(_G4),
            Out(
                (
                    np.stack([(_a4 * _b4).sum(1), _n4, np.linalg.norm(_a4 - _b4, axis=1), (_a4 * _b4)[:, :3].sum(1)], 1)
                    + _a4 / _n4[:, None]
                    + np.concatenate([np.cross(_a4[:, :3], _b4[:, :3]), np.linalg.norm(_a4[:, :2], axis=1)[:, None]], 1)
                )
                .astype(np.float32)
                .reshape(-1),
                tolerance=4e-6,
                floor=1e-5,
            ),
        ),
    ),
    Case(
        "relational_vectors",
        TEXT["relational_vectors"],
        (
            In(_F4),
            In(_G4),
            Out(
                (
                    lambda m: (
                        -(m * 1)
                        - 2
                        + np.stack([m.any(1), m.all(1), m[:, :2].any(1), m[:, 2:].all(1)], 1)
                        + np.where(m, [10, 20, 30, 40], [1, 2, 3, 4])
                    )
                )(_a4 < _b4)
                .astype(np.int32)
                .reshape(-1)
            ),
        ),
    ),
    Case(
        "select_float",
        TEXT["select_float"],
        (
            In(_F4),
            In(_G4),
            Out(
                (np.where(_a4 > _b4, _b4, _a4) + np.where([False, True, False, True], _b4, _a4) + np.copysign(_a4, _b4))
                .astype(np.float32)
                .reshape(-1),
                tolerance=2e-6,
                floor=1e-6,
            ),
        ),
    ),
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
    Case(
        "second_results",
        TEXT["second_results"],
        (
            In(_S),
            Out(
                np.stack(
                    [
                        s - np.floor(s) + 10 * np.floor(s),
                        np.frexp(s)[0] * 100 + np.frexp(s)[1],
                        np.modf(s)[0] + 10 * np.modf(s)[1],
                        np.sin(s) + 10 * np.cos(s),
                    ],
                    1,
                )
                .astype(np.float32)
                .reshape(-1),
                tolerance=4e-6,
                floor=1e-5,
            ),
        ),
    ),
    Case(
        "second_results_vector",
        TEXT["second_results_vector"],
        (In(_F4), Out((_a4 + np.frexp(_a4)[0] * np.frexp(_a4)[1]).astype(np.float32).reshape(-1), tolerance=4e-6, floor=1e-5)),
    ),
    Case(
        "constants",
        TEXT["constants"],
        (In(_S), Out((np.pi + np.e * np.arange(N) + np.sqrt(2) + 2.0**-23 + 5).astype(np.float32), tolerance=1e-6)),
    ),
]
