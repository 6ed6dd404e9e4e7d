"""Functions of real numbers: math, common, geometric and relational, scalar and per component."""

from __future__ import annotations

import numpy as np
from scipy import special

from support.battery.case import Array, Case, In, Out, floats, table, texts

TEXT = texts("math.cl")

N = 32


def _wide(array: Array) -> Array:
    return array.astype(np.float64)


_U = floats(N, -0.95, 0.95)
_P = floats(N, 0.05, 9.0)
_S = floats(N, -6.0, 6.0, seed=3)
_T = floats(N, 0.3, 4.0, seed=4)
u, p, s, t = map(_wide, (_U, _P, _S, _T))
_F4 = floats(4 * N)
_G4 = floats(4 * N, seed=1)
_SPECIAL = np.resize(
    np.array([0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3e38, 0.5, -0.5, 1, -1, 2.5, 3.5], np.float32), N
)
v = _wide(_SPECIAL)


def _trig() -> list[tuple[str, Array]]:
    return [
        (f"{f}(a)", g(s))
        for f, g in (("sin", np.sin), ("cos", np.cos), ("atan", np.arctan), ("sinh", np.sinh), ("tanh", np.tanh), ("asinh", np.arcsinh))
    ]


def _unit() -> list[tuple[str, Array]]:
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


def _uncontracted(x: Array, y: Array) -> Array:
    """Every product and every sum rounded to single precision, as NumPy does it; the second is a product's exact error."""
    total = x + y
    part = total - x
    error = _wide(x) * _wide(y) - _wide(x * y)
    return np.stack([x * y + y, error.astype(np.float32), (x - (total - part)) + (y - part), (x * y + 1) - x * y], 1).reshape(-1)


CASES: list[Case] = [
    table("math_trigonometric", _trig(), [_S], 2e-6, floor=1e-6),
    table("math_unit_interval", _unit(), [_U], 4e-6, floor=1e-6),
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
    Case(
        "contraction_off",
        TEXT["contraction_off"],
        (In(_S), In(_T), Out(_uncontracted(_S, _T))),
    ),
]
