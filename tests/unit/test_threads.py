"""The switch of NumPy's BLAS: one thread inside, as many as before afterwards, and no harm where there is none."""

from __future__ import annotations

import numpy as np
import pytest

from portatile.strategies import _threads


def test_one_thread_inside_and_as_many_as_before_afterwards() -> None:
    result = _threads.controls()
    if result is None:
        pytest.skip("NumPy's BLAS here has no switch that is known")
    ask, tell = result
    before = ask()
    try:
        tell(2)
        with _threads.one_thread():
            assert ask() == 1
            assert np.linalg.inv(2 * np.eye(200))[0, 0] == 0.5
        assert ask() == 2
        with pytest.raises(KeyError), _threads.one_thread():
            raise KeyError
        assert ask() == 2
    finally:
        tell(before)


def test_a_blas_without_a_switch_is_left_alone() -> None:
    unknown = (("no_such_question", "no_such_setting"),)
    assert _threads.controls(unknown) is None
    with _threads.one_thread(unknown):
        assert np.linalg.inv(2 * np.eye(20))[0, 0] == 0.5
