"""When a recorded search had found the best, by the comparison of all winners by turns where it was held."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).parents[2] / "bench"
MODULES = ("device_searches", "measure")
A, B, C = {"form": "a"}, {"form": "b"}, {"form": "c"}


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(BENCH)
    yield import_module("device_searches")
    for name in MODULES:
        sys.modules.pop(name, None)


def search(steps: list[list[Any]], best: list[Any], finalists: list[list[Any]]) -> dict[str, Any]:
    return {"devices": ["g"], "shared": False, "steps": {"g": steps}, "best": {"g": best}, "finalists": {"g": finalists}}


def test_the_searches_own_times_count_where_nothing_was_compared(searches: Any) -> None:
    lucky = search([[1.0, 2.0, A], [3.0, 1.0, B]], [1.0, B], [])
    other = search([[2.0, 1.015, C]], [1.01, C], [[1.01, 0.99, 1.03, C]])
    assert searches.judged(lucky, "g", [lucky, other], {}) == (1.0, 3.0, True)
    assert searches.judged(other, "g", [lucky, other], {}) == (1.0, 2.0, True), "its interval reaches the best"
    old = search([[2.0, 1.5]], [1.5, C], [])  # recorded without configurations
    assert searches.judged(old, "g", [lucky, old], {}) == (1.0, None, False)


def test_a_winner_is_as_fast_as_the_comparison_says(searches: Any) -> None:
    lucky = search([[1.0, 2.0, A], [3.0, 0.5, B]], [0.5, B], [])  # its sample was too short
    other = search([[2.0, 1.1, C]], [1.1, C], [])
    times = {"g": [[1.2, 1.1, 1.3, B], [1.0, 0.98, 1.02, C]]}
    assert searches.judged(lucky, "g", [lucky, other], times) == (1.0, None, False)
    assert searches.judged(other, "g", [lucky, other], times) == (1.0, 2.0, True)
