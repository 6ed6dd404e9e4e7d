"""ParameterSpace: constraints bind early, samples are legal and uniform, errors name what is wrong."""

from collections import Counter
from itertools import product

import numpy as np
import pytest

from portatile.errors import SpaceError, UnknownNameError
from portatile.space import ParameterSpace
from portatile.space.effort import Effort
from support.seeds import new_seed


def tiles() -> ParameterSpace:
    return ParameterSpace(
        {"x": (1, 2, 4, 8), "y": (1, 2, 4, 8), "form": ("plain", "wide")},
        [lambda x, y, limit: x * y <= limit, "form == 'plain' or x >= 4"],
        {"limit": 16},
    )


def brute_force(space: ParameterSpace) -> list[dict[str, object]]:
    x, y, form = space.parameters.values()
    return [{"x": a, "y": b, "form": f} for a in x for b in y for f in form if a * b <= 16 and (f == "plain" or a >= 4)]


def test_lists_exactly_the_legal_configurations() -> None:
    space = tiles()
    assert list(space) == brute_force(space)
    assert space.size == 32
    assert space.count() == len(brute_force(space))


def test_samples_are_legal_and_uniform() -> None:
    space = tiles()
    rng = np.random.default_rng(7)
    counts = Counter(str(space.sample(rng)) for _ in range(4000))
    assert len(counts) == space.count()
    mean = 4000 / space.count()
    assert all(abs(count - mean) < 6 * mean**0.5 for count in counts.values())


def test_neighbours_differ_in_one_parameter_and_are_legal() -> None:
    space = tiles()
    here = {"x": 4, "y": 4, "form": "wide"}
    for other in space.neighbours(here):
        assert other in space
        assert sum(other[name] != here[name] for name in here) == 1
    assert {"x": 4, "y": 1, "form": "wide"} not in space.neighbours(here, adjacent=True)


def test_huge_space_is_not_listed() -> None:
    space = ParameterSpace({f"p{i}": tuple(range(10)) for i in range(12)}, [lambda p0, p1: p0 != p1])
    assert space.size == 10**12
    assert space.sample(np.random.default_rng(0)) in space


def test_sparse_space_is_still_sampled() -> None:
    space = ParameterSpace({"a": tuple(range(200)), "b": tuple(range(200))}, [lambda a: a == 17, lambda a, b: a + b == 100])
    assert space.sample(np.random.default_rng(0)) == {"a": 17, "b": 83}


def test_empty_space_says_so() -> None:
    space = ParameterSpace({"a": (1, 2)}, ["a > 5"])
    with pytest.raises(SpaceError, match="a > 5"):
        space.sample(np.random.default_rng(0))


def test_unknown_name_in_a_constraint() -> None:
    with pytest.raises(UnknownNameError, match="widht"):
        ParameterSpace({"width": (1, 2)}, [lambda widht: widht > 1])


def test_constraint_that_raises_is_named() -> None:
    space = ParameterSpace({"a": ("x",)}, ["a + 1 > 0"])
    with pytest.raises(SpaceError, match=r"a \+ 1 > 0"):
        list(space)


def test_division_by_zero_is_not_legal() -> None:
    assert list(ParameterSpace({"a": (0, 2)}, ["4 % a == 0"])) == [{"a": 2}]


def test_why_a_configuration_is_not_legal() -> None:
    space = tiles()
    assert space.violated({"x": 1, "y": 1, "form": "plain"}) is None
    assert "not one of" in str(space.violated({"x": 3, "y": 1, "form": "plain"}))
    assert "form == 'plain'" in str(space.violated({"x": 1, "y": 1, "form": "wide"}))
    with pytest.raises(UnknownNameError, match="Did you mean"):
        space.violated({"x": 1, "y": 1, "from": "plain"})


def test_recorded_space_holds_its_configurations_only() -> None:
    configs = [{"a": 1, "b": 1}, {"a": 2, "b": 2}]
    space = ParameterSpace.from_configs(configs)
    assert list(space) == configs
    assert {"a": 1, "b": 2} not in space
    assert space.sample(np.random.default_rng(1)) in configs


def test_agrees_with_brute_force() -> None:
    rng = np.random.default_rng(new_seed("values"))
    for _ in range(100):
        xs, ys = ((rng.permutation(9)[: rng.integers(1, 5)] + 1).tolist() for _ in range(2))
        space = ParameterSpace({"x": xs, "y": ys}, [lambda x, y: x % y == 0])
        assert list(space) == [{"x": x, "y": y} for x in xs for y in ys if x % y == 0]


