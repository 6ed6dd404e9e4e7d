"""What `tune` says that warm starts gave: only what the search itself measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from portatile.cli._shapes import _warm
from portatile.cli._tune_output import warm_document, warm_lines
from portatile.records import canonical
from portatile.trials import Trial
from portatile.tuning.search.request import TuningResult
from support.trials import trial


def took(number: int, seconds: float | None) -> Trial:
    """A configuration that took so long, or failed."""
    found = replace(trial(number), config={"number": number}, standing=None)
    return replace(found, status="ok", samples=(seconds,)) if seconds is not None else replace(found, status="wrong", samples=())


def result(default: float | None, warm: list[float | None], own: list[float | None]) -> TuningResult:
    """A search in which the default came first, then the warm starts, then what the search chose."""
    trials = [took(number, seconds) for number, seconds in enumerate([default, *warm, *own])]
    best = min(trials, key=lambda one: one.comparable)
    started = frozenset(canonical(one.config) for one in trials[1 : 1 + len(warm)])
    return TuningResult(best.problem, best.device, tuple(trials), best, trials[0], "budget", 1.0, warm=started)


@pytest.mark.parametrize(
    ("default", "warm", "own", "found", "gave"),
    [
        (
            4.0,
            [2.0, 2.5],
            [3.0, 2.0, 1.0],
            "trial 6 by the search; 2 warm starts",
            "the best warm start takes 2.00 x the winner's time, the default 4.00 x; of 3 trials of the search itself the first as fast "
            "as that was number 2",
        ),
        (
            4.0,
            [2.0],
            [3.0],
            "trial 2 by a warm start; 1 warm start",
            "the warm start is the winner, the default 2.00 x; of 1 trial of the search itself none was as fast as that",
        ),
        (
            1.0,
            [2.0, None],
            [],
            "trial 1 by the default; 2 warm starts",
            "the best warm start takes 2.00 x the winner's time, the default is the winner",
        ),
        (None, [2.0], [], "trial 2 by a warm start; 1 warm start", "the warm start is the winner"),
        (4.0, [None], [1.0], "trial 3 by the search; 1 warm start", "of the 1 warm start none is valid here"),
    ],
)
def test_what_is_said(default: float | None, warm: list[float | None], own: list[float | None], found: str, gave: str) -> None:
    first, second = warm_lines(result(default, warm, own))
    assert found in first
    assert second == gave


def test_the_searchs_own_trials_are_those_that_ran() -> None:
    given = result(4.0, [2.0], [3.0, 1.0])
    skipped = replace(given.trials[2], status="skipped", samples=())
    given = replace(given, trials=(*given.trials[:2], skipped, given.trials[3]))
    assert given.matched_at == len(given.own_trials) == 1
    assert warm_document(given) == {"warm_starts": 1, "warm_best_seconds": 2.0, "matched_at": 1}


def test_nothing_is_said_where_there_were_none() -> None:
    none = result(4.0, [], [2.0])
    assert list(warm_lines(none)) == []
    assert warm_document(none) == {"warm_starts": 0, "warm_best_seconds": None, "matched_at": None}
    assert _warm([none]) == ""


def test_many_shapes_are_summed_up() -> None:
    said = _warm([result(4.0, [], [2.0]), result(4.0, [2.0], [1.0]), result(3.0, [1.0], [2.0]), result(None, [1.0], [])])
    assert "3 shapes" in said
    assert "the best of them 1.00, the default 3.50" in said
    assert "on 2 of 3" in said
