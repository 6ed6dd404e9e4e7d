"""What searches on devices of one kind share: who tries what first, draws of their own, and news of what is faster."""

from __future__ import annotations

import threading
from itertools import count

from portatile.tuning.search.cooperation import Cooperation, alone


def test_what_is_tried_first_is_dealt_out() -> None:
    configs = {str(place): {"A": place} for place in range(5)}
    first, second = (Cooperation(2).participant(place) for place in range(2))
    assert list(first.share(configs)) == ["0", "2", "4"]
    assert list(second.share(configs)) == ["1", "3"]
    assert alone().share(configs) == configs


def test_the_first_draws_as_alone_and_others_otherwise() -> None:
    shared = Cooperation(3)
    draws = [tuple(shared.participant(place).rng(7).integers(1 << 30, size=4)) for place in range(3)]
    assert draws[0] == tuple(alone().rng(7).integers(1 << 30, size=4))
    assert len(set(draws)) == 3


def test_each_hears_of_what_is_better_than_its_own() -> None:
    shared = Cooperation(2)
    one, other = shared.participant(0), shared.participant(1)
    assert one.better_configs() == []
    one.report({"A": 1}, 2.0)
    assert other.better_configs() == [{"A": 1}], "nothing is known there yet"
    other.report({"A": 2}, 3.0)
    assert other.better_configs() == [{"A": 1}]
    assert one.better_configs() == [], "it is slower"
    other.report({"A": 3}, 1.0)
    assert one.better_configs() == [{"A": 3}]
    assert other.better_configs() == [], "its own"
    one.report({"A": 3}, 1.5)
    assert one.better_configs() == [{"A": 3}], "which is known there: a search begins nothing twice"


def test_a_search_alone_hears_nothing() -> None:
    single = alone()
    single.report({"A": 1}, 2.0)
    assert single.better_configs() == []


def test_what_all_need_is_made_by_one() -> None:
    shared, made, found = Cooperation(2), count(), list[int]()
    threads = [
        threading.Thread(target=lambda place=place: found.append(shared.participant(place).once("it", lambda: next(made))))
        for place in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [0, 0]
