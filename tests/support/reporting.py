"""Stores for the tests of the report: real configurations with invented times, failures, and text that would break out of a page."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from portatile import flat_plans, program, workloads
from portatile.records import Config, Launch, Plan, Problem, canonical
from portatile.store import ResultStore
from portatile.trials import Certificate, Check, Standing, Status, Trial
from support.devices import CPU
from support.seeds import new_seed

HOSTILE = "</pre></script><script>document.title='broken'</script><img src=x onerror=alert(1)> \"'&amp; error: bad"
DEVICE = replace(CPU, name="Paper Machine <i>9</i>", local_memory=1 << 20, max_work_group_size=4096, max_work_item_sizes=(4096,) * 3)
OWN = Problem("my <b>kernel</b>", {"n": 1000}, "float32", {"mode": "<u>fast</u>"})
_STATUSES: tuple[Status, ...] = ("compile", "launch", "wrong", "timeout", "crash")
_BEGAN = datetime(2026, 1, 5, 9, tzinfo=UTC)


def convolution() -> Problem:
    """A problem of an installed workload."""
    return workloads.get("convolution").problem({"n": 256, "ndat": 64})


def time_of(config: Config) -> float:
    """Seconds: mostly ``WINDOW``, a little ``TI``."""
    return 1e-3 * (1.0 if config["WINDOW"] == 16 else 8.0) * (1 + int(config["TI"]) / 2000)


def convolutions(rng: np.random.Generator, count: int, failing: float = 0.1) -> list[Trial]:
    """``count`` trials, the default's first; about a share of ``failing`` of the others fail."""
    problem, workload = convolution(), workloads.get("convolution")
    space = workload.space(problem, DEVICE)
    default = workload.default(problem, DEVICE)
    configs = {canonical(default): default}  # each once: of several trials of one the newest would count
    while len(configs) < count:
        config = space.sample(rng)
        configs.setdefault(canonical(config), config)
    trials = []
    for number, config in enumerate(configs.values()):
        samples = tuple(time_of(config) * float(noise) for noise in rng.uniform(0.98, 1.02, 7))
        status: Status = "ok" if number == 0 or rng.random() > failing else _STATUSES[int(rng.integers(len(_STATUSES)))]
        trials.append(made(problem, config, status, samples, number, source=_hash(workload.plan(problem, config, DEVICE))))
    return trials


def made(
    problem: Problem, config: Config, status: Status, samples: tuple[float, ...], number: int, source: str = "", when: str = ""
) -> Trial:
    """A trial, ``number`` times three seconds after the first, or at ``when``."""
    return Trial(
        problem=problem,
        config=config,
        device=DEVICE,
        source=source,
        status=status,
        samples=samples if status == "ok" else (),
        seconds={"compile": 1.0, "run": 0.5},
        error=0.25 if status == "ok" else None,
        message="" if status == "ok" else f"{HOSTILE}\nline {number % 7}",
        time=when or (_BEGAN + timedelta(seconds=3 * number)).isoformat(timespec="seconds"),
    )


def owns() -> list[Trial]:
    """Trials of a kernel that is not installed, with markup wherever there is text."""
    statuses: tuple[Status, ...] = ("ok", "crash", "ok", "ok")
    modes = ("a", "b", "<em>c</em>", "d")
    return [
        made(OWN, {"TILE": 2**n, "MO<DE": mode, "PAD": n % 2 == 0}, status, (1e-4 * (n + 1),) * 5, n)
        for n, (status, mode) in enumerate(zip(statuses, modes, strict=True))
    ]


def raced(trial: Trial) -> Trial:
    """The trial as the winner of a race, with a certificate and what the device reported."""
    fields = {name: value for name, value in vars(trial).items() if name != "median"}
    checks = (Check({"n": 256, "ndat": 64}, 0.2, 3.0), Check({"n": 1, "ndat": 1}, 0.1, 3.0, dict(trial.problem.layout)))
    fields["certificate"] = Certificate(DEVICE.driver, DEVICE.compiler, trial.source, checks, time="2026-01-05")
    fields["standing"] = Standing(trial.median, (trial.median * 0.9, trial.median * 1.1), 1, False, "race 1")
    fields["conditions"] = {"clock_mhz": 1500.0, "power_w": 200.0}
    return Trial(**fields)


def hopeless() -> list[Trial]:
    """A problem of which nothing was valid."""
    problem = workloads.get("gemm").problem({"m": 8, "n": 8, "k": 8})
    return [made(problem, {"FORM": "cpu"}, "crash", (), number) for number in range(3)]


def everything(count: int) -> list[Trial]:
    """Every kind of group at once: ``count`` trials with a raced winner, an unknown kernel, a problem without a winner."""
    seed = new_seed("draws")
    result = convolutions(np.random.default_rng(seed), count)
    return [*result, raced(min(result, key=lambda trial: trial.median)), *owns(), *hopeless()]


def fill(path: Path, trials: list[Trial]) -> Path:
    """A store that holds ``trials``."""
    with ResultStore(path) as store:
        for trial in trials:
            store.add(trial)
    return path


def finite(trials: list[Trial]) -> list[float]:
    """The times of the valid trials."""
    return [trial.median for trial in trials if math.isfinite(trial.median)]


def _hash(plan: Plan) -> str:
    assert all(isinstance(step, Launch) for step in plan.steps)
    return program.source_hash(tuple(flat_plans.sources(plan)))
