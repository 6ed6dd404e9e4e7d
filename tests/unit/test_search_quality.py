"""Searches: reproducible, legal, finite, frugal with their own work, and clearly better than chance where there is something to learn."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from portatile import strategies
from portatile.records import Config, canonical
from portatile.space import ParameterSpace
from portatile.strategies import _surrogate, gaussian
from portatile.strategies._encoding import Encoding, SearchDomain
from portatile.strategies._surrogate import Surrogate

LEARNING = ("annealing", "auto", "gaussian", "genetic")
MODELS = ("auto", "gaussian")


@dataclass(frozen=True)
class Outcome:
    config: Config
    median: float


def kernel_like() -> ParameterSpace:
    """Some 8,000 legal configurations of a tiled kernel."""
    return ParameterSpace(
        {
            "group_x": (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128),
            "group_y": (1, 2, 4, 8, 16, 32),
            "tile_x": (1, 2, 3, 4, 6, 8),
            "tile_y": (1, 2, 3, 4, 6, 8),
            "local": (False, True),
            "path": ("buffer", "image", "vector"),
        },
        ["32 <= group_x * group_y <= 1024", "path != 'vector' or tile_x % 2 == 0"],
    )


def kernel_time(config: Config) -> float:
    """Seconds: cliffs at partial warps, a register limit, interactions, 3 % of ruggedness; a quarter of the space fails."""
    gx, gy, tx, ty = (float(config[name]) for name in ("group_x", "group_y", "tile_x", "tile_y"))  # type: ignore[arg-type]
    threads, tile = gx * gy, tx * ty
    if gx * tx * gy * ty * 4 * (2 if config["local"] else 1) > 32_768:
        return math.inf
    partial = math.ceil(threads / 32) * 32 / threads * (1.3 if gx % 16 else 1.0)
    reuse = 1 + 4 / tile**0.5 * (0.6 if config["local"] else 1.0)
    spill = 1 + max(0.0, tile - 20) / 8
    shape = 1 + 0.15 * abs(math.log2(gx / 32)) + 0.1 * abs(math.log2(threads / 256))
    path = {"buffer": 1.0, "image": 1.15, "vector": 0.8 + 0.1 * ty / tx}[str(config["path"])]
    rugged = 1 + 0.03 * (zlib.crc32(canonical(config).encode()) % 1000) / 1000
    return 1e-3 * partial * reuse * spill * shape * path * rugged


def trials_to(goal: float, name: str, seed: int, limit: int) -> int:
    """How many evaluations ``name`` needs to reach ``goal`` seconds, at most ``limit``."""
    search = strategies.get(name)(kernel_like(), np.random.default_rng(seed), ())
    for count, outcome in enumerate(strategies.evaluate(search, lambda config: Outcome(config, kernel_time(config))), 1):
        if outcome.median <= goal or count == limit:
            return count
    return limit


@pytest.mark.drawn(1 / 3)
@pytest.mark.parametrize(("name", "fraction"), [("auto", 0.4), ("gaussian", 0.4), ("genetic", 0.6), ("annealing", 0.6)])
def test_finds_a_planted_optimum_in_fewer_trials_than_chance(name: str, fraction: float) -> None:
    times = sorted(kernel_time(config) for config in kernel_like())
    assert times.count(math.inf) > len(times) / 6
    goal = times[len(times) // 400]  # the best quarter of a per cent
    chance, seeds = 400 * math.log(2), range(5)  # the median number of random draws
    needed = [trials_to(goal, name, seed, 300) for seed in seeds]
    assert float(np.median(needed)) < fraction * chance, needed


@pytest.mark.parametrize("name", LEARNING)
def test_a_seed_repeats(name: str) -> None:
    def path(seed: int, length: int) -> list[str]:
        search = strategies.get(name)(kernel_like(), np.random.default_rng(seed), ())
        outcomes = strategies.evaluate(search, lambda config: Outcome(config, kernel_time(config)))
        return [canonical(outcome.config) for _, outcome in zip(range(length), outcomes, strict=False)]

    first = path(3, 40)
    assert first == path(3, 40)
    assert first[:5] != path(4, 5)


def drive(
    name: str, space: ParameterSpace, time: Callable[[Config], float], limit: int, slots: int, start: Sequence[Config] = ()
) -> list[Config]:
    """Evaluate in several slots that finish in random order, sometimes none between two requests; what was begun, in order."""
    rng = np.random.default_rng(11)
    search = strategies.get(name)(space, np.random.default_rng(5), start)
    begun: list[Config] = []
    running: dict[str, Config] = {}
    back: set[str] = set()
    requests = next(search)
    while len(back) < limit:
        assert all(config in space for config in requests)
        assert not back & set(map(canonical, requests)), "a request that has come back is repeated"
        for config in requests:
            if len(running) < slots and canonical(config) not in running:
                running[canonical(config)] = config
                begun.append(config)
        if not running:
            assert not requests
            return begun
        done = [key for key in running if rng.random() < 0.4]
        finished = [Outcome(running.pop(key), time(begun_config)) for key in done for begun_config in [running[key]]]
        back |= set(done)
        try:
            requests = search.send(finished)
        except StopIteration:
            assert not running, "ended while evaluations were running"
            return begun
    search.close()
    return begun


def test_most_of_many_requests_are_near_the_fastest() -> None:
    """In a space too wide to be listed there is always somewhere unknown; with many slots, not all of them go there."""
    space = ParameterSpace({f"p{i}": (1, 2, 4, 8) for i in range(12)}, ["p0 * p1 <= 32"])
    search = strategies.get("auto")(space, np.random.default_rng(3), ())

    def time(config: Config) -> float:
        return 1e-3 * math.prod(1.1 ** abs(math.log2(float(value) / 2)) for value in config.values())

    known: dict[str, tuple[float, Config]] = {}
    requests = next(search)
    while len(known) < 60:
        finished = [Outcome(config, time(config)) for config in requests[:8]]
        known |= {canonical(outcome.config): (outcome.median, outcome.config) for outcome in finished}
        requests = search.send(finished)
    fastest = [config for _, config in sorted(known.values(), key=lambda row: row[0])[:4]]
    apart = [min(sum(request[name] != best[name] for name in space.parameters) for best in fastest) for request in requests]
    print(apart)
    assert sum(steps <= 2 for steps in apart) >= 3 * len(apart) // 4
    assert max(apart) > 2


@pytest.mark.parametrize("name", LEARNING)
def test_only_legal_requests_from_many_slots(name: str) -> None:
    begun = drive(name, kernel_like(), kernel_time, 60, slots=4)
    assert len(set(map(canonical, begun))) == len(begun) >= 60


@pytest.mark.parametrize("name", LEARNING)
@pytest.mark.parametrize("slots", [1, 3])
def test_a_small_space_is_used_up(name: str, slots: int) -> None:
    space = ParameterSpace({"x": (1, 2, 3, 4, 6), "y": ("a", "b", "c"), "z": (False, True), "one": (7,)}, ["x > 2 or z"])
    begun = drive(name, space, lambda config: float(config["x"]) if config["y"] != "b" else math.inf, 10_000, slots)  # type: ignore[arg-type]
    assert sorted(map(canonical, begun)) == sorted(map(canonical, space))


@pytest.mark.parametrize("name", LEARNING)
def test_a_space_where_everything_fails_is_used_up(name: str) -> None:
    space = ParameterSpace({"x": tuple(range(6)), "y": tuple(range(5))})
    assert len(drive(name, space, lambda config: math.inf, 10_000, slots=2)) == 30


@pytest.mark.parametrize("name", LEARNING)
def test_one_configuration_alone(name: str) -> None:
    assert drive(name, ParameterSpace({"x": (1,), "y": ("only",)}), lambda config: 1.0, 10, slots=1) == [{"x": 1, "y": "only"}]


@pytest.mark.parametrize("name", LEARNING)
def test_starts_with_what_it_is_given(name: str) -> None:
    start = [config for config, _ in zip(kernel_like(), range(3), strict=False)]
    assert drive(name, kernel_like(), kernel_time, 5, slots=1, start=start)[:3] == start


@pytest.mark.parametrize("name", LEARNING)
def test_a_huge_space_is_not_listed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    space = ParameterSpace({f"p{i}": tuple(range(1, 11)) for i in range(12)}, ["p0 != p1", "p2 + p3 > 4"])
    monkeypatch.setattr(ParameterSpace, "__iter__", lambda self: pytest.fail("listed"))
    begun = drive(name, space, lambda config: math.prod(float(v) for v in config.values()), 50, slots=1)  # type: ignore[arg-type]
    assert len(begun) == 50


@pytest.mark.drawn(1 / 3)
@pytest.mark.parametrize("name", MODELS)
def test_work_per_proposal_is_bounded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fits grow rarer and stay small, and the space is asked for a bounded number of configurations."""
    fits: list[int] = []
    asked = {"neighbours": 0, "scatter": 0}
    fit, neighbours, scatter = Surrogate.fit, ParameterSpace.neighbours, ParameterSpace.scatter

    def counted_fit(self: Surrogate, points: _surrogate.Array, values: _surrogate.Array, steps: int) -> None:
        fits.append(len(values))
        fit(self, points, values, steps)

    def counted_neighbours(self: ParameterSpace, config: Config, *, adjacent: bool = False) -> list[dict[str, object]]:
        asked["neighbours"] += 1
        return neighbours(self, config, adjacent=adjacent)  # type: ignore[return-value]

    def counted_scatter(self: ParameterSpace, rng: np.random.Generator, count: int) -> list[dict[str, object]]:
        asked["scatter"] += count
        return scatter(self, rng, count)  # type: ignore[return-value]

    monkeypatch.setattr(Surrogate, "fit", counted_fit)
    monkeypatch.setattr(ParameterSpace, "neighbours", counted_neighbours)
    monkeypatch.setattr(ParameterSpace, "scatter", counted_scatter)
    space = ParameterSpace({f"p{i}": tuple(range(1, 11)) for i in range(9)}, ["p0 != p1"])
    proposals = 300
    drive(name, space, lambda config: math.prod(float(v) for v in config.values()), proposals, slots=1)  # type: ignore[arg-type]
    assert len(fits) < proposals / 4
    assert max(fits) <= gaussian.LEARN_FROM
    assert asked["neighbours"] < 2 * proposals
    assert asked["scatter"] < 20 * proposals


