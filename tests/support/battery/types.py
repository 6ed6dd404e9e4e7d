"""Half precision, images and printf."""

from __future__ import annotations

import numpy as np

from support.battery.case import Case, In, Out, Picture, elementwise, floats, texts

TEXT = texts("types.cl")

_A = floats(128)
_H = _A.astype(np.float16)
_G = floats(128, seed=1).astype(np.float16)
_P = floats(7 * 5 * 4).reshape(5, 7, 4)
_FP16 = "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n"
_x, _y = np.meshgrid(np.arange(7), np.arange(5))
_xx, _yy = _x.reshape(-1), _y.reshape(-1)


def _bits(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float16).view(np.uint16)


def _half_case(name: str, body: str, inputs: list[np.ndarray], out: Out, kinds: str) -> Case:
    result = elementwise(name, body, inputs, out, kinds)
    return Case(name, _FP16 + result.text, result.args)


def _at(picture: np.ndarray, x: np.ndarray, y: np.ndarray, outside: tuple[float, ...] = (0, 0, 0, 0)) -> np.ndarray:
    """Pixels, and ``outside`` beyond the edge."""
    inside = (x >= 0) & (y >= 0) & (x < picture.shape[1]) & (y < picture.shape[0])
    found = picture[np.clip(y, 0, picture.shape[0] - 1), np.clip(x, 0, picture.shape[1] - 1)]
    return np.where(inside[:, None], found, np.array(outside, picture.dtype))


