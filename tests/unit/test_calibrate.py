"""Calibration: a fit finds the constants that made timings, timing survives interruptions, and a model is used once it is stored."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from portatile import workloads
from portatile.cli import main
from portatile.errors import ArgumentError, UsageError
from portatile.records import Config, DeviceInfo, Problem, canonical
from portatile.studies import calibration
from portatile.workloads.gemm.forms.gpu import costs, fit, ranking, tiles, timings
from portatile.workloads.gemm.forms.gpu.costs import Costs
from support.devices import DEVICES

GEMM = workloads.get("gemm")
GPU = replace(DEVICES["gpu"], name="paper GPU", clock_mhz=1500)


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path / "data"))


def shipped(dtype: str = "float32") -> Costs:
    result = costs.known(GPU, dtype)
    assert result is not None
    return result


def elsewhere() -> Costs:
    """A device with slower launches, faster memory, half the rates."""
    now = shipped()
    slower = {"launch": 1.6 * now.launch, "fill": 1.4 * now.fill, "cached": 1.5 * now.cached, "transposed": 1.3, "columns": 25.0}
    return replace(now, **slower, rates=tuple(0.5 * rate for rate in now.rates))


def seconds(problem: Problem, config: Config, truth: Costs, info: DeviceInfo = GPU) -> float:
    """What a device with these constants takes."""
    one = timings.TimedShape(*(tuple(problem.sizes[s] for s in "mnk"), problem.dtype, _trans(problem)), ((config, 1.0),))  # type: ignore[arg-type]
    (case,) = timings.cases(timings.Timings(info, {}, (one,)), problem.dtype, GEMM.problem)
    return 1e-6 * float(case.estimated(truth)[0])


def _trans(problem: Problem) -> str:
    return f"{problem.options['trans_a']}{problem.options['trans_b']}"


class Paper:
    """Measures by constants instead of a device, and counts the shapes; the clock goes a second with each."""

    def __init__(self, truth: Costs, interrupted_at: int = 0) -> None:
        self.truth, self.interrupted_at, self.shapes = truth, interrupted_at, 0

    def __call__(self, problem: Problem, configs: Sequence[Config]) -> tuple[Mapping[str, float], bool]:
        self.shapes += 1
        truth = self.truth if problem.dtype == "float32" else shipped("float64")
        return {canonical(config): seconds(problem, config, truth) for config in configs}, self.shapes == self.interrupted_at

    def clock(self) -> float:
        return float(self.shapes)


def test_a_fit_finds_what_made_the_timings(tmp_path: Path) -> None:
    truth, paper = elsewhere(), Paper(elsewhere())
    result = calibration.collect(GPU, 80.0, tmp_path / "t.json", {}, measure=paper, clock=paper.clock)
    cases = calibration.cases_of(result, "float32")
    fitted = fit.fit(cases, shipped())
    misses = np.concatenate([abs(np.log(case.estimated(fitted) / case.took)) for case in cases])
    assert misses.mean() < 0.02
    assert fitted.launch == pytest.approx(truth.launch, rel=0.15)
    known = {int(place) for case in cases for place in case.columns.place[case.took < 1.2 * case.best]}
    assert len(known) > 5
    assert all(fitted.rates[place] == pytest.approx(truth.rates[place], rel=0.15) for place in known)
    assert fit.judge(cases, fitted).mean > 0.99
    assert fit.judge(cases, fitted).mean >= fit.judge(cases, shipped()).mean
    assert fit.held_out(cases, shipped()).mean > 0.95


def test_timing_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    path, first, second = tmp_path / "t.json", Paper(elsewhere(), interrupted_at=3), Paper(elsewhere())
    result = calibration.collect(GPU, 100.0, path, {"command": "first"}, measure=first, clock=first.clock)
    assert len(result.shapes) == 3
    assert timings.read(path) == result, "what was timed is in the file"
    more = calibration.collect(GPU, 5.0, path, {"command": "second"}, measure=second, clock=second.clock)
    assert more.shapes[:3] == result.shapes
    assert len(more.shapes) == 3 + second.shapes == 3 + 6
    assert len({(shape.sizes, shape.dtype, shape.trans) for shape in more.shapes}) == len(more.shapes)
    assert sorted(path.parent.iterdir()) == [path], "nothing half written is left"


def test_a_stored_model_chooses_from_then_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paper, path = Paper(elsewhere()), tmp_path / "t.json"
    calibration.collect(GPU, 16.0, path, {"command": "paper"}, measure=paper, clock=paper.clock)
    before = shipped()
    assert main(["calibrate", "gemm", "--refit", str(path)]) == 0
    out, err = capsys.readouterr()
    assert "mean share of best" in out
    own = costs.own_file(GPU.name, GPU.can.language, tmp_path / "data")
    assert str(own) in "".join(err.split("\n"))
    after = shipped()
    assert after != before
    assert after.products == 128 * 1500
    model = costs.read(own)
    assert model.made[GPU.can.language]["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert set(model.costs[GPU.can.language]) == {"float32", "float64"}
    assert ranking.fastest(GEMM.problem({"m": 512, "n": 512, "k": 512}), GPU, GPU.local_memory) is not None
    assert main(["calibrate", "--refit", str(path), "-o", str(tmp_path / "m.json"), "--json"]) == 0
    assert {row["dtype"] for row in json.loads(capsys.readouterr().out)["rows"]} == {"float32", "float64"}
    assert main(["calibrate", "--refit", str(path), "--judge", str(path), "--json"]) == 0
    judged = json.loads(capsys.readouterr().out)["rows"]
    assert all(0.9 < row["mean"] <= 1.0 for row in judged)
    assert main(["calibrate", "--judge", str(path)]) == 0


def test_other_devices_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="is a processor: its tiles follow from registers and caches"):
        calibration.check(DEVICES["cpu"])
    with pytest.raises(UsageError, match="no estimate chooses"):
        calibration.check(replace(GPU, vendor="someone else"))
    calibration.check(GPU)
    wrong = tmp_path / "wrong.json"
    wrong.write_text('{"shapes": 3}')
    with pytest.raises(ArgumentError, match="holds no timings of GEMM"):
        timings.read(wrong)
    assert main(["calibrate", "--refit", str(wrong)]) == 2
    few = tmp_path / "few.json"
    paper = Paper(elsewhere())
    calibration.collect(GPU, 0.0, few, {}, measure=paper, clock=paper.clock)
    assert main(["calibrate", "--refit", str(few)]) == 2
    assert "larger --budget" in "".join(capsys.readouterr().err.split("\n"))


def test_models_that_come_with_the_package_say_where_they_are_from() -> None:
    files = sorted(costs.SHIPPED.glob("*.json"))
    assert files
    for path in files:
        model = costs.read(path)
        assert model.architecture == path.stem
        assert model.made.keys() == model.costs.keys()
        for made in model.made.values():
            assert {"command", "commit", "timings", "sha256"} <= set(made)
        for language, by_type in model.costs.items():
            for dtype in by_type:
                result = model.of(language, dtype)
                assert result is not None
                assert len(result.rates) == len(tiles.tiles_of(dtype, False))
                assert min(getattr(result, name) for name in costs.NAMES) > 0