def conditional(rows: int, effort: Effort | None = None) -> ParameterSpace:
    """Three forms that share parameters: of 3 * 10^9 combinations 10 + 20 + rows are legal."""
    digits = tuple(range(10))
    parameters = {"form": ("a", "b", "c"), **{f"p{i}": digits for i in range(9)}}
    rules = ["form != 'a' or " + f"p{i} == 0" for i in range(8)]
    rules += ["form != 'b' or (" + f"p{i} == 1 and p8 < 2)" for i in range(1, 8)]
    rules += [
        "form != 'c' or (p0 == p1 == p2 == 2 and p3 == 1 and p4 == 1)",
        f"form != 'c' or p5 * 1000 + p6 * 100 + p7 * 10 + p8 < {rows}",
    ]
    return ParameterSpace(parameters, rules, effort=effort)


def test_conditional_space_is_listed_without_trying_every_combination() -> None:
    space = conditional(50)
    assert space.count() == 10 + 20 + 50
    assert all(config in space for config in space)


def test_rare_configurations_are_drawn_uniformly() -> None:
    space = conditional(50)
    rng = np.random.default_rng(0)
    drawn = [space.sample(rng) for _ in range(4000)]
    assert all(config in space for config in drawn)
    share = {form: sum(config["form"] == form for config in drawn) / 4000 for form in "abc"}
    for form, count in (("a", 10), ("b", 20), ("c", 50)):
        expected = count / 80
        assert abs(share[form] - expected) < 5 * (expected * (1 - expected) / 4000) ** 0.5, share


def test_a_space_too_large_to_list_is_drawn_from() -> None:
    space = conditional(10_000, Effort(states=3, few_states=3))
    first, again = ([space.sample(np.random.default_rng(seed)) for seed in range(60)] for _ in range(2))
    assert first == again
    assert all(config in space for config in first)
    forms = [config["form"] for config in first]
    assert forms.count("c") > 25  # 99.7 % of what is legal, but each form is as likely at the first step and c has most dead ends


def test_rules_that_settle_early_settle_rightly() -> None:
    """Parts joined by and, or, not, if and chains, over parameters in any order: listing and counting agree with trying everything."""
    drawn = new_seed("rules")
    rng = np.random.default_rng(drawn)
    names = [f"p{i}" for i in range(6)]
    parameters = dict.fromkeys(names, (0, 1, 2))
    forms = ("not ({0} > {1} and {2} == 1) or {3} < 2", "{0} <= {1} <= {2} or {3} == 0", "{1} > 0 if {0} == 1 else {2} != {3}")
    for _ in range(8):
        rules = [form.format(*rng.permutation(names)[:4]) for form in forms]
        rules += ["p0 + p5 < limit or p2 == 0"]
        space = ParameterSpace(parameters, rules, {"limit": 3})
        everything = (dict(zip(names, values, strict=True)) for values in product((0, 1, 2), repeat=6))
        legal = [c for c in everything if all(eval(rule, {"limit": 3}, c) for rule in rules)]
        assert list(space) == legal
        assert space.count() == len(legal)


def test_legal_configurations_are_counted_and_drawn_uniformly_without_listing() -> None:
    drawn = new_seed("rules")
    rng = np.random.default_rng(drawn)
    for _ in range(10):
        names = [f"p{i}" for i in range(5)]
        parameters = {name: tuple(range(1, int(rng.integers(2, 6)))) for name in names}
        rules = []
        for _ in range(4):
            one, other, third = rng.permutation(names)[:3]
            rules.append(f"{one} * {other} % {rng.integers(2, 4)} != 1 or {third} > 1")
        space = ParameterSpace(parameters, rules)
        assert space.count() == len(list(space))
    wide = ParameterSpace(
        {f"p{i}": (1, 2, 3, 4) for i in range(20)}, [f"p{i} * p{i + 1} % 4 == 0" for i in range(0, 20, 2)], effort=Effort(draws=0)
    )
    assert wide.size == 4**20
    assert wide.count() == 8**10  # of the sixteen pairs that a rule ties together eight are legal
    drawn = Counter(wide.sample(rng)["p0"] for _ in range(2000))
    for value, share in ((1, 1 / 8), (2, 2 / 8), (3, 1 / 8), (4, 4 / 8)):
        assert abs(drawn[value] / 2000 - share) < 5 * (share * (1 - share) / 2000) ** 0.5, drawn
