"""The comparison of strategies: its figures on spaces whose answers are known, its picture and its command."""

from __future__ import annotations

import json
import math
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from portatile.cli import main
from portatile.errors import ArgumentError, UnknownNameError
from portatile.figures import svg
from portatile.records import to_json
from portatile.studies.convergence import Landscape, StrategiesRequest, compare
from portatile.studies.strategies import chart, rows
from portatile.trials import Budget, Standing, Trial
from support.recordings import OTHER, recorded, recording
from support.trials import DEVICE


def line(times: list[float]) -> list[Trial]:
    """One parameter whose values have these times; infinite for a failure."""
    return [
        Trial(
            OTHER,
            {"X": x},
            DEVICE,
            "s",
            "ok" if math.isfinite(time) else "crash",
            (time,) if math.isfinite(time) else (),
            seconds={"run": 2.0},
        )
        for x, time in enumerate(times)
    ]


def test_finalists_are_compared_at_the_speed_of_the_search() -> None:
    """Their samples are of another time, in which the machine may have been faster."""
    searched, finalist = line([4.0, 2.0])
    standing = Standing(seconds=3.0, interval=(2.9, 3.1), place=1, tied=True, race="later")
    assert Landscape.of(recording([searched, replace(finalist, standing=standing)])).optimum == 3.0


def test_chance_is_exact() -> None:
    """Against every order of a small space."""
    times = [5.0, math.inf, 1.0, 3.0, 2.0, math.inf]
    space = Landscape.of(recording(line(times)))
    assert (space.optimum, space.median, space.size) == (1.0, 2.5, 6)
    orders = np.minimum(np.array(list(permutations(times))), space.median)
    assert space.chance(6) == pytest.approx(np.minimum.accumulate(orders, axis=1).mean(axis=0))


def test_the_budget_is_where_chance_is_near_the_optimum() -> None:
    rng = np.random.default_rng(2)
    space = Landscape.of(recording(line((1 + rng.pareto(2.0, 700)).tolist())))
    budget = space.budget()
    assert 100 <= budget <= 700
    goal = space.optimum + 0.05 * (space.median - space.optimum)
    curve = space.chance(700)
    assert curve[budget - 1] <= goal or budget == 700
    assert budget == 100 or curve[budget - 2] > goal
    assert Landscape.of(recording(line([3.0, 1.0, 2.0]))).budget() == 3


def test_figures_of_a_known_order() -> None:
    """``exhaustive`` goes through the space in its order, so that everything can be said beforehand."""
    times = [8.0, math.inf, 4.0, 2.0, 2.0, 1.0, 9.0, 3.0, 5.0, 7.0]
    (curve,) = compare(StrategiesRequest(recording(line(times)), ("exhaustive",), 2, Budget(evaluations=10))).curves
    assert curve.middle == pytest.approx((1 / 8, 1 / 8, 1 / 4, 1 / 2, 1 / 2, 1, 1, 1, 1, 1))
    assert curve.low == curve.high == curve.middle
    assert curve.shares == (curve.middle[0], curve.middle[1], curve.middle[4], 1.0)
    assert (curve.to_95, curve.to_98) == (6, 6)
    space = Landscape.of(recording(line(times)))
    y, chance = np.minimum(np.minimum.accumulate(times), space.median), space.chance(10)
    able = chance > 1
    assert curve.score == pytest.approx(float(((chance - y)[able] / (chance - 1)[able]).mean()))


def test_simulated_time_is_an_axis_too() -> None:
    times = [8.0, 4.0, 2.0, 1.0]
    comparison = compare(StrategiesRequest(recording(line(times)), ("exhaustive",), 1, Budget(seconds=8.0)))
    assert comparison.unit == "seconds"
    assert comparison.places[-1] == 8.0
    (curve,) = comparison.curves
    at = dict(zip(np.round(comparison.places, 6).tolist(), curve.middle, strict=True))
    assert [at[1.92], at[2.0], at[4.0], at[6.0], at[8.0]] == pytest.approx([0, 1 / 8, 1 / 4, 1 / 2, 1])
    assert curve.score is None


