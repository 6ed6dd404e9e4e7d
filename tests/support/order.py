"""The order of the tests for a run of many processes: those that search, or start processes, begin early in each of them.

Such a test waits for new processes that open a device, one after another in the driver. At the end of a run, when nothing else is left,
they would all wait for each other.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

_EARLY = 0.75  # of a process's other tests: before so many have run, all its lengthy ones have begun


def lengthy(item: pytest.Item) -> bool:
    """Whether a test is marked so, or searches in directories of its own."""
    return item.get_closest_marker("lengthy") is not None or "own_directories" in getattr(item, "fixturenames", ())


def spread(items: Sequence[pytest.Item], processes: int) -> list[pytest.Item]:
    """The tests such that each of the parts that pytest-xdist's ``worksteal`` gives out has its share of lengthy ones, between others.

    Those that are marked come first; apart from this the order stays. The others of a part are neighbours, as they were.
    """
    slow = sorted(filter(lengthy, items), key=lambda item: item.get_closest_marker("lengthy") is None)
    others = [item for item in items if not lengthy(item)]
    ordered: list[pytest.Item] = []
    for place in range(processes):
        size = (len(items) - len(ordered)) // (processes - place)
        mine = slow[place::processes][:size]
        ordered += _between(mine, others[: size - len(mine)])
        del others[: size - len(mine)]
    left = set(items) - set(ordered)
    return ordered + [item for item in items if item in left]


def _between(slow: Sequence[pytest.Item], others: Sequence[pytest.Item]) -> list[pytest.Item]:
    """One of ``slow`` first, and another after each few of the others."""
    step = max(int(_EARLY * len(others) / max(len(slow), 1)), 1)
    ordered: list[pytest.Item] = []
    for place, item in enumerate(slow):
        ordered += [item, *others[place * step : (place + 1) * step]]
    return ordered + list(others[len(slow) * step :])
