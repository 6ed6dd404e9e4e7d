"""The ranges of steps that slabs take."""

from __future__ import annotations

from itertools import pairwise
from math import lcm

import pytest

from portatile.runtime.in_parts import slabs
from portatile.runtime.in_parts.tasks import GRAIN
from portatile.workload import Cut


@pytest.mark.parametrize("size", [1, 63, 64, 1000, 4096, 16384, 16385, 99_991])
@pytest.mark.parametrize("parts", [1, 2, 4, 7])
@pytest.mark.parametrize("period", [1, 16, 96])
def test_ranges_follow_one_another(size: int, parts: int, period: int) -> None:
    """All steps, none twice, none wider than they may be, each but the last from a multiple of the period on; the ends are narrow."""
    cut = Cut("m", {"a": "rows", "c": "rows"}, period=period)
    width = slabs.whole_periods(-(-size // parts), cut)
    for ranges in (list(slabs._even(size, width)), list(slabs._ramped(size, width, cut))):
        assert ranges[0][0] == 0
        assert ranges[-1][1] == size
        assert all(one[1] == other[0] for one, other in pairwise(ranges))
        assert all(0 < high - low <= width for low, high in ranges)
        if width % period == 0:
            assert all(low % period == 0 for low, _ in ranges)
    if parts >= 4 and width >= 8 * lcm(period, GRAIN):
        assert ranges[0][1] <= width // 4
        assert ranges[-1][1] - ranges[-1][0] <= width // 4 + lcm(period, GRAIN)