def _linear(picture: np.ndarray, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    x, y = np.floor(u - 0.5).astype(int), np.floor(v - 0.5).astype(int)
    a, b = (u - 0.5 - x)[:, None], (v - 0.5 - y)[:, None]

    def at(dx: int, dy: int) -> np.ndarray:
        return picture[np.clip(y + dy, 0, picture.shape[0] - 1), np.clip(x + dx, 0, picture.shape[1] - 1)].astype(float)

    return (1 - a) * (1 - b) * at(0, 0) + a * (1 - b) * at(1, 0) + (1 - a) * b * at(0, 1) + a * b * at(1, 1)


def _halves(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What the kernel ``half_arithmetic`` computes, rounded less often."""
    x = ((a * b + a) + np.float16(1.5)) / b
    return np.where(x > a, x * x, a * a + np.float16(4)).astype(np.float16)


_F3 = (_A * 1e-3).astype(np.float32)[:32]
_H3 = _F3.astype(np.float16)
_S = "const sampler_t s = CLK_NORMALIZED_COORDS_FALSE | {} | {};\n"
_GRID = (7, 5, 1)

_EIGHTHS = (np.random.default_rng(5).integers(-40, 40, 32) / 8).astype(np.float16)
_NEWER = dict.fromkeys(("Portable Computing Language", "NVIDIA", "Intel"), "functions of OpenCL C 2")


def _groups(x: np.ndarray) -> np.ndarray:
    """A work-group of one sub-group; sums of eighths are exact."""
    v = x.astype(np.float32)
    least = np.minimum.accumulate(np.concatenate([[np.inf], v[:-1]]))
    return np.stack([np.full(32, v.sum() + v[3]), np.cumsum(v) - v, np.full(32, v.max()), least], 1).astype(np.float32).reshape(-1)


CASES: list[Case] = [
    elementwise(
        "half_loads",
        "o[i] = vload_half(i, (__global const half *)a) + vload_half2(i, (__global const half *)a).y;",
        [_H.view(np.uint16)],
        Out(_H[:32].astype(np.float32) + _H[1:64:2].astype(np.float32)),
        "ushort float",
    ),
    Case(
        "half_stores",
        TEXT["half_stores"],
        (
            In(_A),
            Out(
                np.concatenate(
                    [
                        _bits(_A[:32]),
                        [b - (abs(float(h)) > abs(float(f))) for f, b, h in zip(_A[32:64], _bits(_A[32:64]), _H[32:64], strict=True)],
                        _bits(_A[64:]),
                    ]
                ).astype(np.uint16)
            ),
        ),
    ),
    elementwise(
        "half_rounding",
        "__global half *h = (__global half *)o; vstore_half_rtp(a[i], 2 * i, h); vstore_half_rtn(a[i], 2 * i + 1, h);",
        [_F3],
        Out(
            np.stack(
                [
                    np.where(_H3 < _F3, np.nextafter(_H3, np.float16(np.inf)), _H3),
                    np.where(_H3 > _F3, np.nextafter(_H3, np.float16(-np.inf)), _H3),
                ],
                1,
            )
            .reshape(-1)
            .view(np.uint16)
        ),
        "float ushort",
    ),
    _half_case(
        "half_arithmetic",
        "half x = a[i] * b[i] + a[i]; x += 1.5h; x /= b[i]; half4 v = (half4)(x, a[i], 0, 2); v *= v; o[i] = x > a[i] ? v.x : v.y + v.w;",
        [_H[:32], _G[:32]],
        Out(_halves(_H[:32], _G[:32]), tolerance=4e-3, floor=4e-3),
        "half half half",
    ),
    _half_case(
        "half_functions",
        "o[i] = sqrt(fabs(a[i])) + fma(a[i], b[i], (half)1) + convert_half(convert_int(a[i])) + max(a[i], b[i]) + exp(a[i] / (half)8);",
        [_H[:32], _G[:32]],
        Out(
            (
                np.sqrt(np.abs(_H[:32].astype(float)))
                + _H[:32].astype(float) * _G[:32]
                + 1
                + np.trunc(_H[:32].astype(float))
                + np.maximum(_H[:32], _G[:32])
                + np.exp(_H[:32].astype(float) / 8)
            ).astype(np.float16),
            tolerance=1e-2,
            floor=3e-2,
        ),
        "half half half",
    ),
    Case("image_plain", TEXT["image_plain"], (Picture(_P), Out(_P.reshape(-1))), size=_GRID, group=_GRID),
    Case(
        "image_outside",
        TEXT["image_outside"],
        (Picture(_P), Out((_at(_P, 2 * _xx - 3, 2 * _yy - 2) + _at(_P, _xx + 3, _yy + 1)).reshape(-1))),
        size=_GRID,
        group=_GRID,
    ),
    Case(
        "image_edge",
        TEXT["image_edge"],
        (Picture(_P), Out(_P[np.clip(2 * _yy - 2, 0, 4), np.clip(2 * _xx - 3, 0, 6)].reshape(-1))),
        size=_GRID,
        group=_GRID,
    ),
    Case(
        "image_linear",
        TEXT["image_linear"],
        (Picture(_P), Out(_linear(_P, _xx * 0.875 + 0.25, _yy + 0.375).astype(np.float32).reshape(-1), tolerance=2e-2, floor=3e-2)),
        size=_GRID,
        group=_GRID,
    ),
    Case(
        "image_normalised",
        TEXT["image_normalised"],
        (Picture(_P), Out(_P[(_yy - 2) % 5, (_xx + 3) % 7].reshape(-1))),
        size=_GRID,
        group=_GRID,
    ),
    Case(
        "image_unsigned",
        TEXT["image_unsigned"],
        (Picture(floats(70, dtype="float64").view(np.uint32).reshape(5, 7, 4)), Out(floats(70, dtype="float64"))),
        size=_GRID,
        group=_GRID,
    ),
    Case(
        "image_one_channel",
        TEXT["image_one_channel"],
        (Picture(_P[:, :, :1].copy()), Out(_at(_P[:, :, :1], _xx - 1, _yy, (0,)).reshape(-1))),
        size=_GRID,
        group=_GRID,
    ),
    Case("image_write", TEXT["image_write"], (Picture(np.zeros_like(_P), expected=_P * 2), In(_P.reshape(-1))), size=_GRID, group=_GRID),
    Case("half_in_groups", TEXT["half_in_groups"], (In(_EIGHTHS), Out(_groups(_EIGHTHS))), without=_NEWER),
]
