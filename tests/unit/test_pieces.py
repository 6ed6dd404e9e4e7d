"""How a problem is divided between devices: in pieces that cover it once, shares by their rates, rows of a triangle by their work."""

from __future__ import annotations

import threading
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from portatile.runtime.several_devices import triangles
from portatile.runtime.several_devices.pieces import Pieces, in_time


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
                    pieces.give_back(*piece)
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


def with_two_lanes(size: int, period: int, rates: dict[str, float]) -> tuple[float, int]:
    """When the last piece is done where each device has two under way at a time, on a clock that only counts; and the number of pieces."""
    now, count, ends, free_at = 0.0, 0, list[tuple[float, str, int]](), dict.fromkeys(rates, 0.0)
    pieces = Pieces(size, period, rates, lambda: now)

    def take(device: str) -> None:
        nonlocal count
        while sum(one[1] == device for one in ends) < 2 and (piece := pieces.take(device, size, wait=False)) is not None:
            count += 1
            free_at[device] = max(free_at[device], now) + (piece[1] - piece[0]) / rates[device]
            ends.append((free_at[device], device, piece[1] - piece[0]))

    for device in rates:
        take(device)
    while ends:
        ends.sort()
        now, device, steps = ends.pop(0)
        pieces.done(device, steps, steps / rates[device])
        for one in rates:
            take(one)
    assert not pieces.left
    return now, count


@pytest.mark.parametrize("rates", [(4e5, 4e5), (4e5, 3.7e5), (1e5, 1e5, 2e4), (1e6, 1.1e6)])
@pytest.mark.parametrize("size", [2048, 16384, 10**6])
def test_devices_with_two_pieces_under_way_end_together(size: int, rates: tuple[float, ...]) -> None:
    """Also where all of it takes but milliseconds: nobody takes more than its part because it asks first, and pieces are few."""
    named = {f"d{place}": rate for place, rate in enumerate(rates)}
    seconds, count = with_two_lanes(size, 1, named)
    assert size / sum(rates) / seconds > 0.95
    assert count <= 14 * len(rates)


def test_who_has_its_part_under_way_takes_no_more() -> None:
    pieces = Pieces(1000, 1, {"one": 1e5, "other": 1e5}, lambda: 0.0)
    taken = 0
    while (piece := pieces.take("one", 1000, wait=False)) is not None:
        taken += piece[1] - piece[0]
    assert 384 <= taken <= 512
    assert pieces.take("other", 1000, wait=False) is not None


def test_a_slow_device_leaves_the_end_to_the_fast_one() -> None:
    """It takes nothing that it would finish last, and computes all the same where the fast one fails."""
    pieces = Pieces(64, 1, {"fast": 100.0, "slow": 1.0})
    first = pieces.take("fast", 60)
    assert first is not None
    assert pieces.take("slow", 60, wait=False) is None
    taken: list[tuple[int, int] | None] = []
    waiting = threading.Thread(target=lambda: taken.append(pieces.take("slow", 64)))
    waiting.start()
    pieces.give_back(*first)
    pieces.drop("fast")
    waiting.join(60)
    assert taken[0] is not None
    seconds, busy = in_time(64, 1, {"fast": 100.0, "slow": 1.0})
    assert seconds == pytest.approx(0.64)
    assert busy["slow"] == 0


def test_pieces_have_few_widths() -> None:
    """What was made ready for one call suits the next, whose rates differ a little."""
    widths = set()
    for seed in range(30):
        rng = np.random.default_rng(seed)
        pieces = Pieces(2**21, 1, {"fast": 1e8 * float(rng.uniform(0.8, 1.2)), "slow": 1e7 * float(rng.uniform(0.8, 1.2))})
        while (piece := pieces.take(("fast", "slow")[int(rng.integers(2))], 2**19, wait=False)) is not None and piece[1] < 2**21:
            widths.add(piece[1] - piece[0])
            pieces.done("fast", 0, 0.0)
    assert len(widths) < 100


def test_a_cold_rate_counts_until_there_is_another() -> None:
    pieces = Pieces(1000, 1, {"one": 0.0})
    for _ in range(3):
        assert pieces.take("one", 10) is not None
    pieces.done("one", 10, 1.0, cold=True)
    assert (pieces.rates, pieces.shown) == ({"one": 10.0}, {})
    pieces.done("one", 10, 1e-9, cold=True)
    assert pieces.rates["one"] == pytest.approx(22.5), "it was under way beside the first"
    pieces.done("one", 10, 0.1)
    assert pieces.rates == pieces.shown == {"one": pytest.approx(100.0)}


def test_pieces_that_end_together_do_not_hide_a_rate() -> None:
    """Two are under way at once: the second one's result is there when the first one's is."""
    for known in (0.0, 100.0):
        pieces = Pieces(10**6, 1, {"one": known})
        for number in range(40):
            pieces.done("one", 10, 0.2 if number % 2 == 0 else 1e-7)
        assert pieces.rates["one"] == pytest.approx(100.0, rel=0.15)


def widths(least: int) -> list[int]:
    """Of all pieces for two devices that are as fast as each other, which take and finish them by turns."""
    now, found = 0.0, list[int]()
    pieces = Pieces(16384, 1, {"a": 4e5, "b": 4e5}, lambda: now, least=least)
    while taken := [(name, piece) for name in "ab" if (piece := pieces.take(name, 2048, wait=False)) is not None]:
        now += max(high - low for _, (low, high) in taken) / 4e5
        for name, (low, high) in taken:
            pieces.done(name, high - low, (high - low) / 4e5)
            found.append(high - low)
    return found


def test_pieces_of_some_steps_at_least() -> None:
    """Where each costs something of its own, the last ones are not thin."""
    few, many = widths(1024), widths(0)
    assert sum(few) == sum(many) == 16384
    assert min(few) >= 512 > min(many)
    assert len(few) < len(many)
