"""Verification finds what it is for: wrong elements, NaN, canaries, changed inputs, touched padding."""

import numpy as np
import pytest

from portatile.verify import compare, poison, unchanged, worst
from portatile.workload import Expected


def expected(values: list[float], scale: list[float]) -> Expected:
    return Expected(np.array(values), np.array(scale))


def test_right_within_the_bound_and_wrong_beyond_it() -> None:
    want = expected([1.0, 2.0], [1.0, 1.0])
    assert compare(np.array([1.0, 2.0 + 9e-7], np.float32), want, 1e-6).ok
    verdict = compare(np.array([1.0, 2.0 + 3e-6], np.float32), want, 1e-6)
    assert not verdict.ok
    assert 2 < verdict.error < 4
    assert "[1]" in verdict.message


def test_nan_never_passes_unless_expected() -> None:
    assert not compare(np.array([np.nan]), expected([1.0], [1.0]), 1.0).ok
    assert not compare(np.array([1.0]), expected([np.nan], [1.0]), 1.0).ok
    assert compare(np.array([np.nan]), expected([np.nan], [0.0]), 1.0).ok


def test_padding_must_not_be_touched() -> None:
    assert not compare(np.array([1.0, 0.0]), expected([1.0, np.nan], [1.0, 0.0]), 1e-6).ok


def test_infinities_agree_in_sign() -> None:
    assert compare(np.array([np.inf]), expected([np.inf], [np.inf]), 1e-6).ok
    assert not compare(np.array([-np.inf]), expected([np.inf], [np.inf]), 1e-6).ok


def test_samples_are_looked_up_in_the_whole_memory() -> None:
    want = Expected(np.array([5.0]), np.array([1.0]), np.array([3]))
    assert compare(np.array([0.0, 0.0, 0.0, 5.0]), want, 1e-12).ok
    assert "[3]" in compare(np.zeros(4), want, 1e-12).message


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_what_nobody_has_written_is_not_the_nan_that_is_expected(dtype: type) -> None:
    output = poison(np.dtype(dtype), 5)
    assert np.isnan(output).all()
    want = expected([np.nan, 1.0, np.nan, np.nan, np.nan], [1.0] * 5)
    output[:] = [np.nan, 1.0, -np.nan, np.inf - np.inf, np.nan]
    assert compare(output, want, 1e-3).ok
    output[3] = poison(np.dtype(dtype), 1)[0]
    verdict = compare(output, want, 1e-3)
    assert not verdict.ok
    assert "output[3] was not written, expected nan" in verdict.message


def test_poison_of_integers() -> None:
    assert poison(np.dtype(np.int32), 3).tolist() == [-1, -1, -1]
    assert poison(np.dtype(np.uint8), 3).tolist() == [255, 255, 255]


def test_changed_input_is_found_even_from_nan_to_nan() -> None:
    before = np.array([np.nan, 1.0])
    assert unchanged("a", before, before.copy()).ok
    after = before.copy()
    after.view(np.uint64)[0] ^= 1
    assert np.isnan(after[0])
    assert not unchanged("a", before, after).ok


def test_every_byte_of_an_input_counts() -> None:
    """Also those behind the last whole word, and of arrays with several axes."""
    before = np.arange(21, dtype=np.uint8).reshape(3, 7)
    assert unchanged("a", before, before.copy()).ok
    for place in range(21):
        after = before.copy()
        after.reshape(-1)[place] ^= 1
        assert unchanged("a", before, after).message == f"changed its input a: 1 bytes, the first in element {place}"


def test_worst_is_the_first_failure_or_the_largest_error() -> None:
    good = compare(np.array([1.0 + 5e-7]), expected([1.0], [1.0]), 1e-6)
    bad = compare(np.array([2.0]), expected([1.0], [1.0]), 1e-6)
    assert worst([good, bad]) == bad
    assert worst([compare(np.array([1.0]), expected([1.0], [1.0]), 1e-6), good]) == good
