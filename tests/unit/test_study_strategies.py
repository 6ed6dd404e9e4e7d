"""The study of search strategies: where curves are read, and recordings without a valid trial."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from portatile.errors import UsageError
from portatile.records import Problem, to_json
from portatile.studies import strategies
from portatile.studies.framework import table
from portatile.studies.framework.study import Column, Run
from support.recordings import recorded


def test_the_curves_of_strategies_are_read_where_places_double() -> None:
    rows = [
        strategies.StrategiesRow("r", name, "evaluations", float(place), 0.1, 0.2, 0.3, to_95, None, score, 0.0)
        for name, score, to_95 in (("slow", None, None), ("quick", 0.5, 7.0))
        for place in range(1, 11)
    ]
    assert [row.place for row in strategies.few(rows) if row.strategy == "slow"] == [1.0, 2.0, 4.0, 8.0, 10.0]
    assert strategies.notes(rows)[0].endswith("quick (7), slow (never)")
    assert "rounding allows" in table.legend((Column("error", "place"), Column("error", "error")), [SimpleNamespace(error=0.5)])
    assert table.legend((Column("error", "error"),), [SimpleNamespace(error=None)]) == ""


def test_recordings_without_a_valid_trial_are_left_out(tmp_path: Path) -> None:
    problem = Problem("matmul", {"m": 8, "n": 8, "k": 8}, "float32", {}, {})
    broken = [replace(trial, problem=problem, status="crash", samples=()) for trial in recorded()]
    file = tmp_path / "trials.json"
    said: list[str] = []
    file.write_bytes(to_json([*broken, *recorded()]))
    options = strategies.StrategiesOptions(files=(file,), strategies="random", repeats=1, budget="5")
    assert {row.strategy for row in strategies.measure(Run((), options, say=said.append))} == {"random"}
    (left_out,) = (line for line in said if line.startswith("left out"))
    assert left_out.startswith("left out matmul m=8 n=8 k=8")
    assert left_out.endswith("none of its 60 configurations is valid")
    file.write_bytes(to_json(broken))
    with pytest.raises(UsageError, match=r"no recorded configuration in .* is valid"):
        list(strategies.measure(Run((), options)))
