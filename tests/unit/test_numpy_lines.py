"""Convolutions of small NumPy arrays, and of few lines: NumPy computes them, no device is looked for, and the results are the routine's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import portatile
from portatile.errors import ArgumentError
from support.no_devices import NoDevice, devices_refused
from support.seeds import new_seed


@pytest.fixture(autouse=True)
def no_devices(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with devices_refused(monkeypatch):
        yield


def summed(psi: Any, taps: Any, lower: int, boundary: str) -> Any:
    """The sums in float64, by their definition."""
    n, count, wide = len(psi), len(taps), psi.astype(np.float64)

    def at(place: int) -> Any:
        if boundary == "periodic":
            return wide[place % n]
        return wide[place] if 0 <= place < n else np.zeros_like(wide[0])

    first, last = {"grow": (1 - count, n), "shrink": (0, n - count + 1)}.get(boundary, (lower, n + lower))
    return np.array([sum(float(tap) * at(place + index) for index, tap in enumerate(taps)) for place in range(first, last)])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("boundary", ["periodic", "zero", "grow", "shrink"])
@pytest.mark.parametrize("shape", [(19,), (19, 1), (19, 3), (19, 12), (19, 4, 5), (5, 9), (1, 8)])
def test_values_are_the_definitions(dtype: str, boundary: Any, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(new_seed(dtype + boundary))
    for count in (1, 4, 9):
        if boundary == "shrink" and shape[0] < count:
            continue
        taps = rng.uniform(-1, 1, count).astype(dtype)
        for lower in (-count, 1 - count, -3, 0, 2):
            for psi in (rng.uniform(-1, 1, shape).astype(dtype), rng.uniform(-1, 1, (2 * shape[0], *shape[1:])).astype(dtype)[::2]):
                want = summed(psi, taps, lower, boundary)
                bound = 4 * count * np.finfo(dtype).eps
                for _ in range(2):
                    got = portatile.convolve1d(psi, taps, lower=lower, boundary=boundary)
                    assert got.dtype == psi.dtype
                    assert got.shape == want.shape
                    assert np.allclose(got, want, rtol=0, atol=bound)
                    written = portatile.convolve1d(psi, taps, lower=lower, boundary=boundary, transposed=True)
                    assert written.flags.c_contiguous
                    assert np.allclose(np.moveaxis(written, -1, 0), want, rtol=0, atol=bound)


def test_what_does_not_fit_is_the_routines() -> None:
    for _ in range(2):
        portatile.convolve1d(np.ones(9), [1.0, 2.0], lower=0)
        for call in (
            lambda: portatile.convolve1d(np.ones(9), np.ones(65), lower=0),
            lambda: portatile.convolve1d(np.ones(9), [1.0, 2.0], lower=1000),
            lambda: portatile.convolve1d(np.ones(3), np.ones(5), lower=0, boundary="shrink"),
            lambda: portatile.convolve1d(np.ones(9, complex), [1.0], lower=0),
        ):
            with pytest.raises(ArgumentError):
                call()


def test_banks_and_named_devices_are_left_to_devices() -> None:
    for call in (
        lambda: portatile.filter_bank1d(np.ones((8, 2)), [[0.5, 0.5], [0.5, -0.5]], lower=0, bank="analysis"),
        lambda: portatile.convolve1d(np.ones(8), [1.0], lower=0, device="any"),
    ):
        with pytest.raises(NoDevice):
            call()
