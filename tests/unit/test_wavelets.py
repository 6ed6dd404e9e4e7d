"""The named filters: what makes each of them the filter that it is called, without a device."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from portatile.wavelets import KINETIC, MAGICFILTER, SCALING, WAVELET, Filter, filters


def circulant(chosen: Filter, n: int) -> NDArray[np.float64]:
    """The matrix of the periodic filter on n points."""
    matrix = np.zeros((n, n))
    for i in range(n):
        for place in range(chosen.lower, chosen.upper + 1):
            matrix[i, (i + place) % n] += chosen(place)
    return matrix


def moment(chosen: Filter, order: int) -> float:
    places = np.arange(chosen.lower, chosen.upper + 1, dtype=np.float64)
    return float(np.sum(np.array(chosen.taps) * places**order))


def test_their_extent() -> None:
    assert [(f.lower, f.upper, len(f.taps)) for f in (MAGICFILTER, SCALING, WAVELET, KINETIC)] == [
        (-8, 7, 16),
        (-7, 8, 16),
        (-7, 8, 16),
        (-14, 14, 29),
    ]
    assert MAGICFILTER(0) == max(MAGICFILTER.taps)
    assert MAGICFILTER(-9) == MAGICFILTER(8) == 0


def test_the_magic_filter() -> None:
    """It keeps constants, is neither symmetric nor orthogonal, and nearly the latter."""
    taps = np.array(MAGICFILTER.taps)
    assert np.sum(taps) == pytest.approx(1, abs=1e-14)
    assert np.sum(taps**2) == pytest.approx(0.9968193, abs=5e-8)
    assert not np.allclose(taps, taps[::-1])
    matrix = circulant(MAGICFILTER, 64)
    assert np.abs(matrix.T @ matrix - np.eye(64)).max() == pytest.approx(3.2e-3, abs=5e-5)
    assert np.linalg.cond(matrix) == pytest.approx(1.0099, abs=5e-5)


@pytest.mark.parametrize("chosen", [MAGICFILTER, SCALING, WAVELET, KINETIC])
def test_transposed_is_the_transpose(chosen: Filter) -> None:
    for n in (5, 16, 37):
        assert np.allclose(circulant(chosen.transposed, n), circulant(chosen, n).T, rtol=0, atol=1e-15)
    assert chosen.transposed.transposed == chosen


def test_scaling_and_wavelet_filters_are_orthonormal() -> None:
    """Each to the other and to shifts by two; the wavelet's first eight moments vanish."""
    assert np.sum(SCALING.taps) == pytest.approx(2**0.5, abs=1e-14)
    for shift in range(-8, 9):
        for one, other in ((SCALING, SCALING), (WAVELET, WAVELET), (SCALING, WAVELET)):
            product = sum(one(place) * other(place + 2 * shift) for place in range(-7, 9))
            assert product == pytest.approx(float(one is other and shift == 0), abs=1e-14)
    for place in range(-7, 9):
        assert WAVELET(place) == (-1) ** place * SCALING(1 - place)
    magnitude = float(np.sum(np.abs(WAVELET.taps)))
    for order in range(8):
        assert abs(moment(WAVELET, order)) < 1e-12 * magnitude * 8**order
    assert abs(moment(WAVELET, 8)) > 1


def test_the_kinetic_filter_differentiates_twice() -> None:
    """Symmetric; second moment 2; the others up to the fourteenth vanish."""
    assert KINETIC.taps == KINETIC.taps[::-1]
    assert moment(KINETIC, 2) == pytest.approx(2, abs=1e-12)
    places = np.abs(np.arange(-14.0, 15.0))
    for order in (0, 4, 6, 8, 10, 12, 14):
        assert abs(moment(KINETIC, order)) < 1e-14 * float(np.sum(np.abs(KINETIC.taps) * places**order)) * 29


def test_synthesis_is_the_transpose_of_analysis() -> None:
    """The pairs of filters as the kernel is given them, against the definitions on 20 points."""
    n, half = 20, 10
    forward, back = np.zeros((n, n)), np.zeros((n, n))
    for i in range(half):
        for tap in range(16):
            forward[[i, half + i], (2 * i - 7 + tap) % n] += filters.ANALYSIS[:, tap]
        for tap in range(18):
            place = (2 * i - 8 + tap) % n
            back[[2 * i, 2 * i + 1], place // 2 + half * (place % 2)] += filters.SYNTHESIS[:, tap]
    assert np.allclose(back, forward.T, rtol=0, atol=1e-15)
    assert np.allclose(forward @ forward.T, np.eye(n), rtol=0, atol=1e-14)