def test_the_surrogate_extended_is_the_surrogate_conditioned() -> None:
    seed = 17
    rng = np.random.default_rng(seed)
    points, candidates = rng.random((20, 3)), rng.random((30, 3))
    values = np.sin(4 * points[:, 0]) + points[:, 1] ** 2
    whole = Surrogate(3)
    whole.fit(points, values, 10)
    whole.condition(points, candidates)
    grown = Surrogate(3)
    grown.fit(points, values, 10)
    grown.condition(points[:15], candidates[:20])
    grown.widen(candidates[20:])
    for point in points[15:]:
        grown.extend(point)
    for a, b in zip(whole.predict(values), grown.predict(values), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)


def test_the_slope_of_the_fit_is_that_of_its_loss() -> None:
    rng = np.random.default_rng(23)
    points = rng.random((15, 2))
    values = rng.normal(size=15)
    gaps = (points[:, None] - points[None]) ** 2
    model, theta, step = Surrogate(2), np.array([0.4, 1.1, -2.0]), 1e-6
    slope = model._loss(theta, gaps, values)[1]
    for i in range(3):
        up, down = theta.copy(), theta.copy()
        up[i] += step
        down[i] -= step
        assert slope[i] == pytest.approx((model._loss(up, gaps, values)[0] - model._loss(down, gaps, values)[0]) / (2 * step), rel=1e-4)


