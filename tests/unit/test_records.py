"""Records: JSON there and back, layouts, budgets."""

import math

import numpy as np
import pytest

from portatile.errors import ArgumentError
from portatile.records import Arg, Call, Launch, Layout, Plan, Problem, Source, Temporary, from_json, to_json
from portatile.trials import Budget


def test_plan_survives_json() -> None:
    source = Source("k.cl", "kernel void k() {}", (("N", "4"),))
    inner = Problem("gemm", {"m": 1, "n": 2, "k": 3}, "float32", {"trans_a": "N"}, {"a": Layout((3, 1), 7)})
    plan = Plan(
        (
            Launch(source, "k", (64, 1, 1), (8, 1, 1), (Arg("a"), Arg("m", "scalar", dtype="int64", value=3), Arg("t", "local", value=64))),
            Call(inner, {"a": "a", "b": "w", "c": "b"}, {"alpha": -1.0, "beta": "beta"}),
        ),
        (Temporary("w", 4096),),
    )
    assert from_json(to_json(plan), Plan) == plan
    assert plan.workspace == 4096


def test_layout_extent_reaches_the_last_element() -> None:
    layout = Layout((10, 1), 3)
    storage = np.arange(100)
    view = np.lib.stride_tricks.as_strided(storage[3:], (4, 7), (80, 8))
    assert view[-1, -1] == layout.extent((4, 7)) - 1
    assert layout.extent((0, 7)) == 3


@pytest.mark.parametrize(
    ("layout", "width"),
    [(Layout((64, 1)), 16), (Layout((6, 1)), 2), (Layout((64, 1), 4), 4), (Layout((64, 1), 1), 1), (Layout((64, 1), 0, 16), 4)],
)
def test_vector_width_is_what_every_row_allows(layout: Layout, width: int) -> None:
    assert layout.vector_width(4) == width


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("30s", Budget(30.0)),
        ("5m", Budget(300.0)),
        ("200", Budget(None, 200)),
        ("1.5s,20", Budget(1.5, 20)),
        (12.5, Budget(12.5)),
        (5, Budget(None, 5)),
    ],
)
def test_budget(text: str | float, budget: Budget) -> None:
    assert Budget.parse(text) == budget


@pytest.mark.parametrize("text", ["", "soon", "0", 0, True, "0s", "-3s", "2.5", "5 parsecs", math.inf])
def test_budget_that_is_not_one(text: str | float) -> None:
    with pytest.raises(ArgumentError, match="budget"):
        Budget.parse(text)
