"""The words that `portatile run` turns into a kernel's arguments."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from portatile.cli._arguments import arguments
from portatile.cli.run import _difference
from portatile.errors import ArgumentError
from portatile.images import Sampler
from portatile.records import Entry, Parameter


def one(kind: str, type_: str, word: str, seed: int = 0) -> object:
    """What a single word becomes."""
    (operand,) = arguments(Entry("k", "k", (Parameter("p", kind, type_),)), (word,), seed)  # type: ignore[arg-type]
    return operand.value if operand.array is None else operand.array


@pytest.mark.parametrize(
    ("type_", "word", "expected"),
    [
        ("float*", "3", np.zeros(3, np.float32)),
        ("double*", "2=1.5", np.full(2, 1.5)),
        ("uchar*", "2x2=index", np.arange(4, dtype=np.uint8)),
        ("int4*", "1=ones", np.ones((1, 4), np.int32)),
        ("float3*", "1=index", np.arange(4, dtype=np.float32).reshape(1, 4)),
        ("node*", "ushort:2=0x10", np.full(2, 16, np.uint16)),
    ],
)
def test_buffers(type_: str, word: str, expected: np.ndarray) -> None:
    result = one("buffer", type_, word)
    assert isinstance(result, np.ndarray)
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(("type_", "low", "high"), [("float*", 0, 1), ("int*", 0, 100), ("half*", 0, 1)])
def test_random_buffers_are_the_seeds(type_: str, low: int, high: int) -> None:
    a, b, c = (one("buffer", type_, "500=random", seed) for seed in (1, 1, 2))
    assert isinstance(a, np.ndarray)
    np.testing.assert_array_equal(a, b)
    assert (a != c).any()
    assert (a >= low).all()
    assert (a <= high).all()
    narrow = one("buffer", type_, "500=random(-3,-1)")
    assert isinstance(narrow, np.ndarray)
    assert -3 <= narrow.min() < narrow.max() <= -1


def test_scalars_and_local_memory() -> None:
    assert one("scalar", "int", "-5") == np.int32(-5)
    assert one("scalar", "uint", "0xff") == np.uint32(255)
    assert type(one("scalar", "float", "1.5")) is np.float32
    vector = one("scalar", "int3", "1,2,3")
    assert isinstance(vector, np.void)
    assert vector.tobytes() == np.array([1, 2, 3, 0], np.int32).tobytes()
    assert one("local", "float*", "64") == 256
    assert one("local", "float3*", "2x4") == 128
    assert one("local", "node*", "local:100") == 100


@pytest.mark.parametrize(
    ("type_", "word", "shape", "dtype"),
    [
        ("image1d_t", "5", (5, 1), "float32"),
        ("image1d_buffer_t", "uint:5x4", (5, 4), "uint32"),
        ("image1d_array_t", "5x3", (3, 5, 1), "float32"),
        ("image2d_array_t", "5x3x2x4", (2, 3, 5, 4), "float32"),
        ("image3d_t", "half:5x3x2", (2, 3, 5, 1), "float16"),
        ("image2d_t", "unorm8:5x3x4=255", (3, 5, 4), "uint8"),
        ("image2d_t", "snorm16:5x3", (3, 5, 1), "int16"),
    ],
)
def test_images_of_every_type(type_: str, word: str, shape: tuple[int, ...], dtype: str) -> None:
    (operand,) = arguments(Entry("k", "k", (Parameter("p", "image", type_),)), (word,), 0)
    assert operand.form is not None
    assert (operand.form.type, operand.form.shape, operand.form.dtype) == (type_, shape, dtype)
    assert operand.form.normalized == ("norm" in word)
    assert operand.array is not None
    assert operand.array.shape == shape


def test_samplers() -> None:
    assert one("scalar", "sampler_t", "nearest") == Sampler("clamp")
    assert one("scalar", "sampler_t", "linear,mirror,normalized") == Sampler("mirror", linear=True, normalized=True)


def test_images_and_files(tmp_path: Path) -> None:
    picture = one("image", "image2d_t", "5x3x4=2")
    assert isinstance(picture, np.ndarray)
    assert picture.shape == (3, 5, 4)
    assert picture.dtype == np.float32
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.save(tmp_path / "a.npy", array)
    np.testing.assert_array_equal(one("buffer", "float*", f"@{tmp_path}/a.npy"), array)
    np.testing.assert_array_equal(one("image", "image2d_t", f"@{tmp_path}/a.npy"), array[..., None])


@pytest.mark.parametrize(
    ("kind", "type_", "word", "message"),
    [
        ("buffer", "float*", "many", "'many' is no count of elements"),
        ("buffer", "float*", "0", "positive"),
        ("buffer", "float*", "4=noise", "'noise' is no number, and none of zeros, ones, index, random"),
        ("buffer", "node*", "4", "size of node"),
        ("buffer", "float*", "@nowhere.npy", "no such file"),
        ("scalar", "int", "1.5", "'1.5' is no whole number"),
        ("scalar", "uchar", "300", "300"),
        ("scalar", "float4", "1,2", "4 components"),
        ("scalar", "sampler_t", "0", "linear,edge,normalized"),
        ("scalar", "sampler_t", "edge,clamp", "one addressing"),
        ("scalar", "sampler_t", "repeat", "normalized"),
        ("local", "int*", "float:4", "local:BYTES"),
        ("image", "image2d_t", "7", "2 sizes"),
        ("image", "image3d_t", "7x5", "3 sizes"),
        ("image", "image2d_t", "7x5x3", "channels are 1, 2 or 4"),
        ("image", "image2d_t", "norm:7x5", "not a pixel type"),
        ("image", "image2d_t", "double:7x5", "no image has pixels"),
        ("image", "image2d_msaa_t", "7x5", "images of that type are not supported"),
    ],
)
def test_what_does_not_fit_is_named(kind: str, type_: str, word: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message) as raised:
        one(kind, type_, word)
    assert "argument p" in str(raised.value)


def test_the_number_of_arguments() -> None:
    entry = Entry("k", "k", (Parameter("a", "buffer", "float*"), Parameter("t", "local", "int*")))
    assert entry.signature == "k(float* a, __local int* t)"
    with pytest.raises(ArgumentError, match=r"takes 2 arguments, not 1$"):
        arguments(entry, ("4",), 0)
    with pytest.raises(ArgumentError, match="takes 2 arguments, not 3; several sizes of --global or --local are one word: 64,32"):
        arguments(entry, ("32", "4", "4"), 0)  # of --global 64 32


@pytest.mark.parametrize(
    ("a", "b", "agrees"),
    [
        ([1.0, 2.0], [1.0, 2.0], True),
        ([1.0, 200.0], [1.001, 200.0], True),  # relative to the largest
        ([1.0, 2.0], [1.0, 2.1], False),
        ([np.nan, np.inf], [np.nan, np.inf], True),
        ([np.nan, 1.0], [0.0, 1.0], False),
        ([np.inf, 1.0], [1.0, 1.0], False),
        ([0.0, 0.0], [0.0, 0.0], True),
    ],
)
def test_comparison_of_two_devices(a: list[float], b: list[float], agrees: bool) -> None:
    assert _difference(np.array(a, np.float32), np.array(b, np.float32), 1e-5)["agrees"] is agrees
    assert _difference(np.array([1, 2]), np.array([1, 2]), 0.0) == {"agrees": True, "difference": 0}
    assert _difference(np.array([1, 2]), np.array([3, 2]), 0.0) == {"agrees": False, "difference": 1}
