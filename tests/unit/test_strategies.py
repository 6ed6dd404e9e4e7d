"""Every strategy keeps the protocol: only legal proposals, a seed repeats, it ends or exhausts, it finds a planted optimum."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice

import numpy as np
import pytest

from portatile import strategies
from portatile.errors import UnknownNameError
from portatile.records import Config, canonical
from portatile.space import ParameterSpace
from portatile.strategies import Search
from portatile.strategies._scale import floor

NAMES = sorted({strategies.get(name): name for name in strategies.names()}.values())  # one name for each strategy


@dataclass(frozen=True)
class Outcome:
    """A replayed trial."""

    config: Config
    median: float


def small_space() -> ParameterSpace:
    """120 of 240 combinations, of every kind of value."""
    parameters = {"tile": (1, 2, 4, 8, 16), "unroll": (1, 2, 3, 4), "form": ("a", "b", "c"), "pad": (False, True), "scale": (0.5, 1.5)}
    return ParameterSpace(parameters, ["tile * unroll <= limit or form == 'a'", lambda pad, form: pad or form != "b"], {"limit": 16})


def large_space() -> ParameterSpace:
    """A space that nobody lists: 10^12 combinations, of which a quarter is legal."""
    parameters = {f"p{i}": tuple(range(10)) for i in range(12)}
    return ParameterSpace(parameters, ["(p0 + p1) % 2 == 0", "(p2 + p3) % 2 == 0"])


def bowl(config: Config) -> float:
    """Seconds with one optimum: tile 8, unroll 2, form c, pad, scale 1.5; a third of the forms b fails."""
    if config["form"] == "b" and int(config["unroll"]) == 3:
        return math.inf
    apart = abs(math.log2(int(config["tile"])) - 3) + abs(int(config["unroll"]) - 2)
    return 1e-3 * (1 + apart + (config["form"] != "c") + (not config["pad"]) + (float(config["scale"]) != 1.5))


OPTIMUM = {"tile": 8, "unroll": 2, "form": "c", "pad": True, "scale": 1.5}


def open_search(name: str, space: ParameterSpace, seed: int, start: Sequence[Config] = ()) -> Search:
    return strategies.get(name)(space, np.random.default_rng(seed), start)


def proposals(name: str, space: ParameterSpace, seed: int, time: Callable[[Config], float], limit: int = 10**6) -> list[Config]:
    found = []
    for outcome in strategies.evaluate(open_search(name, space, seed), lambda config: Outcome(config, time(config))):
        found.append(outcome.config)
        if len(found) == limit:
            break
    return found


def test_names_are_files_and_unknown_ones_are_refused() -> None:
    assert {"random", "exhaustive", "local"} <= set(strategies.names())
    assert not any(name.startswith("_") for name in strategies.names())
    with pytest.raises(UnknownNameError, match="Did you mean 'random'"):
        strategies.get("randon")


SEEDS = range(3)


@cache
def whole(name: str, seed: int) -> tuple[Config, ...]:
    """All proposals for the small space."""
    return tuple(proposals(name, small_space(), seed, bowl))


@pytest.mark.parametrize("name", NAMES)
def test_every_proposal_is_legal_and_new_and_they_end(name: str) -> None:
    space = small_space()
    for proposed in (whole(name, seed) for seed in SEEDS):
        assert all(config in space for config in proposed)
        assert 0 < len({canonical(config) for config in proposed}) == len(proposed) <= space.count()


@pytest.mark.parametrize("name", ["random", "exhaustive", "local"])
def test_plain_strategies_try_everything(name: str) -> None:
    space = small_space()
    assert {canonical(config) for config in proposals(name, space, 3, bowl)} == {canonical(config) for config in space}


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_repeats(name: str) -> None:
    first = whole(name, 1)[:60]
    assert tuple(proposals(name, small_space(), 1, bowl, 60)) == first
    if name != "exhaustive":
        assert whole(name, 2)[:60] != first


@pytest.mark.parametrize("name", NAMES)
def test_a_planted_optimum_is_found(name: str) -> None:
    for seed in SEEDS:
        proposed = whole(name, seed)
        assert OPTIMUM in proposed, f"seed {seed}: {len(proposed)} of {small_space().count()} configurations without the best one"


@pytest.mark.parametrize("name", NAMES)
def test_start_comes_first(name: str) -> None:
    space = small_space()
    start = [OPTIMUM, {"tile": 1, "unroll": 1, "form": "a", "pad": False, "scale": 0.5}]
    search = open_search(name, space, 6, start)
    evaluated = [outcome.config for _, outcome in zip(range(2), strategies.evaluate(search, lambda c: Outcome(c, bowl(c))), strict=False)]
    assert evaluated == start


@pytest.mark.parametrize("name", [name for name in NAMES if name != "exhaustive"])
def test_large_space_is_not_listed(name: str) -> None:
    space = large_space()
    proposed = proposals(name, space, 7, lambda config: 1.0 + sum(int(value) for value in config.values()), 40)
    assert len(proposed) == 40
    assert all(config in space for config in proposed)


@pytest.mark.parametrize("name", NAMES)
def test_results_may_come_late_and_in_any_order(name: str) -> None:
    """Four evaluations at once, of which any may finish first, sometimes none: still each configuration once, and the optimum."""
    space, dice = small_space(), np.random.default_rng(8)
    search = open_search(name, space, 8)
    begun: dict[str, Config] = {}
    done: dict[str, Config] = {}
    requests = next(search)
    try:
        for _ in range(3000):
            for request in requests:
                if len(begun) < 4 and canonical(request) not in begun | done:
                    begun[canonical(request)] = request
            assert not {canonical(request) for request in requests} & set(done), "a configuration that came back is requested again"
            finished = [key for key in begun if dice.random() < 0.3]
            if not begun:
                break
            for key in finished:
                done[key] = begun.pop(key)
            requests = search.send([Outcome(done[key], bowl(done[key])) for key in finished])
    except StopIteration:
        pass
    assert canonical(OPTIMUM) in done


@pytest.mark.parametrize("name", NAMES)
def test_everything_may_fail(name: str) -> None:
    proposed = proposals(name, small_space(), 9, lambda config: math.inf, 50)
    assert proposed


@pytest.mark.parametrize("name", NAMES)
def test_a_space_of_one(name: str) -> None:
    space = ParameterSpace({"tile": (4,), "form": ("a",)})
    assert proposals(name, space, 10, lambda config: 1.0) == [{"tile": 4, "form": "a"}]


def evaluated(suggested: Sequence[Config], times: Mapping[str, float]) -> list[str]:
    """The order in which a search's own a, b, c ... and suggestions are tried; names without a time are slow."""

    def search() -> Search:
        waiting = list("abcdef")
        while waiting:
            finished = yield [{"name": name} for name in waiting]
            assert {str(outcome.config["name"]) for outcome in finished} <= set(waiting), "it is told of what it asked for"
            waiting = [name for name in waiting if name not in {outcome.config["name"] for outcome in finished}]

    def measure(config: Config) -> Outcome:
        return Outcome(config, times.get(str(config["name"]), 9.0))

    tried = strategies.evaluate(strategies.with_suggestions(search(), suggested), measure)
    return [str(done.config["name"]) for done in tried]


