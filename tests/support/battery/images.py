"""Images of every shape and pixel, and samplers as arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from portatile.images import Sampler
from support.battery.case import Array, Case, In, Out, Picture, floats, integers, texts

TEXT = texts("images.cl")

_LINE, _PLANE, _VOLUME = (7, 1, 1), (7, 5, 1), (7, 5, 3)
_R = floats(7 * 5 * 3, seed=11)
_RGBA = floats(7 * 5 * 3 * 4, seed=12)
_INTS = integers(7 * 4, seed=13) // 4
_UINTS = integers(7 * 5 * 3 * 4, "uint32", seed=14)
_BYTES = integers(7 * 5 * 4, "uint8", seed=15).reshape(5, 7, 4)
_SHORTS = integers(7 * 5 * 3 * 4, "int16", seed=16).reshape(3, 5, 7, 4)
_line, _stack = _RGBA[:28].reshape(7, 4), _RGBA.reshape(3, 5, 7, 4)
_layers, _volume = _R[:21].reshape(3, 7, 1), _R.reshape(3, 5, 7, 1)
_plane = _RGBA[:140].reshape(5, 7, 4)


def _at(image: Array, *shifts: float, edge: bool) -> Array:
    """What every pixel finds ``shifts`` away, from the first axis: the edge or 0 outside, the mean of both neighbours between pixels."""
    found = image.astype(np.float64)
    for axis, shift in enumerate(shifts):
        low = int(np.floor(shift))
        size = image.shape[axis]

        def moved(by: int, found: Array = found, axis: int = axis, size: int = size) -> Array:
            places = np.arange(size) + by
            inside = np.expand_dims((places >= 0) & (places < size), tuple(range(1, image.ndim - axis)))
            return np.take(found, np.clip(places, 0, size - 1), axis) * (inside | edge)

        found = (1 - (shift - low)) * moved(low) + ((shift - low) * moved(low + 1) if shift != low else 0)
    return found


def _case(name: str, size: tuple[int, int, int], *args: Any, **more: Any) -> Case:
    return Case(name, TEXT[name.removesuffix("_signed")], args, size=size, group=size, **more)


def _close(expected: Array, tolerance: float = 1e-6) -> Out:
    return Out(expected.astype(np.float32).reshape(-1), tolerance=tolerance, floor=tolerance * 50)


_fractions = np.linspace(-0.25, 1.25, 140).astype(np.float32)
_signed = _BYTES.view(np.int8)
_written = np.rint(np.clip(_fractions.astype(np.float64), 0, 1) * 255).reshape(5, 7, 4).astype(np.uint8)

CASES: list[Case] = [
    _case(
        "image1d_read",
        _LINE,
        Picture(_line, type="image1d_t"),
        _close(_at(_line, -2, edge=False) + 10 * _at(_line, 3, edge=True) + 100 * (np.arange(7) == 6)[:, None]),
    ),
    _case("image1d_linear", _LINE, Picture(_line, type="image1d_t"), _close(_at(_line, 0.25, edge=True), 1e-3)),
    _case(
        "image1d_write",
        _LINE,
        Picture(np.zeros((7, 4), np.int32), expected=_INTS.reshape(7, 4) * 3, type="image1d_t"),
        In(_INTS),
    ),
    _case(
        "image1d_buffer",
        _LINE,
        Picture(_UINTS[:28].reshape(7, 4), type="image1d_buffer_t"),
        Out(_UINTS[:28].reshape(7, 4)[::-1, [1, 0, 3, 2]].reshape(-1)),
    ),
    _case(
        "image1d_buffer_write",
        _LINE,
        Picture(np.zeros((7, 1), np.float32), expected=_R[:7].reshape(7, 1), type="image1d_buffer_t"),
        In(_R[:7]),
    ),
    _case(
        "image1d_array",
        (7, 3, 1),
        Picture(_layers, type="image1d_array_t"),
        _close(_at(np.roll(_layers, -1, 0), 0, 1, edge=True) + 10 * _at(_layers, 0, -2, edge=True)),
    ),
    _case(
        "image1d_array_write",
        (7, 3, 1),
        Picture(np.zeros((3, 7, 1), np.float32), expected=-_layers, type="image1d_array_t"),
        In(_R[:21]),
    ),
    _case(
        "image2d_array",
        _VOLUME,
        Picture(_stack, type="image2d_array_t"),
        _close(_at(_stack, 0, 1, -1, edge=False) + 10 * _stack[::-1].astype(float) + 3),
    ),
    _case(
        "image2d_array_write",
        _VOLUME,
        Picture(np.zeros((3, 5, 7, 4), np.uint32), expected=_UINTS.reshape(3, 5, 7, 4), type="image2d_array_t"),
        In(_UINTS),
    ),
    _case(
        "image3d_read",
        _VOLUME,
        Picture(_volume, type="image3d_t"),
        _close(_at(_volume, 1, -1, 1, edge=False) + 10 * _at(_volume, -1, 2, -2, edge=True) + 3),
    ),
    _case("image3d_linear", _VOLUME, Picture(_volume, type="image3d_t"), _close(_at(_volume, 0.125, -0.25, 0.25, edge=True), 1e-3)),
    _case(
        "image3d_write",
        _VOLUME,
        Picture(np.zeros((3, 5, 7, 1), np.float32), expected=_volume + 1, type="image3d_t"),
        In(_R),
    ),
    _case("image_fractions", _PLANE, Picture(_BYTES, normalized=True), _close(_BYTES / 255)),
    _case(
        "image_fractions_signed",
        _PLANE,
        Picture(_signed, normalized=True),
        _close(np.maximum(_signed / 127, -1)),
    ),
    _case(
        "image_fractions_write",
        _PLANE,
        Picture(np.zeros((5, 7, 4), np.uint8), expected=_written, normalized=True),
        In(_fractions),
    ),
    _case(
        "image_bytes",
        _PLANE,
        Picture(_BYTES),
        Picture(np.zeros_like(_BYTES), expected=255 - _at(_BYTES, 0, 1, edge=True).astype(np.uint8)),
        Out(_at(_BYTES, 0, 1, edge=True).astype(np.uint32).reshape(-1)),
    ),
    _case("image_shorts", _VOLUME, Picture(_SHORTS, type="image3d_t"), Out(_SHORTS.astype(np.int32).reshape(-1))),
    _case(
        "sampler_argument",
        _PLANE,
        Picture(_plane),
        Sampler("edge"),
        _close(_at(_plane, -2, -2, edge=True) + 10 * np.roll(_plane, -3, 1)),
        Sampler("repeat", normalized=True),
    ),
]
