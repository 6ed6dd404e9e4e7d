"""The order of the tests for a run of many processes: every process has its share of those that take long, and nothing gets lost."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest

from support import order


@dataclass(eq=False)
class Item:
    """As much of pytest's items as the order asks for."""

    place: int
    marked: bool
    fixturenames: tuple[str, ...]

    def get_closest_marker(self, name: str) -> object:
        return self if self.marked else None


def items(count: int, marked: int, searching: int) -> list[Any]:
    """Those that take long are the last of all."""
    first = count - marked
    return [Item(at, at >= first, ("own_directories",) if first - searching <= at < first else ()) for at in range(count)]


@pytest.mark.parametrize(
    ("count", "marked", "searching", "processes"), [(1000, 60, 200, 7), (1000, 3, 0, 54), (20, 20, 0, 6), (5, 1, 1, 8), (0, 0, 0, 3)]
)
def test_each_process_begins_with_a_lengthy_one(count: int, marked: int, searching: int, processes: int) -> None:
    given = items(count, marked, searching)
    ordered = order.spread(given, processes)
    assert sorted(item.place for item in ordered) == list(range(count))
    first = 0
    for place in range(processes):
        part = ordered[first : first + (count - first) // (processes - place)]
        first += len(part)
        slow = [at for at, item in enumerate(part) if order.lengthy(item)]
        others = [item.place for item in part if not order.lengthy(item)]
        assert all(after == before + 1 for before, after in pairwise(others)), "neighbours stay together"
        if part and place < marked:
            assert part[0].get_closest_marker("lengthy"), "those that are marked come first"
        if count == 1000 and len(slow) > 1:
            assert slow[-1] <= 0.85 * len(part), "the end of a run has none that begin"