def test_expected_improvement_against_sampling() -> None:
    rng = np.random.default_rng(29)
    gain, deviation = np.array([-1.0, 0.0, 0.7]), np.array([1.0, 0.5, 0.2])
    drawn = np.maximum(rng.normal(gain, deviation, size=(400_000, 3)), 0).mean(axis=0)
    np.testing.assert_allclose(gaussian.expected_improvement(gain, deviation), drawn, rtol=0.02)
    far = gaussian.expected_improvement(np.array([-30.0, -31.0]), np.ones(2))
    assert far[0] > far[1] > 0


def test_codes_are_configurations_and_back() -> None:
    space = ParameterSpace({"a": (1, True, 1.0), "b": ("1", "x"), "c": (4,)})
    encoding = Encoding(space)
    codes = [encoding.code(config) for config in space]
    assert len(set(codes)) == space.size
    assert [canonical(encoding.config(code)) for code in codes] == [canonical(config) for config in space]


def test_coordinates_scale_sizes_and_count_factors_of_two() -> None:
    space = ParameterSpace({"size": (16, 32, 48, 64, 80, 96, 112, 128), "power": (1, 2, 4, 8), "text": ("a", "b", "c"), "constant": (3,)})
    points = Encoding(space).points([(0, 0, 0, 0), (1, 1, 1, 0), (2, 3, 2, 0)])
    assert points.shape == (3, 2 + 1 + 3)
    assert points.min() >= 0
    assert points.max() <= 1
    assert points[1, 1] > points[0, 1] == points[2, 1]  # 32 has more factors of two than 16 and 48
    gaps = ((points[:, None, 3:] - points[None, :, 3:]) ** 2).sum(axis=2)
    np.testing.assert_allclose(gaps, 1 - np.eye(3))


def test_a_spread_keeps_its_distance() -> None:
    domain = SearchDomain(kernel_like(), np.random.default_rng(2))

    def closest(codes: Sequence[tuple[int, ...]]) -> float:
        points = domain.encoding.points(codes)
        gaps = ((points[:, None] - points[None]) ** 2).sum(axis=2)
        return float(gaps[np.triu_indices(len(codes), 1)].min())

    assert closest(domain.spread(8)) > 2 * float(np.median([closest(domain.draw(8)) for _ in range(9)]))
