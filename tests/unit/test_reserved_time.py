"""What is kept back for a race: as ever for fast kernels, more where a run is long, never more than a quarter of the budget."""

from __future__ import annotations

import pytest

from portatile.tuning.final import reserved_time


def test_fast_kernels_leave_what_they_always_left() -> None:
    for budget, kept in ((10.0, 0.8), (18.0, 1.44), (60.0, 3.0), (600.0, 3.0)):
        assert reserved_time.reserved(budget, (0.003,) * 5, 3.0) == pytest.approx(kept)
        assert reserved_time.race_seconds((0.003,) * 5, 3.0) == 3.0


def test_long_runs_leave_more_but_no_more_than_a_quarter() -> None:
    assert reserved_time.reserved(50.0, (0.07,) * 5, 3.0) == pytest.approx(12 * 0.35)
    assert reserved_time.race_seconds((0.07,) * 5, 3.0) == pytest.approx(12 * 0.35)
    assert reserved_time.reserved(50.0, (1.0,) * 5, 3.0) == 12.5


def test_no_race_keeps_nothing() -> None:
    assert reserved_time.reserved(50.0, (1.0,) * 5, 0.0) == 0
    assert reserved_time.race_seconds((1.0,) * 5, 0.0) == 0


def test_who_is_near_is_counted_once_and_few() -> None:
    assert reserved_time.near([3.0, 1.4, 1.0, 1.6], 1.0) == (1.0, 1.4)
    assert len(reserved_time.near([1.0] * 20, 1.0)) == 5


def test_as_many_race_as_can_run_three_rounds() -> None:
    took = [1.0, 1.0, 2.0, 3.0]
    assert [reserved_time.affordable(took, seconds) for seconds in (13.9, 14.0, 28.0, 48.9, 49.0)] == [0, 2, 3, 3, 4]
    assert reserved_time.affordable([], 9.0) == reserved_time.affordable([1.0], 1e9) == 0


def test_the_time_in_which_finalists_enter_is_reserved_too() -> None:
    assert reserved_time.reserved(20.0, (0.003,) * 5, 3.0, each=0.3) == pytest.approx(12 * 0.015 + 6 * 0.3)
    assert reserved_time.reserved(60.0, (0.003,) * 5, 3.0, each=0.3) == 3.0
    assert reserved_time.reserved(20.0, (0.003,) * 5, 3.0, each=30.0) == 5.0
    took = [0.01] * 5
    assert [reserved_time.affordable(took, seconds, each=1.0) for seconds in (0.1, 2.0, 3.5, 9.0)] == [0, 2, 3, 5]