def test_random_search_is_as_good_as_chance() -> None:
    """Its score is 0 in expectation; with these seeds, which repeat, it lies within four standard errors."""
    rng = np.random.default_rng(9)
    result = recording(line(rng.uniform(1, 2, 200).tolist()))
    scores = [compare(StrategiesRequest(result, ("random",), 1, Budget(evaluations=40), seed)).curves[0].score or 0.0 for seed in range(60)]
    assert abs(np.mean(scores)) < 4 * np.std(scores) / len(scores) ** 0.5


def test_nothing_valid_and_wrong_names_are_mistakes() -> None:
    with pytest.raises(ArgumentError, match="none of its 2 configurations"):
        compare(StrategiesRequest(recording(line([math.inf, math.inf])), ("random",)))
    with pytest.raises(UnknownNameError, match="Did you mean 'genetic'"):
        compare(StrategiesRequest(recording(), ("random", "genetics")))


def test_the_picture_is_svg_with_a_line_and_a_band_for_each() -> None:
    made = [compare(StrategiesRequest(recording(), ("random", "local"), 3, Budget(evaluations=20)))] * 2
    drawn = svg.document([chart(comparison) for comparison in made])
    assert ElementTree.fromstring(drawn).tag.endswith("svg")
    assert drawn.count('class="line') == drawn.count('class="band') == 4
    assert drawn.count(">random</text>") == drawn.count(">local</text>") == 2


def test_the_study_has_the_same_curves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    comparison = compare(StrategiesRequest(recording(), ("random", "local"), 3, Budget(evaluations=20)))
    result = list(rows(comparison))
    for curve in comparison.curves:
        assert [row.share for row in result if row.strategy == curve.strategy] == list(curve.middle)
    (tmp_path / "list.json").write_bytes(to_json(recorded()))
    asked = ["study", "strategies", str(tmp_path / "list.json"), "--strategies", "local,random", "--repeats", "3", "--budget", "20"]
    assert main([*asked, "-o", str(tmp_path / "curves.svg"), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert {row["strategy"] for row in shown} == {"local", "random"}
    assert max(row["place"] for row in shown) == 20
    assert 'class="band' in (tmp_path / "curves.svg").read_text()
    assert main(["study", "strategies"]) == 2


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "list.json").write_bytes(to_json(recorded()))
    files = [str(tmp_path / "list.json")] * 2
    common = ["--strategies", "local, random", "--repeats", "3", "--budget", "20"]
    assert main(["compare-strategies", *files, *common, "-o", str(tmp_path / "curves.svg")]) == 0
    out = capsys.readouterr().out
    assert "3 runs of 20 evaluations" in out
    assert all(word in out for word in ("local", "random", "to 95 %", "P over all recordings"))
    assert ElementTree.parse(tmp_path / "curves.svg").getroot().tag.endswith("svg")
    assert main(["compare-strategies", files[0], *common, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert [curve["strategy"] for curve in found["curves"]] == ["local", "random"]
    assert len(found["curves"][0]["middle"]) == len(found["places"]) == 20


@pytest.mark.parametrize(
    ("args", "complaint"),
    [(["--strategies", "lokal"], "Did you mean 'local'"), (["--strategies", ","], "names no strategy"), (["--budget", "soon"], "budget")],
)
def test_mistakes_end_with_2(args: list[str], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "list.json").write_bytes(to_json(recorded()))
    assert main(["compare-strategies", str(tmp_path / "list.json"), *args]) == 2
    assert complaint in capsys.readouterr().err


def test_what_has_nothing_valid_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    valid, failed = line([3.0, 1.0, 2.0]), line([math.inf, math.inf])
    other = [replace(one, problem=replace(one.problem, workload="stream")) for one in failed]
    (tmp_path / "both.json").write_bytes(to_json([*valid, *other]))
    command = ["compare-strategies", str(tmp_path / "both.json"), "--strategies", "random", "--repeats", "1"]
    assert main(command) == 0
    assert "none of 2 configurations is valid" in " ".join(capsys.readouterr().err.split())
    assert main([*command, "--workload", OTHER.workload, "--json"]) == 0
    out, err = capsys.readouterr()
    assert "left out" not in err
    assert len(json.loads(out)) == 1
    assert main([*command, "--workload", "stream"]) == 2
    assert "no recorded configuration" in capsys.readouterr().err
    assert main([*command, "--workload", "streem"]) == 2
    assert "Did you mean 'stream'" in capsys.readouterr().err
