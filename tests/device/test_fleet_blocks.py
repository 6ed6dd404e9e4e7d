"""Dask arrays in blocks give what the routines give for the whole arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portatile
from portatile.errors import ArgumentError
from support.seeds import new_seed

da = pytest.importorskip("dask.array", reason="Dask is not installed (extra cluster)")

from portatile.fleet import blocks  # noqa: E402 - only where Dask is

pytestmark = pytest.mark.unoptimised


def drawn(what: str, *shape: int, dtype: str = "float64") -> Any:
    return (np.random.default_rng(new_seed(what)).random(shape) - 0.5).astype(dtype)


def computed(array: Any) -> Any:
    return array.compute(scheduler="threads", num_workers=2)


def test_products() -> None:
    a, b = drawn("a", 50, 37), drawn("b", 37, 41)
    product = blocks.matmul(da.from_array(a, chunks=(20, 16)), da.from_array(b, chunks=(10, 30)))
    assert product.chunks == ((20, 20, 10), (30, 11))
    np.testing.assert_allclose(computed(product), a @ b, atol=1e-13)


@pytest.mark.drawn(1 / 2)
@pytest.mark.parametrize("boundary", ["periodic", "zero"])
@pytest.mark.parametrize(("count", "lower"), [(5, -2), (4, 0), (3, -4), (16, -8), (1, 2)])
def test_filters_along_the_first_axis(boundary: Any, count: int, lower: int) -> None:
    psi, taps = drawn("psi", 60, 7), drawn("taps", count)
    result = blocks.convolve1d(da.from_array(psi, chunks=(20, 4)), taps, lower=lower, boundary=boundary)
    assert result.chunks == ((20, 20, 20), (4, 3))
    np.testing.assert_allclose(computed(result), portatile.convolve1d(psi, taps, lower=lower, boundary=boundary), atol=1e-13)


def test_volumes_with_a_filter_for_each_axis() -> None:
    volume, taps = drawn("volume", 24, 20, 22), (drawn("x", 5), drawn("y", 3), drawn("z", 4))
    given: dict[str, Any] = {"lower": (-2, 0, -3), "boundary": ("periodic", "zero", "periodic")}
    result = blocks.convolve3d_separable(da.from_array(volume, chunks=(12, 10, 22)), taps, **given)
    np.testing.assert_allclose(computed(result), portatile.convolve3d_separable(volume, taps, **given), atol=1e-13)


def test_images() -> None:
    samples = [drawn(f"k{n}", 40, dtype="float32") for n in range(5)]
    voxels = [drawn(f"x{n}", 300, dtype="float32") for n in range(3)]
    result = blocks.mri_q(*samples, *(da.from_array(one, chunks=128) for one in voxels))
    for part, expected in zip(result, portatile.mri_q(*samples, *voxels), strict=True):
        np.testing.assert_allclose(computed(part), expected, rtol=1e-4, atol=1e-4)


def test_wrong_use_says_what_to_do() -> None:
    x = da.zeros((8, 8), chunks=4)
    with pytest.raises(ArgumentError, match=r"pass a dask.array"):
        blocks.matmul(np.zeros((8, 8)), x)
    with pytest.raises(ArgumentError, match="a's columns must be b's rows"):
        blocks.matmul(x, da.zeros((4, 8), chunks=4))
    with pytest.raises(ArgumentError, match="thinner than the filter"):
        blocks.convolve1d(x, np.ones(16), lower=-8)
    with pytest.raises(ArgumentError, match="changes the size"):
        blocks.convolve1d(x, np.ones(3), lower=-1, boundary="grow")
    with pytest.raises(ArgumentError, match="must have 3"):
        blocks.convolve3d_separable(x, np.ones(3), lower=-1)
