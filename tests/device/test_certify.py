"""A configuration tuned with another driver or kernel text is checked before it is used, once, and not used if it fails."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from portatile import cache, flat_plans, program, verify, workloads
from portatile.device.base import Device, Memory
from portatile.errors import DeviceError, LaunchError
from portatile.records import Binary, Config, DeviceInfo, Plan, Problem, Source
from portatile.runtime.one_device.certify import Certifier
from portatile.runtime.one_device.engine import Engine
from portatile.select import Choice
from portatile.space import ParameterSpace
from portatile.store import ResultStore
from portatile.trials import Trial
from portatile.verify import Verdict
from support.faulty import Faulty

pytestmark = pytest.mark.unoptimised

WORKLOAD = Faulty()
PROBLEM = WORKLOAD.problem({"n": 100_003})


class Setup:
    """A certifier as an engine makes it, that counts what it builds."""

    def __init__(self, device: Device, folder: Path, workload: Faulty = WORKLOAD) -> None:
        self.device, self.workload, self.built = device, workload, 0
        self.certifier = Certifier(device, cache.Cache(folder, 1 << 24), self.build, self.plan)

    def build(self, source: Source) -> Binary:
        self.built += 1
        return program.build(source, self.device.target, None)

    def plan(self, problem: Problem, choice: Choice) -> Plan:
        return self.workload.plan(problem, choice.config, self.device.info)

    def trial(self, config: Config) -> Trial:
        """As tuning here and now would store it."""
        source = program.source_hash(tuple(flat_plans.sources(self.workload.plan(PROBLEM, config, self.device.info))))
        return Trial(PROBLEM, config, self.device.info, source, "ok", (1.0,))

    def settle(self, trial: Trial) -> Choice:
        choice = Choice(trial.config, "tuned", "tuned", trial)
        return self.certifier.settle(self.workload, PROBLEM, choice, self.plan(PROBLEM, choice))


def older(trial: Trial) -> Trial:
    return replace(trial, device=replace(trial.device, driver="the driver before"))


@pytest.mark.parametrize("fault", ["none", "wrong"])
def test_what_was_tuned_with_what_is_here_is_taken_at_its_word(device: Device, tmp_path: Path, fault: str) -> None:
    setup = Setup(device, tmp_path)
    trial = setup.trial({"fault": fault, "group": 32})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert setup.settle(trial).trial == trial
    assert setup.built == 0


def stale(trial: Trial, how: str) -> Trial:
    changed = {"driver": "1.0 of last year", "compiler": "another"}.get(how)
    return replace(trial, source="another text") if changed is None else replace(trial, device=replace(trial.device, **{how: changed}))


@pytest.mark.parametrize("how", ["driver", "compiler", "text"])
def test_what_is_stale_is_checked_once(device: Device, tmp_path: Path, how: str) -> None:
    setup = Setup(device, tmp_path)
    trial = stale(setup.trial({"fault": "none", "group": 32}), how)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert setup.settle(trial).trial == trial
        assert setup.built == 1
        assert setup.settle(trial).trial == trial
        assert setup.built == 1
        later = Setup(device, tmp_path)  # another process, with the same cache
        assert later.settle(trial).trial == trial
        assert later.built == 0


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [("wrong", "times the allowed error"), ("behind", "wrote 1 element behind y"), ("compile", "failed to build|does not build")],
)
def test_what_fails_now_gives_way_to_the_default(device: Device, tmp_path: Path, fault: str, complaint: str) -> None:
    for setup in (Setup(device, tmp_path), Setup(device, tmp_path)):  # the second knows it from the first
        trial = older(setup.trial({"fault": fault, "group": 32}))
        with pytest.warns(RuntimeWarning, match=complaint) as warned:
            choice = setup.settle(trial)
        assert (choice.config, choice.reason, choice.trial) == ({"fault": "none", "group": 16}, "default", None)
        assert "the driver before" in str(warned[0].message)
        assert "portatile tune faulty" in str(warned[0].message)
    assert setup.built == 0


def test_another_driver_is_another_certificate(device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setup = Setup(device, tmp_path)
    trial = older(setup.trial({"fault": "none", "group": 32}))
    setup.settle(trial)
    monkeypatch.setattr(device, "info", replace(device.info, driver="the driver after"))
    setup.settle(trial)
    assert setup.built == 2


@pytest.mark.parametrize("kind", [LaunchError, DeviceError])
def test_what_the_device_refuses_now_is_tried_again_later(
    device: Device, tmp_path: Path, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(opened: Device, nbytes: int) -> Memory:
        raise kind("out of memory, which another process has")

    setup = Setup(device, tmp_path)
    trial = older(setup.trial({"fault": "none", "group": 32}))
    with monkeypatch.context() as patch:
        patch.setattr(type(device), "allocate", refuse)
        for _ in range(2):  # the second time it is known
            with pytest.warns(RuntimeWarning, match="another process has"):
                assert setup.settle(trial).reason == "default"
    setup.certifier.forget()
    assert setup.settle(trial).trial == trial
    assert Setup(device, tmp_path).settle(trial).trial == trial


class Large(Faulty):
    """No small problems of its own, and configurations that need a large one."""

    least = 3000

    def space(self, problem: Problem, device: DeviceInfo) -> ParameterSpace:
        facts = {**device.facts(), **problem.facts()}
        return ParameterSpace({"fault": self.faults, "group": self.groups}, [f"n >= {self.least}"], facts)

    def awkward(self, problem: Problem) -> list[Problem]:
        return [replace(problem, sizes={"n": 37}, layout={})]


def test_a_problem_is_made_as_small_as_stays_legal(device: Device, tmp_path: Path) -> None:
    seen: list[int] = []

    class Watched(Large):
        def inputs(self, problem: Problem, rng: np.random.Generator) -> object:  # type: ignore[override]
            seen.append(problem.sizes["n"])
            return super().inputs(problem, rng)

    setup = Setup(device, tmp_path, Watched())
    good = older(setup.trial({"fault": "none", "group": 32}))
    assert setup.settle(good).trial == good
    with pytest.warns(RuntimeWarning, match="allowed error"):
        assert setup.settle(older(setup.trial({"fault": "wrong", "group": 32}))).reason == "default"
    assert len(seen) == 2
    assert all(Large.least <= n < 2 * Large.least + 2 for n in seen)


def test_an_engine_uses_what_passes_and_the_default_for_what_does_not(
    device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("PORTATILE_CACHE_DIR", str(tmp_path / "cache"))
    matmul = workloads.get("matmul")
    problem = matmul.problem({"m": 30, "n": 20, "k": 10})
    default = matmul.default(problem, device.info)
    config = next(other for other in matmul.space(problem, device.info).neighbours(default) if other != default)
    with ResultStore.default() as store:
        store.add(older(Trial(problem, config, device.info, "a text of last year", "ok", (1e-9,))))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        prepared = Engine(device).prepare(problem)
    assert (prepared.choice.config, prepared.choice.reason) == (config, "tuned")
    monkeypatch.setenv("PORTATILE_CACHE_DIR", str(tmp_path / "another"))  # where nothing is remembered
    monkeypatch.setattr(verify, "compare", lambda *_: Verdict(False, 3.0, "out[0] is 3 times off"))
    with pytest.warns(RuntimeWarning, match="out.0. is 3 times off"):
        prepared = Engine(device).prepare(problem)
    assert (prepared.choice.config, prepared.choice.reason) == (default, "default")
