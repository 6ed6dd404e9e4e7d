"""Vector types: literals, components, swizzles, operators, loads and stores, conversions."""

from __future__ import annotations

import numpy as np

from support.battery.case import Case, In, Out, elementwise, floats, integers, texts

TEXT = texts("vectors.cl")

POCL_512 = {"Portable Computing Language": "its compiler aborts on 512-bit built-in functions"}

_A, _B = floats(128), floats(128, seed=1)
_V, _W = _A.reshape(32, 4), _B.reshape(32, 4)
_I, _J = integers(128), integers(128, seed=1)
_U = integers(128, "uint32", seed=2)


def _flat(array: np.ndarray, dtype: str = "float32") -> np.ndarray:
    return np.ascontiguousarray(array, dtype=dtype).reshape(-1)


def _columns(*columns: object) -> np.ndarray:
    return _flat(np.stack([np.broadcast_to(np.asarray(c, np.float32), 32) for c in columns], axis=1))


def _wrapped() -> np.ndarray:
    with np.errstate(over="ignore"):
        halves = _J.view(np.uint16)[::2].astype(np.uint16)
        apart = np.abs((_I * _J).astype(np.int64) - 7).astype(np.uint32).view(np.int32)
        return apart + (halves * halves).astype(np.int32) - (_I + _I > _I) - (-_I < 0)


x, y, z, w = _V.T

