"""The end of a tuning run on every device: finalists race, winners are certified, impossible times are refused."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from portatile import ceilings, model
from portatile.ceilings import Measured
from portatile.device.base import Device
from portatile.errors import NoValidVariantError, UnknownNameError, UsageError
from portatile.records import Layout, Problem
from portatile.store import ResultStore
from portatile.trials import Budget
from portatile.tuning.protocol import Timing
from portatile.tuning.search.tuner import Progress, TuningRequest, tune
from portatile.workload import Expected, Inputs
from support.faulty import Faulty

pytestmark = pytest.mark.lengthy
QUICK = Timing(samples=3, burst=0.0005, most=0.05)


class Offset(Faulty):
    """As Faulty; one of the small problems begins inside its memory."""

    def awkward(self, problem: Problem) -> list[Problem]:
        inside = replace(problem, sizes={"n": 37}, layout={"x": Layout((1,)), "y": Layout((1,), 0, 16)})
        return [replace(problem, sizes={"n": 1}, layout={name: Layout((1,)) for name in "xy"}), inside]


def request(device: Device, workload: Faulty, **changes: object) -> TuningRequest:
    base = TuningRequest(
        workload.problem({"n": 1003}), device.info.id, Budget(evaluations=50), "exhaustive", workload=workload, timing=QUICK
    )
    return replace(base, **changes)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def own_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path / "data"))


def test_the_best_few_race_and_the_winner_is_certified(device: Device, tmp_path: Path, all_near: None) -> None:
    workload = Offset(("none", "wrong"), (32, 64, 128))
    heard: list[Progress] = []
    with ResultStore(tmp_path / "results.sqlite") as store:
        result = tune(request(device, workload), store, heard.append)
        assert store.best(result.problem, device.info) == result.best
        assert list(result.finalists) == store.trials()[-len(result.finalists) :]
    assert next(progress.racing for progress in heard if progress.racing) == 3
    places = [trial.standing.place for trial in result.finalists if trial.standing is not None]
    assert places == list(range(1, len(result.finalists) + 1))
    assert len(places) >= 2
    assert result.best == min(result.trials, key=lambda trial: trial.rank)
    for trial in result.finalists:
        standing = trial.standing
        assert trial.config["fault"] == "none"
        assert standing is not None
        assert standing.interval[0] <= trial.median <= standing.interval[1]
        assert len(trial.samples) >= 3
    proof = result.best.certificate
    assert proof is not None
    assert [check.sizes["n"] for check in proof.checks] == [1, 37, 1003]
    assert all(0 <= check.error <= 1 and check.bound == 2.0**-20 for check in proof.checks)
    assert [dict(check.layout) for check in proof.checks] == [{}, {"y": Layout((1,), 0, 16)}, {}]
    assert proof.holds(result.device, result.best.source)
    assert proof.time


class Unknown(Faulty):
    """Nobody says what it must compute."""

    def reference(self, problem: Problem, inputs: Inputs, sample: np.random.Generator | None = None) -> dict[str, Expected]:
        return {}


def test_without_a_reference_a_certificate_claims_nothing(device: Device) -> None:
    with ResultStore(None) as store:
        result = tune(request(device, Unknown(("wrong",), (32,), default="wrong")), store)
    assert result.best.certificate is not None
    assert result.best.certificate.checks == ()


def test_no_race_where_none_is_wanted(device: Device) -> None:
    with ResultStore(None) as store:
        result = tune(request(device, Faulty(("none",), (32, 64)), timing=Timing(samples=3, burst=0.0005, most=0.05, race=0)), store)
    assert result.finalists == ()
    assert result.best.median == min(trial.median for trial in result.trials)


def test_a_race_is_decided_even_if_loading_took_all_its_time(device: Device, all_near: None) -> None:
    timing = Timing(samples=3, burst=0.0005, most=0.05, race=0.05)
    with ResultStore(None) as store:
        result = tune(request(device, Faulty(("none",), (32, 64, 128)), timing=timing), store)
    assert len(result.finalists) >= 2, result.unraced
    assert max(len(trial.samples) for trial in result.finalists) >= 3


@pytest.mark.usefixtures("earlier_children")
def test_ctrl_c_in_the_race_keeps_the_search(device: Device, all_near: None) -> None:
    def tired(progress: Progress) -> None:
        if progress.racing:
            raise KeyboardInterrupt

    with ResultStore(None) as store:
        result = tune(request(device, Faulty(("none",), (64, 65, 66, 67, 68))), store, tired)
        assert len(store.trials()) == len(result.trials) == 5
    assert result.stopped == "interrupted"
    assert result.finalists == ()


def test_a_function_says_what_is_best(device: Device, all_near: None) -> None:
    with ResultStore(None) as store:
        result = tune(request(device, Faulty(("none",), (16, 32, 64)), objective=lambda trial: abs(int(trial.config["group"]) - 32)), store)
    assert result.best.config["group"] == 32
    assert [trial.config["group"] for trial in result.finalists] == [32, 16, 64]  # measured again, in turn
    assert all(trial.standing is None for trial in result.finalists)  # what the routines use is the fastest, as before
    assert result.best == result.finalists[0]
    assert len(result.best.samples) >= 3


@pytest.mark.usefixtures("earlier_children")
def test_energy_needs_a_device_that_tells_its_power(device: Device) -> None:
    if device.info.kind != "cpu":
        pytest.skip("a GPU may tell its power; test_sensors has what follows from that")
    with ResultStore(None) as store, pytest.raises(UsageError, match="does not report its power"):
        tune(request(device, Faulty(), objective="energy"), store)


@pytest.mark.parametrize("value", [math.nan, None, -math.inf])
def test_an_objective_that_tells_nothing(device: Device, value: object) -> None:
    with ResultStore(None) as store, pytest.raises(UsageError, match=r"the objective makes .* of a valid trial .*group=16"):
        tune(request(device, Faulty(("none",), (16, 32)), objective=lambda trial: value), store)


def test_an_objective_that_is_none(device: Device) -> None:
    with ResultStore(None) as store, pytest.raises(UnknownNameError, match=r"objective 'enrgy'.*Did you mean 'energy'"):
        tune(request(device, Faulty(), objective="enrgy"), store)


def test_cold_times_are_kept_apart(device: Device) -> None:
    workload = Faulty(("none",), (32,))
    with ResultStore(None) as store:
        tune(request(device, workload), store)
        warm = store.best(workload.problem({"n": 1003}), device.info)
        known: list[Progress] = []
        cold = tune(request(device, workload, timing=Timing(samples=2, most=0.1, cold=True)), store, known.append)
        assert known[-1].known == 0
        assert all(trial.cold and trial.status == "ok" and len(trial.samples) >= 2 for trial in cold.trials)
        assert store.best(workload.problem({"n": 1003}), device.info) == warm


def test_what_is_faster_than_the_device_is_refused(device: Device) -> None:
    ceilings.add(device.info, [Measured("fp32", "flop/s", 1.0, (1000.0,))])  # a peak of a thousandth of an operation a second
    with ResultStore(None) as store:
        with pytest.raises(NoValidVariantError, match="faster than the device can be"):
            tune(request(device, Faulty(("none",), (32, 64))), store)
        assert {trial.status for trial in store.trials()} == {"wrong"}
        ceilings.add(device.info, [Measured("fp32", "flop/s", 1e18, (1.0,))], fresh=True)
        result = tune(request(device, Faulty(("none",), (32, 64))), store)  # the ceiling was the mistake
        assert result.failures == {}


def test_believable_ceilings_refuse_nothing(device: Device) -> None:
    ceilings.add(device.info, [Measured("fp32", "flop/s", 1e18, (1.0,)), Measured("triad", "B/s", 1e18, (1.0,))])
    with ResultStore(None) as store:
        result = tune(request(device, Faulty(("none",), (32, 64))), store)
    assert result.failures == {}
    assert model.ON_PAPER not in result.saved
