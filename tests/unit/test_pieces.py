"""How a problem is divided between devices: in pieces that cover it once, shares by their rates, rows of a triangle by their work."""

from __future__ import annotations

import threading
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from portatile.runtime import triangles
from portatile.runtime.pieces import Pieces, in_time


def test_the_parts_of_a_triangle_cover_it() -> None:
    for n, upper in ((1, True), (150, False), (5000, True), (5000, False)):
        bounds = [triangles.rows(n, low, low + 1, upper) for low in range(n)]
        assert bounds[0][0] == 0
        assert bounds[-1][1] == n
        assert all(one[1] == other[0] for one, other in pairwise(bounds))
    first, past = triangles.rows(10_000, 2500, 5000, False)
    assert (past**2 - first**2) / 10_000**2 == pytest.approx(0.25, abs=0.02)


def test_pieces_cover_everything_once_whoever_takes_them() -> None:
    """Devices of different speeds, one of which hands pieces back and drops out."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        size, period = int(rng.integers(1, 5000)), int(rng.choice([1, 4, 96]))
        names = [f"d{i}" for i in range(int(rng.integers(1, 5)))]
        pieces, done, lock = Pieces(size, period, dict.fromkeys(names, 0.0)), [], threading.Lock()

        def work(name: str, speed: float, pieces: Pieces = pieces, done: list[tuple[int, int]] = done, lock: Any = lock) -> None:
            count = 0
            while (piece := pieces.take(name, 700)) is not None:
                count += 1
                if name == "d1" and count == 3:
                    pieces.back(*piece)
                    pieces.drop(name)
                    return
                with lock:
                    done.append(piece)
                pieces.done(name, piece[1] - piece[0], (piece[1] - piece[0]) / speed)

        threads = [threading.Thread(target=work, args=(name, 10.0 ** rng.uniform(3, 6))) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        covered = sorted(done)
        assert [low for low, _ in covered] == [0, *[high for _, high in covered[:-1]]], seed
        assert covered[-1][1] == size
        assert all(low % period == 0 for low, _ in covered)


def test_what_is_expected_follows_from_the_pieces() -> None:
    seconds, busy = in_time(100_000, 1, {"fast": 9e5, "slow": 1e5, "unknown": 0.0})
    assert 0.1 <= seconds < 0.11
    assert busy["unknown"] == 0
    assert busy["fast"] * 9e5 + busy["slow"] * 1e5 == pytest.approx(100_000)
    assert in_time(10, 1, {"none": 0.0}) == (0.0, {"none": 0.0})


def test_shares_follow_the_rates() -> None:
    pieces = Pieces(100_000, 1, {"fast": 9e6, "slow": 1e6})
    first, second = pieces.take("fast", 10**9), pieces.take("slow", 10**9)
    assert first is not None
    assert second is not None
    assert 4 < (first[1] - first[0]) / (second[1] - second[0]) < 20
