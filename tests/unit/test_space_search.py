"""Legal configurations are found without luck: counted by what constraints calculate, by bounds, and until a deadline."""

import time
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

from portatile.errors import SpaceError
from portatile.space import ParameterSpace, deadline
from portatile.space.deadline import OverdueError
from portatile.space.effort import Effort
from support.seeds import new_seed

WIDE = {f"p{i}": tuple(range(20)) for i in range(6)}
LONG = {f"p{i}": tuple(range(50)) for i in range(8)}


def total(p0: int, p1: int, p2: int, p3: int, p4: int, p5: int) -> bool:
    return p0 + p1 + p2 + p3 + p4 + p5 == 114


@pytest.mark.parametrize("rule", ["p0 + p1 + p2 + p3 + p4 + p5 == 114", "sum([p0, p1, p2]) + p3 + p4 == 114 - p5", total])
def test_the_one_configuration_among_64_million_is_found_at_once(rule: Callable[..., bool] | str, monkeypatch: pytest.MonkeyPatch) -> None:
    space = ParameterSpace(WIDE, [rule])
    steps: list[int] = []
    monkeypatch.setattr(deadline.Steps, "step", lambda self: steps.append(1) if len(steps) < 200_000 else pytest.fail("this takes luck"))
    only = dict.fromkeys(WIDE, 19)
    assert space.sample(np.random.default_rng(0)) == only
    assert list(space) == [only]
    assert space.scatter(np.random.default_rng(1), 3) == 3 * [only]


def test_products_are_found_by_their_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []
    monkeypatch.setattr(deadline.Steps, "step", lambda self: steps.append(1) if len(steps) < 400_000 else pytest.fail("this takes luck"))
    space = ParameterSpace(LONG, ["*".join(f"(p{i} + 1)" for i in range(8)) + " == 50**8"])
    assert space.sample(np.random.default_rng(0)) == dict.fromkeys(LONG, 49)


def test_a_search_ends_at_its_deadline() -> None:
    def branching(p0: int, p1: int, p2: int, p3: int, p4: int, p5: int) -> bool:
        return bool(p0) and p0 + p1 + p2 + p3 + p4 + p5 > 114

    space = ParameterSpace(WIDE, [branching])
    with deadline.within(time.monotonic() + 0.2), pytest.raises(OverdueError, match="as expressions"):
        space.sample(np.random.default_rng(0))
    with deadline.within(time.monotonic() + 0.2), pytest.raises(SpaceError, match="in time"):
        next(iter(space), None)


def test_counts_by_what_is_calculated_agree_with_trying_everything() -> None:
    """Sums, products, remainders, divisions and functions of integers and fractions, as text and as callables."""
    seed = new_seed("rules")
    rng = np.random.default_rng(seed)
    names = [f"p{i}" for i in range(5)]
    forms = (
        "{0} + {1} * {2} - {3} {op} {n}",
        "{0} * {1} * {2} % {n} == {3} % 2",
        "max({0}, {1}) - min({2}, {3}) {op} {n} // 3",
        "({0} + {1}) / ({2} + 1) {op} {3}",
        "{0} // ({1} + 1) + {2} ** 2 {op} {n} if {3} else {0} < 2",
        "-{0} + 2 * {1} {op} {2} - {3} or {3} == {0}",
        "sum([{0}, {1}, {2}]) {op} {n} and {3} in (0, 1, 3)",
        "{0} == 0 or {1} % {0} == 0",
    )
    for _ in range(25):
        whole = rng.random() < 0.7
        parameters = {name: tuple(range(4)) if whole else tuple(x / 3 for x in range(4)) for name in names}
        texts = []
        for _ in range(2):
            form = str(rng.choice(forms))
            texts.append(form.format(*rng.permutation(names)[:4], n=int(rng.integers(1, 8)), op=rng.choice(["<", "<=", "==", "!=", ">"])))
        everything = [dict(zip(names, values, strict=True)) for values in product(*parameters.values())]

        def holds(text: str, config: dict[str, float]) -> bool:
            try:
                return bool(eval(text, {}, config))
            except ZeroDivisionError:
                return False

        legal = [config for config in everything if all(holds(text, config) for text in texts)]
        for rules in (texts, [eval(f"lambda {', '.join(names)}: {text}") for text in texts]):
            space = ParameterSpace(parameters, rules)
            assert list(space) == legal, texts
            assert space.count() == len(legal), texts


def test_a_callable_that_asks_for_types_is_not_taken_for_what_it_does_with_others() -> None:
    def odd(a: object, b: object) -> object:
        return a == b if isinstance(a, int) else a != b  # type: ignore[comparison-overlap]

    space = ParameterSpace({"a": (1, 2, 3), "b": (1, 2, 3)}, [odd])
    assert space.count() == 3


def test_walks_that_cannot_count_prune_by_bounds() -> None:
    effort = Effort(states=3, few_states=3, descents=5, fruitless=10)
    space = ParameterSpace(WIDE, ["p0 + p1 + p2 + p3 + p4 + p5 == 114"], effort=effort)
    assert space.sample(np.random.default_rng(0)) == dict.fromkeys(WIDE, 19)
    assert list(space) == [dict.fromkeys(WIDE, 19)]
