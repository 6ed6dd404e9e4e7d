"""What is timed before it is proven: rivals are checked on every shape, what is slow only on the timed one, and winners always."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from portatile.device.base import Device
from portatile.records import Config, DeviceInfo, Launch, Plan, Problem
from portatile.space import ParameterSpace
from portatile.store import Query, ResultStore
from portatile.trials import Budget, Trial
from portatile.tuning.final import ranking
from portatile.tuning.protocol import Timing
from portatile.tuning.search.tuner import TuningRequest, TuningResult, tune
from support.faulty import Faulty

pytestmark = pytest.mark.usefixtures("own_directories")

TIMED = 1003
GROUPS = (8, 16, 32, 64, 128)
QUICK = Timing(samples=3, burst=0.0005, most=0.05)


class Shaped(Faulty):
    """Each shape has a text of its own; ``narrow`` and ``lame``, which is slow, are right only on the shape that is timed."""

    def plan(self, problem: Problem, config: Config, device: DeviceInfo) -> Plan:
        timed = problem.sizes["n"] == TIMED
        fault = {"narrow": "none" if timed else "wrong", "lame": "slow" if timed else "wrong"}.get(str(config["fault"]), config["fault"])
        (launch,) = super().plan(problem, {**config, "fault": fault}, device).steps
        assert isinstance(launch, Launch)
        shaped = replace(launch.source, defines=(*launch.source.defines, ("SHAPE", str(problem.sizes["n"]))))
        return Plan((msgspec.structs.replace(launch, source=shaped),))


def merit(trial: Trial) -> float:
    """What there is least of in rivals, however disturbed the machine is."""
    return {"narrow": 1.0, "none": 2.0, "lame": 3.0}[str(trial.config["fault"])]


def run(
    device: Device, store: ResultStore, space: ParameterSpace | None = None, jobs: int | None = None, model: bool = True
) -> TuningResult:
    workload = Shaped(("none", "narrow", "lame"), GROUPS)
    base = TuningRequest(
        workload.problem({"n": TIMED}), device.info.id, Budget(evaluations=50), "exhaustive", workload=workload, timing=QUICK
    )
    return tune(replace(base, space=space, jobs=jobs, model=model, objective=merit), store)


def of_fault(result: TuningResult, fault: str) -> list[Trial]:
    return [trial for trial in result.trials if trial.config["fault"] == fault]


@pytest.mark.thinned(1 / 3)
@pytest.mark.parametrize("jobs", [0, 2])
def test_only_rivals_are_checked_on_every_shape(device: Device, jobs: int) -> None:
    with ResultStore(None) as store:
        result = run(device, store, jobs=jobs)
    assert {trial.status for trial in of_fault(result, "narrow")} == {"wrong"}
    assert {trial.message.partition(":")[0] for trial in of_fault(result, "narrow")} == {"n=1"}
    assert not any(trial.samples for trial in of_fault(result, "narrow"))
    lame = of_fault(result, "lame")
    assert not any(trial.fully_checked for trial in lame)
    if jobs == 0:
        assert {trial.status for trial in lame} == {"ok"}
    for trial in lame:
        if trial.status == "wrong":  # its binary came before the others', when it was a rival
            assert trial.message.startswith("n=1:")
            continue
        assert trial.status == "ok"
        assert trial.certificate is not None
        assert [check.sizes["n"] for check in trial.certificate.checks] == [TIMED]
        assert not trial.certificate.holds(trial.device, trial.source)
    for trial in of_fault(result, "none"):
        assert trial.fully_checked
        assert trial.certificate is not None
        assert [check.sizes["n"] for check in trial.certificate.checks] == [1, 37, TIMED]
        assert trial.certificate.holds(trial.device, trial.source)
    assert len(result.trials) == 3 * len(GROUPS)
    assert result.best.config["fault"] == "none"
    assert {trial.config["fault"] for trial in result.finalists} <= {"none"}


@pytest.mark.thinned(1 / 3)
def test_without_the_model_everything_is_checked(device: Device) -> None:
    with ResultStore(None) as store:
        result = run(device, store, model=False)
    assert {trial.status for trial in of_fault(result, "lame")} == {"wrong"}


@pytest.mark.thinned(1 / 3)
def test_what_was_no_rival_is_proven_before_it_may_win(device: Device, tmp_path: Path) -> None:
    """A time from an earlier run is answered from the store, and checked in full where it stands among the best of this one.

    One after another (``jobs``), so that the others are known when the slow ones come.
    """
    with ResultStore(tmp_path / "results.sqlite") as store:
        assert {trial.status for trial in of_fault(run(device, store, jobs=0), "lame")} == {"ok"}
        result = run(device, store, ParameterSpace({"fault": ("lame",), "group": GROUPS}), jobs=0)
        assert sorted(trial.status for trial in of_fault(result, "lame")) == ["ok", *["wrong"] * (ranking.FIELD - 1)]
        assert result.best == result.default
        newest = store.trials(Query(config={"fault": "lame", "group": GROUPS[0]}))
        assert [trial.status for trial in newest if trial.standing is None] == ["ok", "wrong"]