def test_suggestions_alternate_with_the_searchs_own_and_end_when_they_do_not_pay() -> None:
    suggested = [{"name": name} for name in "wxyz"]
    assert evaluated(suggested, {"b": 1.0}) == list("waxbcdef")
    assert evaluated(suggested, {"x": 1.0}) == list("waxbyczdef")
    assert evaluated(suggested, {"x": 2.0, "c": 1.0}) == list("waxbycdef")
    assert evaluated([{"name": "a"}, {"name": "x"}], {}) == list("abxcdef")
    assert evaluated([], {}) == list("abcdef")


def test_local_needs_a_fraction_of_random() -> None:
    """On a rugged space the climber is within 5 % of the best long before chance is."""
    space = ParameterSpace({f"p{i}": (1, 2, 4, 8, 16, 32) for i in range(5)})
    weights = np.random.default_rng(11).random((5, 6))
    coupling = np.random.default_rng(12).random((6, 6)) * 0.5

    def time(config: Config) -> float:
        places = [(1, 2, 4, 8, 16, 32).index(int(value)) for value in config.values()]
        return 1 + sum(weights[i, p] for i, p in enumerate(places)) + coupling[places[0], places[1]]

    best = min(time(config) for config in space)

    def needed(name: str, seed: int) -> int:
        tried = strategies.evaluate(open_search(name, space, seed), lambda config: Outcome(config, time(config)))
        return next((i for i, outcome in enumerate(islice(tried, 1500)) if time(outcome.config) <= 1.05 * best), 1500)

    local, chance = (np.median([needed(name, seed) for seed in range(9)]) for name in ("local", "random"))
    assert local < chance / 2, f"local needed {local}, random {chance} evaluations"


MEASURES: dict[str, Callable[[float], float]] = {
    "shifted to zero": lambda seconds: seconds - 1e-3,
    "negative": lambda seconds: -1 / seconds,
    "of both signs": lambda seconds: 1e9 * (seconds - 3e-3),
}


@pytest.mark.drawn(1 / 3)
@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("exhaustive", "random")])
def test_a_measure_may_be_zero_or_negative(name: str, measure: str) -> None:
    """The best is found about as soon as by times, for which every strategy is made; chance needs half of the space."""
    space = small_space()

    def needed(seed: int, of: Callable[[float], float]) -> int:
        proposed = proposals(name, space, seed, lambda config: of(t) if math.isfinite(t := bowl(config)) else t, 60)
        return proposed.index(OPTIMUM) if OPTIMUM in proposed else 60

    by_time, by_measure = (np.median([needed(seed, of) for seed in range(15, 18)]) for of in (lambda seconds: seconds, MEASURES[measure]))
    assert by_measure <= by_time + 15, f"{by_measure} evaluations, by time {by_time}, of {space.count()}"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [0.0, -1e300, -5e-324])
def test_nothing_to_tell_configurations_apart(name: str, value: float) -> None:
    assert len(proposals(name, small_space(), 1, lambda config: value, 15)) == 15


def test_the_floor_is_below_all_and_of_no_account_for_times() -> None:
    rng = np.random.default_rng(13)
    assert floor([]) == floor([1e-300, 2.0]) == 0.0
    for scale in (1e-9, 1.0, 1e9):
        for shift in (0.0, -0.5, -1.0, -1e3):
            values = [*(scale * (rng.exponential(size=50) + shift)).tolist(), 0.0]
            above = np.array(values) - floor(values)
            assert above.min() > 0
            assert np.median(above) / above.min() == pytest.approx(3)
    assert floor([-2.0, -2.0, -2.0]) < -2.0