CASES: list[Case] = [
    elementwise("literal_scalars", "o[i] = (float4)(a[i].x, 2.0f, a[i].z, 4);", [_A], Out(_columns(x, 2, z, 4)), "float4 float4"),
    elementwise("literal_splat", "o[i] = (float4)(a[i].y);", [_A], Out(_columns(y, y, y, y)), "float4 float4"),
    elementwise("literal_nested", "o[i] = (float4)((float2)(a[i].w, 1.0f), a[i].xy);", [_A], Out(_columns(w, 1, x, y)), "float4 float4"),
    elementwise("literal_mixed", "o[i] = (float4)(a[i].x, a[i].yz, 7.0f);", [_A], Out(_columns(x, y, z, 7)), "float4 float4"),
    elementwise("literal_braces", "o[i] = (float4){a[i].x, 1, 2, 3};", [_A], Out(_columns(x, 1, 2, 3)), "float4 float4"),
    elementwise(
        "literal_not_a_comma",
        "float4 v = a[i] + (float4)(1, 2, 3, 4) * (float4)(2.0f); o[i] = v;",
        [_A],
        Out(_columns(x + 2, y + 4, z + 6, w + 8)),
        "float4 float4",
    ),
    elementwise("literal_component", "o[i] = (float4)(1, 2, 3, 4).s2 + a[i];", [_A], Out(_A[:32] + np.float32(3))),
    elementwise(
        "literal_typedef", "typedef float4 real4; o[i] = (real4)(a[i].x, 1, 2, 3);", [_A], Out(_columns(x, 1, 2, 3)), "float4 float4"
    ),
    elementwise("initialiser_braces", "float4 v = {a[i].x, 1, 2.5, 3}; o[i] = v;", [_A], Out(_columns(x, 1, 2.5, 3)), "float4 float4"),
    elementwise("implicit_widening", "float4 v = a[i].x; v *= 2; o[i] = v + 1;", [_A], Out(_columns(*[x * 2 + 1] * 4)), "float4 float4"),
    elementwise(
        "integers_wrap_around",
        "int4 s = a[i] + a[i], m = a[i] * b[i]; ushort4 h = as_ushort8(b[i]).even;"
        "o[i] = (s > a[i]) + (-a[i] < 0) + convert_int4(abs_diff(m, (int4)(7))) + convert_int4(h * h);",
        [_I, _J],
        Out(_wrapped()),
        "int4 int4 int4",
    ),
    elementwise("swizzle_read", "o[i] = a[i].wzyx + a[i].xxyy;", [_A], Out(_columns(w + x, z + x, y + y, x + y)), "float4 float4"),
    elementwise("swizzle_digits", "o[i] = a[i].s3210 * a[i].S0011;", [_A], Out(_columns(w * x, z * x, y * y, x * y)), "float4 float4"),
    elementwise("swizzle_write", "float4 v = a[i]; v.zx = v.yw; o[i] = v;", [_A], Out(_columns(w, y, y, w)), "float4 float4"),
    elementwise(
        "swizzle_update",
        "float4 v = a[i]; v.xy += v.zw; v.s23 *= (float2)(2, 3); o[i] = v;",
        [_A],
        Out(_columns(x + z, y + w, z * 2, w * 3)),
        "float4 float4",
    ),
    elementwise(
        "swizzle_pointer",
        "__global float4 *p = o + i; *p = a[i]; p->yz = p->xx; p->hi.y = 9;",
        [_A],
        Out(_columns(x, x, x, 9)),
        "float4 float4",
    ),
    elementwise(
        "halves",
        "o[i] = (float4)(a[i].hi, a[i].lo) + (float4)(a[i].even, a[i].odd);",
        [_A],
        Out(_columns(z + x, w + z, x + y, y + w)),
        "float4 float4",
    ),
    elementwise(
        "halves_write",
        "float4 v = a[i]; v.hi = v.lo; v.lo.x = 5; v.odd = (float2)(1, 2); o[i] = v;",
        [_A],
        Out(_columns(5, 1, x, 2)),
        "float4 float4",
    ),
    elementwise(
        "halves_chain",
        "float8 v = (float8)(a[i], b[i]); v.hi.lo.y = 3; o[i] = v.hi.even + v.lo.hi.x;",
        [_A, _B],
        Out(_flat(np.stack([_W[:, 0] + z, _W[:, 2] + z], 1))),
        "float4 float4 float2",
    ),
    Case(
        "components_sixteen",
        TEXT["components_sixteen"],
        (In(_A), Out(_columns(z + 2 + (y + 3), w + 3 + (x + 1), y + 1 + (z + 1), w + (w + 3)))),
    ),
    elementwise(
        "three_components",
        "float3 v = a[i].xyz; v = v * 2.0f - (float3)(1, 2, 3); o[i] = (float4)(v.zyx, sizeof(float3));",
        [_A],
        Out(_columns(z * 2 - 3, y * 2 - 2, x * 2 - 1, 16)),
        "float4 float4",
    ),
    elementwise(
        "arithmetic_float",
        "o[i] = (a[i] + b[i]) * (a[i] - 2.0f) / (3.0f + b[i] * b[i]);",
        [_A, _B],
        Out((_A + _B) * (_A - 2) / (3 + _B * _B), tolerance=2e-6, floor=1e-6),
        "float4 float4 float4",
    ),
    elementwise(
        "arithmetic_int",
        "o[i] = (a[i] * b[i] + 7) ^ (a[i] & ~b[i]) | (b[i] >> 3) - (a[i] << 5);",
        [_I, _J],
        Out((_I * _J + 7) ^ (_I & ~_J) | (_J >> 3) - (_I << 5)),
        "int4 int4 int4",
    ),
    elementwise(
        "division_int",
        "o[i] = a[i] / ((b[i] & 0xff) + 1) + a[i] % ((b[i] & 15) + 3);",
        [_U, _U[::-1].copy()],
        Out(_U // ((_U[::-1] & 255) + 1) + _U % ((_U[::-1] & 15) + 3)),
        "uint4 uint4 uint4",
    ),
    elementwise(
        "shift_by_vector",
        "o[i] = (a[i] << (b[i] & 31)) + (a[i] >> (uint4)(1, 2, 3, 4));",
        [_U, _U[::-1].copy()],
        Out((_U << (_U[::-1] & 31)) + (_U >> np.tile(np.arange(1, 5, dtype=np.uint32), 32))),
        "uint4 uint4 uint4",
    ),
    elementwise("shift_modulo_width", "o[i] = a[i] << b[i];", [_U, _U[::-1].copy()], Out(_U << (_U[::-1] & 31)), "uint4 uint4 uint4"),
    elementwise(
        "chars",
        "o[i] = a[i] * b[i] + (char16)(3);",
        [integers(512, "int8"), integers(512, "int8", 1)],
        Out((integers(512, "int8") * integers(512, "int8", 1) + np.int8(3)).astype(np.int8)),
        "char16 char16 char16",
    ),
    elementwise(
        "comparisons",
        "o[i] = (a[i] < b[i]) + 2 * (a[i] >= b[i]) + 4 * (a[i] == a[i]) + 8 * (b[i] != b[i]);",
        [_A, _B],
        Out(-((_A < _B) * 1 + 2 * (_A >= _B) + 4).astype(np.int32)),
        "float4 float4 int4",
    ),
    elementwise(
        "logic",
        "o[i] = ((a[i] & 1) && (b[i] & 1)) + 2 * ((a[i] & 2) || (b[i] & 2)) + 4 * !(a[i] & 4);",
        [_I, _J],
        Out(-(((_I & _J & 1) != 0) * 1 + 2 * (((_I | _J) & 2) != 0) + 4 * ((_I & 4) == 0)).astype(np.int32)),
        "int4 int4 int4",
    ),
    elementwise(
        "double_comparison",
        "o[i] = a[i] > b[i];",
        [_A.astype(float), _B.astype(float)],
        Out(-(_A > _B).astype(np.int64)),
        "double4 double4 long4",
    ),
    elementwise("unary", "int4 v = -a[i]; v = ~v; v++; --v; o[i] = +v;", [_I], Out(~-_I), "int4 int4"),
    elementwise(
        "increments",
        "int4 v = a[i]; int4 u = v++; v += u--; ++v.x; v.y--; o[i] = v + u;",
        [_I],
        Out((_I + 1 + _I + (_I - 1) + np.tile([1, -1, 0, 0], 32)).astype(np.int32)),
        "int4 int4",
    ),
    elementwise(
        "compound_assignment",
        "int4 v = a[i]; v += b[i]; v -= 3; v *= 5; v ^= b[i]; v |= 1; v &= ~2; v <<= 1; v >>= 2; o[i] = v;",
        [_I, _J],
        Out(((((((_I + _J - 3) * 5) ^ _J) | 1) & ~2) << 1) >> 2),
        "int4 int4 int4",
    ),
    elementwise(
        "scalar_on_the_left",
        "o[i] = 2 * a[i] + (1.0f - a[i]) + 3;",
        [_A],
        Out(2 * _A + (1 - _A) + 3, tolerance=1e-6, floor=1e-6),
        "float4 float4",
    ),
    Case("wide_load", TEXT["wide_load"], (In(_A), Out(_flat(_V[:, ::-1])))),
    elementwise("vload_vstore", "vstore4(vload4(i, a) + vload4(31 - i, a), i, o);", [_A], Out(_flat(_V + _V[::-1]))),
    elementwise("vload_unaligned", "vstore2(vload2(i, a + 1), i, o);", [_A], Out(_A[1:65])),
    elementwise("vload3", "vstore3(vload3(i, a).zyx, i, o);", [_A], Out(_flat(_A[:96].reshape(32, 3)[:, ::-1]))),
    elementwise("vload8", "vstore8(vload8(i, a) * 2.0f, i, o);", [floats(256)], Out(floats(256) * 2)),
    elementwise("vload16", "vstore16(vload16(i, a) * 2.0f, i, o);", [floats(512)], Out(floats(512) * 2), without=POCL_512),
    Case("vload_local", TEXT["vload_local"], (In(_A), Out(_flat(_V[::-1])))),
    elementwise(
        "as_type", "o[i] = as_uint4(a[i]) ^ (uint4)(0x80000000u);", [_A], Out(_A.view(np.uint32) ^ np.uint32(1 << 31)), "float4 uint4"
    ),
    elementwise(
        "as_type_width", "o[i] = as_float2(as_ulong(as_int2(a[i]).yx));", [_A], Out(_flat(_A.reshape(64, 2)[:32, ::-1])), "float2 float2"
    ),
    elementwise("convert", "o[i] = convert_float4(a[i]) * 0.5f;", [_I], Out(_I.astype(np.float32) / 2, tolerance=1e-7), "int4 float4"),
    elementwise("convert_truncates", "o[i] = convert_int4(a[i]);", [_A * 10], Out((_A * 10).astype(np.int32)), "float4 int4"),
    Case(
        "convert_rounding",
        TEXT["convert_rounding"],
        (In(_A), Out(_flat(np.stack([np.rint(x), np.trunc(y), np.ceil(z), np.floor(w)], 1), "int32"))),
    ),
    elementwise(
        "convert_saturates",
        "o[i] = convert_uchar4_sat(a[i]);",
        [_A * 100],
        Out(np.clip(_A * 100, 0, 255).astype(np.uint8)),
        "float4 uchar4",
    ),
    elementwise(
        "convert_saturates_int",
        "o[i] = convert_short4_sat(a[i] >> 8);",
        [_I],
        Out(np.clip(_I >> 8, -32768, 32767).astype(np.int16)),
        "int4 short4",
    ),
    elementwise(
        "convert_saturates_unsigned", "o[i] = convert_int4_sat(a[i]);", [_U], Out(np.minimum(_U, 2**31 - 1).astype(np.int32)), "uint4 int4"
    ),
    elementwise(
        "convert_double",
        "o[i] = convert_float4_rtz(convert_double4(a[i]) * 1.1);",
        [_A],
        Out((_A.astype(float) * 1.1).astype(np.float32), tolerance=1.2e-7),
        "float4 float4",
    ),
    elementwise(
        "convert_sizes",
        "o[i] = convert_ulong2(a[i]) + convert_ulong2(convert_uchar2(a[i]));",
        [_U],
        Out(_U[:64].astype(np.uint64) + (_U[:64] & 255)),
        "uint2 ulong2",
    ),
    elementwise(
        "shuffle",
        "o[i] = shuffle(a[i], (uint4)(3, 3, 0, 1)) + shuffle2(a[i], b[i], (uint4)(0, 4, 7, 3));",
        [_A, _B],
        Out(_columns(w + x, w + _W[:, 0], x + _W[:, 3], y + w)),
        "float4 float4 float4",
    ),
    elementwise(
        "subscript_array",
        "float4 r[2]; r[0] = a[i]; r[1] = r[0].yxwz; r[i & 1].x += 1.0f; o[i] = r[0] + r[1];",
        [_A],
        Out(_columns(x + y + 1, x + y, z + w, z + w), tolerance=1e-6, floor=1e-6),
        "float4 float4",
    ),
    Case("constant_vectors", TEXT["constant_vectors"], (Out(_flat(np.tile([[1, 2, 3, 4], [5, 6, 7, 8.5]], (16, 1)))),)),
    Case("volatile_vector", TEXT["volatile_vector"], (In(_A), Out(_A + 1))),
    Case("vector_in_struct", TEXT["vector_in_struct"], (In(_A), Out(_columns(2 * y, 2 * x, 2 * z, 2 * w)))),
    Case("vector_union", TEXT["vector_union"], (In(_A), Out(_V[np.arange(32), np.arange(32) & 3]))),
]
