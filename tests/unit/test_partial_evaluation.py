"""Constraints compiled for the names that are bound say what evaluating them says, for GEMM's own rules and for awkward ones."""

from __future__ import annotations

import numpy as np
import pytest

from portatile import workloads
from portatile.space.constraint import Constraint
from portatile.space.partial_evaluation import OPEN
from support.devices import DEVICES
from support.seeds import new_seed

AWKWARD = (
    "a or b == 1 and c",
    "not (a and b) or c > 2",
    "1 <= a < b <= (c if d else 4)",
    "c % (2 if d else b) == 0 and a",
    "max(a, b if d else c) > 1",
    "(a or b) + (c and d) > 1",
    "a / b > 1 or c",
    "all([a, b, c]) if d else c in (1, 2)",
    "min(b, c, key=abs) == 1 or a",
    "any(x > 1 for x in [a, b])",
)
VALUES = {"a": (0, 1, 2), "b": (0, 1, 3), "c": (1, 2, 3), "d": (True, False)}


def truth(rule: Constraint, values: dict[str, object], bound: frozenset[str]) -> object:
    """What the compiled form says; where it raises, ``settle`` says what that means."""
    try:
        result = rule.partial_evaluator(bound)(values)  # type: ignore[arg-type]
    except Exception:
        return rule.settle(values)  # type: ignore[arg-type]
    return result if result is OPEN else bool(result)


@pytest.mark.parametrize("text", AWKWARD)
def test_awkward_expressions_settle_as_they_evaluate(text: str) -> None:
    rule, rng = Constraint.of(text, VALUES), np.random.default_rng(new_seed("values"))
    for _ in range(200):
        names = [name for name in VALUES if rng.random() < 0.6]
        values = {name: VALUES[name][int(rng.integers(len(VALUES[name])))] for name in names}
        assert truth(rule, values, frozenset(names)) == rule.settle(values), values


@pytest.mark.parametrize("kind", DEVICES)
def test_the_rules_of_gemm_settle_as_they_evaluate(kind: str) -> None:
    space = workloads.get("gemm").space(workloads.problem("gemm", "float32", {"m": 512, "n": 511, "k": 300}), DEVICES[kind])
    rng, names = np.random.default_rng(new_seed("values")), list(space.parameters)
    for rule in space.constraints:
        bound = names[: int(rng.integers(len(names) + 1))]
        for _ in range(5):
            drawn = {name: space.parameters[name][int(rng.integers(len(space.parameters[name])))] for name in bound}
            values = {**space.facts, **drawn}
            assert truth(rule, values, frozenset(values)) == rule.settle(values), (rule.text, drawn)
