"""Who wins a race: the intervals hold what they promise, disturbances that all share do not count, ties break by cost."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

import numpy as np
import pytest

from portatile.records import Resources
from portatile.trials import Standing
from portatile.tuning.final import ranking
from portatile.tuning.final.ranking import alike, contenders, interval, rank, slower
from support.seeds import new_seed
from support.trials import trial


def dice(purpose: str) -> np.random.Generator:
    seed = new_seed(purpose)
    return np.random.default_rng(seed)


@pytest.mark.parametrize(("count", "confidence"), [(8, 0.95), (8, 0.99), (16, 0.99), (33, 0.95)])
def test_the_interval_holds_the_median_as_often_as_it_says(count: int, confidence: float) -> None:
    rng = dice("coverage")
    samples = rng.exponential(size=(4000, count))  # skewed, as times are
    covered = 0
    for row in samples.tolist():
        low, high = interval(row, confidence)
        covered += low <= np.log(2) <= high
    assert covered / 4000 >= confidence - 0.012  # three standard deviations of 4000 draws at 95 %


def test_few_samples_give_the_outermost() -> None:
    assert interval([3.0, 1.0, 2.0]) == (1.0, 3.0)
    assert interval([5.0]) == (5.0, 5.0)
    low, high = interval(list(map(float, range(101))))
    assert 30 < low < 50 < high < 70


def test_what_all_share_tells_nobody_apart() -> None:
    rng = dice("drift")
    drift = np.exp(rng.normal(0, 0.3, 32))  # each round, the machine is somewhere else
    one, other = drift * rng.normal(1.00, 0.005, 32), drift * rng.normal(1.04, 0.005, 32)
    assert slower(other.tolist(), one.tolist())
    assert not slower(one.tolist(), other.tolist())
    assert alike(one.tolist(), (drift * rng.normal(1.0, 0.002, 32)).tolist())
    assert not alike(one.tolist(), other.tolist())


def test_equal_ones_are_seldom_told_apart() -> None:
    rng = dice("false alarms")
    pairs = rng.normal(1, 0.02, (2000, 2, 16)).tolist()
    assert sum(slower(one, other) for one, other in pairs) < 30  # each tail of a 99 % interval is at most 0.5 %: 10 of 2000


def test_too_few_rounds_tell_nothing() -> None:
    assert not slower([2.0] * 7, [1.0] * 7)
    assert slower([2.0] * 8, [1.0] * 8)
    assert not alike([1.0] * 7, [1.0] * 7)


def test_the_fastest_wins_and_equals_by_their_cost() -> None:
    rng = dice("finish")
    fast, apart = (rng.normal(mean, 0.003, 32).tolist() for mean in (1.0, 1.05))
    same = fast[::-1]  # as often faster as slower
    for costs, winner in (([2, 1, 0], 1), ([1, 2, 0], 0)):
        order = rank([fast, same, apart], costs)
        assert [one.number for one in order] == [winner, 1 - winner, 2]
        assert [one.place for one in order] == [1, 2, 3]
        assert [one.equal for one in order] == [True, True, False]
        assert order[0].seconds == min(median(fast), median(same))
        assert order[0].seconds < order[1].seconds < order[2].seconds
        assert all(one.interval[0] <= median((fast, same, apart)[one.number]) <= one.interval[1] for one in order)


def test_a_tie_does_not_give_speed_away() -> None:
    """So few rounds tell nothing apart, but who was 20 % slower in the median does not win by its cost."""
    order = rank([[1.0, 1.0, 1.0], [1.2, 1.2, 1.2]], [1, 0])
    assert [one.number for one in order] == [0, 1]
    assert [one.equal for one in order] == [True, False]


def test_nobody_is_equal_who_was_not_shown_to_be() -> None:
    """Three rounds tell nothing apart and show nothing: 45 % slower is not equal, and neither is the very same time."""
    for slow in ([1.45, 1.46, 1.45], [1.0, 1.01, 1.0]):
        order = rank([[1.0, 1.01, 1.0], slow], [1, 1])
        assert [(one.number, one.equal) for one in order] == [(0, True), (1, False)]
        assert not ranking.shown_slower(slow, [1.0, 1.01, 1.0])
    rng = dice("equal")
    winner = rng.normal(1, 0.02, 32)
    for factor, is_equal in ((1.0, True), (1.1, False)):
        other = (factor * winner * rng.normal(1, 0.002, 32)).tolist()  # what slows a round down slows both
        assert ranking.equal(other, winner.tolist()) is is_equal
    assert not ranking.equal(winner.tolist()[:16], winner.tolist())  # it ran no further, for it was slower
    wild = rng.normal(1, 0.3, 16).tolist()
    assert not ranking.equal(wild[::-1], wild)  # such a machine shows nothing within 5 %


def test_the_confidence_is_what_so_many_samples_give() -> None:
    assert [ranking.confidence(count) for count in (1, 3, 5, 6, 64)] == [0.0, 0.75, 0.9375, 0.95, 0.95]
    draws = dice("confidence").random((4000, 3))
    covered = ((draws.min(axis=1) <= 0.5) & (draws.max(axis=1) >= 0.5)).mean()
    assert abs(covered - ranking.confidence(3)) < 0.03


def test_who_left_early_cannot_lead() -> None:
    samples = [[1.0] * 16, [0.9] * 3 + [1.3] * 5]
    assert ranking.leader(samples) == 0
    assert [(one.number, one.equal) for one in rank([*samples, [1.3] * 8], [0, 0, 0])] == [(0, True), (1, False), (2, False)]


def test_contenders_are_near_and_few() -> None:
    trials = [replace(trial(number), samples=(1 + number / 100,) * 7) for number in range(9)]
    default, failed = replace(trial(20), samples=(1.09,) * 7), trial(21, status="wrong")
    field = contenders([failed, default, *reversed(trials)], default)
    assert [one.config["TILE"] for one in field] == [0, 1, 2, 3, 4, 20]
    slow, scattered = replace(trial(22), samples=(1.6,) * 7), replace(trial(23), samples=(1.05, 1.5, 1.7, 1.9, 1.8, 1.7, 1.6))
    assert contenders([trials[0], slow, scattered], default) == [trials[0], scattered]
    assert contenders([trials[0], slow], slow) == [trials[0], slow]  # the default may be thrice as slow
    late = replace(trial(25), samples=(3.2,) * 7)
    assert contenders([trials[0], late], late) == [trials[0]]
    champion = replace(trial(24), samples=(1.8,) * 16, standing=Standing(1.8, (1.7, 1.9), 1, False, "last year"))
    assert contenders([trials[0], champion, replace(champion, standing=replace(champion.standing, seconds=1.9))], default) == [
        trials[0],
        champion,
    ]


def test_cost_is_registers_then_workspace_then_text() -> None:
    lean, fat = (replace(trial(9), resources={"k": Resources(n), "pack": Resources(8)}) for n in (64, 128))
    assert ranking.cost(lean, 4096) < ranking.cost(fat, 0)
    assert ranking.cost(lean, 0) < ranking.cost(lean, 4096)
    assert ranking.cost(trial(1), 0) < ranking.cost(trial(2), 0)
