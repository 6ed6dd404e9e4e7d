"""Tuning from end to end on every device: the default first, verified trials, stored, answered from the store, compiled ahead."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from portatile import cache, program, workloads
from portatile.device.base import Device
from portatile.device.cuda import compiler as cuda_compiler
from portatile.errors import DeviceNotFoundError, NoValidVariantError, SpaceError, UnknownNameError
from portatile.records import Arg, Config, DeviceInfo, Launch, Plan, Problem, Source
from portatile.space import ParameterSpace
from portatile.store import Query, ResultStore
from portatile.trials import Budget
from portatile.tuning.protocol import Build, Built, DeviceOpened, Open, Timing
from portatile.tuning.search.tuner import Progress, TuningRequest, TuningResult, tune
from portatile.tuning.search.worker_process import WorkerProcess
from portatile.workload import Expected, Inputs, Operand
from support.faulty import Faulty

pytestmark = pytest.mark.usefixtures("own_directories")

QUICK = Timing(samples=3, burst=0.0005, most=0.05)


def request(device: Device, workload: Faulty, **changes: object) -> TuningRequest:
    base = TuningRequest(
        workload.problem({"n": 1003}), device.info.id, Budget(evaluations=50), "exhaustive", workload=workload, timing=QUICK
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def by_fault(result: TuningResult) -> dict[str, str]:
    return {str(trial.config["fault"]): trial.status for trial in result.trials}


def test_matmul_is_tuned(device: Device, tmp_path: Path) -> None:
    workload = workloads.get("matmul")
    problem = workload.problem(dict.fromkeys(workload.sizes, 50))
    heard: list[Progress] = []
    with ResultStore(tmp_path / "results.sqlite") as store:
        result = tune(TuningRequest(problem, device.info.id, Budget(evaluations=4), "random", timing=QUICK), store, heard.append)
        evaluated, raced = store.trials(Query(problem=problem))[:4], store.trials(Query(problem=problem))[4:]
        assert [trial.config for trial in evaluated] == [trial.config for trial in result.trials]
        assert raced == list(result.finalists)
        assert store.best(problem, device.info) == result.best
    search = [progress for progress in heard if not progress.racing]
    assert [progress.last for progress in search] == evaluated
    assert search[-1].evaluations == len(result.trials) == 4
    assert result.stopped == "budget"
    assert result.trials[0] == result.default  # as the race left it, if it was in it
    assert result.default.config == workload.default(problem, device.info)
    assert result.default.status == "ok", result.default.message
    assert result.best.rank == min(trial.rank for trial in result.trials)
    assert (result.device.id, result.device.driver) == (device.info.id, device.info.driver)  # PoCL's memory changes from run to run
    best = result.best
    assert len(best.samples) >= 2
    assert len(best.event_samples) >= 2
    assert all(0 < seconds < math.inf for seconds in best.samples + best.event_samples)
    assert best.error is not None
    assert 0 <= best.error <= 1
    assert best.source
    assert best.time
    assert {"compile", "check", "run"} <= set(best.seconds)


def test_a_space_is_exhausted_and_then_remembered(device: Device, tmp_path: Path, all_near: None) -> None:
    # all race at once: then nothing is left to be told
    workload = Faulty(("none", "compile"))
    with ResultStore(tmp_path / "results.sqlite") as store:
        first = tune(request(device, workload), store)
        assert first.stopped == "exhausted"
        assert len(first.trials) == 6
        assert by_fault(first) == {"none": "ok", "compile": "compile"}
        assert "does not build" in next(trial.message for trial in first.trials if trial.status == "compile")
        heard: list[Progress] = []
        second = tune(request(device, workload), store, heard.append)
        assert sorted(map(repr, second.trials)) == sorted(map(repr, first.trials))
        assert heard[-1].known == heard[-1].evaluations == 6
        known = 6 + len(first.finalists)
        assert len(store.trials()) == known
        third = tune(request(device, workload, resume=False, budget=Budget(evaluations=2)), store)
        assert len(third.trials) == 2
        assert len(store.trials()) == known + 2 + len(third.finalists)


def test_what_others_suggest_is_tried_early(device: Device, tmp_path: Path) -> None:
    workload = Faulty(("none",))
    *_, last = workload.space(workload.problem({"n": 1003}), device.info)
    asked = request(device, workload, budget=Budget(evaluations=2), suggested=(last, {**last, "fault": "unheard of"}), ranked=0, warm=0)
    with ResultStore(tmp_path / "results.sqlite") as store:
        result = tune(asked, store)
    assert last in [trial.config for trial in result.trials]


def test_a_further_value_costs_only_what_is_new(device: Device, tmp_path: Path) -> None:
    with ResultStore(tmp_path / "results.sqlite") as store:
        tune(request(device, Faulty(("none", "wrong"), (16, 32))), store)
        heard: list[Progress] = []
        wider = tune(request(device, Faulty(("none", "wrong"), (16, 32, 64, 128))), store, heard.append)
        assert len(wider.trials) == 8
        assert (heard[-1].known, heard[-1].evaluations) == (4, 8)
        for fault in ("none", "wrong"):
            for group in (16, 32):
                result = store.trials(Query(config={"fault": fault, "group": group}))
                assert len([trial for trial in result if trial.standing is None]) == 1  # beside these, only what raced


def test_compile_workers_give_the_same_verdicts(device: Device) -> None:
    workload = Faulty(("none", "compile", "wrong"))
    with ResultStore(None) as store:
        result = tune(request(device, workload, jobs=2), store)
    assert result.stopped == "exhausted"
    assert by_fault(result) == {"none": "ok", "compile": "compile", "wrong": "wrong"}
    assert len(result.trials) == 9


def test_seconds_bound_the_run_but_not_the_default(device: Device) -> None:
    with ResultStore(None) as store:
        result = tune(request(device, Faulty(("none",)), budget=Budget(seconds=0.001)), store)
    assert result.stopped == "budget"
    assert len(result.trials) == 1
    assert result.default.status == "ok"


def test_another_space_is_searched(device: Device) -> None:
    workload = Faulty(("none", "wrong"))
    swept = ParameterSpace({"fault": ("none",), "group": (32, 64)})
    with ResultStore(None) as store:
        result = tune(request(device, workload, space=swept), store)
    assert [trial.config["group"] for trial in result.trials] == [16, 32, 64]  # the default, and what is in the space


ADD = """
__kernel void add(__global const float *x, __global float *y, int n, float a) {
    int i = get_global_id(0);
    if (i < n) y[i] += a * x[i];
}
"""


class Adding(Faulty):
    """y += a x: every run destroys its own input."""

    operands = (Operand("x"), Operand("y", "inout"))
    scalars = {"a": 1.0}

    def plan(self, problem: Problem, config: Config, device: DeviceInfo) -> Plan:
        n, group = problem.sizes["n"], int(config["group"])
        scalars = (Arg("n", "scalar", dtype="int32", value=n), Arg("a", "scalar", dtype="float32"))
        args = (Arg("x"), Arg("y", role="inout"), *scalars)
        return Plan((Launch(Source("add.cl", ADD), "add", (-(-n // group) * group, 1, 1), (group, 1, 1), args),))

    def inputs(self, problem: Problem, rng: np.random.Generator) -> Inputs:
        x, y = rng.random((2, problem.sizes["n"]), np.float32)
        return Inputs({"x": x, "y": y}, {"a": 3.0})

    def reference(self, problem: Problem, inputs: Inputs, sample: np.random.Generator | None = None) -> dict[str, Expected]:
        values = inputs.operands["y"].astype(np.float64) + inputs.scalars["a"] * inputs.operands["x"].astype(np.float64)
        return {"y": Expected(values, np.abs(values))}


def test_inputs_that_a_run_destroys_are_reset(device: Device) -> None:
    with ResultStore(None) as store:
        result = tune(request(device, Adding(("none",))), store)
    assert [trial.status for trial in result.trials] == ["ok"] * 3, [trial.message for trial in result.trials]


def test_all_failing_says_how(device: Device) -> None:
    workload = Faulty(("wrong", "compile"), default="wrong")
    with ResultStore(None) as store:
        with pytest.raises(NoValidVariantError) as raised:
            tune(request(device, workload), store)
        assert len(store.trials()) == 6
    text = str(raised.value)
    assert "all 6 variants failed" in text
    assert "wrong: 3" in text
    assert "compile: 3" in text
    assert "times the allowed error" in text


class Impossible(Faulty):
    """No configuration is legal."""

    def space(self, problem: Problem, device: DeviceInfo) -> ParameterSpace:
        return ParameterSpace({"fault": ("none",), "group": (16,)}, ["group > 16"])


def test_an_empty_space_is_named(device: Device) -> None:
    with ResultStore(None) as store, pytest.raises(SpaceError, match="space is empty"):
        tune(request(device, Impossible()), store)


class Contradictory(Faulty):
    """The default is not legal."""

    def space(self, problem: Problem, device: DeviceInfo) -> ParameterSpace:
        return ParameterSpace({"fault": ("none",), "group": (16, 32)}, ["group > 16"])


def test_an_illegal_default_is_named(device: Device) -> None:
    with ResultStore(None) as store, pytest.raises(SpaceError, match=r"default .* violates group > 16"):
        tune(request(device, Contradictory()), store)


@pytest.mark.usefixtures("earlier_children")
def test_mistakes_leave_no_process_behind(device: Device) -> None:
    with ResultStore(None) as store:
        with pytest.raises(UnknownNameError, match="strategy"):
            tune(request(device, Faulty(), strategy="clairvoyant"), store)
        with pytest.raises(DeviceNotFoundError, match="no device matches"):
            tune(replace(request(device, Faulty()), device="abacus"), store)
        with pytest.raises(ZeroDivisionError):
            tune(request(device, Faulty(("none",))), store, lambda progress: print(1 / 0))


def test_cuda_compiles_ahead_without_a_gpu(device: Device, tmp_path: Path) -> None:
    """A compile worker for an absent GPU fills the cache that the timing worker reads, and reports what does not build."""
    if device.info.backend != "opencl":
        pytest.skip("needs no device of its own")
    if (reason := cuda_compiler.available()) is not None:
        pytest.skip(f"no NVRTC: {reason}")
    absent = replace(device.info, backend="cuda", architecture="sm_90", id="cuda:7")
    store = cache.Cache(tmp_path, 1 << 24)
    good, bad = Source("add.cl", ADD), Source("add.cl", ADD.replace("y[i]", "z[i]"))
    child = WorkerProcess()
    try:
        child.open(Open(None, str(tmp_path), 1 << 24, compiles=absent), 60.0)
        replies = []
        for number, source in enumerate((good, bad)):
            child.send(Build(number, (source,)))
        while sum(isinstance(reply, Built) for reply in replies) < 2:
            replies += child.receive()
    finally:
        child.end(grace=5)
    built, failed = (reply for reply in replies if isinstance(reply, Built))
    assert isinstance(replies[0], DeviceOpened)
    assert (built.failed, failed.failed) == (False, True)
    assert "add.cl" in failed.message
    assert store.get(program.key(good, cuda_compiler.target("sm_90"))) is not None
    assert store.get(program.key(bad, cuda_compiler.target("sm_90"))) is None
